// A formula's tree as MathML, in the order people write it: numbers, letters, powers, sums in parentheses.

import { m } from "./dom.js";
import { NUMBER } from "./formula.js";

const RELATIONS = { "<": "<", "<=": "≤", ">": ">", ">=": "≥", "==": "=", "!=": "≠" };
const isNumber = (tree) => typeof tree === "number" || (typeof tree === "string" && NUMBER.test(tree));
const sign = (text) => m("mo", {}, text);
const parenthesis = (text) => m("mo", { stretchy: "false" }, text);
const row = (...nodes) => m("mrow", {}, ...nodes);

function degree(tree) {
  if (isNumber(tree)) return 0;
  if (!Array.isArray(tree)) return 1;
  const [operator, ...parts] = tree;
  if (operator === "*") return parts.reduce((sum, part) => sum + degree(part), 0);
  if (operator === "^") return degree(parts[0]) * Number(parts[1]);
  return Math.max(0, ...parts.map(degree));
}
/** By degree, then as in a dictionary; a sum's highest powers first. */
const byDegree = (a, b) => degree(b) - degree(a) || JSON.stringify(a).localeCompare(JSON.stringify(b));
const rank = (part) => (isNumber(part) ? 0 : part[0] === "+" || part[0] === "^" && part[1]?.[0] === "+" ? 2 : 1);
const base = (part) => (Array.isArray(part) && part[0] === "^" ? String(part[1]) : String(part));

const isNegative = (tree) => isNumber(tree) ? String(tree).startsWith("-") : tree[0] === "*" && tree.slice(1).some((part) => isNumber(part) && isNegative(part));
function negated(tree) {
  if (isNumber(tree)) return String(tree).slice(1);
  const at = tree.findIndex((part, i) => i && isNumber(part) && isNegative(part));
  const rest = String(tree[at]) === "-1" ? tree.filter((_, i) => i !== at) : tree.map((part, i) => (i === at ? negated(part) : part));
  return rest.length === 2 ? rest[1] : rest;
}

function number(tree) {
  const [top, bottom] = String(tree).split("/");
  return bottom ? m("mfrac", {}, m("mn", {}, top), m("mn", {}, bottom)) : m("mn", {}, top.replace("-", "−"));
}

function product(parts) {
  const below = parts.filter((part) => part[0] === "^" && Number(part[2]) < 0);
  const above = parts.filter((part) => !below.includes(part)).sort((a, b) => rank(a) - rank(b) || base(a).localeCompare(base(b)));
  const nodes = (factors) => factors.flatMap((part) => (part[0] === "+" ? [parenthesis("("), node(part), parenthesis(")")] : [node(part)]));
  if (!below.length) return row(...nodes(above));
  const bottom = below.map(([, of, exponent]) => (Number(exponent) === -1 ? of : ["^", of, -Number(exponent)]));
  return m("mfrac", {}, above.length ? row(...nodes(above)) : m("mn", {}, "1"), bottom.length === 1 ? node(bottom[0]) : row(...nodes(bottom)));
}

const called = (name, parts) => row(m("mi", {}, name), parenthesis("("), ...parts.flatMap((part, i) => (i ? [sign(","), node(part)] : [node(part)])), parenthesis(")"));

function node(tree) {
  if (isNumber(tree)) return number(tree);
  if (typeof tree === "boolean") return m("mtext", {}, tree ? "always" : "never");
  if (typeof tree === "string") return m("mi", {}, tree);
  const [operator, ...parts] = tree;
  if (operator === "+") {
    const terms = [...parts].sort(byDegree).sort((a, b) => isNegative(a) - isNegative(b));
    return row(...terms.flatMap((term, i) => isNegative(term) ? [sign("−"), node(negated(term))] : i ? [sign("+"), node(term)] : [node(term)]));
  }
  if (operator === "*") return isNegative(tree) ? row(sign("−"), node(negated(tree))) : product(parts);
  if (operator === "/") return m("mfrac", {}, node(parts[0]), node(parts[1]));
  if (operator === "^") {
    if (Number(parts[1]) < 0) return product([tree]);
    const simple = typeof parts[0] === "string" && !isNumber(parts[0]);
    return m("msup", {}, simple ? node(parts[0]) : row(parenthesis("("), node(parts[0]), parenthesis(")")), node(parts[1]));
  }
  if (operator === "floor" || operator === "ceil") {
    const [open, close] = operator === "floor" ? "⌊⌋" : "⌈⌉";
    return row(m("mo", { stretchy: "false" }, open), node(parts[0]), m("mo", { stretchy: "false" }, close));
  }
  if (operator in RELATIONS) return row(node(parts[0]), sign(RELATIONS[operator]), node(parts[1]));
  if (operator === "and" || operator === "or") return row(...parts.flatMap((part, i) => (i ? [m("mtext", {}, ` ${operator} `), node(part)] : [node(part)])));
  if (operator === "not") return row(m("mtext", {}, "not "), node(parts[0]));
  if (operator === "if") {
    const lines = [];
    for (let i = 0; i < parts.length; i += 2) {
      const last = i + 1 === parts.length;
      lines.push(m("mtr", {}, m("mtd", {}, node(parts[last ? i : i + 1]), m("mspace", { width: "1em" }), m("mtext", {}, last ? "otherwise" : "where\u00a0"), last ? null : node(parts[i]))));
    }
    return m("mtable", { class: "cases" }, ...lines);
  }
  return called(operator, parts);
}

/** <math> of a tree. */
export const formulaNode = (tree) => m("math", {}, node(tree));
