// Pictures in SVG, drawn at the width they are shown at, with a name, a readout for arrow keys, and a table.

import { h, s, fill, announce, table, colour } from "./dom.js";

const round = (number) => Math.round(number * 10) / 10;

/** Ticks of what only whole numbers count: epochs. */
export function wholeTicks(low, high, count) {
  const step = Math.max(1, Math.ceil((high - low) / count));
  return Array.from({ length: Math.floor((high - low) / step) + 1 }, (_, i) => low + i * step);
}

/** Values at which an axis has ticks, about `count` of them. */
export function ticks(low, high, log, count) {
  if (log && high / low >= 3) {
    const found = [];
    const wide = Math.log10(high / low);
    const steps = wide > 3 ? [1] : wide > 1 ? [1, 3] : [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high) + 1e-9; power++) {
      for (const step of steps) found.push(Number((step * 10 ** power).toPrecision(3)));
    }
    const inside = found.filter((tick) => tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9));
    const every = Math.max(1, Math.ceil(inside.length / count));
    return inside.filter((_, i) => i % every === 0);
  }
  const raw = (high - low) / count || 1;
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((times) => times * unit).find((one) => one >= raw * (1 - 1e-9));
  const found = [];
  for (let tick = Math.ceil(low / step - 1e-9) * step; tick <= high + step * 1e-9; tick += step) found.push(Number(tick.toPrecision(12)));
  return found;
}

/** Sizes as an axis has them: powers of two. */
export function sizeTicks(low, high, count) {
  const found = [];
  for (let size = 2 ** Math.ceil(Math.log2(low)); size <= high; size *= 2) found.push(size);
  const every = Math.max(1, Math.ceil(found.length / count));
  return found.filter((_, i) => i % every === 0);
}

function scale(low, high, from, to, log) {
  const place = log ? Math.log : (value) => value;
  const start = place(low), length = place(high) - start || 1;
  return (value) => from + ((place(value) - start) / length) * (to - from);
}

/** Labels at the right, moved apart until none covers another. */
function apart(labels, top, bottom) {
  const gap = 15;
  const sorted = [...labels].sort((a, b) => a.y - b.y);
  sorted.forEach((label, i) => { if (i) label.y = Math.max(label.y, sorted[i - 1].y + gap); });
  if (sorted.length && sorted.at(-1).y > bottom) sorted.at(-1).y = bottom;
  for (let i = sorted.length - 2; i >= 0; i--) sorted[i].y = Math.min(sorted[i].y, sorted[i + 1].y - gap);
  return sorted.map((label) => ({ ...label, y: Math.max(label.y, top) }));
}

/**
 * Curves with axes. The spec: {label, series: [{name, number, x, y, ring?}], x: {title, log, format, ticks?, low?,
 * high?}, y: {title, log, format}, cursor?: {x, text}, circles?: [{x, y, text}], tabled?: x values of the table}. It
 * returns {draw(spec)}; the container is redrawn when its width changes. Arrow keys move over the points. The table goes
 * into `below`.
 */
