// Sizes by letter: the list that sliders run over, and a slider with a box for any whole number.

import { h } from "./dom.js";
import { digits } from "./formula.js";

/** From where to where a letter is drawn; its slider goes up to the second. */
export const RANGES = { B: [1, 1024], T: [64, 65536], A: [1, 128], D: [1, 1024], W: [1, 8192], H: [1, 4096], V: [256, 262144], N: [16, 1048576], E: [16, 16777216], L: [1, 96], K: [1, 12] };
/** 1, 2, 3, 4, 6, 8, 12, 16, …: an arrow key goes to the next. */
export const SIZES = [1];
for (let two = 2; two <= 2 ** 40; two *= 2) SIZES.push(two, two * 1.5);

export const MOST_DIGITS = 30;

/** {node, set(size), multiple}: a slider and a box; `change(size)` is called with digits as text. */
export function sizeSlider({ letter, name, multiple }, change) {
  const [, high] = RANGES[letter] ?? [1, 4096];
  const sizes = SIZES.filter((size) => size % multiple === 0 && size <= Math.max(high, 64 * multiple));
  const box = h("input", { id: `size-${letter}`, type: "number", min: 1, step: 1, inputmode: "numeric" });
  const range = h("input", { id: `slide-${letter}`, type: "range", min: 0, max: sizes.length - 1, step: 1, "aria-label": `${letter}, ${name}` });
  const note = h("p", { class: "note", role: "alert", hidden: true });
  let now = "1";
  const set = (size) => {
    now = size;
    if (document.activeElement !== box || box.value === "") box.value = size;
    range.value = Math.max(sizes.findLastIndex((one) => one <= Number(size)), 0);
    range.setAttribute("aria-valuetext", `${letter} ${digits(size)}`);
  };
  range.addEventListener("input", () => { note.hidden = true; box.value = sizes[range.value]; change(String(sizes[range.value])); });
  const isSize = () => /^0*[1-9]\d*$/.test(box.value) && box.value.replace(/^0+/, "").length <= MOST_DIGITS;
  box.addEventListener("input", () => {
    box.setAttribute("aria-invalid", String(!isSize()));
    note.hidden = true;
    if (isSize()) change(String(BigInt(box.value)));
  });
  box.addEventListener("change", () => {
    note.hidden = isSize();
    note.textContent = `${box.value ? `“${box.value}”` : "That"} is no size of ${letter}, which stays ${digits(now)}: a whole number from 1 on, of ${MOST_DIGITS} digits at most.`;
    box.setAttribute("aria-invalid", "false");
    box.value = now;
  });
  return { node: h("div", { class: "letter" }, h("label", { for: `size-${letter}` }, h("i", {}, letter), name), box, range, note), set, multiple };
}
