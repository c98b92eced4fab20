// The brokers of the process and their slaves.

import { change, get } from "../api.js";
import { done } from "../dialog.js";
import { facts, h, mark, plainTable, section } from "../dom.js";
import { ago, bytes, count, moment, percent, rate } from "../format.js";
import { detail } from "../table.js";

const PERMISSION = "broker.permission";
/** To write; 4 is to read. */
const WRITE = 2;

/** Whether producers are to stay away, for all brokers of the process. */
function draining(settings, again) {
  const drains = (Number(settings.find(({ name }) => name === PERMISSION)?.value) & WRITE) === 0;
  const act = async () => {
    await change("PATCH", "/settings", { [PERMISSION]: drains ? "6" : "4" });
    done(drains ? "Producers may come back." : "Producers go elsewhere; consumers finish.");
    again();
  };
  return h("div", { class: "bar" }, drains && mark("producers go elsewhere", "warn"), h("span", { class: "grow" }),
    h("button", { type: "button", onclick: () => act().catch((error) => done(error.message)) }, drains ? "Let producers come back" : "Have producers go elsewhere"));
}

export default function brokers() {
  const read = async () => [(await get("/brokers")).items, (await get("/settings")).items];
  return detail("Brokers", read, ([items, settings], again) => [draining(settings, again), items.map((broker) => section(
    [broker.name, " ", broker.is_well ? mark("well", "good") : mark("down", "bad"), " ", mark(broker.role)],
    broker.problem && h("p", { class: "problem" }, broker.problem),
    facts([
      ["Cluster", broker.cluster], ["Topics", count(broker.topics)], ["Groups", count(broker.groups)],
      ["Messages in", rate(broker.messages_in_per_second)], ["Messages out", rate(broker.messages_out_per_second)],
      ["Log", `${bytes(broker.log_end - broker.log_first)} kept, of ${bytes(broker.log_end)} written`],
      ["Not yet synced", bytes(broker.unsynced_bytes)],
      ["Oldest message", broker.oldest_message_ms && `${moment(broker.oldest_message_ms)}, ${ago(broker.oldest_message_ms)}`],
      ["Disk", `${bytes(broker.disk_used_bytes)} of ${bytes(broker.disk_total_bytes)}, ${percent(broker.disk_used_bytes / broker.disk_total_bytes)}`]]),
    h("h3", {}, "Slaves"),
    plainTable([
      ["Address", ({ address }) => address], ["Behind", ({ behind_bytes }) => bytes(behind_bytes), true],
      ["Sent", ({ sent_bytes_per_second }) => `${bytes(sent_bytes_per_second)}/s`, true],
      ["Had all", ({ behind_bytes, caught_up_ms }) => behind_bytes === 0 ? "now" : ago(caught_up_ms), true]],
    broker.slaves, "No slave is connected.")))]);
}
