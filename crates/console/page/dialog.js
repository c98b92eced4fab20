// Questions: the fields of an action, and whether something that cannot be undone is really meant.

import { h, show } from "./dom.js";

/** Opens a dialog and resolves with what `act` gave, or with `undefined` if it was left. */
function ask({ title, text, content, button, danger, act }) {
  return new Promise((resolve) => {
    const said = h("p", { class: "problem", role: "alert" });
    const go = h("button", { type: "submit", class: danger ? "danger" : "primary" }, button);
    const leave = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
    let given;
    const submit = async (event) => {
      event.preventDefault();
      go.disabled = true;
      show(said);
      try {
        given = await act();
        if (given !== undefined) dialog.close();
      } catch (error) {
        show(said, error.message);
      }
      go.disabled = false;
    };
    const form = h("form", { onsubmit: submit }, h("h2", {}, title), text && h("p", {}, text), content, said, h("div", { class: "buttons" }, leave, go));
    const dialog = h("dialog", { "aria-label": title }, form);
    dialog.addEventListener("close", () => { dialog.remove(); resolve(given); });
    document.body.append(dialog);
    dialog.showModal();
    (form.querySelector("input, select, textarea") ?? leave).focus();
  });
}

/** Asks before something that cannot be undone. `act` does it. */
export function confirm(title, text, button, act) {
  return ask({ title, text, button, danger: true, act: async () => (await act()) ?? true });
}

/**
 * Asks for fields: `{name, label, value, type, choices, hint, required, pattern, rows, when}`; one with
 * `when` is there while that holds for what was given so far. `act` gets what was given; what it returns ends the
 * dialog. With `preview`, its answer is shown and asked for again after each change.
 */
export function fill({ title, text, fields, button, danger, act, preview }) {
  const inputs = new Map(fields.map((field) => [field.name, input(field)]));
  const values = () => Object.fromEntries([...inputs].map(([name, one]) => [name, typed(one)]));
  const seen = h("div", { class: "preview", "aria-live": "polite" });
  const rows = fields.map((field) => h("label", { class: field.type === "checkbox" ? "check" : "field" },
    h("span", {}, field.label), inputs.get(field.name), field.hint && h("small", {}, field.hint)));
  const arrange = () => fields.forEach(({ when }, at) => { rows[at].hidden = when !== undefined && !when(values()); });
  for (const one of inputs.values()) one.addEventListener("input", arrange);
  arrange();
  if (preview) {
    let turn = 0;
    const look = async () => {
      const mine = ++turn;
      const shown = await preview(values()).catch((error) => h("p", { class: "problem" }, error.message));
      if (mine === turn) show(seen, shown);
    };
    let wait = 0;
    const later = () => { clearTimeout(wait); wait = setTimeout(look, 250); };
    for (const one of inputs.values()) one.addEventListener("input", later);
    look();
  }
  return ask({ title, text, content: [rows, preview && seen], button, danger, act: async () => (await act(values())) ?? true });
}

/** What was given. Passwords and bodies count as they were typed; a space around anything else is a slip. */
function typed(one) {
  if (one.type === "checkbox") return one.checked;
  return one.type === "password" || one.type === "textarea" ? one.value : one.value.trim();
}

function input({ name, type = "text", value = "", choices, required, pattern, min, max, rows }) {
  if (rows) return h("textarea", { name, rows: String(rows), spellcheck: "false" }, value);
  if (choices) {
    return h("select", { name }, choices.map(([key, label]) => h("option", { value: key, selected: key === value }, label)));
  }
  if (type === "checkbox") return h("input", { name, type, checked: value === true });
  return h("input", { name, type, required, pattern, min, max, value: String(value), step: type === "datetime-local" ? "1" : undefined, autocomplete: "off", spellcheck: "false" });
}

/** Says shortly that something was done. */
export function done(text) {
  document.querySelector(".toast")?.remove();
  const toast = h("div", { class: "toast", role: "status" }, text);
  document.body.append(toast);
  setTimeout(() => toast.remove(), 4000);
}
