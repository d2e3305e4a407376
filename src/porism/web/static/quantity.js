// A number of a cost at given sizes, and how it is known: the labels of porism.cost, decided without a count.

import { evaluate } from "./formula.js";

const shown = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, ",");

/** The sizes that only count as multiples, by letter. */
export const multiplesOf = (cost) => Object.fromEntries(cost.letters.filter(({ multiple }) => multiple > 1).map(({ letter, multiple }) => [letter, multiple]));

/** {value: exact or null, label, why} of one kind of a cost at {T: "4096", …}. */
export function quantityAt(cost, kind, at) {
  const formula = cost[kind];
  if (!formula || formula.tree === null || formula.tree === undefined) return { value: null, label: "unknown", why: formula?.why || "no formula was found" };
  for (const [letter, multiple] of Object.entries(multiplesOf(cost))) {
    if (BigInt(at[letter]) % BigInt(multiple)) return { value: null, label: "unknown", why: `the formula holds for multiples of ${multiple} of ${letter}` };
  }
  for (const [letter, least] of Object.entries(formula.least ?? {})) {
    if (BigInt(at[letter] ?? least) < BigInt(least)) return { value: null, label: "unknown", why: `the formula holds from ${letter} = ${shown(least)} on` };
  }
  const value = evaluate(formula.tree, at);
  if (value === null) return { value, label: "unknown", why: "the formula has no value at these sizes" };
  const label = formula.label ?? "by formula";
  if (label !== "by formula") return { value: label === "unknown" ? null : value, label, why: formula.why ?? "" };
  const confirmed = cost.held_out?.[kind] ?? cost.held_out ?? {};
  const beyond = Object.entries(confirmed).filter(([letter, range]) => Array.isArray(range) && at[letter] !== undefined && formula.tree !== at[letter] && (BigInt(at[letter]) < BigInt(range[0]) || BigInt(at[letter]) > BigInt(range[1])));
  if (!beyond.length) return { value, label, why: "inside the sizes that were held out and counted" };
  return { value, label: "extrapolated", why: beyond.map(([letter, [low, high]]) => `${letter} was confirmed from ${shown(low)} to ${shown(high)}, and is ${shown(at[letter])}`).join("; ") };
}
