// What pages of AMQP have in common: their lists are of one virtual host, which can be chosen.

import { all } from "../api.js";
import { h, mark, show } from "../dom.js";

/** A page whose lists are of one virtual host: `lists(vhost, again)` makes them. */
export function ofHost(title, where, vhost, lists) {
  const place = h("div", { class: "stack" });
  const choice = h("div", { class: "bar hosts" });
  let made = [];
  (async () => {
    try {
      const hosts = (await all("/vhosts")).map(({ name }) => name);
      const host = hosts.includes(vhost) ? vhost : hosts[0];
      if (hosts.length > 1) {
        const select = h("select", { "aria-label": "Virtual host", onchange: () => { location.hash = `#/${where}/${encodeURIComponent(select.value)}`; } },
          hosts.map((name) => h("option", { value: name, selected: name === host }, name)));
        show(choice, h("label", {}, "Virtual host ", select));
      }
      made = lists(host);
      show(place, made.map(({ box, title }) => title ? [h("h2", { class: "between" }, title), box] : box));
    } catch (error) {
      show(place, h("p", { class: "notice" }, error.message));
    }
  })();
  return { title, page: h("div", {}, h("div", { class: "head" }, h("h1", {}, title), choice), place), leave: () => made.forEach((one) => one.leave()) };
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
