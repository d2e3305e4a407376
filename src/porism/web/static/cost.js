// The cost room: what layers cost at the sizes of the sliders, exact, and from which size on another one costs less.

import { $, badge, command, copyButton, fill, h, reading, say } from "./dom.js";
import { changes, compareExact, digits, evaluate, leastAlong, leastCommon, lettersOf, toNumber } from "./formula.js";
import { formulaNode } from "./math.js";
import { multiplesOf, quantityAt } from "./quantity.js";
import { costHeadline, lastToCross, QUANTITIES, where, spans } from "./headline.js";
import { costCurves } from "./cost_curves.js";
import { curves } from "./plot.js";
import { sizeSlider } from "./sizes.js";
import { createStore } from "./store.js";
import { ask, isFile, progressText, run } from "./live.js";
import { measuring } from "./measuring.js";
import { leftOut, problem, showHeadline, startPage } from "./page.js";
import { capital, listed, short, times } from "./words.js";

const data = reading();
const costs = new Map(data.costs.map((cost) => [cost.target, cost]));
const LETTERS = data.letters;
const STANDARD = { of: ["attention", "window", "taylor"], show: "flops", over: "T" };
/** What is being derived or was refused, by target: {text, job, error}. */
const pending = new Map();
/** Counts made here, by target and sizes. */
const counted = new Map();

// The address

const split = (text) => (text ? text.split(",").filter(Boolean) : []);
/** "torch.nn:LSTM@T B D" is a module of one's own, with its inputs. */
const nameOf = (target) => target.split("@")[0];

function readAddress(parameters) {
  // A saved file has its state in itself, and no address that tells another.
  const first = isFile ? data.state : STANDARD, unread = isFile ? [...data.left_out] : [];
  const of = parameters.has("of") ? split(parameters.get("of")) : data.state.of;
  const picked = [...new Set(of)].filter((target) => {
    const fine = costs.has(target) || data.targets.includes(target) || target.includes(":");
    if (!fine) unread.push(`“${target}” is no layer or recipe, and is left out.`);
    return fine;
  });
  let show = parameters.get("show") ?? first.show;
  if (!Object.hasOwn(QUANTITIES, show)) { unread.push(`“${show}” is nothing that is counted: forward FLOPs are shown.`); show = STANDARD.show; }
  let over = parameters.get("over") ?? first.over;
  if (!Object.hasOwn(LETTERS, over)) { unread.push(`“${over}” is no letter: curves go over ${STANDARD.over}.`); over = STANDARD.over; }
  const at = { ...first.at };
  for (const part of split(parameters.get("at"))) {
    const [letter, size] = part.split(":");
    if (/^[A-Z]$/.test(letter) && /^[1-9]\d{0,29}$/.test(size ?? "")) at[letter] = size;
    else unread.push(`“${part}” is no size such as T:4096, and is left out.`);
  }
  leftOut(unread);
  return { of: picked, show, over, at };
}

const writeAddress = ({ of, show, over, at }) => ({
  of: of.join(","), show, over,
  at: lettersShown().map(({ letter }) => `${letter}:${sizesNow()[letter]}`).join(",") || Object.entries(at).map((pair) => pair.join(":")).join(","),
});

const store = createStore({ read: readAddress, write: (state) => writeAddress(state) });
const pickedCosts = () => store.state.of.map((target) => costs.get(target)).filter(Boolean);

/** The letters of what is picked, in the order of its inputs; of each its default and how it is called. */
function lettersShown() {
  const shownLetters = new Map();
  for (const cost of pickedCosts()) {
    for (const one of cost.letters) {
      const known = shownLetters.get(one.letter);
      shownLetters.set(one.letter, { ...one, default: known?.default ?? one.default ?? 64, multiple: leastCommon(known?.multiple ?? 1, one.multiple ?? 1) });
    }
  }
  return [...shownLetters.values()];
}
const sizesNow = () => Object.fromEntries(lettersShown().map(({ letter, default: usual }) => [letter, store.state.at[letter] ?? String(usual)]));
const letterOver = () => { const letters = lettersShown().map(({ letter }) => letter); return letters.includes(store.state.over) ? store.state.over : letters[0]; };

// Crossings, kept while the sizes they depend on stay

