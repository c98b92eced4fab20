// Consumer groups: who is behind, and where a group is to go on.

import { change, get, path } from "../api.js";
import { confirm, done, fill } from "../dialog.js";
import { facts, h, plainTable, section } from "../dom.js";
import { ago, count, many, moment } from "../format.js";
import { detail, list } from "../table.js";

export default function groups({ names: [name] }) {
  if (name) return one(name);
  const all = list({
    at: "/groups", noun: "group", sort: "-lag", empty: "There is no group yet. A group is there once a consumer of it has come.",
    columns: [
      { key: "name", title: "Group", cell: ({ name }) => h("a", { href: `#/groups/${encodeURIComponent(name)}` }, name) },
      { key: "lag", title: "Messages behind", number: true, cell: ({ lag }) => count(lag) },
      { key: "members", title: "Members", number: true, cell: ({ members }) => count(members) }],
  });
  return { title: "Groups", page: h("div", {}, h("h1", {}, "Groups"), all.box), leave: all.leave };
}

/** What a reset is to be, from the fields of its dialog. */
function asked({ topic, to, time, offset, queue }, dry_run) {
  if (to === "time" && !time) throw new Error("Say the time.");
  if (to === "offset" && offset === "") throw new Error("Say the offset.");
  const where = to === "time" ? { time: new Date(time).getTime() } : to === "offset" ? { offset: Number(offset) } : to;
  return { topic, to: where, dry_run, ...(queue === "" ? {} : { queue: Number(queue) }) };
}

function reset(name, topics, then) {
  const at = `/groups${path(name)}/reset`;
  return fill({
    title: `Have ${name} go on elsewhere`, button: "Reset it", danger: true,
    text: "Going back has messages consumed again; going on leaves messages out.",
    fields: [
      { name: "topic", label: "Topic", choices: topics.map((topic) => [topic, topic]), value: topics[0] },
      { name: "to", label: "To", choices: [["end", "the end: what is there is left out"], ["first", "the first message kept"], ["time", "a time"], ["offset", "an offset"]], value: "end" },
      { name: "time", label: "Time", type: "datetime-local", when: ({ to }) => to === "time" },
      { name: "offset", label: "Offset", type: "number", min: "0", when: ({ to }) => to === "offset" },
      { name: "queue", label: "Queue", type: "number", min: "0", hint: "none: all queues" }],
    preview: async (values) => {
      const { items } = await change("POST", at, asked(values, true));
      const moved = items.reduce((sum, { from, to }) => sum + (to - Math.max(from, 0)), 0);
      const word = moved < 0 ? `${many(-moved, "message")} would come again.` : moved > 0 ? `${many(moved, "message")} would be left out.` : "Nothing would change.";
      return [h("p", {}, word), plainTable([["Broker", ({ broker }) => h("span", { class: "whole" }, broker)], ["Queue", ({ queue }) => queue, true], ["From", ({ from }) => count(from), true], ["To", ({ to }) => count(to), true]], items)];
    },
    act: async (values) => {
      await change("POST", at, asked(values, false));
      done(`Group ${name} goes on elsewhere.`);
      then();
      return true;
    },
  });
}

function resend(name, then) {
  const at = `/groups${path(name)}/resend`;
  return fill({
    title: `Resend dead letters of ${name}`, button: "Resend them",
    fields: [
      { name: "to", label: "To", choices: [["group", "this group alone"], ["topics", "the topics they came from, for every group"]], value: "group" },
      { name: "again", label: "Those too that were resent before", type: "checkbox" },
      { name: "pass_over", label: "Pass over those whose topic is gone", type: "checkbox" }],
    preview: async ({ to, again }) => {
      const { left } = await change("POST", at, { to, again, dry_run: true });
      return h("p", {}, `${many(left, "dead letter")} would be resent. They stay in the dead-letter topic too.`);
    },
    act: async ({ to, again, pass_over }) => {
      let resent = 0, passed = 0;
      for (let more = { to, again, pass_over }; more;) {
        const answer = await change("POST", at, more);
        resent += answer.resent;
        passed += answer.passed_over;
        more = answer.left > 0 && answer.resent + answer.passed_over > 0 ? { to, pass_over } : null;
      }
      const stay = passed > 0 ? ` ${many(passed, "dead letter")} came from topics that are gone, and stay.` : "";
      done(`${many(resent, "dead letter")} resent.${stay}`);
      then();
      return true;
    },
  });
}

function one(name) {
  const at = `/groups${path(name)}`;
  const remove = () => confirm(`Remove group ${name}?`, "How far it has come is forgotten. Messages stay.", "Remove it", async () => {
    await change("DELETE", at);
    done(`Group ${name} is removed.`);
    location.hash = "#/groups";
  });
  return detail(name, () => get(at), (group, again) => {
    const topics = [...new Set(group.queues.map(({ topic }) => topic))];
    const queues = [...group.queues].sort((a, b) => b.lag - a.lag);
    return [
      h("section", { class: "card" }, facts([
        ["Messages behind", count(group.lag)], ["Members", count(group.members.length)],
        ["Dead letters", count(group.dead_letters)], ["Of these not resent", count(group.dead_letters_not_resent)]]),
        h("div", { class: "buttons left" },
          topics.length > 0 && h("button", { type: "button", onclick: () => reset(name, topics, again) }, "Reset…"),
          group.dead_letters > 0 && h("button", { type: "button", onclick: () => resend(name, again) }, "Resend dead letters…"),
          group.dead_letters > 0 && h("a", { class: "button", href: `#/messages?topic=${encodeURIComponent(`%DLQ%${name}`)}` }, "Look at dead letters"),
          h("button", { type: "button", class: "danger", onclick: remove }, "Remove the group…"))),
      section("Queues, the furthest behind first", plainTable([
        ["Topic", ({ topic }) => h("a", { href: `#/topics/${encodeURIComponent(topic)}` }, topic)],
        ["Broker", ({ broker }) => h("span", { class: "whole" }, broker)], ["Queue", ({ queue }) => queue, true],
        ["Committed", ({ committed }) => count(committed), true], ["End", ({ end }) => count(end), true], ["Behind", ({ lag }) => count(lag), true],
        ["Last consumed was stored", ({ consumed_time_ms }) => h("span", { title: moment(consumed_time_ms) }, ago(consumed_time_ms)), true]],
      queues, "It has consumed nothing yet.", ({ topic, broker, queue }) => [topic, broker, queue])),
      section("Members", plainTable([
        ["Client", ({ client }) => client], ["Address", ({ address }) => address], ["Language", ({ language }) => language.toLowerCase()],
        ["Heartbeat", ({ seen_ms }) => ago(seen_ms), true]], group.members, "Nobody is connected.")),
    ];
  }, ["#/groups", "Groups"]);
}
