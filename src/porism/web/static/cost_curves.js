// The picture of the cost room: a curve for each layer over one letter, with the sizes at which their order changes.

import { approximate, digits } from "./formula.js";
import { QUANTITIES } from "./headline.js";
import { sizeTicks } from "./plot.js";
import { multiplesOf } from "./quantity.js";
import { RANGES, SIZES } from "./sizes.js";
import { short } from "./words.js";

const POINTS = 200;
const binary = (size) => (size < 1024 ? String(size) : size < 2 ** 20 ? `${size / 1024} k` : size < 2 ** 30 ? `${size / 2 ** 20} M` : size < 2 ** 40 ? `${size / 2 ** 30} G` : size.toExponential(0));

/**
 * What plot.js draws, and its caption. layers: [{name, number, cost}], show: what is counted, over: the letter, called
 * `title`, at: sizes as text by letter, orders: those of all after the first against it, headline: for the picture's name.
 */
export function costCurves({ layers, show, over, title, at, orders, headline }) {
  const numbers = Object.fromEntries(Object.entries(at).map(([letter, size]) => [letter, Number(size)]));
  const now = numbers[over];
  const crossed = orders.flatMap((order) => (order ?? []).slice(1).filter(([, sign]) => sign !== 0).map(([size]) => size));
  let [low, high] = RANGES[over] ?? [1, 4096];
  for (const size of [now, ...crossed.filter((one) => one < 2 ** 24)]) {
    if (size > high) high = 2 ** Math.ceil(Math.log2(size * 1.5));
    if (size < low) low = 2 ** Math.floor(Math.log2(size));
  }
  const sizes = SIZES.filter((size) => size >= low && size <= high);
  const spaced = Array.from({ length: POINTS }, (_, i) => low * (high / low) ** (i / (POINTS - 1)));
  const series = layers.flatMap(({ name, number, cost }) => {
    const multiples = multiplesOf(cost), tree = cost[show]?.tree ?? null;
    const holds = Object.entries(multiples).every(([letter, multiple]) => letter === over || numbers[letter] % multiple === 0);
    if (tree === null || !holds) return [];
    const step = multiples[over] ?? 1, least = Math.max(low, cost[show].least?.[over] ?? 1), value = approximate(tree);
    const rounded = spaced.map((size) => Math.max(step, Math.round(size / step) * step));
    const x = [...new Set([...rounded, ...sizes.filter((size) => size % step === 0)])].filter((size) => size >= least && size <= high).sort((a, b) => a - b);
    return [{ name, number, x, y: x.map((size) => value({ ...numbers, [over]: size }) ?? NaN) }];
  });
  const reference = layers[0].cost[show]?.tree ?? null;
  const circles = reference === null ? [] : crossed.slice(0, 6).map((size) => ({ x: size, y: approximate(reference)({ ...numbers, [over]: size }), text: `${over} = ${digits(size)}` }));
  const { title: counted, unit } = QUANTITIES[show];
  return {
    caption: `${counted} over ${over}, both axes logarithmic.${circles.length ? ` Circles: where another one passes ${layers[0].name}.` : ""}`,
    label: `${counted} over ${over}, ${title}, from ${digits(low)} to ${digits(high)}. ${headline}.`,
    series, circles, tabled: sizes,
    x: { title: `${over}, ${title}`, short: over, log: true, low, high, format: digits, tick: binary, ticks: sizeTicks },
    y: { log: series.every(({ y }) => y.every((value) => value > 0 || Number.isNaN(value))), format: (value) => short(value, unit), tick: (value) => short(value).replace(/\.0+(?= |$)/, "") },
    cursor: { x: now, text: `${over} = ${digits(at[over])}` },
  };
}
