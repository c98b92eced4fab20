// Is it well, what is slow, who is behind: at a glance.

import { chart } from "../chart.js";
import { h, mark, plainTable, section, show } from "../dom.js";
import { renew } from "../focus.js";
import { ago, brief, bytes, count, many, percent, rate, seconds, span } from "../format.js";
import { live, watch } from "../live.js";

const POWERS = Array.from({ length: 60 }, (_, at) => 2 ** at);
const WHOLE = Array.from({ length: 15 }, (_, at) => [1, 2, 5].map((one) => one * 10 ** at)).flat();
const of = (key) => (sample) => sample[key];

function charts() {
  return [
    chart({ title: "Messages", format: rate, axis: brief, fill: true, lines: [
      { label: "in", of: of("messages_in_per_second"), colour: "blue" },
      { label: "out", of: of("messages_out_per_second"), colour: "green" }] }),
    chart({ title: "Time of sends", format: seconds, axis: (value) => value === 0 ? "0" : seconds(value), lines: [
      { label: "p50", of: of("send_p50_seconds"), colour: "green" },
      { label: "p99", of: of("send_p99_seconds"), colour: "blue" },
      { label: "p99.9", of: of("send_p999_seconds"), colour: "orange" }] }),
    chart({ title: "Behind, all groups", format: (value) => many(value, "message"), axis: brief, steps: WHOLE, fill: true, lines: [
      { of: of("lag"), colour: "orange" }] }),
    chart({ title: "Bytes", format: (value) => `${bytes(value)}/s`, axis: bytes, steps: POWERS, fill: true, lines: [
      { label: "in", of: of("bytes_in_per_second"), colour: "blue" },
      { label: "out", of: of("bytes_out_per_second"), colour: "green" }] }),
    chart({ title: "Disk", format: (value, sample) => `${bytes(value)} of ${bytes(sample.disk_total_bytes)}, ${percent(value / sample.disk_total_bytes)}`,
      axis: bytes, steps: POWERS, most: (sample) => sample.disk_total_bytes || 1, fill: true, lines: [{ of: of("disk_used_bytes"), colour: "blue" }] }),
    chart({ title: "Memory", format: bytes, axis: bytes, steps: POWERS, fill: true, lines: [
      { of: of("memory_bytes"), colour: "blue" }] }),
  ];
}

/** How the process is, in words and a tone. */
export function verdict({ state, lost }) {
  if (lost === "connecting") return { tone: "", word: "Connecting", text: "" };
  if (lost) return { tone: "bad", word: "No news", text: `${lost}. The figures below are the last that came.` };
  if (!state) return { tone: "", word: "Starting", text: "" };
  if (state.ending) return { tone: "bad", word: "Ending", text: state.ending };
  const brokers = state.brokers;
  const ill = brokers.filter((broker) => broker.problem);
  if (ill.length > 0) {
    const text = ill.map((broker) => `${broker.name}: ${broker.problem}`).join("; ");
    return { tone: "bad", word: ill.length < brokers.length ? "Some brokers are down" : "Down", text };
  }
  const draining = brokers.filter((broker) => broker.is_draining);
  if (draining.length > 0) {
    return { tone: "warn", word: "Draining", text: `${draining.map((broker) => broker.name).join(", ")}: nobody may write; consumers go on` };
  }
  if (brokers.length === 0) return { tone: "good", word: "Well", text: "A name server alone: it answers where topics are." };
  return { tone: "good", word: "Well", text: brokers.length === 1 ? "The broker takes messages." : `All ${brokers.length} brokers take messages.` };
}

/** What is slow, in words. */
function slow(samples) {
  const times = samples.slice(-30).map((sample) => sample.send_p99_seconds).filter((time) => time !== null);
  if (times.length === 0) return "Nothing was sent in the last minute.";
  const worst = Math.max(...samples.slice(-30).map((sample) => sample.send_p999_seconds ?? 0));
  const most = (time) => time === 0 ? "less than 1 ms" : `at most ${seconds(time)}`;
  return `In the last minute 99 of 100 sends took ${most(Math.max(...times))}, 999 of 1000 ${most(worst)}.`;
}

