// What has the focus keeps it while its part of the page is drawn anew: the same thing, of the same row.

import { show } from "./dom.js";

/** What a thing is known by: its row if it has one, and what is written on it. */
function identity(one) {
  return JSON.stringify([one.closest("[data-row]")?.dataset.row, one.tagName, one.dataset.key ?? one.getAttribute("aria-label") ?? one.textContent]);
}

/** Has an element show what `draw` gives, and nothing else. */
export function renew(element, draw) {
  const focused = document.activeElement;
  const known = focused !== element && element.contains(focused) ? identity(focused) : null;
  show(element, draw());
  if (known === null) return;
  const again = [...element.querySelectorAll("a, button, input, select")].find((one) => identity(one) === known);
  // Where it is gone, whoever had it goes on at the beginning of the page.
  (again ?? document.querySelector("main")).focus({ preventScroll: true });
}
