// A list that may be long: the broker searches, sorts and cuts it, and only the rows that are seen come.

import { get } from "./api.js";
import { h, show, tableRow } from "./dom.js";
import { renew } from "./focus.js";
import { count } from "./format.js";

const ROWS = 50;
const AGAIN_MS = 5000;

/** While a question is open nothing is drawn anew: whoever answers it goes on where they were. */
const isAsking = () => document.querySelector("dialog[open]") !== null;

/**
 * `at`: the list in the API. `columns`: `{key, title, cell, number, fixed}`; `fixed` is not sorted by. `row`: what an item is told from others by. The address of the page keeps search,
 * order and place, so that going back finds them again; where a page has several lists, each under its `own` names.
 */
export function list({ at, columns, sort, noun, empty, actions = [], own, row = ({ name }) => name }) {
  const named = (what) => own ? `${own}-${what}` : what;
  const state = stateOf(new URLSearchParams(location.hash.split("?")[1]));
  const search = h("input", { type: "search", placeholder: `Search ${noun}s`, "aria-label": `Search ${noun}s`, value: state.search, autocomplete: "off", spellcheck: "false" });
  const said = h("p", { class: "problem", role: "alert" });
  const place = h("div", { class: "scroll" });
  const total = h("span", { class: "quiet", role: "status" });
  const back = h("button", { type: "button", onclick: () => go({ from: Math.max(0, state.from - ROWS) }) }, "Previous");
  const on = h("button", { type: "button", onclick: () => go({ from: state.from + ROWS }) }, "Next");
  const pager = h("div", { class: "pager" }, total, back, on);
  let asked = new AbortController();
  let shown = "";
  let timer = 0;

  async function load() {
    asked.abort();
    asked = new AbortController();
    const { signal } = asked;
    clearTimeout(timer);
    try {
      const answer = await get(at, { search: state.search, sort: state.sort, from: state.from || undefined, count: ROWS }, signal);
      if (answer.items.length === 0 && state.from > 0) return go({ from: 0 });
      show(said);
      draw(answer);
    } catch (error) {
      if (signal.aborted) return;
      show(said, error.message);
    }
    timer = setTimeout(later, AGAIN_MS);
  }

  function later() {
    if (!document.hidden && !isAsking()) load();
    else timer = setTimeout(later, AGAIN_MS);
  }

  function draw({ items, total: all, next }) {
    const key = JSON.stringify([items, all, state]);
    if (key === shown || shown && isAsking()) return;
    shown = key;
    show(total, all === 0 ? "" : `${count(state.from + 1)} to ${count(state.from + items.length)} of ${count(all)}`);
    back.disabled = state.from === 0;
    on.disabled = next === null;
    pager.classList.toggle("single", all <= ROWS);
    renew(place, () => {
      if (items.length === 0) return h("p", { class: "empty" }, state.search ? `No ${noun} has “${state.search}” in its name.` : empty);
      const rows = items.map((item) => tableRow(item, row, columns.map(({ cell, number, title }) => [title, cell, number])));
      return h("table", {}, h("thead", {}, h("tr", {}, columns.map(head))), h("tbody", {}, rows));
    });
  }

  function head({ key, title, number, fixed }) {
    const down = state.sort === `-${key}`;
    const up = state.sort === key;
    if (fixed) return h("th", { scope: "col", class: number && "number" }, title);
    const next = up ? `-${key}` : down ? key : number ? `-${key}` : key;
    const button = h("button", { type: "button", "data-key": key, onclick: () => go({ sort: next, from: 0 }) }, title, up ? " ↑" : down ? " ↓" : "");
    return h("th", { scope: "col", class: number && "number", "aria-sort": up ? "ascending" : down ? "descending" : undefined }, button);
  }

  function go(changes) {
    Object.assign(state, changes);
    const [where, behind] = location.hash.split("?");
    const pairs = new URLSearchParams(behind);
    const keep = (what, value) => value ? pairs.set(named(what), value) : pairs.delete(named(what));
    keep("search", state.search);
    keep("sort", state.sort !== sort && state.sort);
    keep("from", state.from);
    history.replaceState(null, "", pairs.size > 0 ? `${where}?${pairs}` : where);
    load();
  }

  /** What the address says of this list; an order that it does not have is left out. */
  function stateOf(pairs) {
    const order = pairs.get(named("sort")) ?? "";
    const isKnown = columns.some(({ key, fixed }) => !fixed && key === order.replace(/^-/, ""));
    const from = Math.trunc(Number(pairs.get(named("from"))));
    return { search: pairs.get(named("search")) ?? "", sort: isKnown ? order : sort, from: from > 0 ? from : 0 };
  }

  let wait = 0;
  search.addEventListener("input", () => { clearTimeout(wait); wait = setTimeout(() => go({ search: search.value.trim(), from: 0 }), 150); });
  load();
  const box = h("section", { class: "card" }, h("div", { class: "bar" }, search, h("span", { class: "grow" }), actions), said, place, pager);
  return { box, load, leave: () => { asked.abort(); clearTimeout(timer); clearTimeout(wait); } };
}

/**
 * A page of one thing: `read` asks for it, now and again; `draw` shows what came, given too how to ask at once. It is drawn anew only if
 * something has changed.
 */
export function detail(title, read, draw, back) {
  const said = h("p", { class: "problem", role: "alert" });
  const place = h("div", { class: "stack" }, h("p", { class: "empty" }, "Asking the broker…"));
  let left = false;
  let shown = "";
  let timer = 0;
  const again = async () => {
    clearTimeout(timer);
    try {
      const answer = await read();
      show(said);
      const key = JSON.stringify(answer);
      if (!left && key !== shown && !(shown && isAsking())) {
        renew(place, () => draw(answer, again));
        shown = key;
      }
    } catch (error) {
      show(said, error.message);
      // What is there stays in sight while the broker does not answer; what is gone does not.
      if (!shown || error.status === 404) {
        renew(place, () => []);
        shown = "";
      }
    }
    if (!left) timer = setTimeout(later, AGAIN_MS);
  };
  const later = () => {
    if (!document.hidden && !isAsking()) again();
    else timer = setTimeout(later, AGAIN_MS);
  };
  again();
  const head = h("div", { class: "head" }, back && h("a", { href: back[0], class: "back" }, `← ${back[1]}`), h("h1", {}, title));
  return { title, page: h("div", {}, head, said, place), leave: () => { left = true; clearTimeout(timer); } };
}
