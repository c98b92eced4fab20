// Figures for people. Thin spaces between thousands, units always there.

const NARROW = "\u202f";
const MISSING = "–";

/** A count in full: 12 345. */
export function count(value) {
  if (value === null || value === undefined) return MISSING;
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, NARROW);
}

/** A figure that is short: 12.3 k. */
function short(value, step, units, unit) {
  let at = 0;
  while (Math.abs(value) >= step * 0.9995 && at < units.length - 1) {
    value /= step;
    at += 1;
  }
  const digits = at === 0 && Number.isInteger(value) || Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  const text = value === 0 ? "0" : value.toFixed(digits);
  const suffix = units[at] + unit;
  return suffix ? `${text}${NARROW}${suffix}` : text;
}

/** A count in short. */
export function brief(value) {
  if (value === null || value === undefined) return MISSING;
  return Math.abs(value) < 10000 && Number.isInteger(value) ? count(value) : short(value, 1000, ["", "k", "M", "G"], "");
}

/** So many a second. */
export function rate(value) {
  if (value === null || value === undefined) return MISSING;
  return `${value > 0 && value < 10 ? value.toFixed(1) : short(Math.round(value), 1000, ["", "k", "M", "G"], "")}/s`;
}

/** Bytes, by powers of 1024. */
export function bytes(value) {
  if (value === null || value === undefined) return MISSING;
  return short(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"], "");
}

/** A time that something took, given in seconds. */
export function seconds(value) {
  if (value === null || value === undefined) return MISSING;
  if (value === 0) return `<${NARROW}1${NARROW}ms`;
  if (value < 0.001) return `${Math.round(value * 1e6)}${NARROW}µs`;
  if (value < 1) return `${trimmed(value * 1000)}${NARROW}ms`;
  return `${trimmed(value)}${NARROW}s`;
}

function trimmed(value) {
  return value >= 100 || Math.abs(value - Math.round(value)) < 0.005 ? String(Math.round(value)) : value.toFixed(value >= 10 ? 1 : 2);
}

/** A share as percent. */
export function percent(share) {
  if (share === null || share === undefined || Number.isNaN(share)) return MISSING;
  return `${(share * 100).toFixed(share < 0.1 ? 1 : 0)}${NARROW}%`;
}

/** A time of day with the date, in the browser's time zone. */
export function moment(ms) {
  if (!ms) return MISSING;
  const at = new Date(ms);
  const two = (value) => String(value).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(at)}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

/** The time of day. */
export function clock(at) {
  const two = (value) => String(value).padStart(2, "0");
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** How long ago: 3 min. */
export function ago(ms, now = Date.now()) {
  if (!ms) return MISSING;
  return `${span(Math.max(0, now - ms) / 1000)} ago`;
}

/** A span of time for people. */
export function span(seconds) {
  if (seconds < 1) return `0${NARROW}s`;
  const steps = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const [size, unit] = steps.find(([size]) => seconds >= size);
  return `${Math.floor(seconds / size)}${NARROW}${unit}`;
}

/** A noun with its count: 1 queue, 2 queues. */
export function many(value, noun) {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}
