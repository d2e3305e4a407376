// The headlines of the other rooms, as pure functions of what is shown.

import { listed, fourDigits, several } from "./words.js";

/** A share in per cent. The sign may not begin a line of its own. */
export const percent = (share) => `${share >= 0.0995 ? Math.round(share * 100) : Number((share * 100).toPrecision(2))}\u00a0%`;

/**
 * The models room's: where a run stands. points: [[epoch, value], …] of the metric on the split that decides; counts: the
 * epoch whose checkpoint counts.
 */
export function runHeadline({ name, state, metric, split, points, lower, epochs, counts, message }) {
  if (state === "damaged") return `${name} cannot be read: ${message}`;
  if (!points.length) return state === "running" ? `${name}: started, no epoch is done yet` : `${name}: stopped before its first epoch`;
  const [epoch, last] = points.at(-1);
  const start = `${name}: ${split} ${metric} ${fourDigits(last)} after ${epochs ? `${epoch} of ${several(epochs, "epoch")}` : several(epoch, "epoch")}`;
  if (state === "diverged") return `${start}, and diverged`;
  const best = points.find(([one]) => one === counts);
  if (best && counts !== epoch) return `${start}; its best checkpoint has ${fourDigits(best[1])}, of epoch ${counts}`;
  const values = points.map(([, value]) => value);
  if (points.length === 1 || last !== (lower ? Math.min(...values) : Math.max(...values))) return start;
  return state === "running" ? `${start}, still ${lower ? "falling" : "rising"}` : `${start}, its best was its last`;
}

/** The ledger's: how many statements of those that are there are so. */
export function ledgerHeadline({ total, shown, verdicts, topic, query }) {
  const of = topic ? ` on ${topic}` : "";
  const found = query ? ` with “${query.length > 40 ? `${query.slice(0, 39)}…` : query}”` : "";
  if (!shown) return `No statement${of}${found} is found with these filters`;
  if (!verdicts.length) return `${shown} of ${total} textbook statements${of}${found}`;
  const are = { wrong: "wrong", imprecise: "imprecise", holds: "right", "holds under assumptions": "right under assumptions", empirical: "empirical" };
  const what = listed(verdicts.map((verdict) => are[verdict])).replace(" and ", " or ");
  return `${shown} of ${total} textbook statements${of}${found} ${shown === 1 ? "is" : "are"} ${what}`;
}

/** The patterns room's: how far a method's answer is from softmax. */
export function patternHeadline({ method, K, W, error, orders = [], random }) {
  const names = { taylor: `The series of order ${K}`, sliding: `A window of ${W}`, block: `Blocks of ${W}`, hybrid: `A window of ${W} with the series of order ${K} beyond` };
  if (method === "softmax") return "Causal softmax is what the cheaper methods are held against";
  const are = method === "block" ? "are" : "is", verb = method === "block" ? "equal" : "equals";
  if (error === null || error === undefined) return `${names[method]} against softmax`;
  if (error < 1e-6) return `${names[method]} ${verb} softmax here`;
  const better = method === "taylor" ? orders.filter((one) => one.K > K && one.error < error / 3)[0] : null;
  return `${names[method]} ${are} ${percent(error)} off softmax ${random ? "on random queries and keys" : "here"}${better ? `; order ${better.K} would be ${percent(better.error)} off` : ""}`;
}