const found = { key: "", value: null };
function crossings(show, over, at) {
  const shownCosts = pickedCosts();
  const fixed = { ...at, [over]: 0 };
  const key = JSON.stringify([shownCosts.map(({ target }) => target), show, over, fixed]);
  if (found.key === key) return found.value;
  const trees = shownCosts.map((cost) => cost[show]?.tree ?? null);
  const steps = shownCosts.map((cost) => multiplesOf(cost)[over] ?? 1);
  const first = trees[0];
  const step = steps.reduce(leastCommon, 1);
  const holds = trees.every((tree) => tree !== null) && over;
  const orders = holds ? trees.slice(1).map((tree, i) => changes(tree, first, over, fixed, leastCommon(steps[0], steps[i + 1]))) : [];
  const least = holds && trees.length > 2 ? leastAlong(trees, over, fixed, step) : null;
  found.key = key;
  found.value = { orders, steps: steps.slice(1).map((one) => leastCommon(steps[0], one)), least, step };
  return found.value;
}

// Drawing

const controls = new Map();
let rows = [];
const plot = curves($("#plot"), $("#plot-table"));

function renderPicks() {
  fill($("#picks"), ...store.state.of.map((target, i) => {
    const waiting = pending.get(target);
    return h("li", {}, badge(i + 1), h("span", { class: "grow" }, nameOf(target),
      waiting?.job ? h("span", { class: "aside" }, ` deriving, ${progressText(waiting.job)}`) : null,
      waiting && !waiting.job && !waiting.error ? h("span", { class: "aside" }, " deriving") : null,
      waiting?.error ? problem(waiting.error) : null),
    waiting?.promise && !waiting.error ? h("button", { type: "button", class: "quiet", "data-key": `cancel-${target}`, onclick: () => waiting.promise.cancel() }, "Cancel") : null,
    h("button", { type: "button", class: "quiet", "data-key": `remove-${target}`, "aria-label": `Remove ${nameOf(target)}`, onclick: () => remove(target) }, "×"));
  }));
}

function renderChoices() {
  const { show } = store.state;
  renderPicks();
  const letters = lettersShown();
  const kinds = Object.keys(QUANTITIES).filter((kind) => pickedCosts().some((cost) => cost[kind]) || kind === show);
  fill($("#show"), ...kinds.map((kind) => h("option", { value: kind, selected: kind === show }, QUANTITIES[kind].title)));
  $("#show").value = show;
  fill($("#over"), ...letters.map(({ letter }) => h("option", { value: letter }, `over ${letter}`)));
  $("#over").value = letterOver() ?? "";
  const sizes = sizesNow();
  for (const [letter, one] of controls) if (!letters.some((shownLetter) => shownLetter.letter === letter && shownLetter.multiple === one.multiple)) { one.node.remove(); controls.delete(letter); }
  letters.forEach((one) => {
    if (!controls.has(one.letter)) controls.set(one.letter, sizeSlider({ ...one, name: one.name || LETTERS[one.letter] || "size" }, (size) => store.set({ at: { ...sizesNow(), [one.letter]: size } })));
    $("#sizes").append(controls.get(one.letter).node);
  });
  for (const { letter } of letters) controls.get(letter).set(sizes[letter]);
  renderTable();
  $(".more").hidden = !rows.length;
}

function renderTable() {
  const { show } = store.state;
  rows = pickedCosts().map((cost) => {
    const tree = cost[show]?.tree ?? null;
    const multiples = Object.entries(multiplesOf(cost)).map(([letter, multiple]) => `${letter} in multiples of ${multiple}`);
    const row = {
      cost,
      value: h("td", { class: "number" }), times: h("td", { class: "number" }), known: h("td", { class: "known" }), label: h("span"),
      recount: isFile ? null : h("button", { type: "button", class: "quiet", "data-key": `recount-${cost.target}` }, "recount"),
    };
    row.recount?.addEventListener("click", () => recount(row));
    row.known.append(row.label, row.recount ?? "");
    row.node = h("tr", {}, h("th", { scope: "row" }, badge(store.state.of.indexOf(cost.target) + 1), nameOf(cost.target)), row.value, row.times, row.known,
      h("td", {}, tree === null ? "no formula" : formulaNode(tree), multiples.length ? h("span", { class: "aside block" }, multiples.join(", ")) : null,
        cost.uncounted?.length ? h("span", { class: "aside block" }, `not counted: ${cost.uncounted.join(", ")}`) : null));
    return row;
  });
  say($("#counted"), QUANTITIES[show].title);
  fill($("#rows"), ...rows.map(({ node }) => node));
  const conventions = [...new Set(pickedCosts().map((cost) => cost.conventions).filter(Boolean))];
  say($("#conventions"), conventions.map(capital).join(" · "));
}

