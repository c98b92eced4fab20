// The page: which part of it is shown, how it looks, and the keys.

import { h, show } from "./dom.js";
import { follow, live, watch } from "./live.js";
import access from "./pages/access.js";
import brokers from "./pages/brokers.js";
import connections from "./pages/connections.js";
import exchanges from "./pages/exchanges.js";
import groups from "./pages/groups.js";
import messages from "./pages/messages.js";
import overview, { verdict } from "./pages/overview.js";
import queues from "./pages/queues.js";
import settings from "./pages/settings.js";
import topics from "./pages/topics.js";

const PAGES = [
  ["", "Overview", overview],
  ["topics", "Topics", topics],
  ["groups", "Groups", groups],
  ["messages", "Messages", messages],
  ["queues", "Queues", queues],
  ["exchanges", "Exchanges", exchanges],
  ["access", "Users", access],
  ["connections", "Connections", connections],
  ["brokers", "Brokers", brokers],
  ["settings", "Settings", settings],
];

const main = document.querySelector("main");
let current = null;

/** A name of the address, as it is written there if it is written wrongly. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Shows what the address says: `#/page/name/name?pairs`. */
async function route() {
  const [where, pairs = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...names] = where.split("/").map(decoded);
  const [, title, open] = PAGES.find(([at]) => at === name) ?? [null, "Not found", null];
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.page !== name) link.removeAttribute("aria-current");
    else {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
  }
  current?.leave?.();
  current = open ? open({ names, pairs: new URLSearchParams(pairs) }) : { page: h("p", {}, "There is no such page. ", h("a", { href: "#/" }, "To the overview")) };
  document.title = `${current.title ?? title} · Sluice`;
  const hadFocus = main.contains(document.activeElement);
  show(main, current.page);
  // Whoever followed a link by keyboard goes on in what it led to.
  if (hadFocus) main.focus();
  main.scrollTo?.(0, 0);
}

function navigate() {
  show(document.querySelector("nav"), PAGES.map(([at, title]) => h("a", { href: `#/${at}`, "data-page": at }, title)));
  addEventListener("hashchange", route);
  route();
}

const THEMES = [["", "Auto"], ["light", "Light"], ["dark", "Dark"]];

/** Light or dark: as the system has it, or as was chosen. */
function themes() {
  const button = document.querySelector(".theme");
  let at = Math.max(0, THEMES.findIndex(([name]) => name === localStorage.getItem("sluice-theme")));
  const use = () => {
    const [name, title] = THEMES[at];
    document.documentElement.dataset.theme = name;
    show(button, title);
    button.setAttribute("aria-label", `Colours: ${title}. Change them`);
    current?.restyle?.();
  };
  button.addEventListener("click", () => {
    at = (at + 1) % THEMES.length;
    localStorage.setItem("sluice-theme", THEMES[at][0]);
    use();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => current?.restyle?.());
  use();
}

/** `/` goes to the search of the page. */
function keys() {
  addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, textarea, select, dialog");
    if (event.key !== "/" || typing || event.ctrlKey || event.altKey || event.metaKey) return;
    const search = document.querySelector("input[type=search]");
    if (search) {
      event.preventDefault();
      search.focus();
      search.select();
    }
  });
}

function status() {
  const place = document.querySelector(".status");
  let told = "";
  watch(() => {
    const { tone, word, text } = verdict(live);
    if (told === word + text) return;
    told = word + text;
    show(place, h("a", { href: "#/", title: text }, h("i", { class: `lamp ${tone}` }), h("span", {}, word)));
  });
}

themes();
navigate();
keys();
status();
follow();
