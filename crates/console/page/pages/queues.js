// Queues of AMQP, a virtual host at a time, and one of them.

import { change, get, path } from "../api.js";
import { confirm, done, fill } from "../dialog.js";
import { facts, h } from "../dom.js";
import { count, many } from "../format.js";
import { detail, list } from "../table.js";
import { argumentsOf, kind, ofHost } from "./host.js";

function create(host, then) {
  return fill({
    title: "Make a queue", button: "Make it",
    fields: [
      { name: "name", label: "Name", required: true },
      { name: "durable", label: "Durable: it and its persistent messages outlive a restart", type: "checkbox", value: true },
      { name: "auto_delete", label: "Removed with its last consumer", type: "checkbox" },
      { name: "arguments", label: "Arguments", hint: 'as JSON, like {"x-max-length": 1000}; none is fine' }],
    act: async (given) => {
      await change("POST", `/vhosts${path(host)}/queues`, { ...given, arguments: argumentsOf(given.arguments) });
      done(`Queue ${given.name} is made.`);
      then();
      return true;
    },
  });
}

export default function queues({ names: [vhost, name] }) {
  if (name !== undefined) return one(vhost, name);
  return ofHost("Queues", "queues", vhost, (host) => {
    const shown = list({
      at: `/vhosts${path(host)}/queues`, noun: "queue", sort: "-ready", empty: "There is no queue in this virtual host.",
      columns: [
        { key: "name", title: "Queue", cell: ({ name }) => h("a", { href: `#/queues/${encodeURIComponent(host)}/${encodeURIComponent(name)}` }, name) },
        { key: "ready", title: "Ready", number: true, cell: ({ ready }) => count(ready) },
        { key: "unacknowledged", title: "Unacknowledged", number: true, cell: ({ unacknowledged }) => count(unacknowledged) },
        { key: "consumers", title: "Consumers", number: true, cell: ({ consumers }) => count(consumers) },
        { key: "durable", title: "Is", fixed: true, cell: kind }],
      actions: h("button", { type: "button", class: "primary", onclick: () => create(host, () => shown.load()) }, "Make a queue"),
    });
    return [shown];
  });
}

function one(vhost, name) {
  const at = `/vhosts${path(vhost)}/queues${path(name)}`;
  return detail(name, () => get(at), (queue, again) => {
    const purge = () => confirm(`Purge queue ${name}?`, `The messages that are ready (${count(queue.ready)}) are dropped, and cannot be brought back. Unacknowledged ones stay.`, "Purge it", async () => {
      const { messages } = await change("DELETE", `${at}/messages`);
      done(`${many(messages, "message")} dropped.`);
      again();
    });
    const remove = () => confirm(`Remove queue ${name}?`, "Its messages are gone with it, and cannot be brought back.", "Remove it", async () => {
      await change("DELETE", at);
      done(`Queue ${name} is removed.`);
      location.hash = `#/queues/${encodeURIComponent(vhost)}`;
    });
    return h("section", { class: "card" }, facts([
      ["Ready", count(queue.ready)], ["Unacknowledged", count(queue.unacknowledged)], ["Consumers", count(queue.consumers)],
      ["Virtual host", vhost], ["Is", kind(queue)],
      ...Object.entries(queue.arguments).map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)])]),
      h("div", { class: "buttons left" },
        h("button", { type: "button", class: "danger", onclick: purge }, "Purge…"),
        h("button", { type: "button", class: "danger", onclick: remove }, "Remove the queue…")));
  }, [`#/queues/${encodeURIComponent(vhost)}`, "Queues"]);
}
