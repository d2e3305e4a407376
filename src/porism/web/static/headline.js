// The cost room's headline, as pure functions of what is shown. The table of cases is in tests/web.

import { capital, grouped, listed } from "./words.js";

/** What is counted, and how a sentence says it. */
export const QUANTITIES = {
  flops: { title: "Forward FLOPs", noun: "FLOPs", takes: "takes", take: "take", unit: "FLOP" },
  backward_flops: { title: "Backward FLOPs", noun: "backward FLOPs", takes: "takes", take: "take", unit: "FLOP" },
  parameters: { title: "Parameters", noun: "parameters", takes: "has", take: "have", unit: "" },
  activation_bytes: { title: "Bytes kept for backward", noun: "bytes kept for backward", takes: "has", take: "have", unit: "B" },
  memory: { title: "Memory of training", noun: "bytes in training", takes: "takes", take: "take", unit: "B" },
};


/** Where a list of changes has a value: [[from, to or null], …]. */
export function spans(changed, holds, step = 1) {
  return changed.flatMap(([from, value], i) => holds(value) ? [[from, i + 1 < changed.length ? changed[i + 1][0] - step : null]] : [])
    .reduce((joined, span) => {
      if (joined.length && joined.at(-1)[1] !== null && joined.at(-1)[1] + step === span[0]) joined.at(-1)[1] = span[1];
      else joined.push([...span]);
      return joined;
    }, []);
}

/** "from T = 288 on", "up to T = 31", "at every T", "from T = 3 to 7 and at T = 9". */
export function where(found, letter, first = 1) {
  const one = ([from, to]) => {
    if (to === null) return from <= first ? `at every ${letter}` : `from ${letter} = ${grouped(from)} on`;
    if (from <= first) return from === to ? `at ${letter} = ${grouped(to)}` : `up to ${letter} = ${grouped(to)}`;
    return from === to ? `at ${letter} = ${grouped(from)}` : `from ${letter} = ${grouped(from)} to ${grouped(to)}`;
  };
  return listed(found.map(one));
}

/** One against another along a letter; `changed` has the sign of `name` minus `other`. */
export function pairSentence(name, other, changed, show, letter, step = 1) {
  const { noun, takes, take } = QUANTITIES[show];
  const end = changed.at(-1)[1], first = changed[0][0];
  if (changed.every(([, order]) => order === 0)) return `${other} and ${name} ${take} equally many ${noun} at every ${letter}`;
  if (end === 0) {
    const before = changed.at(-2)[1];
    const [less, more] = before < 0 ? [name, other] : [other, name];
    const found = spans(changed, (order) => order === before, step);
    return `${less} ${takes} fewer ${noun} than ${more} ${where(found.slice(-1), letter, first)}, and as many from ${letter} = ${grouped(changed.at(-1)[0])} on`;
  }
  const [less, more] = end < 0 ? [name, other] : [other, name];
  const found = spans(changed, (order) => order === end, step);
  if (found.length > 2) {
    const turns = changed.length - 1;
    return `${other} and ${name} change places ${turns} times; from ${letter} = ${grouped(found.at(-1)[0])} on ${less} ${takes} fewer ${noun}`;
  }
  return `${less} ${takes} fewer ${noun} than ${more} ${where(found, letter, first)}`;
}

/** Which of several is least, around the size that is set; `least` as from formula.js, leastAlong. */
export function leastSentence(names, least, show, letter, size, step = 1) {
  const { noun, takes, take } = QUANTITIES[show];
  if (least.length === 1 && least[0][1].length === names.length) return `All ${names.length} ${take} equally many ${noun} at every ${letter}`;
  const now = least.findLast(([from]) => from <= size) ?? least[0];
  const found = spans(least, (who) => who.join() === now[1].join(), step).filter(([from, to]) => from <= size && (to === null || to + step > size));
  const who = now[1].map((i) => names[i]);
  const verb = who.length === 1 ? takes : take;
  return capital(`of ${names.length}, ${listed(who)} ${verb} the fewest ${noun} ${where(found.length ? found : spans(least, (w) => w.join() === now[1].join(), step).slice(0, 1), letter, least[0][0])}`);
}

/**
 * The cost room's headline.
 *
 * names: what is picked. show: what is counted. letter, size: what is drawn over, and where it stands. value: the first
 * one's number in short, depends: whether it changes with the letter. unclear: [{name, why}], whose number is a bound, a
 * range or unknown. orders: of each after the first, its order against the first (formula.js, changes), steps: of each,
 * how far apart sizes lie where both hold. least: which are least.
 */
export function costHeadline({ names, show, letter, size, value, depends = true, unclear = [], orders = [], steps = [], least = null, step = 1 }) {
  const { noun, takes } = QUANTITIES[show];
  if (!names.length) return "Pick a layer to see what it costs";
  if (unclear.length) {
    const [{ name, why }] = unclear;
    return names.length === 1 ? `The ${noun} of ${name}: ${why}` : `No clear answer: the ${noun} of ${name} are ${why}`;
  }
  const unit = show === "parameters" ? " parameters" : show === "activation_bytes" ? " kept for backward" : show === "memory" ? " in training" : "";
  if (names.length === 1) return `${names[0]} ${takes} ${value}${unit}${depends ? ` at ${letter} = ${grouped(size)}` : ` at every ${letter}`}`;
  if (orders.some((order) => !order) || (names.length > 3 && !least)) return `No clear answer: not all formulas hold over ${letter}`;
  if (names.length === 2) return pairSentence(names[1], names[0], orders[0], show, letter, steps[0]);
  if (names.length === 3) {
    const told = lastToCross(orders);
    if (told !== -1) return pairSentence(names[told + 1], names[0], orders[told], show, letter, steps[told]);
  }
  return least ? leastSentence(names, least, show, letter, size, step) : `No clear answer: not all formulas hold over ${letter}`;
}

/** Of those that end below the first, the one that gets there last; -1 where none crosses it. */
export function lastToCross(orders) {
  let told = -1, from = 0;
  orders.forEach((order, i) => {
    if (order.length > 1 && order.at(-1)[1] < 0 && order.at(-1)[0] > from) [told, from] = [i, order.at(-1)[0]];
  });
  return told;
}
