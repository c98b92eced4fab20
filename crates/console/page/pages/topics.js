// Topics: all of them, and one with its queues and groups.

import { change, get, path } from "../api.js";
import { confirm, done, fill } from "../dialog.js";
import { facts, h, mark, plainTable, section, show } from "../dom.js";
import { ago, count, many, moment, rate } from "../format.js";
import { detail, list } from "../table.js";

const link = (name) => h("a", { href: `#/topics/${encodeURIComponent(name)}` }, name);
const MAY = [["rw", "read and write"], ["r", "read"], ["w", "write"], ["none", "nothing"]];

function create(then) {
  return fill({
    title: "Make a topic", button: "Make it",
    fields: [
      { name: "name", label: "Name", required: true },
      { name: "queues", label: "Queues at each broker", type: "number", min: "1", max: "65536", value: 8 },
      { name: "permission", label: "Clients may", choices: MAY, value: "rw" }],
    act: async ({ name, queues, permission }) => {
      await change("POST", "/topics", { name, queues: Number(queues), permission });
      done(`Topic ${name} is made.`);
      then();
      return true;
    },
  });
}

function alter(topic, then) {
  return fill({
    title: `Alter topic ${topic.name}`, button: "Alter it", text: "Without permission to write, producers go elsewhere and consumers finish.",
    fields: [
      { name: "queues", label: "Queues at each broker", type: "number", min: "1", max: "65536", value: Math.max(topic.write_queues, topic.read_queues) },
      { name: "permission", label: "Clients may", choices: MAY, value: topic.permission }],
    act: async ({ queues, permission }) => {
      await change("PUT", `/topics${path(topic.name)}`, { queues: Number(queues), permission });
      done(`Topic ${topic.name} is altered.`);
      then();
      return true;
    },
  });
}

function send(name, then) {
  return fill({
    title: `Send a message to ${name}`, button: "Send it",
    fields: [
      { name: "body", label: "Body", rows: 6 },
      { name: "key", label: "Key" }, { name: "tag", label: "Tag" },
      { name: "queue", label: "Queue", type: "number", min: "0", hint: "none: the broker chooses" }],
    act: async ({ queue, ...message }) => {
      const sent = await change("POST", `/topics${path(name)}/messages`, { ...message, ...(queue === "" ? {} : { queue: Number(queue) }) });
      done(`Sent: queue ${sent.queue}, offset ${count(sent.offset)}.`);
      then();
      return true;
    },
  });
}

const SPANS = [[600, "ten minutes"], [3600, "hour"], [86400, "day"], [604800, "week"]];

/** How much came in of late: `look` asks again. */
function since(at) {
  const said = h("span", { role: "status" });
  const look = async () => {
    try {
      const { items } = await get(`${at}/offsets`, { time: Date.now() - Number(choice.value) * 1000 });
      show(said, many(items.reduce((sum, { messages }) => sum + messages, 0), "message"));
    } catch (error) {
      show(said, error.message);
    }
  };
  const choice = h("select", { "aria-label": "Since when", onchange: look }, SPANS.map(([seconds, name]) => h("option", { value: String(seconds) }, name)));
  return { box: h("p", { class: "since" }, "In the last ", choice, " ", said, "."), look };
}

export default function topics({ names: [name] }) {
  if (name) return one(name);
  const all = list({
    at: "/topics", noun: "topic", sort: "name", empty: "There is no topic yet. The first message makes one, or you do.",
    columns: [
      { key: "name", title: "Topic", cell: ({ name, system }) => [link(name), system && [" ", mark("system")]] },
      { key: "messages", title: "Messages", number: true, cell: ({ messages }) => count(messages) },
      { key: "write_queues", title: "Queues", number: true, cell: ({ read_queues, write_queues }) => read_queues === write_queues ? count(read_queues) : `${count(write_queues)} / ${count(read_queues)}` },
      { key: "permission", title: "Clients may", cell: ({ permission }) => h("span", { class: "whole" }, MAY.find(([key]) => key === permission)?.[1] ?? permission) }],
    actions: h("button", { type: "button", class: "primary", onclick: () => create(() => all.load()) }, "Make a topic"),
  });
  return { title: "Topics", page: h("div", {}, h("h1", {}, "Topics"), all.box), leave: all.leave };
}

function one(name) {
  const at = `/topics${path(name)}`;
  const remove = () => confirm(`Remove topic ${name}?`, "Its messages are gone with it, and cannot be brought back.", "Remove it", async () => {
    await change("DELETE", at);
    done(`Topic ${name} is removed.`);
    location.hash = "#/topics";
  });
  const recent = since(at);
  return detail(name, () => get(at), (topic, again) => {
    recent.look();
    return [
      h("section", { class: "card" }, facts([
        ["Messages", count(topic.queues.reduce((sum, queue) => sum + queue.messages, 0))],
        ["Messages in", rate(topic.messages_in_per_second)],
        ["Queues to write", count(topic.write_queues)], ["Queues to read", count(topic.read_queues)],
        ["Clients may", MAY.find(([key]) => key === topic.permission)?.[1]], ["Ordered", topic.order ? "yes" : "no"]]),
        recent.box,
        h("div", { class: "buttons left" },
          h("a", { class: "button", href: `#/messages?topic=${encodeURIComponent(name)}` }, "Look at messages"),
          h("button", { type: "button", onclick: () => send(name, again) }, "Send a message…"),
          h("button", { type: "button", onclick: () => alter(topic, again) }, "Alter…"),
          h("button", { type: "button", class: "danger", onclick: remove }, "Remove the topic…"))),
      section("Groups that consume it", topic.groups.length === 0 ? h("p", { class: "empty" }, "No group.") :
        h("ul", { class: "plain" }, topic.groups.map((group) => h("li", {}, h("a", { href: `#/groups/${encodeURIComponent(group)}` }, group))))),
      section("Queues", plainTable([
        ["Broker", ({ broker }) => h("span", { class: "whole" }, broker)], ["Queue", ({ queue }) => queue, true],
        ["First", ({ first }) => count(first), true], ["End", ({ end }) => count(end), true], ["Messages", ({ messages }) => count(messages), true],
        ["Last stored", ({ last_stored_ms }) => h("span", { title: moment(last_stored_ms) }, ago(last_stored_ms)), true],
        ["", ({ broker, queue, end, messages }) => messages > 0
          && h("a", { href: `#/messages?topic=${encodeURIComponent(name)}&broker=${encodeURIComponent(broker)}&queue=${queue}&offset=${Math.max(0, end - 20)}` }, "newest")]],
      topic.queues, "None.", ({ broker, queue }) => [broker, queue])),
    ];
  }, ["#/topics", "Topics"]);
}
