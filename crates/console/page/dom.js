// Elements. Text goes in as text and nothing else: no name or body can become markup.

/** An element with attributes (`on...` are listeners) and children: elements, or anything else as text. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...nodes(children));
  return element;
}

/** Children as nodes; what is missing is left out. */
function nodes(children) {
  return children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false)
    .map((child) => child instanceof Node ? child : document.createTextNode(String(child)));
}

/** Has an element show these and nothing else. */
export function show(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

/** The colour that a style of the page gives `name` now. */
export function colour(name) {
  const probe = h("i", { class: "probe" });
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

/** A head and a table or whatever else belongs below it. */
export function section(title, ...children) {
  return h("section", { class: "card" }, h("h2", {}, title), ...children);
}

/** Pairs of a name and a value. */
export function facts(pairs) {
  return h("dl", { class: "facts" },
    pairs.filter(([, value]) => value !== undefined && value !== null && value !== "")
      .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

/** A row of a table. `row` gives what the item is told from others by. */
export function tableRow(item, row, columns) {
  return h("tr", { "data-row": JSON.stringify(row(item)) },
    columns.map(([title, cell, number]) => h("td", { class: number && "number", "data-title": title }, cell(item))));
}

/** A table that is there as a whole. Columns: `[title, cell, is a number]`. */
export function plainTable(columns, items, empty = "None.", row = ({ name }) => name) {
  if (items.length === 0) return h("p", { class: "empty" }, empty);
  const head = columns.map(([title, , number]) => h("th", { scope: "col", class: number && "number" }, title));
  const rows = items.map((item) => tableRow(item, row, columns));
  return h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)));
}

/** A small word with a colour: good, warn, bad, or none. */
export function mark(text, tone = "") {
  return h("span", { class: `mark ${tone}` }, text);
}

/** What can be done with a row of a table: pairs of a name and a function. */
export function actions(...pairs) {
  return h("span", { class: "actions" }, pairs.map(([name, act]) => h("button", { type: "button", class: "link", onclick: act }, name)));
}
