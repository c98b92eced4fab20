// Queues, exchanges and bindings of AMQP, a virtual host at a time.

import { all, change, get, path } from "../api.js";
import { confirm, done } from "../dialog.js";
import { facts, h, mark, show } from "../dom.js";
import { count } from "../format.js";
import { detail, list } from "../table.js";

/** A page whose lists are of one virtual host: `lists(vhost, again)` makes them. */
function ofHost(title, where, vhost, lists) {
  const place = h("div", { class: "stack" });
  const choice = h("div", { class: "bar hosts" });
  let made = [];
  (async () => {
    try {
      const hosts = (await all("/vhosts")).map(({ name }) => name);
      const host = hosts.includes(vhost) ? vhost : hosts[0];
      if (hosts.length > 1) {
        const select = h("select", { "aria-label": "Virtual host", onchange: () => { location.hash = `#/${where}/${encodeURIComponent(select.value)}`; } },
          hosts.map((name) => h("option", { value: name, selected: name === host }, name)));
        show(choice, h("label", {}, "Virtual host ", select));
      }
      made = lists(host);
      show(place, made.map(({ box, title }) => title ? [h("h2", { class: "between" }, title), box] : box));
    } catch (error) {
      show(place, h("p", { class: "notice" }, error.message));
    }
  })();
  return { title, page: h("div", {}, h("div", { class: "head" }, h("h1", {}, title), choice), place), leave: () => made.forEach((one) => one.leave()) };
}

function kind(queue) {
  const marks = [queue.durable && "durable", queue.auto_delete && "auto delete", queue.exclusive && "exclusive"].filter(Boolean);
  return marks.map((text) => [mark(text), " "]);
}

export function queues({ names: [vhost, name] }) {
  if (name !== undefined) return one(vhost, name);
  return ofHost("Queues", "queues", vhost, (host) => [list({
    at: `/vhosts${path(host)}/queues`, noun: "queue", sort: "-ready", empty: "There is no queue in this virtual host.",
    columns: [
      { key: "name", title: "Queue", cell: ({ name }) => h("a", { href: `#/queues/${encodeURIComponent(host)}/${encodeURIComponent(name)}`, "data-key": name }, name) },
      { key: "ready", title: "Ready", number: true, cell: ({ ready }) => count(ready) },
      { key: "unacknowledged", title: "Unacknowledged", number: true, cell: ({ unacknowledged }) => count(unacknowledged) },
      { key: "consumers", title: "Consumers", number: true, cell: ({ consumers }) => count(consumers) },
      { key: "durable", title: "Is", fixed: true, cell: kind }],
  })]);
}

export function exchanges({ names: [vhost] }) {
  return ofHost("Exchanges", "exchanges", vhost, (host) => [list({
    at: `/vhosts${path(host)}/exchanges`, noun: "exchange", sort: "name", empty: "There is no exchange.",
    columns: [
      { key: "name", title: "Exchange", cell: ({ name }) => name === "" ? h("i", {}, "the default exchange") : name },
      { key: "type", title: "Type", cell: ({ type }) => type },
      { key: "durable", title: "Is", fixed: true, cell: (one) => [kind(one), one.internal && mark("internal")] }],
  }), { title: "Bindings", ...list({
    at: `/vhosts${path(host)}/bindings`, noun: "binding", sort: "source", empty: "There is no binding.",
    columns: [
      { key: "source", title: "From", cell: ({ source }) => source === "" ? h("i", {}, "the default exchange") : source },
      { key: "destination", title: "To", cell: ({ destination, destination_type }) => [destination, destination_type === "exchange" && [" ", mark("exchange")]] },
      { key: "key", title: "Key", cell: ({ key }) => key }],
  }) }]);
}

function one(vhost, name) {
  const at = `/vhosts${path(vhost)}/queues${path(name)}`;
  return detail(name, async (again) => {
    const queue = await get(at);
    const purge = () => confirm(`Purge queue ${name}?`, `The messages that are ready (${count(queue.ready)}) are dropped, and cannot be brought back. Unacknowledged ones stay.`, "Purge it", async () => {
      const { messages } = await change("DELETE", `${at}/messages`);
      done(`${count(messages)} messages dropped.`);
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
