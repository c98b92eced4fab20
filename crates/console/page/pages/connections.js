// Clients that are connected.

import { h } from "../dom.js";
import { ago } from "../format.js";
import { list } from "../table.js";

const groups = (names) => (names ?? []).map((name, at) => [at > 0 && ", ", h("a", { href: `#/groups/${encodeURIComponent(name)}` }, name)]);

export default function connections() {
  const all = list({
    at: "/connections", noun: "connection", sort: "client", empty: "No client is connected.",
    columns: [
      { key: "client", title: "Client", cell: ({ client }) => client },
      { key: "address", title: "From", cell: ({ address, vhost }) => address ?? `virtual host ${vhost}` },
      { key: "protocol", title: "Protocol", cell: ({ protocol, language }) => protocol === "amqp" ? "AMQP" : `RocketMQ${language ? `, ${language.toLowerCase()}` : ""}` },
      { key: "user", title: "User", cell: ({ user }) => user ?? "–" },
      { key: "consumes", title: "Consumes as", fixed: true, cell: ({ consumes }) => groups(consumes) },
      { key: "produces", title: "Produces as", fixed: true, cell: ({ produces }) => (produces ?? []).join(", ") },
      { key: "seen_ms", title: "Heartbeat", number: true, cell: ({ seen_ms }) => ago(seen_ms) }],
  });
  return { title: "Connections", page: h("div", {}, h("h1", {}, "Connections"), all.box), leave: all.leave };
}
