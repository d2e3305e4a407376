// Cost formulas: trees such as ["*", 4, "B", "T", ["+", "D", "T"]], evaluated exactly on rationals of BigInt and, for
// curves, on doubles. A string is a letter, or a number ("9007199254740993", "3/4") that a double cannot hold.

import { grouped } from "./words.js";

export const NUMBER = /^-?\d+(\/\d+)?$/;

const gcd = (a, b) => { while (b) [a, b] = [b, a % b]; return a < 0n ? -a : a; };
/** A fraction in lowest terms with a positive denominator; null for what is divided by zero. */
function ratio(n, d = 1n) {
  if (d === 1n) return { n, d };
  if (d === 0n) return null;
  const common = gcd(n, d) * (d < 0n ? -1n : 1n);
  return { n: n / common, d: d / common };
}
const floorDivide = (n, d) => n / d - (n % d !== 0n && n < 0n !== d < 0n ? 1n : 0n);
const add = (a, b) => ratio(a.n * b.d + b.n * a.d, a.d * b.d);
const multiply = (a, b) => ratio(a.n * b.n, a.d * b.d);
const divide = (a, b) => ratio(a.n * b.d, a.d * b.n);
const compare = (a, b) => { const left = a.n * b.d, right = b.n * a.d; return left < right ? -1 : left > right ? 1 : 0; };
const floor = (a) => ratio(floorDivide(a.n, a.d));
const negate = (a) => ({ n: -a.n, d: a.d });

function power(base, exponent) {
  if (exponent.d !== 1n) throw new Error(`formula: an exponent is a whole number, got ${exponent.n}/${exponent.d}`);
  const times = exponent.n < 0n ? -exponent.n : exponent.n;
  return exponent.n < 0n ? ratio(base.d ** times, base.n ** times) : ratio(base.n ** times, base.d ** times);
}

/** The same operators on both kinds of number. */
const EXACT = {
  number(text) { const [n, d] = String(text).split("/"); return ratio(BigInt(n), BigInt(d ?? 1)); },
  fold: { "+": add, "*": multiply, max: (a, b) => (compare(a, b) < 0 ? b : a), min: (a, b) => (compare(a, b) > 0 ? b : a) },
  "/": ([a, b]) => divide(a, b),
  "^": ([a, b]) => power(a, b),
  floor: ([a]) => floor(a),
  ceil: ([a]) => negate(floor(negate(a))),
  mod: ([a, b]) => { const times = divide(a, b); return times && add(a, negate(multiply(b, floor(times)))); },
  abs: ([a]) => (a.n < 0n ? negate(a) : a),
  compare,
};
const DOUBLE = {
  number(text) { const [n, d] = String(text).split("/").map(Number); return n / (d ?? 1); },
  fold: { "+": (a, b) => a + b, "*": (a, b) => a * b, max: Math.max, min: Math.min },
  "/": ([a, b]) => (b ? a / b : null),
  "^": ([a, b]) => (a || b >= 0 ? a ** b : null),
  floor: ([a]) => Math.floor(a),
  ceil: ([a]) => Math.ceil(a),
  mod: ([a, b]) => (b ? a - b * Math.floor(a / b) : null),
  abs: ([a]) => Math.abs(a),
  compare: (a, b) => a - b,
};
const COMPARED = {
  "<": (c) => c < 0, "<=": (c) => c <= 0, ">": (c) => c > 0, ">=": (c) => c >= 0, "==": (c) => c === 0, "!=": (c) => c !== 0,
};

/** A tree as a function of sizes by letter. It returns null where the formula has no value. */
function compile(tree, on) {
  if (typeof tree === "boolean") return () => tree;
  if (typeof tree === "number" || (typeof tree === "string" && NUMBER.test(tree))) {
    const value = on.number(tree);
    return () => value;
  }
  if (typeof tree === "string") {
    return (at) => { const size = at[tree]; if (size === undefined) throw new Error(`formula: no size for ${tree}`); return size; };
  }
  if (!Array.isArray(tree)) throw new Error(`formula: ${JSON.stringify(tree)} is no tree`);
  const [operator, ...branches] = tree;
  const parts = branches.map((branch) => compile(branch, on));
  if (operator === "if") {
    return (at) => {
      for (let i = 0; i + 1 < parts.length; i += 2) {
        const holds = parts[i](at);
        if (holds === null) return null;
        if (holds) return parts[i + 1](at);
      }
      return parts.length % 2 ? parts[parts.length - 1](at) : null;
    };
  }
  if (operator === "and" || operator === "or") {
    const ends = operator === "or";
    return (at) => {
      for (const part of parts) { const holds = part(at); if (holds === null || holds === ends) return holds; }
      return !ends;
    };
  }
  if (operator === "not") return (at) => { const holds = parts[0](at); return holds === null ? null : !holds; };
  if (Object.hasOwn(on.fold, operator)) {
    const two = on.fold[operator];
    return (at) => {
      let value = parts[0](at);
      for (let i = 1; i < parts.length && value !== null; i++) {
        const next = parts[i](at);
        value = next === null ? null : two(value, next);
      }
      return value;
    };
  }
  const test = Object.hasOwn(COMPARED, operator) && COMPARED[operator];
  if (!test && !(Object.hasOwn(on, operator) && !["number", "compare", "fold"].includes(operator))) {
    throw new Error(`formula: ${operator} is no operator`);
  }
  const apply = test ? ([a, b]) => test(on.compare(a, b)) : on[operator];
  return (at) => {
    const values = new Array(parts.length);
    for (let i = 0; i < parts.length; i++) if ((values[i] = parts[i](at)) === null) return null;
    return apply(values);
  };
}