/** Who is behind, in words. */
function behind(state) {
  if (!state || state.brokers.length === 0) return "";
  const [first] = state.behind;
  return first ? [h("a", { href: `#/groups/${encodeURIComponent(first.group)}` }, first.group), ` is furthest behind: ${many(first.lag, "message")}.`] : "No group is behind.";
}

function slaves(brokers) {
  return brokers.flatMap((broker) => broker.slaves.map((slave) => ({ broker, slave })));
}

export default function overview() {
  const all = charts();
  const head = h("section", { class: "verdict", "aria-live": "polite" });
  const tables = h("div", { class: "columns" });
  let told = "";

  const update = () => {
    const { tone, word, text } = verdict(live);
    const words = [slow(live.samples), behind(live.state)];
    const key = JSON.stringify([tone, word, text, words[0], live.state?.behind[0]]);
    if (key !== told) {
      told = key;
      show(head, h("h1", { class: tone }, h("i", { class: `lamp ${tone}` }), word), text && h("p", { class: "why" }, text),
        live.state?.brokers.length > 0 && h("p", {}, words[0]), live.state?.brokers.length > 0 && h("p", {}, words[1]));
    }
    for (const one of all) one.update(live.samples);
    const state = live.state;
    if (!state) return;
    renew(tables, () => [
      section("Furthest behind", plainTable([
        ["Group", ({ group }) => h("a", { href: `#/groups/${encodeURIComponent(group)}` }, group)],
        ["Messages", ({ lag }) => count(lag), true]], state.behind, "No group is behind.", ({ group }) => ["group", group])),
      section("Busiest topics", plainTable([
        ["Topic", ({ topic }) => h("a", { href: `#/topics/${encodeURIComponent(topic)}` }, topic)],
        ["Messages in", ({ messages_in_per_second }) => rate(messages_in_per_second), true]], state.busiest, "Nothing was stored lately.", ({ topic }) => ["topic", topic])),
      section("Brokers", plainTable([
        ["Broker", ({ name }) => h("a", { href: "#/brokers" }, name)],
        ["Role", ({ role }) => role],
        ["State", (broker) => broker.problem ? mark("down", "bad") : broker.is_draining ? mark("draining", "warn") : mark("well", "good")],
        ["Disk", ({ disk_used_bytes, disk_total_bytes }) => percent(disk_used_bytes / disk_total_bytes), true]], state.brokers, "This is a name server alone.")),
      section("Slaves", plainTable([
        ["Slave", ({ slave }) => slave.address],
        ["Of", ({ broker }) => broker.name],
        ["Behind", ({ slave }) => bytes(slave.behind_bytes), true],
        ["Had all", ({ slave }) => slave.behind_bytes === 0 ? "now" : ago(slave.caught_up_ms), true]], slaves(state.brokers), "No slave is connected."))]);
    const last = live.samples[live.samples.length - 1];
    if (last) {
      show(foot, [`${many(last.connections, "connection")}`, `${last.processors.toFixed(2)} processors busy`,
        state.started_ms && `running for ${span((last.time_ms - state.started_ms) / 1000)}`, `version ${state.version}`].filter(Boolean).join(" · "));
    }
  };
  const foot = h("p", { class: "foot" });
  const unwatch = watch(update);
  const page = h("div", {}, head, h("div", { class: "charts" }, all.map((one) => one.card)), tables, foot);
  // Charts need their width: drawn once they stand in the page.
  requestAnimationFrame(update);
  return { page, title: "Overview", restyle: () => all.forEach((one) => one.restyle()), leave: () => { unwatch(); all.forEach((one) => one.leave()); } };
}
