// Exchanges and bindings of AMQP, a virtual host at a time.

import { change, path } from "../api.js";
import { confirm, done, fill } from "../dialog.js";
import { actions, h, mark } from "../dom.js";
import { list } from "../table.js";
import { argumentsOf, kind, ofHost } from "./host.js";

const TYPES = ["direct", "fanout", "topic", "headers"].map((type) => [type, type]);
const named = (name) => name === "" ? h("i", {}, "the default exchange") : name;

function create(host, then) {
  return fill({
    title: "Make an exchange", button: "Make it",
    fields: [
      { name: "name", label: "Name", required: true },
      { name: "type", label: "Type", choices: TYPES, value: "direct" },
      { name: "durable", label: "Durable: it outlives a restart", type: "checkbox", value: true },
      { name: "auto_delete", label: "Removed with its last binding", type: "checkbox" },
      { name: "internal", label: "Internal: other exchanges alone publish to it", type: "checkbox" },
      { name: "arguments", label: "Arguments", hint: 'as JSON, like {"alternate-exchange": "others"}; none is fine' }],
    act: async (given) => {
      await change("POST", `/vhosts${path(host)}/exchanges`, { ...given, arguments: argumentsOf(given.arguments) });
      done(`Exchange ${given.name} is made.`);
      then();
      return true;
    },
  });
}

function bind(host, then) {
  return fill({
    title: "Make a binding", button: "Bind it",
    fields: [
      { name: "source", label: "From the exchange", required: true },
      { name: "destination_type", label: "To", choices: [["queue", "a queue"], ["exchange", "another exchange"]], value: "queue" },
      { name: "destination", label: "Its name", required: true },
      { name: "key", label: "Key" },
      { name: "arguments", label: "Arguments", hint: 'as JSON, like {"x-match": "any"}; none is fine' }],
    act: async (given) => {
      await change("POST", `/vhosts${path(host)}/bindings`, { ...given, arguments: argumentsOf(given.arguments) });
      done(`${given.destination} is bound to ${given.source}.`);
      then();
      return true;
    },
  });
}

function remove(host, name, then) {
  return confirm(`Remove exchange ${name}?`, "Its bindings are gone with it. Queues and their messages stay.", "Remove it", async () => {
    await change("DELETE", `/vhosts${path(host)}/exchanges${path(name)}`);
    done(`Exchange ${name} is removed.`);
    then();
  });
}

function unbind(host, { source, destination, destination_type, key, arguments: more }, then) {
  const named = new URLSearchParams({ source, destination, destination_type, key, arguments: JSON.stringify(more) });
  return confirm(`Remove the binding from ${source} to ${destination}?`, "What is published from now on no longer goes there by it.", "Remove it", async () => {
    await change("DELETE", `/vhosts${path(host)}/bindings?${named}`);
    done("The binding is removed.");
    then();
  });
}

const isOwn = (name) => name === "" || name.startsWith("amq.");

export default function exchanges({ names: [vhost] }) {
  return ofHost("Exchanges", "exchanges", vhost, (host) => {
    const bindings = list({
      at: `/vhosts${path(host)}/bindings`, own: "bindings", noun: "binding", sort: "source", empty: "There is no binding.",
      row: ({ source, destination, destination_type, key, arguments: more }) => [source, destination, destination_type, key, more],
      columns: [
        { key: "source", title: "From", cell: ({ source }) => named(source) },
        { key: "destination", title: "To", cell: ({ destination, destination_type }) => [destination, destination_type === "exchange" && [" ", mark("exchange")]] },
        { key: "key", title: "Key", cell: ({ key }) => key },
        { key: "arguments", title: "Arguments", fixed: true, cell: (one) => Object.keys(one.arguments).length > 0 && h("code", {}, JSON.stringify(one.arguments)) },
        { key: "remove", title: "", fixed: true, cell: (one) => one.source !== "" && actions(["remove…", () => unbind(host, one, () => bindings.load())]) }],
      actions: h("button", { type: "button", class: "primary", onclick: () => bind(host, () => bindings.load()) }, "Make a binding"),
    });
    const all = () => { shown.load(); bindings.load(); };
    const shown = list({
      at: `/vhosts${path(host)}/exchanges`, noun: "exchange", sort: "name", empty: "There is no exchange.",
      columns: [
        { key: "name", title: "Exchange", cell: ({ name }) => named(name) },
        { key: "type", title: "Type", cell: ({ type }) => type },
        { key: "durable", title: "Is", fixed: true, cell: (one) => [kind(one), one.internal && mark("internal")] },
        { key: "remove", title: "", fixed: true, cell: ({ name }) => !isOwn(name) && actions(["remove…", () => remove(host, name, all)]) }],
      actions: h("button", { type: "button", class: "primary", onclick: () => create(host, all) }, "Make an exchange"),
    });
    return [shown, { title: "Bindings", ...bindings }];
  });
}
