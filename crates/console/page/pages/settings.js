// Settings: all of them, and those changed that may change at once.

import { change, get } from "../api.js";
import { done, fill } from "../dialog.js";
import { h, plainTable, show } from "../dom.js";
import { detail } from "../table.js";

function alter({ name, value }, then) {
  return fill({
    title: `Change ${name}`, button: "Change it", text: "Until the next start. To keep it, write it into the file of settings too.",
    fields: [{ name: "value", label: "Value", value, required: true }],
    act: async (given) => {
      await change("PATCH", "/settings", { [name]: given.value });
      done(`${name} is changed.`);
      then();
      return true;
    },
  });
}

export default function settings() {
  let redraw = () => {};
  const search = h("input", { type: "search", placeholder: "Search settings", "aria-label": "Search settings", autocomplete: "off", oninput: () => redraw() });
  const changed = h("input", { type: "checkbox", onchange: () => redraw() });
  const place = h("div");
  const box = h("section", { class: "card" }, h("div", { class: "bar" }, search, h("label", {}, changed, " Changed ones alone")), place);
  return detail("Settings", () => get("/settings"), ({ items }, again) => {
    redraw = () => {
      const searched = search.value.trim().toLowerCase();
      const isWanted = ({ name, value, from }) => `${name} ${value}`.toLowerCase().includes(searched) && !(changed.checked && from === "default");
      show(place, plainTable([
        ["Setting", ({ name }) => h("code", { class: "parts" }, name.split(/(?=[._])/).map((part) => [h("wbr"), part]))], ["Value", ({ value }) => (value === "" ? "–" : h("code", {}, value))], ["From", ({ from }) => from],
        ["", (setting) => setting.changes_at_once && h("button", { type: "button", class: "link", "aria-label": `Change ${setting.name}`, onclick: () => alter(setting, again) }, "change…")]],
      items.filter(isWanted), "No setting is so."));
    };
    redraw();
    return box;
  });
}
