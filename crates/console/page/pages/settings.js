// Settings, to look at: they are changed by `sluice admin broker set` or in the file.

import { get } from "../api.js";
import { h, mark, plainTable, show } from "../dom.js";
import { detail } from "../table.js";

export default function settings() {
  return detail("Settings", async () => {
    const { items } = await get("/settings");
    const search = h("input", { type: "search", placeholder: "Search settings", "aria-label": "Search settings", autocomplete: "off" });
    const place = h("div");
    const draw = () => {
      const searched = search.value.trim().toLowerCase();
      show(place, plainTable([
        ["Setting", ({ name }) => h("code", {}, name)], ["Value", ({ value }) => h("code", {}, value)], ["From", ({ from }) => from],
        ["", ({ changes_at_once }) => changes_at_once && mark("changes at once")]],
      items.filter(({ name, value }) => `${name} ${value}`.toLowerCase().includes(searched)), "No setting has that in it."));
    };
    search.addEventListener("input", draw);
    draw();
    return h("section", { class: "card" }, h("div", { class: "bar" }, search), place);
  });
}
