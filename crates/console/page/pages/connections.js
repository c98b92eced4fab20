// Clients that are connected.

import { change, path } from "../api.js";
import { confirm, done } from "../dialog.js";
import { actions, h } from "../dom.js";
import { ago } from "../format.js";
import { list } from "../table.js";

const groups = (names) => (names ?? []).map((name, at) => [at > 0 && ", ", h("a", { href: `#/groups/${encodeURIComponent(name)}` }, name)]);

const whole = (text) => h("span", { class: "whole" }, text);

const kind = ({ protocol, product, language, version }) =>
  whole([protocol === "amqp" ? "AMQP" : "RocketMQ", [product ?? language?.toLowerCase(), version].filter(Boolean).join(" ")].filter(Boolean).join(", "));

function close({ number, client }, then) {
  return confirm(`Close ${client}?`, "What it has not acknowledged goes to others. Its client may come back.", "Close it", async () => {
    await change("DELETE", `/connections${path(number)}`);
    done(`${client} is closed.`);
    then();
  });
}

export default function connections() {
  const all = list({
    at: "/connections", noun: "connection", sort: "client", empty: "No client is connected.", row: ({ number, client, address }) => [number, client, address],
    columns: [
      { key: "client", title: "Client", cell: ({ client }) => client },
      { key: "address", title: "From", cell: ({ address }) => address },
      { key: "protocol", title: "Protocol", cell: kind },
      { key: "user", title: "User", cell: ({ user, vhost }) => user === undefined ? "–" : whole(`${user} in ${vhost}`) },
      { key: "consumes", title: "Consumes as", fixed: true, cell: ({ consumes }) => groups(consumes) },
      { key: "produces", title: "Produces as", fixed: true, cell: ({ produces }) => (produces ?? []).join(", ") },
      { key: "seen_ms", title: "Heartbeat", number: true, cell: ({ seen_ms }) => ago(seen_ms) },
      { key: "close", title: "", fixed: true, cell: (one) => one.number !== undefined && actions(["close…", () => close(one, () => all.load())]) }],
  });
  return { title: "Connections", page: h("div", {}, h("h1", {}, "Connections"), all.box), leave: all.leave };
}