const keyOf = (target, at, letters) => JSON.stringify([target, letters.map(({ letter }) => at[letter])]);

function render() {
  const { show, of } = store.state;
  const letters = lettersShown(), at = sizesNow(), over = letterOver();
  const unit = QUANTITIES[show].unit;
  for (const { letter } of letters) controls.get(letter)?.set(at[letter]);
  const quantities = rows.map(({ cost }) => {
    const mine = Object.fromEntries(cost.letters.map(({ letter }) => [letter, at[letter]]));
    const count = counted.get(keyOf(cost.target, at, cost.letters))?.[show];
    const byFormula = quantityAt(cost, show, mine);
    if (count === undefined) return byFormula;
    const value = { n: BigInt(count), d: 1n };
    const same = byFormula.value !== null && compareExact(byFormula.value, value) === 0;
    return { value, label: "counted", why: same ? "counted here, and equal to the formula" : `counted here; the formula says ${digits(byFormula.value)}` };
  });
  const values = quantities.map(({ value }) => value);
  const known = values.filter((value) => value !== null);
  const least = known.length ? known.reduce((a, b) => (compareExact(b, a) < 0 ? b : a)) : null;
  rows.forEach((row, i) => {
    const { value, label, why } = quantities[i];
    say(row.value, value === null ? "–" : `${label === "lower bound" ? "at least " : ""}${digits(value)}`);
    say(row.times, value === null || least === null || least.n === 0n ? "–" : times(toNumber({ n: value.n * least.d, d: value.d * least.n })));
    if (!row.busy) say(row.label, label === "counted" || label === "unknown" ? why : label);
    row.label.title = why;
    if (row.recount) row.recount.hidden = row.busy || label === "counted";
  });
  const { orders, steps, least: leastSpans, step } = crossings(show, over, at);
  const names = rows.map(({ cost }) => nameOf(cost.target));
  const unclear = quantities.flatMap(({ label, why }, i) => {
    const tree = rows[i].cost[show]?.tree ?? null;
    if (tree === null || label === "range" || label === "lower bound") return [{ name: names[i], why: label === "lower bound" ? "a lower bound" : label === "range" ? "a range" : `unknown (${why})` }];
    return [];
  });
  const facts = { names, show, letter: over, size: at[over], value: values[0] ? short(values[0], unit) : `no number (${quantities[0]?.why})`, depends: rows[0] ? lettersOf(rows[0].cost[show]?.tree ?? 0).has(over) : false, unclear, orders, steps, least: leastSpans, step };
  const headline = costHeadline(facts);
  showHeadline(headline, `Cost of ${of.map(nameOf).join(", ") || "a layer"}`);
  summary(facts, values, unit, at, over);
  draw(facts, at, over, headline);
  terminal(facts, at, over);
  const save = $("#save");
  if (save) save.href = `/api/cost/file${new URL(store.address).search}`;
}

