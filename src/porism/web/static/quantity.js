// A number of a cost at given sizes, and how it is known: the labels of porism.cost, decided without a count.

import { evaluate } from "./formula.js";
import { grouped } from "./words.js";

/** The sizes that only count as multiples, by letter. */
export const multiplesOf = (cost) => Object.fromEntries(cost.letters.filter(({ multiple }) => multiple > 1).map(({ letter, multiple }) => [letter, multiple]));

/** {value: exact or null, label, why} of one kind of a cost at {T: "4096", …}. */
export function quantityAt(cost, kind, at) {
  const formula = cost[kind];
  if (!formula || formula.tree === null || formula.tree === undefined) return { value: null, label: formula?.label ?? "unknown", why: formula?.why || "no formula was found" };
  for (const [letter, multiple] of Object.entries(multiplesOf(cost))) {
    if (BigInt(at[letter]) % BigInt(multiple)) return { value: null, label: "unknown", why: `the formula holds for multiples of ${multiple} of ${letter}` };
  }
  for (const [letter, least] of Object.entries(formula.least ?? {})) {
    if (BigInt(at[letter] ?? least) < BigInt(least)) return { value: null, label: "unknown", why: `the formula holds from ${letter} = ${grouped(least)} on` };
  }
  const value = evaluate(formula.tree, at);
  const confirmed = cost.held_out?.[kind] ?? {};
  const doubts = Object.entries(confirmed).flatMap(([letter, [low, high]]) => {
    const size = BigInt(at[letter]);
    return size > BigInt(high) ? [`${letter} confirmed to ${grouped(high)}`] : size < BigInt(low) ? [`${letter} confirmed from ${grouped(low)}`] : [];
  });
  const why = [...doubts, formula.doubt].filter(Boolean).join(", ");
  if (value === null) return { value, label: "unknown", why: "the formula has no value at these sizes" };
  if (value.d !== 1n || value.n < 0n) return { value: null, label: "unknown", why: `the formula gives ${value.n}${value.d === 1n ? "" : `/${value.d}`} there, which is no count` };
  if ((formula.label ?? "by formula") !== "by formula") return { value, label: formula.label, why: [formula.why, why].filter(Boolean).join("; ") };
  return { value, label: why ? "extrapolated" : "by formula", why };
}
