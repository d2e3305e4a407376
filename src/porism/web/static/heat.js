// A heat map of attention weights.

import { s } from "./dom.js";

/**
 * A heat map of words by words: weights[query][key] in 0…1, or differences in -1…1 where `signed`. `choose` is called
 * with the cell that arrow keys or the pointer reach.
 */
export function heat({ tokens, weights, label, signed, choose, chosen, number = 1 }) {
  const n = tokens.length, cell = n > 32 ? 9 : n > 20 ? 14 : Math.max(24, 288 / (n || 1)), words = n <= 32;
  const edge = words ? 16 + 6.2 * Math.min(12, Math.max(...tokens.map((word) => word.length), 3)) : 4;
  const size = edge + n * cell + 4;
  // The last word's label leans over the right edge.
  const width = words ? Math.max(size, edge + (n - 0.5) * cell + 3.5 * Math.min(12, tokens.at(-1)?.length ?? 0) + 14) : size;
  const cut = (word) => (word.length > 12 ? `${word.slice(0, 11)}…` : word);
  const most = signed ? Math.max(0.05, ...weights.flat().map(Math.abs)) : 1;
  const cells = [];
  weights.forEach((line, q) => line.forEach((weight, k) => {
    if (!weight) return;
    const strength = Math.min(1, Math.abs(weight) / most);
    cells.push(s("rect", { class: `cell c${signed ? (weight > 0 ? 2 : 1) : number}`, x: edge + k * cell, y: edge + q * cell, width: cell - 1, height: cell - 1, opacity: Math.max(0.04, Math.round(strength * 100) / 100) }));
  }));
  const svg = s("svg", { viewBox: `0 0 ${width} ${size}`, role: "img", tabindex: 0, "aria-label": label, class: "heat" },
    words && tokens.map((word, i) => [
      s("text", { class: "faint", x: edge - 6, y: edge + i * cell + cell / 2 + 4, "text-anchor": "end" }, cut(word)),
      s("text", { class: "faint", transform: `translate(${edge + i * cell + cell / 2 + 4} ${edge - 6}) rotate(-60)` }, cut(word)),
    ]).flat(),
    s("rect", { class: "frame", x: edge - 0.5, y: edge - 0.5, width: n * cell, height: n * cell }),
    cells,
    chosen && s("rect", { class: "chosen", x: edge + chosen[1] * cell - 0.5, y: edge + chosen[0] * cell - 0.5, width: cell, height: cell }));
  svg.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!steps) return;
    event.preventDefault();
    const [q, k] = chosen ?? [0, -1];
    choose([Math.min(n - 1, Math.max(0, q + steps[0])), Math.min(n - 1, Math.max(0, k + steps[1]))]);
  });
  svg.addEventListener("pointerdown", (event) => {
    const box = svg.getBoundingClientRect(), unit = width / box.width;
    const k = Math.floor(((event.clientX - box.left) * unit - edge) / cell), q = Math.floor(((event.clientY - box.top) * unit - edge) / cell);
    if (q >= 0 && k >= 0 && q < n && k < n) choose([q, k]);
  });
  return svg;
}
