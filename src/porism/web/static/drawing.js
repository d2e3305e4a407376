// A square to draw a digit in, by pointer or by arrow keys and space.

import { announce, h } from "./dom.js";

const CELLS = 28, SCALE = 8;

/** {node, blob()}: white strokes on black, 28 by 28. */
export function drawing() {
  const canvas = h("canvas", { width: CELLS * SCALE, height: CELLS * SCALE, tabindex: 0, role: "application", "aria-label": "Draw a digit: arrow keys move, space draws while you move, Backspace clears", class: "drawing" });
  const told = h("p", { class: "hidden", "aria-live": "polite" });
  const pen = canvas.getContext("2d");
  let at = [14, 6], isDown = false, isFocused = false;
  let ink = new Float32Array(CELLS * CELLS);

  function dab(x, y) {
    for (let row = Math.floor(y) - 2; row <= y + 2; row++) {
      for (let column = Math.floor(x) - 2; column <= x + 2; column++) {
        if (row < 0 || column < 0 || row >= CELLS || column >= CELLS) continue;
        const strength = Math.max(0, Math.min(1, 1.9 - Math.hypot(column + 0.5 - x, row + 0.5 - y)));
        ink[row * CELLS + column] = Math.max(ink[row * CELLS + column], strength);
      }
    }
  }
  function line(from, to) {
    const steps = Math.max(1, Math.ceil(Math.hypot(to[0] - from[0], to[1] - from[1]) * 2));
    for (let i = 0; i <= steps; i++) dab(from[0] + ((to[0] - from[0]) * i) / steps, from[1] + ((to[1] - from[1]) * i) / steps);
  }
  function paint() {
    pen.fillStyle = "#000";
    pen.fillRect(0, 0, canvas.width, canvas.height);
    ink.forEach((strength, i) => {
      if (!strength) return;
      const grey = Math.round(strength * 255);
      pen.fillStyle = `rgb(${grey} ${grey} ${grey})`;
      pen.fillRect((i % CELLS) * SCALE, Math.floor(i / CELLS) * SCALE, SCALE, SCALE);
    });
    if (isFocused) {
      pen.strokeStyle = isDown ? "#ff8a94" : "#7aa2ff";
      pen.lineWidth = 2;
      pen.strokeRect(at[0] * SCALE - 8, at[1] * SCALE - 8, 16, 16);
    }
  }
  const place = (event) => { const box = canvas.getBoundingClientRect(); return [((event.clientX - box.left) / box.width) * CELLS, ((event.clientY - box.top) / box.height) * CELLS]; };
  canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); at = place(event); isDown = true; dab(...at); paint(); });
  canvas.addEventListener("pointermove", (event) => { if (!isDown || !canvas.hasPointerCapture(event.pointerId)) return; const next = place(event); line(at, next); at = next; paint(); });
  canvas.addEventListener("pointerup", () => { isDown = false; paint(); });
  canvas.addEventListener("focus", () => { isFocused = canvas.matches(":focus-visible"); paint(); });
  canvas.addEventListener("blur", () => { isFocused = isDown = false; paint(); });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (step) {
      const next = [Math.min(CELLS - 2, Math.max(2, at[0] + step[0])), Math.min(CELLS - 2, Math.max(2, at[1] + step[1]))];
      if (isDown) line(at, next);
      at = next;
      announce(told, `${isDown ? "drawing, " : ""}column ${Math.round(at[0])}, row ${Math.round(at[1])}`);
    } else if (event.key === " ") {
      isDown = !isDown;
      if (isDown) dab(...at);
      announce(told, isDown ? "pen down" : "pen up");
    } else if (event.key === "Backspace") clear();
    else return;
    event.preventDefault();
    paint();
  });
  function clear() { ink = new Float32Array(CELLS * CELLS); isDown = false; announce(told, "empty"); paint(); }
  const blob = () => {
    const small = document.createElement("canvas");
    small.width = small.height = CELLS;
    const picture = small.getContext("2d"), pixels = picture.createImageData(CELLS, CELLS);
    ink.forEach((strength, i) => pixels.data.set([strength * 255, strength * 255, strength * 255, 255], i * 4));
    picture.putImageData(pixels, 0, 0);
    if (!ink.some(Boolean)) throw new Error("Draw a digit first.");
    return new Promise((resolve) => small.toBlob(resolve, "image/png"));
  };
  paint();
  return { node: h("div", { class: "row" }, canvas, told, h("button", { type: "button", onclick: clear }, "Clear"), h("span", { class: "aside" }, "Fill the square.")), blob: async () => blob() };
}
