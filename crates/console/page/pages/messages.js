// Messages of topics: found by key, id, place or time; shown with their properties and their body as text, JSON or bytes.

import { change, get, path } from "../api.js";
import { done, fill } from "../dialog.js";
import { facts, h, mark, plainTable, show } from "../dom.js";
import { bytes, count, many, moment } from "../format.js";
import { laidOut } from "../json.js";

const COUNT = 20;
const SHOWN_MAX = 64 * 1024;
/** Queues that are searched at one time: the admin API works on so many requests. */
const AT_ONCE = 4;

const WAYS = [["place", "Queue and offset"], ["time", "Time"], ["key", "Key"], ["id", "Id"]];

function raw(base64) {
  return Uint8Array.from(atob(base64), (one) => one.charCodeAt(0));
}

/** So many bytes of a body as text, or `null` if it is none. A character that is cut in two at their end is left out. */
function text(body, most) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body.subarray(0, most), { stream: body.length > most });
    return /[\u0000-\u0008\u000e-\u001f]/.test(text) ? null : text;
  } catch {
    return null;
  }
}

function hex(body) {
  const lines = [];
  for (let at = 0; at < body.length; at += 16) {
    const row = [...body.subarray(at, at + 16)];
    const digits = row.map((one) => one.toString(16).padStart(2, "0")).join(" ").padEnd(47);
    lines.push(`${at.toString(16).padStart(6, "0")}  ${digits}  ${row.map((one) => one >= 32 && one < 127 ? String.fromCharCode(one) : "·").join("")}`);
  }
  return lines.join("\n");
}

function bodyOf(message) {
  const whole = raw(message.body_base64);
  const body = whole.subarray(0, SHOWN_MAX);
  const plain = text(whole, SHOWN_MAX);
  const forms = [["JSON", plain === null ? null : laidOut(plain)], ["Text", plain], ["Hex", hex(body)]].filter(([, shown]) => shown !== null);
  const place = h("pre", { class: "body", tabindex: "0" });
  const buttons = forms.map(([name, shown]) => h("button", { type: "button", onclick: (event) => choose(event.currentTarget, shown) }, name));
  const choose = (button, shown) => {
    buttons.forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
    show(place, shown);
  };
  choose(buttons[0], forms[0][1]);
  return [h("div", { class: "bar" }, h("h3", {}, `Body, ${bytes(message.body_size)}`), message.is_compressed && mark("compressed"), !message.is_intact && mark("damaged", "bad"),
    h("span", { class: "grow" }), h("div", { class: "choice" }, buttons)),
  place, whole.length > body.length && h("p", { class: "quiet" }, `The first ${bytes(SHOWN_MAX)} are shown.`)];
}

function copy(message) {
  return fill({
    title: "Copy the message to another topic", button: "Copy it",
    fields: [{ name: "to", label: "Topic", required: true, value: "" }],
    act: async ({ to }) => {
      await change("POST", `/topics${path(message.topic)}/copies`, { queue: message.queue, offset: message.offset, to, broker: message.broker });
      done(`Copied to ${to}.`);
      return true;
    },
  });
}

function whole(message) {
  return h("section", { class: "card message" },
    h("div", { class: "bar" }, h("h2", {}, `${message.topic}, queue ${message.queue}, offset ${count(message.offset)}`), h("span", { class: "grow" }),
      h("button", { type: "button", onclick: () => copy(message) }, "Copy to a topic…")),
    facts([
      ["Stored", moment(message.stored_ms)], ["Born", `${moment(message.born_ms)} at ${message.born_host}`], ["Broker", message.broker],
      ["Id", h("code", {}, message.id)], ["Sent back", message.deliveries > 0 && many(message.deliveries, "time")]]),
    h("h3", {}, "Properties"),
    plainTable([["Name", ([name]) => h("code", {}, name)], ["Value", ([, value]) => h("code", {}, value)]], Object.entries(message.properties)),
    bodyOf(message));
}

/** The first messages of a time in all queues of all brokers. `goesOn` is told how many of how many were searched. */
async function since(at, time, goesOn) {
  const { items } = await get(`${at}/offsets`, { time });
  const places = items.filter(({ messages }) => messages > 0);
  let first = [];
  for (let searched = 0; searched < places.length && goesOn(searched, places.length); searched += AT_ONCE) {
    const asked = places.slice(searched, searched + AT_ONCE).map(({ broker, queue, offset }) => get(`${at}/messages`, { broker, queue, offset, count: COUNT }));
    const some = (await Promise.all(asked)).flatMap(({ items }) => items);
    first = [...first, ...some].sort((a, b) => a.stored_ms - b.stored_ms).slice(0, COUNT);
  }
  return first;
}

