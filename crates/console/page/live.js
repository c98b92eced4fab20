// What happens in the broker, as it happens: one stream of events for the whole page. No more is kept than the charts show.

import { open } from "./api.js";

const SAMPLES_MAX = 150;
const WAITING_MAX = 1 << 20;
const HIDDEN_MS = 15000;

/** What is known: the samples of the last minutes, the state, and whether the stream runs (`null`: it does). */
export const live = { samples: [], state: null, lost: "connecting", interval_ms: 2000 };

const watchers = new Set();

/** Has `watcher` called after each change, until the returned function is. */
export function watch(watcher) {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

function tell() {
  for (const watcher of [...watchers]) watcher(live);
}

function take(event, data) {
  if (event === "history") {
    live.samples = data.samples.slice(-SAMPLES_MAX);
    live.interval_ms = data.interval_ms;
  }
  if (event === "sample") {
    live.samples.push(data);
    live.samples.splice(0, live.samples.length - SAMPLES_MAX);
  }
  if (event === "state" && data) live.state = data;
}

async function read(signal) {
  const response = await open("/events", { signal });
  if (!response.ok) throw new Error((await response.json().catch(() => ({}))).error ?? `status ${response.status}`);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new Error("the broker has ended the stream");
    waiting += value;
    if (waiting.length > WAITING_MAX) throw new Error("an event has no end");
    const events = waiting.split("\n\n");
    waiting = events.pop();
    for (const text of events) {
      const [first, second] = text.split("\n");
      take(first.slice("event: ".length), JSON.parse(second.slice("data: ".length)));
    }
    if (events.length > 0) {
      live.lost = null;
      tell();
    }
  }
}

/** Why there is no stream: in the words of the broker, if it has any. */
async function reason(error) {
  const health = await fetch("/health").then((response) => response.json()).catch(() => null);
  if (health === null) return "the broker cannot be reached";
  return health.reason ? `${health.status}: ${health.reason}` : error.message;
}

function visible() {
  return new Promise((resolve) => {
    if (!document.hidden) return resolve();
    document.addEventListener("visibilitychange", () => resolve(), { once: true });
  });
}

/** Follows as long as the page is there. While nobody sees it the stream rests: others need its place. */
export async function follow() {
  let stop = new AbortController();
  let hidden = 0;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hidden);
    if (document.hidden) hidden = setTimeout(() => stop.abort(), HIDDEN_MS);
  });
  for (;;) {
    await visible();
    stop = new AbortController();
    try {
      await read(stop.signal);
    } catch (error) {
      if (!stop.signal.aborted) {
        live.lost = await reason(error);
        tell();
        await new Promise((resolve) => setTimeout(resolve, 2000));
      }
    }
  }
}
