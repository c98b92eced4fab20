// The token of the broker: asked for when it is wanted, and kept until the browser's tab is closed.

import { fill } from "./dialog.js";

const KEPT = "sluice-token";
/** Anything else is no token, and no browser sends it. */
const TOKEN = /^[\x21-\x7e]+$/;

let asking = null;
let isDeclined = false;

/** The token that was given, or `null`. */
export function token() {
  const kept = sessionStorage.getItem(KEPT);
  return TOKEN.test(kept ?? "") ? kept : null;
}

/** Asks for the token once, whoever else needs it too, and not again after nobody wanted to give it. `refused`: what was sent in vain. */
export async function askToken(why, refused) {
  if (isDeclined) throw new Error("without the token the broker shows nothing: load the page again to give it");
  if (token() !== refused) return;
  asking ??= ask(why).finally(() => { asking = null; });
  await asking;
}

async function ask(why) {
  sessionStorage.removeItem(KEPT);
  const given = await fill({
    title: "This broker asks for its token",
    text: `${why.message}. It is kept until this tab is closed.`,
    fields: [{ name: "token", label: "Token", type: "password", required: true }],
    button: "Use it",
    act: async (given) => {
      const token = given.token.trim();
      if (!TOKEN.test(token)) throw new Error("This is no token: one has letters, digits and signs of ASCII, and no space.");
      return token;
    },
  });
  isDeclined = given === undefined;
  if (!isDeclined) sessionStorage.setItem(KEPT, given);
}