function summary({ names, orders, steps, letter }, values, unit, at, over) {
  const parts = [], { noun, takes } = QUANTITIES[store.state.show];
  const told = names.length === 3 ? lastToCross(orders) : names.length === 2 && orders[0]?.length > 1 ? 0 : -1;
  if (told !== -1) {
    // A crossing is known as well as the numbers that cross.
    const crossed = { ...at, [over]: String(orders[told].at(-1)[0]) };
    const doubt = [rows[0], rows[told + 1]].map(({ cost }) => quantityAt(cost, store.state.show, crossed)).find(({ label }) => label !== "by formula");
    parts.push(doubt ? `${over} = ${digits(crossed[over])} is ${doubt.label}: ${doubt.why}. ` : "");
    orders.forEach((order, i) => {
      if (i === told || !order) return;
      const less = spans(order, (sign) => sign < 0, steps[i]);
      const held = steps[i] > 1 ? ` (its formula holds for multiples of ${steps[i]})` : "";
      parts.push(less.length && less.length < 3 ? `${names[i + 1]} ${takes} fewer ${where(less, letter, order[0][0])}${held}. ` : less.length ? "" : `${names[i + 1]} never ${takes} fewer. `);
    });
  }
  const at1 = over ? `At ${over} = ${digits(at[over])}` : "Here";
  const numbers = names.map((name, i) => (values[i] ? `${short(values[i], unit)} with ${name}` : null)).filter(Boolean);
  if (numbers.length > 1) parts.push(`${at1} it is ${listed(numbers)}${noun === "FLOPs" ? " for a forward pass" : ""}. `);
  else if (numbers.length === 1 && over) {
    const doubled = toNumber(evaluate(rows[0].cost[store.state.show].tree, { ...at, [over]: 2n * BigInt(at[over]) })) / toNumber(values[0]);
    if (Number.isFinite(doubled)) parts.push(doubled === 1 ? `${over} makes no difference. ` : `Twice the ${LETTERS[over] ?? over} makes it ${doubled.toFixed(2)} times as much. `);
  }
  if (!isFile && names.length && store.state.show.includes("flops")) parts.push("FLOPs are not seconds: ", h("a", { href: "#measure" }, "measure it on this machine"), ". ");
  const cheap = rows.map(({ cost }) => cost.target).find((target) => ["taylor", "window", "hybrid"].includes(target));
  if (!isFile && cheap) parts.push(h("a", { href: `/patterns?method=${cheap}` }, "What is lost?"));
  const key = parts.map((part) => part.textContent ?? part).join("");
  if ($("#summary").textContent !== key) fill($("#summary"), ...parts);
}

function draw({ names, orders, show }, at, over, headline) {
  $("#figure").hidden = !rows.length || !over;
  if (!rows.length || !over) return;
  const layers = rows.map(({ cost }, i) => ({ name: names[i], number: store.state.of.indexOf(cost.target) + 1, cost }));
  const picture = costCurves({ layers, show, over, title: LETTERS[over] ?? "size", at, orders, headline });
  say($("#caption"), picture.caption);
  plot.draw(picture);
}

function terminal({ names, orders }, at, over) {
  if (!names.length) { fill($("#terminal")); return; }
  const sizes = (costsShown, without) => [...new Set(costsShown.flatMap((cost) => cost.letters.map(({ letter }) => letter)))].filter((letter) => letter !== without).map((letter) => `${letter}=${at[letter]}`).join(",");
  const written = (cost) => { const [name, inputs] = cost.target.split("@"); return name + (inputs ? inputs.split(";").map((input) => ` --input "${input}"`).join("") : ""); };
  const told = names.length > 1 ? Math.max(0, lastToCross(orders.map((order) => order ?? []).map((order) => (order.length ? order : [[1, 0]])))) : -1;
  const pair = told >= 0 && !rows.some(({ cost }) => cost.target.includes("@")) ? [rows[told + 1].cost, rows[0].cost] : null;
  const text = pair ? `porism cost ${written(pair[0])} --against ${written(pair[1])} --along ${over} --at ${sizes(pair, over)}` : rows.map(({ cost }) => `porism cost ${written(cost)} --at ${sizes([cost])}`).join("\n");
  if ($("#terminal code")?.textContent !== text) fill($("#terminal"), command(text));
}

// What is asked of the server

/** What the server is asked of a cost at sizes. */
const requestAt = (cost, at) => ({ target: nameOf(cost.target), inputs: inputsOf(cost.target), at: Object.fromEntries(cost.letters.map(({ letter }) => [letter, at[letter]])) });

async function recount(row) {
  const at = sizesNow(), { cost } = row;
  row.busy = true;
  row.recount.hidden = true;
  try {
    const { values, known } = await run("/api/cost/recount", requestAt(cost, at), (job) => say(row.label, `counting, ${progressText(job)}`));
    counted.set(keyOf(cost.target, at, cost.letters), Object.fromEntries(Object.entries(values).filter(([, count]) => count !== null)));
    const { show } = store.state;
    fill(row.known, row.label, row.recount, values[show] === null ? problem(new Error(`Not counted there: ${known[show].why}.`)) : null);
  } catch (error) { fill(row.known, row.label, row.recount, problem(error)); }
  row.busy = false;
  render();
}

const inputsOf = (target) => (target.includes("@") ? target.split("@")[1].split(";") : []);

