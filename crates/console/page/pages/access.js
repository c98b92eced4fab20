// Who may do what with AMQP: users, virtual hosts, permissions, and limits of each.

import { all, change, path } from "../api.js";
import { confirm, done, fill } from "../dialog.js";
import { actions, h, mark } from "../dom.js";
import { count } from "../format.js";
import { list } from "../table.js";

const limit = (value) => value === null ? "–" : count(value);
/** A field of a limit: empty is none. */
const given = (text) => text === "" ? null : Number(text);
const PASSWORD = { name: "password", label: "Password", type: "password", required: true };

/** Asks for fields, sends them, says that it is done. */
function alter({ title, text, fields, button, danger, send, said }, then) {
  return fill({
    title, text, fields, button, danger,
    act: async (values) => {
      await send(values);
      done(typeof said === "function" ? said(values) : said);
      then();
      return true;
    },
  });
}

function remove(what, text, at, then) {
  return confirm(`Remove ${what}?`, text, "Remove it", async () => {
    await change("DELETE", at);
    done("It is removed.");
    then();
  });
}

const tagsOf = (text) => text.split(/[\s,]+/).filter((tag) => tag !== "");

const users = {
  create: (then) => alter({
    title: "Make a user", button: "Make it", text: "It may do nothing yet: permissions are given below.",
    fields: [{ name: "name", label: "Name", required: true }, PASSWORD, { name: "tags", label: "Tags", hint: "such as administrator; none is fine" }],
    send: ({ name, password, tags }) => change("POST", "/users", { name, password, tags: tagsOf(tags) }),
    said: ({ name }) => `User ${name} is made.`,
  }, then),
  password: (name, then) => alter({
    title: `Give ${name} another password`, button: "Set it", text: "It counts from the next connection on.",
    fields: [PASSWORD], send: ({ password }) => change("PUT", `/users${path(name)}/password`, { password }), said: `${name} has another password.`,
  }, then),
  tags: ({ name, tags }, then) => alter({
    title: `Tags of ${name}`, button: "Set them", fields: [{ name: "tags", label: "Tags", value: tags.join(" ") }],
    send: (values) => change("PUT", `/users${path(name)}/tags`, { tags: tagsOf(values.tags) }), said: `${name} has other tags.`,
  }, then),
  limits: ({ name, connections_max, channels_max }, then) => alter({
    title: `Limits of ${name}`, button: "Set them",
    fields: [
      { name: "connections", label: "Connections at a time", type: "number", min: "0", value: connections_max ?? "", hint: "none: as many as there are" },
      { name: "channels", label: "Channels at a time", type: "number", min: "0", value: channels_max ?? "" }],
    send: ({ connections, channels }) => change("PUT", `/users${path(name)}/limits`, { connections: given(connections), channels: given(channels) }),
    said: `${name} has other limits.`,
  }, then),
};

const hosts = {
  create: (then) => alter({
    title: "Make a virtual host", button: "Make it", fields: [{ name: "name", label: "Name", required: true }, { name: "description", label: "Description" }],
    send: (values) => change("POST", "/vhosts", values), said: ({ name }) => `Virtual host ${name} is made.`,
  }, then),
  limits: ({ name, connections_max, queues_max }, then) => alter({
    title: `Limits of virtual host ${name}`, button: "Set them",
    fields: [
      { name: "connections", label: "Connections at a time", type: "number", min: "0", value: connections_max ?? "", hint: "none: as many as there are" },
      { name: "queues", label: "Queues", type: "number", min: "0", value: queues_max ?? "" }],
    send: ({ connections, queues }) => change("PUT", `/vhosts${path(name)}/limits`, { connections: given(connections), queues: given(queues) }),
    said: `${name} has other limits.`,
  }, then),
};

/** The fields that say who and where. */
async function places() {
  const [names, where] = await Promise.all([all("/users"), all("/vhosts")]);
  if (names.length === 0) throw new Error("There is no user yet: make one first.");
  if (where.length === 0) throw new Error("There is no virtual host yet: make one first.");
  const choices = (items) => items.map(({ name }) => [name, name]);
  return [{ name: "user", label: "User", choices: choices(names), value: names[0].name }, { name: "vhost", label: "Virtual host", choices: choices(where), value: where[0].name }];
}

const PATTERN = "pattern of names: .* is any, nothing is none";

const permissions = {
  set: async (then) => alter({
    title: "Let a user in", button: "Set it",
    fields: [...await places(),
      { name: "configure", label: "May make and remove", value: ".*", hint: PATTERN },
      { name: "write", label: "May publish to", value: ".*" }, { name: "read", label: "May consume from", value: ".*" }],
    send: ({ user, vhost, ...patterns }) => change("PUT", `/vhosts${path(vhost)}/permissions${path(user)}`, patterns),
    said: ({ user, vhost }) => `${user} is let into ${vhost}.`,
  }, then),
};

