// The admin API: everything that the page shows or does goes through here.

import { askToken, token } from "./token.js";

const BASE = "/admin/v1";

/** What the API refused, in its own words. */
export class Refused extends Error {
  constructor(status, text, near) {
    super(near?.length > 0 ? `${text}. Did you mean ${near[0]}?` : text);
    this.status = status;
  }
}

/** A path of names, each as it has to be written in one. Of `.` and `..` browsers make another path, unless a byte is before them that is in no text. */
export function path(...names) {
  return names.map((name) => `/${name === "." || name === ".." ? "%FF" : ""}${encodeURIComponent(name)}`).join("");
}

/** Asks; a token that is wanted is asked for, and the question put once more. */
export async function open(at, options = {}) {
  for (;;) {
    const shown = token();
    const headers = shown === null ? options.headers : { ...options.headers, authorization: `Bearer ${shown}` };
    const response = await fetch(BASE + at, { ...options, headers, cache: "no-store" })
      .catch((error) => { throw error.name === "AbortError" ? error : new Refused(0, "The broker does not answer"); });
    if (response.status !== 401) return response;
    await askToken(await problem(response), shown);
  }
}

async function problem(response) {
  const body = await response.json().catch(() => ({}));
  return new Refused(response.status, body.error ?? body.reason ?? `answered with status ${response.status}`, body.nearest);
}

async function answer(at, options) {
  const response = await open(at, options);
  if (!response.ok) throw await problem(response);
  return response.json();
}

/** Reads. Pairs without a value are left out. */
export function get(at, query = {}, signal = undefined) {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const behind = pairs.length > 0 ? `?${new URLSearchParams(pairs)}` : "";
  return answer(at + behind, { signal });
}

/** Changes something. Always JSON: a page of somebody else cannot send that. */
export function change(method, at, body = undefined) {
  const sent = body === undefined ? {} : { body: JSON.stringify(body) };
  return answer(at, { method, headers: { "content-type": "application/json" }, ...sent });
}

/** All items of a list that is short. */
export async function all(at) {
  const items = [];
  for (let from = 0; from !== null && items.length < 10000;) {
    const piece = await get(at, { from });
    items.push(...piece.items);
    from = piece.next ?? null;
  }
  return items;
}
