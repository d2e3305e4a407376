// Numbers and lists as sentences have them.

/** 4096 as "4,096"; takes whole numbers, BigInt and digits. */
export const grouped = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, ",");
/** "a, b and c". */
export const listed = (names) => (names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`);
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
/** "1 run", "2 runs". */
export const several = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
/** A measured number in four digits; "–" where there is none. */
export const fourDigits = (number) => (number === null || number === undefined ? "–" : Math.abs(number) >= 1000 ? grouped(Math.round(number)) : String(Number(number.toPrecision(4))));

/** How many times as much: "3.91", "3.12e+26". */
export const times = (ratio) => (ratio < 1e6 ? ratio.toFixed(2) : ratio.toExponential(2));

const PREFIXES = ["", "k", "M", "G", "T", "P", "E", "Z", "Y"];
/** Three digits and a prefix: 26864648192 with "FLOP" as "26.9 GFLOP". */
export function short(value, unit = "") {
  let number = typeof value === "object" && value !== null ? Number(value.n) / Number(value.d) : Number(value);
  let step = 0;
  while (Math.abs(number) >= 999.5 && step < PREFIXES.length - 1) { number /= 1000; step++; }
  const text = Math.abs(number) >= 99.95 || (step === 0 && Number.isInteger(number)) ? number.toFixed(0) : number.toPrecision(3);
  const plain = Math.abs(number) >= 1e4 ? number.toExponential(2) : text;
  return `${plain} ${PREFIXES[step]}${unit}`.trim();
}