const keys = {
  set: async (then) => alter({
    title: "Restrict a user to keys", button: "Set it", text: "Of a topic exchange. {username} and {vhost} in a pattern stand for the user's own.",
    fields: [...await places(),
      { name: "exchange", label: "Exchange", required: true },
      { name: "write", label: "May publish by", value: ".*", hint: "pattern of keys: .* is any" }, { name: "read", label: "May bind by", value: ".*" }],
    send: ({ user, vhost, exchange, ...patterns }) => change("PUT", `/vhosts${path(vhost)}/topic-permissions${path(user, exchange)}`, patterns),
    said: ({ user }) => `${user} is restricted.`,
  }, then),
};

const code = (text) => h("code", {}, text);
const make = (title, act) => h("button", { type: "button", class: "primary", onclick: () => act().catch((error) => done(error.message)) }, title);

function lists() {
  const again = () => made.forEach((one) => one.load());
  const made = [
    list({
      at: "/users", noun: "user", sort: "name", empty: "There is no user: nobody can connect by AMQP.",
      columns: [
        { key: "name", title: "User", cell: ({ name, has_password }) => [name, !has_password && [" ", mark("no password")]] },
        { key: "tags", title: "Tags", fixed: true, cell: ({ tags }) => tags.join(", ") },
        { key: "connections_max", title: "Connections at most", number: true, fixed: true, cell: ({ connections_max }) => limit(connections_max) },
        { key: "channels_max", title: "Channels at most", number: true, fixed: true, cell: ({ channels_max }) => limit(channels_max) },
        { key: "act", title: "", fixed: true, cell: (user) => actions(
          ["password…", () => users.password(user.name, again)], ["tags…", () => users.tags(user, again)], ["limits…", () => users.limits(user, again)],
          ["remove…", () => remove(`user ${user.name}`, "Its connections are closed.", `/users${path(user.name)}`, again)]) }],
      actions: make("Make a user", () => users.create(again)),
    }),
    list({
      at: "/permissions", own: "permissions", noun: "permission", sort: "user", empty: "Nobody may do anything.", row: ({ user, vhost }) => [user, vhost],
      columns: [
        { key: "user", title: "User", cell: ({ user }) => user }, { key: "vhost", title: "Virtual host", cell: ({ vhost }) => vhost },
        { key: "configure", title: "Makes and removes", fixed: true, cell: ({ configure }) => code(configure) },
        { key: "write", title: "Publishes to", fixed: true, cell: ({ write }) => code(write) }, { key: "read", title: "Consumes from", fixed: true, cell: ({ read }) => code(read) },
        { key: "act", title: "", fixed: true, cell: ({ user, vhost }) => actions(
          ["remove…", () => remove(`the permissions of ${user} in ${vhost}`, "It may do nothing there then.", `/vhosts${path(vhost)}/permissions${path(user)}`, again)]) }],
      actions: make("Let a user in", () => permissions.set(again)),
    }),
    list({
      at: "/topic-permissions", own: "keys", noun: "restriction", sort: "user", empty: "Whoever may publish to a topic exchange may use any key.",
      row: ({ user, vhost, exchange }) => [user, vhost, exchange],
      columns: [
        { key: "user", title: "User", cell: ({ user }) => user }, { key: "vhost", title: "Virtual host", cell: ({ vhost }) => vhost },
        { key: "exchange", title: "Exchange", cell: ({ exchange }) => exchange },
        { key: "write", title: "Publishes by", fixed: true, cell: ({ write }) => code(write) }, { key: "read", title: "Binds by", fixed: true, cell: ({ read }) => code(read) },
        { key: "act", title: "", fixed: true, cell: ({ user, vhost, exchange }) => actions(
          ["remove…", () => remove(`the restriction of ${user} at ${exchange}`, "It may use any key there then.", `/vhosts${path(vhost)}/topic-permissions${path(user, exchange)}`, again)]) }],
      actions: make("Restrict a user", () => keys.set(again)),
    }),
    list({
      at: "/vhosts", own: "hosts", noun: "virtual host", sort: "name", empty: "There is no virtual host.",
      columns: [
        { key: "name", title: "Virtual host", cell: ({ name }) => h("a", { href: `#/queues/${encodeURIComponent(name)}` }, name) },
        { key: "description", title: "Description", fixed: true, cell: ({ description }) => description },
        { key: "queues", title: "Queues", number: true, cell: ({ queues }) => count(queues) },
        { key: "queues_max", title: "At most", number: true, fixed: true, cell: ({ queues_max }) => limit(queues_max) },
        { key: "connections_max", title: "Connections at most", number: true, fixed: true, cell: ({ connections_max }) => limit(connections_max) },
        { key: "act", title: "", fixed: true, cell: (host) => actions(
          ["limits…", () => hosts.limits(host, again)],
          ["remove…", () => remove(`virtual host ${host.name}`, "All queues in it are gone with their messages, and cannot be brought back.", `/vhosts${path(host.name)}`, again)]) }],
      actions: make("Make a virtual host", () => hosts.create(again)),
    })];
  return made;
}

const TITLES = ["Users", "Permissions", "Keys of topic exchanges", "Virtual hosts"];

export default function access() {
  const made = lists();
  const page = h("div", {}, h("h1", {}, "Users and virtual hosts"),
    h("div", { class: "stack" }, made.map(({ box }, at) => [at > 0 && h("h2", { class: "between" }, TITLES[at]), box])));
  return { page, leave: () => made.forEach((one) => one.leave()) };
}