export function curves(container, below = container) {
  const picture = h("div", { class: "picture" });
  const readout = h("p", { class: "aside readout", "aria-live": "polite" });
  const details = h("details", { class: "tabled" }, h("summary", {}, "As a table"));
  // One element for good, so that it keeps the focus while what it shows changes.
  const svg = s("svg", { role: "img", tabindex: 0, "aria-label": "Nothing is drawn yet" });
  svg.addEventListener("keydown", move);
  svg.addEventListener("pointermove", point);
  svg.addEventListener("blur", () => { chosen = null; draw(); announce(readout, ""); });
  picture.append(svg);
  container.append(picture, readout);
  below.append(details);
  let spec = null, chosen = null, width = 0, frame = null;

  const visible = () => spec.series.filter((series) => series.x.length);
  function draw(next = spec) {
    spec = next;
    width = picture.clientWidth || width;
    if (!spec || !width) return;
    frame = drawCurves(svg, spec, width, chosen);
    if (details.open) fillTable();
  }
  function fillTable() {
    const rows = tableOf(spec);
    fill(details, details.firstChild, table(spec.label, [{ title: spec.x.title, number: true }, ...visible().map((one) => ({ title: one.name, number: true }))], rows));
  }
  details.addEventListener("toggle", () => { if (details.open && spec) fillTable(); });

  function show() {
    const series = visible()[chosen.series];
    if (!series) return;
    chosen.index = Math.min(Math.max(chosen.index, 0), series.x.length - 1);
    draw();
    announce(readout, `${series.name}: ${spec.x.short ?? spec.x.title} ${spec.x.format(series.x[chosen.index])}, ${spec.y.format(series.y[chosen.index])}`);
  }
  function move(event) {
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (event.key === "Escape") { chosen = null; draw(); announce(readout, ""); }
    if (!steps || !visible().length) return;
    event.preventDefault();
    if (!chosen) chosen = { series: 0, index: steps[1] < 0 ? Infinity : 0 };
    else {
      const count = visible().length, old = visible()[chosen.series];
      const at = old?.x[chosen.index];
      chosen.series = (chosen.series + steps[0] + count) % count;
      if (steps[0]) chosen.index = nearest(visible()[chosen.series].x, at);
      chosen.index += steps[1];
    }
    show();
  }
  function point(event) {
    if (event.pointerType === "touch") return;
    const { left, top } = svg.getBoundingClientRect();
    let best = null;
    visible().forEach((series, i) => {
      const index = nearest(series.x.map((x) => frame.x(x)), event.clientX - left);
      const far = Math.hypot(frame.x(series.x[index]) - (event.clientX - left), frame.y(series.y[index]) - (event.clientY - top));
      if (!best || far < best.far) best = { far, series: i, index };
    });
    if (best && best.far < 60 && (best.series !== chosen?.series || best.index !== chosen?.index)) { chosen = best; show(); }
  }
  new ResizeObserver(() => { if (picture.clientWidth !== width) draw(); }).observe(picture);
  return { draw };
}

const nearest = (values, at) => values.reduce((best, value, i) => (Math.abs(value - at) < Math.abs(values[best] - at) ? i : best), 0);

function tableOf(spec) {
  const series = spec.series.filter((one) => one.x.length);
  const xs = spec.tabled ?? [...new Set(series.flatMap((one) => one.x))].sort((a, b) => a - b);
  return xs.map((x) => [spec.x.format(x), ...series.map((one) => { const i = one.x.indexOf(x); return i < 0 ? null : spec.y.format(one.y[i]); })]);
}

