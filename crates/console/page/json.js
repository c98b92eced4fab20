// JSON laid out in lines, otherwise as it is stored: numbers, strings and keys stay as they were written, and keys that come twice too.

const TOKENS = /"(?:[^"\\]+|\\.)*"|[[\]{},:]|[^\s"[\]{},:]+/g;
/** Levels that are indented: a body that is nothing but levels stays small. */
const INDENTED_MAX = 40;

const opens = (token) => token === "{" || token === "[";
const closes = (token) => token === "}" || token === "]";

/** The text in lines, or `null` if it is no JSON, or a bare value. */
export function laidOut(text) {
  if (!/^\s*[[{]/.test(text)) return null;
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  let depth = 0;
  let before = "";
  let out = "";
  for (const [token] of text.matchAll(TOKENS)) {
    if (closes(token)) depth -= 1;
    const isNewLine = opens(before) ? !closes(token) : before === "," || closes(token);
    if (isNewLine) out += `\n${"  ".repeat(Math.min(depth, INDENTED_MAX))}`;
    if (before === ":") out += " ";
    out += token;
    if (opens(token)) depth += 1;
    before = token;
  }
  return out;
}