const kept = { exact: new Map(), double: new Map() };
function compiled(tree, kind) {
  const key = Array.isArray(tree) ? tree : String(tree);
  if (!kept[kind].has(key)) kept[kind].set(key, compile(tree, kind === "exact" ? EXACT : DOUBLE));
  return kept[kind].get(key);
}

/** The exact value at sizes {T: 4096n, …} or {T: 4096}: {n, d} of BigInt, or null where the formula has none. */
export function evaluate(tree, at) {
  return compiled(tree, "exact")(Object.fromEntries(Object.entries(at).map(([letter, size]) => [letter, ratio(BigInt(size))])));
}

/** A function of {T: 4096, …} to a double, for curves. */
export const approximate = (tree) => compiled(tree, "double");

/** The letters in a tree. */
export function lettersOf(tree, found = new Set()) {
  if (Array.isArray(tree)) tree.slice(1).forEach((branch) => lettersOf(branch, found));
  else if (typeof tree === "string" && !NUMBER.test(tree)) found.add(tree);
  return found;
}

const EVERY = 512, PER_OCTAVE = 16, LARGEST = 2 ** 31;
const scanned = Array.from({ length: EVERY }, (_, i) => i + 1);
for (let i = 1; scanned.at(-1) < LARGEST; i++) scanned.push(Math.round(EVERY * 2 ** (i / PER_OCTAVE)));

/**
 * What a function of the sizes is, from which size on: [[size, value], …]. Only multiples of `step` are looked at: every
 * one of the first 512, then 16 an octave up to 2^31; between two that differ every change is found by bisection. Null
 * where the function is null.
 */
function scan(valueOf, step) {
  const found = [];
  let last = 0;
  for (const times of scanned) {
    const now = valueOf(times);
    if (now === null) return null;
    if (!found.length) found.push([times * step, now]);
    // Several changes may lie between two that are looked at: go on from each.
    while (now !== found.at(-1)[1]) {
      let low = last, high = times;
      while (high - low > 1) {
        const middle = Math.floor((low + high) / 2);
        if (valueOf(middle) === found.at(-1)[1]) low = middle; else high = middle;
      }
      const value = valueOf(high);
      if (value === null) return null;
      found.push([high * step, value]);
      last = high;
    }
    last = times;
  }
  return found;
}

/** The order of formulas i and j at so many steps of the letter: doubles decide where far apart, else exact numbers. */
function comparer(trees, letter, at, step) {
  const doubles = trees.map(approximate), exacts = trees.map((tree) => compiled(tree, "exact"));
  const sizes = Object.fromEntries(Object.entries(at).map(([name, size]) => [name, Number(size)]));
  const exact = Object.fromEntries(Object.entries(at).map(([name, size]) => [name, ratio(BigInt(size))]));
  return (i, j, times) => {
    sizes[letter] = times * step;
    const a = doubles[i](sizes), b = doubles[j](sizes);
    if (a === null || b === null) return null;
    if (Math.abs(a - b) > 1e-9 * Math.max(Math.abs(a), Math.abs(b))) return Math.sign(a - b);
    exact[letter] = ratio(BigInt(times) * BigInt(step));
    return compare(exacts[i](exact), exacts[j](exact));
  };
}

/** From which size of a letter on the first costs more (1), less (-1) or as much (0) as the second: [[size, sign], …]. */
export function changes(first, second, letter, at, step = 1) {
  if (JSON.stringify(first) === JSON.stringify(second)) return [[step, 0]];
  const order = comparer([first, second], letter, at, step);
  return scan((times) => order(0, 1, times), step);
}

/** From which size on which of the formulas cost least: [[size, [index, …]], …]. */
export function leastAlong(trees, letter, at, step = 1) {
  const order = comparer(trees, letter, at, step);
  const found = scan((times) => {
    let least = [0];
    for (let i = 1; i < trees.length; i++) {
      const sign = order(i, least[0], times);
      if (sign === null) return null;
      if (sign < 0) least = [i]; else if (sign === 0) least.push(i);
    }
    return least.join();
  }, step);
  return found && found.map(([size, key]) => [size, key.split(",").map(Number)]);
}

export const leastCommon = (a, b) => a * (b / Number(gcd(BigInt(a), BigInt(b))));

/** 42949672960n as "42,949,672,960"; a fraction as "1,234 1/2". */
export function digits(value) {
  if (value === null) return "unknown";
  const { n, d } = typeof value === "object" ? value : ratio(BigInt(value));
  const sign = n < 0n ? "−" : "", size = n < 0n ? -n : n;
  return sign + grouped(size / d) + (d === 1n ? "" : ` ${size % d}/${d}`);
}

export const toNumber = (value) => (value === null ? NaN : Number((value.n * 1000000n) / value.d) / 1e6);
export const compareExact = compare;