/** What to measure: the layers that are shown, at the sizes of the sliders. */
function measured() {
  const at = sizesNow();
  const layers = rows.map(({ cost }) => ({ name: nameOf(cost.target), body: requestAt(cost, at) }));
  return { at: lettersShown().map(({ letter }) => `${letter} = ${digits(at[letter])}`).join(", "), layers };
}

function remove(target) {
  pending.get(target)?.promise?.cancel();
  pending.delete(target);
  store.choose({ of: store.state.of.filter((one) => one !== target) });
  $("#add")?.focus();
}

/** Bring the costs of what is picked: from the catalogue, or derived by the server where it is a module. */
async function bring() {
  const missing = store.state.of.filter((target) => !costs.has(target) && !pending.has(target));
  for (const target of missing.filter((one) => one.includes(":"))) derive(target);
  const named = missing.filter((one) => !one.includes(":"));
  if (!named.length || isFile) return;
  named.forEach((target) => pending.set(target, {}));
  renderPicks();
  try {
    const answer = await ask(`/api/catalogue?of=${named.map(encodeURIComponent).join(",")}`);
    for (const cost of answer.costs) costs.set(cost.target, cost);
    named.forEach((target) => (costs.has(target) ? pending.delete(target) : pending.set(target, { error: new Error(`${target} is not in the catalogue.`) })));
  } catch (error) { named.forEach((target) => pending.set(target, { error })); }
  changed();
}

async function derive(target) {
  const waiting = {};
  pending.set(target, waiting);
  waiting.promise = run("/api/cost", { target: nameOf(target), inputs: inputsOf(target), with: "", multiples: {} }, (job) => { waiting.job = job; renderPicks(); });
  renderPicks();
  try {
    const cost = await waiting.promise;
    costs.set(target, { ...cost, target });
    pending.delete(target);
  } catch (error) { Object.assign(waiting, { error, job: null }); }
  changed();
}

function addPicked(event) {
  event.preventDefault();
  const box = $("#add"), inputs = $("#inputs").value.trim();
  const name = box.value.trim();
  if (!name) return;
  const target = name.includes(":") && inputs ? `${name}@${inputs.replaceAll(",", " ")}` : name;
  const note = $("#add-note");
  const isKnown = name.includes(":") || data.targets.includes(name) || costs.has(name);
  fill(note, isKnown ? null : problem({ message: `“${name}” is no layer or recipe.`, hint: "A module of your own is package.module:Name." }));
  if (!isKnown || store.state.of.includes(target)) return;
  if (name.includes(":") && !inputs) { $("#inputs-row").hidden = false; $("#inputs").focus(); return; }
  box.value = "";
  $("#inputs-row").hidden = true;
  store.choose({ of: [...store.state.of, target] });
}

function changed() {
  renderChoices();
  render();
}

let choices = "";
store.subscribe((state) => {
  const now = JSON.stringify([state.of, state.show, state.over]);
  if (now !== choices) { choices = now; renderChoices(); bring(); }
  render();
});

choices = JSON.stringify([store.state.of, store.state.show, store.state.over]);
$("#show").addEventListener("change", (event) => store.choose({ show: event.target.value }));
$("#over").addEventListener("change", (event) => store.choose({ over: event.target.value }));
$("#adding")?.addEventListener("submit", addPicked);
$("#add")?.addEventListener("input", (event) => { $("#inputs-row").hidden = !event.target.value.includes(":"); });
$("#targets")?.append(...[...data.targets, ...data.allowed].map((target) => h("option", { value: target })));
if (!isFile) {
  $("#measure").addEventListener("click", measuring($("#measure"), $("#measured"), measured));
  $("#save").addEventListener("click", async (event) => {
    const shown = pickedCosts(), of = shown.map(({ target }) => target);
    if (!of.some((target) => target.includes(":"))) return;
    event.preventDefault();
    const left_out = store.state.of.filter((target) => !costs.has(target)).map((target) => `${nameOf(target)} is left out: it was not derived.`);
    try {
      const { save } = await import("./saving.js");
      await save($("#save").href, { ...data, allowed: [], costs: shown, state: { ...store.state, of, at: sizesNow() }, left_out });
    } catch { fill($("#measured"), problem({ message: "The server does not answer.", hint: "Is porism serve still running?" })); }
  });
}
$("#buttons").prepend(...(isFile ? [] : [copyButton("Copy link", () => store.address)]));
startPage();
renderChoices();
render();
bring();