/** Draw into an SVG element; returns its scales {x, y}. */
function drawCurves(svg, spec, width, chosen) {
  const narrow = width < 480;
  const height = Math.round(spec.height ?? (narrow ? Math.max(190, width * 0.62) : Math.min(380, width * 0.44)));
  const series = spec.series.filter((one) => one.x.length);
  const names = Math.max(0, ...series.map((one) => one.name.length));
  const left = 56, right = width - Math.min(names * 7.4 + 14, narrow ? 86 : 150), top = 14, bottom = height - 44;
  const xs = series.flatMap((one) => one.x), ys = series.flatMap((one) => one.y).filter(Number.isFinite);
  let [low, high] = [Math.min(...ys), Math.max(...ys)];
  if (!ys.length) [low, high] = [1, 10];
  if (spec.y.log) {
    if (high / low < 1.2) [low, high] = [low / 1.2, high * 1.2];
    else [low, high] = high / low > 20 ? [10 ** Math.floor(Math.log10(low) + 1e-9), 10 ** Math.ceil(Math.log10(high) - 1e-9)] : [low / 1.04, high * 1.04];
  } else if (low === high) { const around = Math.abs(low) / 10; [low, high] = [low - around, high + (around || 1)]; }
  const xLow = spec.x.low ?? Math.min(...xs), xHigh = spec.x.high ?? Math.max(...xs);
  const x = scale(xLow, xHigh === xLow ? xLow + 1 : xHigh, left, right, spec.x.log);
  const y = scale(low, high, bottom, top, spec.y.log);
  for (const [name, value] of Object.entries({ viewBox: `0 0 ${width} ${height}`, width, height, "aria-label": spec.label })) svg.setAttribute(name, value);
  svg.replaceChildren();
  const add = (...nodes) => svg.append(...nodes);
  for (const tick of ticks(low, high, spec.y.log, narrow ? 5 : 7)) {
    add(s("path", { class: "grid", d: `M${left} ${round(y(tick))}H${right}` }), s("text", { class: "faint", x: left - 8, y: round(y(tick)) + 4, "text-anchor": "end" }, spec.y.tick?.(tick) ?? spec.y.format(tick)));
  }
  const places = spec.x.ticks ? spec.x.ticks(xLow, xHigh, narrow ? 4 : 7) : ticks(xLow, xHigh, spec.x.log, narrow ? 4 : 8);
  for (const tick of places) {
    add(s("path", { class: "axis", d: `M${round(x(tick))} ${bottom}v4` }), s("text", { class: "faint", x: round(x(tick)), y: bottom + 18, "text-anchor": "middle" }, spec.x.tick?.(tick) ?? spec.x.format(tick)));
  }
  add(s("path", { class: "axis", d: `M${left} ${bottom}H${right}` }), s("text", { class: "faint", x: (left + right) / 2, y: bottom + 38, "text-anchor": "middle" }, spec.x.title));
  if (spec.cursor && spec.cursor.x >= xLow && spec.cursor.x <= xHigh) {
    const at = round(x(spec.cursor.x)), end = at > (left + right) / 2;
    add(s("path", { class: "cursor", d: `M${at} ${top - 4}V${bottom}` }), s("text", { class: "told", x: at + (end ? -6 : 6), y: top + 4, "text-anchor": end ? "end" : "start" }, spec.cursor.text));
  }
  for (const one of series) {
    const d = one.x.map((value, i) => (Number.isFinite(one.y[i]) ? `${i && Number.isFinite(one.y[i - 1]) ? "L" : "M"}${round(x(value))} ${round(y(one.y[i]))}` : "")).join("");
    add(s("path", { class: `curve c${colour(one.number)}`, d }));
    if (one.x.length === 1) add(s("circle", { class: `dot c${colour(one.number)}`, cx: round(x(one.x[0])), cy: round(y(one.y[0])), r: 3 }));
    if (one.ring !== undefined && one.ring >= 0) add(s("circle", { class: `point c${colour(one.number)}`, cx: round(x(one.x[one.ring])), cy: round(y(one.y[one.ring])), r: 4 }));
  }
  const ends = series.filter((one) => Number.isFinite(one.y.at(-1))).map((one) => ({ name: one.name, number: one.number, x: Math.min(x(one.x.at(-1)), right) + 9, y: y(one.y.at(-1)) + 4 }));
  const room = narrow ? 11 : 20;
  for (const label of apart(ends, top, bottom)) {
    const text = label.name.length > room ? `${label.name.slice(0, room - 1)}…` : label.name;
    add(s("text", { class: `name c${colour(label.number)}`, x: round(label.x), y: round(label.y) }, text));
  }
  for (const circle of spec.circles ?? []) {
    if (circle.x < xLow || circle.x > xHigh) continue;
    const at = round(x(circle.x)), end = at > (left + right) / 3;
    add(s("circle", { class: "point", cx: at, cy: round(y(circle.y)), r: 5 }), s("text", { class: "told", x: at + (end ? -9 : 9), y: round(y(circle.y)) + (end ? -6 : 16), "text-anchor": end ? "end" : "start" }, circle.text));
  }
  const marked = chosen && series[chosen.series];
  if (marked && marked.x[chosen.index] !== undefined) add(s("circle", { class: `dot c${colour(marked.number)}`, cx: round(x(marked.x[chosen.index])), cy: round(y(marked.y[chosen.index])), r: 5 }));
  return { x, y };
}
