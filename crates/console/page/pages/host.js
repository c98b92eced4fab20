// What pages of AMQP have in common: their lists are of one virtual host, which can be chosen.

import { all } from "../api.js";
import { h, mark, show } from "../dom.js";

/** A page whose lists are of one virtual host: `lists(vhost, again)` makes them. */
export function ofHost(title, where, vhost, lists) {
  const place = h("div", { class: "stack" });
  const choice = h("div", { class: "bar hosts" });
  const say = (...words) => show(place, h("p", { class: "notice" }, words));
  let made = [];
  let left = false;
  (async () => {
    try {
      const hosts = (await all("/vhosts")).map(({ name }) => name);
      if (left) return;
      if (hosts.length === 0) return say("There is no virtual host, and so no queue and no exchange. ", h("a", { href: "#/access" }, "Make one"), " first.");
      const host = vhost || hosts[0];
      const isThere = hosts.includes(host);
      if (hosts.length > 1 || !isThere) {
        const select = h("select", { "aria-label": "Virtual host", onchange: () => { location.hash = `#/${where}/${encodeURIComponent(select.value)}`; } },
          !isThere && h("option", { value: "", disabled: true, selected: true }, "choose one"), hosts.map((name) => h("option", { value: name, selected: name === host }, name)));
        show(choice, h("label", {}, "Virtual host ", select));
      }
      if (!isThere) return say(`There is no virtual host “${host}”: it was removed, or the address is wrong. Choose one of those that are there.`);
      made = lists(host);
      show(place, made.map(({ box, title }) => title ? [h("h2", { class: "between" }, title), box] : box));
    } catch (error) {
      say(error.message);
    }
  })();
  return { title, page: h("div", {}, h("div", { class: "head" }, h("h1", {}, title), choice), place), leave: () => { left = true; made.forEach((one) => one.leave()); } };
}

/** What a queue or an exchange is, beside its name. */
export function kind(queue) {
  const marks = [queue.durable && "durable", queue.auto_delete && "auto delete", queue.exclusive && "exclusive"].filter(Boolean);
  return marks.map((text) => [mark(text), " "]);
}

/** Arguments, as somebody wrote them: a JSON object, or nothing. */
export function argumentsOf(text) {
  if (text === "") return {};
  try {
    const given = JSON.parse(text);
    if (given !== null && typeof given === "object" && !Array.isArray(given)) return given;
  } catch { /* told below */ }
  throw new Error('Arguments are a JSON object, like {"x-max-length": 1000}.');
}