/** What is asked of the API for what the form says. */
async function find({ topic, way, broker, queue, offset, time, text }, goesOn) {
  const at = `/topics${path(topic)}`;
  if (way === "key") return (await get(`${at}/messages`, { key: text, count: COUNT })).items;
  if (way === "id" && /^[0-9a-f]{32}$/i.test(text)) {
    const found = await get(`/messages${path(text)}`).catch((error) => error.status === 404 ? null : Promise.reject(error));
    if (found) return [found];
  }
  if (way === "id") return (await get(`${at}/messages`, { id: text, count: COUNT })).items;
  if (way === "time") {
    if (!time) throw new Error("Say the time.");
    return since(at, new Date(time).getTime(), goesOn);
  }
  return (await get(`${at}/messages`, { broker, queue: queue || 0, offset, count: COUNT })).items;
}

export default function messages({ pairs }) {
  const given = (name) => pairs.get(name) ?? "";
  const box = (name, label, attributes = {}) => h("label", { class: "field", "data-for": attributes.for }, h("span", {}, label), h("input", { name, value: given(name), autocomplete: "off", spellcheck: "false", ...attributes, for: undefined }));
  const way = h("select", { name: "way" }, WAYS.map(([key, label]) => h("option", { value: key, selected: key === given("way") }, label)));
  const broker = h("select", { name: "broker" });
  const fields = {
    place: [h("label", { class: "field" }, h("span", {}, "Broker"), broker), box("queue", "Queue", { type: "number", min: "0" }), box("offset", "Offset", { type: "number", min: "0" })],
    time: [box("time", "From this time on", { type: "datetime-local", step: "1" })],
    text: [box("text", "Key or id")],
  };
  const said = h("p", { class: "problem", role: "alert" });
  const found = h("div", { class: "stack" });
  const chosen = h("div");
  const form = h("form", { class: "card search" },
    box("topic", "Topic", { required: true, type: "search", list: "topics" }), h("label", { class: "field" }, h("span", {}, "By"), way),
    Object.values(fields), h("button", { type: "submit", class: "primary" }, "Find"), h("datalist", { id: "topics" }));
  const arrange = () => {
    const used = way.value === "key" || way.value === "id" ? "text" : way.value;
    for (const [key, boxes] of Object.entries(fields)) boxes.forEach((one) => { one.hidden = key !== used; });
    if (broker.options.length < 3) fields.place[0].hidden = true;
  };
  /** Most processes have one broker, and nothing to choose. */
  const offer = (brokers) => {
    const names = new Set([given("broker"), ...brokers].filter(Boolean));
    show(broker, h("option", { value: "" }, "any"), [...names].map((name) => h("option", { value: name, selected: name === given("broker") }, name)));
    arrange();
  };
  way.addEventListener("change", arrange);
  offer([]);
  get("/brokers").then(({ items }) => offer(items.map(({ name }) => name)), () => {});
  const suggest = async () => {
    const { items } = await get("/topics", { search: form.elements.topic.value, count: 20 }).catch(() => ({ items: [] }));
    show(form.querySelector("datalist"), items.map(({ name }) => h("option", { value: name })));
  };
  form.elements.topic.addEventListener("input", suggest);
  let turn = 0;
  const look = async () => {
    const mine = ++turn;
    const values = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, value.trim()]));
    show(said); show(chosen);
    try {
      const items = await find(values, (searched, all) => {
        if (mine === turn) show(found, h("p", { class: "empty", role: "status" }, `${count(searched)} of ${many(all, "queue")} searched…`));
        return mine === turn;
      });
      if (mine !== turn) return;
      const choose = (message) => { show(chosen, whole(message)); chosen.scrollIntoView({ block: "nearest" }); };
      show(found, h("section", { class: "card" }, plainTable([
        ["Stored", (one) => h("button", { type: "button", class: "link", onclick: () => choose(one) }, moment(one.stored_ms))],
        ...(new Set(items.map(({ broker }) => broker)).size > 1 ? [["Broker", ({ broker }) => h("span", { class: "whole" }, broker)]] : []),
        ["Queue", ({ queue }) => queue, true], ["Offset", ({ offset }) => count(offset), true],
        ["Keys", ({ properties }) => properties.KEYS ?? ""], ["Tag", ({ properties }) => properties.TAGS ?? ""],
        ["Body", (one) => { const body = text(raw(one.body_base64), 160); return body === null ? mark("bytes") : h("span", { class: "peek" }, body.slice(0, 100)); }],
        ["Size", ({ body_size }) => bytes(body_size), true]], items, "No message is there."),
      items.length >= COUNT && h("p", { class: "quiet" }, "There may be more than these.")));
      if (items.length === 1) choose(items[0]);
    } catch (error) {
      if (mine === turn) { show(found); show(said, error.message); }
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const kept = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
    history.replaceState(null, "", `#/messages?${kept}`);
    look();
  });
  if (given("topic")) look();
  return { title: "Messages", page: h("div", {}, h("h1", {}, "Messages"), form, said, h("div", { class: "stack" }, chosen, found)), leave: () => { turn += 1; } };
}
