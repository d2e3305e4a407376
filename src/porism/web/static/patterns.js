// The patterns room: who attends to whom on a sentence, by softmax and by cheaper methods, and how far those are off.

import { $, announce, fill, h, reading, s, say, table } from "./dom.js";
import { patternHeadline, percent } from "./room_headlines.js";
import { heat } from "./heat.js";
import { curves } from "./plot.js";
import { createStore } from "./store.js";
import { run } from "./live.js";
import { leftOut, problem, showHeadline, startPage } from "./page.js";
import { listed, several } from "./words.js";

const data = reading();
const runs = data.runs.map(({ id }) => id);
const METHODS = {
  softmax: { title: "Causal softmax" }, sliding: { title: "Sliding", W: true }, block: { title: "Blocks", W: true },
  taylor: { title: "Series", K: true }, hybrid: { title: "Hybrid", K: true, W: true },
};
const OF_COST = { sliding: "window", block: "window", taylor: "taylor", hybrid: "hybrid", softmax: "attention" };
const TEXT = "the value of an attribute is evaluated before the object is created";
const MOST = 64, ORDERS = [2, 4, 6, 8, 10, 12];
const RANGES = { layer: "a whole number from 1 to 99", head: "a whole number from 1 to 99", K: "an even number from 2 to 12", W: "a whole number from 1 to 64" };

function readAddress(parameters) {
  const unread = [];
  const whole = (name, usual, high, fits = () => true) => {
    const text = parameters.get(name);
    if (text === null) return usual;
    if (/^\d{1,3}$/.test(text) && Number(text) >= 1 && Number(text) <= high && fits(Number(text))) return Number(text);
    unread.push(`${name} = “${text}” is left out: ${RANGES[name]}.`);
    return usual;
  };
  let method = parameters.get("method") ?? "taylor";
  method = method === "window" ? "sliding" : method;
  if (!Object.hasOwn(METHODS, method)) { unread.push(`“${method}” is no method, and is left out.`); method = "taylor"; }
  let source = parameters.get("run") ?? (parameters.size ? "" : runs[0] ?? "");
  if (source && !runs.includes(source)) { unread.push(`There is no run “${source}” with attention.`); source = ""; }
  const sizes = { layer: whole("layer", 1, 99), head: whole("head", 1, 99), K: whole("K", 2, 12, (K) => K % 2 === 0), W: whole("W", 4, 64) };
  leftOut(unread);
  return { text: parameters.get("text") ?? TEXT, run: source, method, ...sizes };
}
const store = createStore({ read: readAddress, write: (state) => state });

/** What the server said of this sentence, source and method; what is being asked, and what went wrong. */
let answer = null, working = null, failed = null, chosen = null;

const words = () => store.state.text.split(/\s+/).filter(Boolean);
/** Whether a query attends to a key: known without a model. */
function attends(method, q, k, W) {
  if (k > q) return false;
  return method === "sliding" ? q - k < W : method === "block" ? Math.floor(q / W) === Math.floor(k / W) : true;
}
const mask = (method, n, W) => Array.from({ length: n }, (_, q) => Array.from({ length: n }, (_, k) => (attends(method, q, k, W) ? 1 : 0)));

function small(method, W) {
  const exact = [], near = [];
  mask(method, 12, W).forEach((line, q) => line.forEach((on, k) => {
    if (!on) return;
    const isSeries = method === "taylor" || (method === "hybrid" && q - k >= W);
    (isSeries ? near : exact).push(`M${k} ${q}h.9v.9h-.9z`);
  }));
  return s("svg", { viewBox: "0 0 12 12", "aria-hidden": "true" }, s("g", { class: "c1" }, s("path", { class: "cell", d: exact.join("") }), s("path", { class: "cell", opacity: 0.4, d: near.join("") })));
}
const distance = (share) => (share < 1e-6 ? "exact" : `${percent(share)} off`);

function renderMethods() {
  const { method, K, W } = store.state;
  const n = Math.min(words().length, MOST);
  const errors = new Map((answer?.methods ?? []).map((one) => [one.method, one.error]));
  for (const [name, { title, K: hasK, W: hasW }] of Object.entries(METHODS)) {
    const label = $(`#method-${name}`).parentElement;
    $("svg", label)?.remove();
    label.insertBefore(small(name, W), label.children[1]);
    const pairs = mask(name, n, W).flat().reduce((sum, on) => sum + on, 0);
    say($(".title", label), title + [hasW ? ` W ${W}` : "", hasK ? ` K ${K}` : ""].filter(Boolean).join(","));
    say($(".aside", label), `${several(pairs, "pair")}${errors.has(name) && name !== "softmax" ? `, ${distance(errors.get(name))}` : ""}`);
    $(`#method-${name}`).checked = name === method;
  }
  for (const letter of ["K", "W"]) {
    const value = store.state[letter];
    if (document.activeElement !== $(`#${letter}`)) $(`#${letter}`).value = value;
    $(`#slide-${letter}`).value = letter === "K" ? ORDERS.indexOf(value) : value;
    $(`#slide-${letter}`).setAttribute("aria-valuetext", `${letter} ${value}`);
  }
}

function renderHeats() {
  const { method, W, head } = store.state;
  const tokens = answer?.tokens ?? words().slice(0, MOST);
  const one = answer?.heads[Math.min(head, answer.heads.length) - 1];
  // Until weights are there the masks are drawn, which need no model.
  const exact = one?.weights ?? mask("softmax", tokens.length, W).map((line) => line.map((on) => on * 0.25));
  const own = one?.method ?? mask(method, tokens.length, W).map((line) => line.map((on) => on * 0.25));
  const difference = own.map((line, q) => line.map((weight, k) => (one ? weight - exact[q][k] : 0)));
  const choose = (cell) => { chosen = cell; renderHeats(); };
  const title = METHODS[method].title;
  const focused = ["exact", "own", "difference"].find((name) => $(`#${name}`).contains(document.activeElement));
  const n = tokens.length;
  fill($("#exact"), heat({ tokens, weights: exact, label: one ? `Weights of softmax, ${n} by ${n}` : `Mask of softmax, ${n} by ${n}`, chosen, choose }));
  fill($("#own"), heat({ tokens, weights: own, label: `${one ? "Weights" : "Mask"} of ${title}, ${n} by ${n}`, chosen, choose, number: 3 }));
  fill($("#difference"), heat({ tokens, weights: difference, signed: true, label: `${title} minus softmax, ${n} by ${n}`, chosen, choose }));
  if (focused) $(`#${focused} svg`).focus({ preventScroll: true });
  say($("#own-title"), title);
  say($("#minus"), `${title} minus softmax: `);
  if (chosen && chosen[0] < n && chosen[1] < n) {
    const [q, k] = chosen;
    announce($("#cell"), one ? `${tokens[q]} (word ${q + 1}) → ${tokens[k]} (word ${k + 1}): softmax ${exact[q][k].toFixed(3)}, ${title} ${own[q][k].toFixed(3)}` : `${tokens[q]} → ${tokens[k]}: ${own[q][k] ? "attends" : "does not attend"}`);
  } else announce($("#cell"), "Arrow keys move over the cells.");
  if ($("#weights").open && one) renderTable(tokens, exact, own);
}

function renderTable(tokens, exact, own) {
  const rows = tokens.flatMap((query, q) => tokens.slice(0, q + 1).map((key, k) => [query, key, exact[q][k].toFixed(3), own[q][k].toFixed(3)]));
  fill($("#weights"), $("#weights").firstElementChild, table("Weights", [{ title: "query" }, { title: "key" }, { title: "softmax", number: true }, { title: METHODS[store.state.method].title, number: true }], rows));
}

const plot = curves($("#orders"));
function renderOrders() {
  const orders = answer?.orders ?? [];
  $("#order-section").hidden = !orders.length;
  if (!orders.length) return;
  const told = (error) => percent(error < 1e-6 ? 0 : error);
  plot.draw({
    label: `Error against softmax over the order: ${orders.map(({ K, error }) => `${told(error)} at ${K}`).join(", ")}`,
    series: [{ name: "", number: 3, x: orders.map(({ K }) => K), y: orders.map(({ error }) => Math.max(error, 1e-9)) }],
    x: { title: "K, order of the series", short: "K", format: String, ticks: () => orders.map(({ K }) => K) },
    y: { log: true, format: told }, height: 220,
    cursor: METHODS[store.state.method].K && store.state.K <= 8 ? { x: store.state.K, text: `K = ${store.state.K}` } : null,
  });
}

/** Offer 1 to count, or to the one that is picked while the count is not known; beyond it the last is shown. */
const choices = (name, count, picked) => fill($(`#${name}`), ...Array.from({ length: count || picked }, (_, i) =>
  h("option", { value: i + 1, selected: i + 1 === Math.min(picked, count || picked) }, `${i + 1}${count ? ` of ${count}` : ""}`)));

function render() {
  const { method, K, W, head, run: source, text, layer } = store.state;
  if (document.activeElement !== $("#text")) $("#text").value = text;
  $("#source").value = source;
  const heads = answer?.heads.length ?? 0;
  choices("head", heads, head);
  choices("layer", answer?.layers, layer);
  renderMethods();
  renderHeats();
  renderOrders();
  const ownError = answer?.heads[Math.min(head, heads) - 1]?.error;
  const headline = patternHeadline({ method, K, W, error: answer?.methods?.find((one) => one.method === method)?.error, orders: answer?.orders, random: !source });
  showHeadline(headline);
  const hybrid = answer?.methods?.find((one) => one.method === "hybrid");
  const alone = ownError === undefined || method === "softmax" ? "" : `, ${distance(ownError)} by itself`;
  fill($("#summary"), source ? ["All heads of the run ", h("a", { href: `/models?run=${encodeURIComponent(source)}` }, source), ` on your sentence; below is head ${Math.min(head, heads || head)}${alone}. `] : `Seeded random queries and keys: no run with attention is picked. Below is head ${Math.min(head, heads || head)}${alone}. `,
    hybrid && method !== "hybrid" ? `Exact in a window of ${W} and the series of order ${K} beyond, it is ${distance(hybrid.error)}. ` : null,
    h("a", { href: `/cost?of=attention,${OF_COST[method] === "attention" ? "taylor" : OF_COST[method]}` }, "What does each cost?"));
  const notes = Object.entries({ layer: answer?.layers, head: heads }).filter(([name, count]) => count && store.state[name] > count)
    .map(([name, count]) => `There is no ${name} ${store.state[name]}: ${name} ${count} is shown.`);
  if (answer?.unknown.length) notes.push(`Not in the model's vocabulary: ${listed(answer.unknown.map((word) => `“${word}”`))}.`);
  if (answer?.cut || words().length > MOST) notes.push(`Only the first ${MOST} words are shown.`);
  fill($("#unknown"), ...notes.map((note) => h("p", { class: "note" }, note)), failed ? problem(failed) : null);
  $("#heats").setAttribute("aria-busy", working ? "true" : "false");
}

let waiting = 0;
function askSoon(delay = 250) {
  clearTimeout(waiting);
  waiting = setTimeout(request, delay);
}
async function request() {
  working?.cancel();
  const { text, run: source, layer, method, K, W } = store.state;
  if (!words().length) { answer = null; failed = new Error("Type a sentence."); render(); return; }
  const mine = run("/api/patterns", { text, source: source || "random", layer, method, K, W });
  working = mine;
  try {
    const found = await mine;
    if (working !== mine) return;
    [answer, failed] = [found, null];
  } catch (error) {
    if (working !== mine) return;
    failed = error;
    answer = null;
  }
  working = null;
  render();
}

/** The grid net: cells of a diagonal are computed at once. */
function wavefront() {
  const N = 8, steps = 2 * N - 1;
  let step = 1, timer = 0;
  const draw = () => {
    const now = step <= N ? step : steps + 1 - step;
    const text = `Step ${step} of ${steps}: ${now === 1 ? "1 cell" : `${now} cells at once`}`;
    const cells = [];
    for (let y = 0; y < N; y++) for (let x = 0; x < N; x++) {
      const at = x + y + 1;
      cells.push(s("rect", { class: at > step ? "empty" : "cell c1", opacity: at < step ? 0.35 : 1, "data-now": at === step, x: x * 26, y: y * 26, width: 24, height: 24, rx: 2 }));
    }
    fill($("#grid"), s("svg", { viewBox: "0 0 208 208", class: "small", role: "img", "aria-label": text }, cells));
    // What is read lags by a second; what is seen may not.
    say($("#grid-told"), text);
    announce($("#grid-read"), text);
  };
  const move = (by) => { step = ((step - 1 + by + steps) % steps) + 1; draw(); };
  const stop = () => { clearInterval(timer); timer = 0; $("#grid-play").textContent = "Play"; };
  $("#grid-back").addEventListener("click", () => move(-1));
  $("#grid-on").addEventListener("click", () => move(1));
  $("#grid-play").addEventListener("click", () => {
    if (timer) { stop(); return; }
    $("#grid-play").textContent = "Stop";
    timer = setInterval(() => move(1), 600);
  });
  $("#grid-controls").addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) { event.preventDefault(); move(by); } else if (event.key === "Escape") stop();
  });
  draw();
}

fill($("#methods"), ...Object.keys(METHODS).map((name) => h("label", {}, h("input", { type: "radio", name: "method", value: name, id: `method-${name}` }), h("span", { class: "title" }), h("span", { class: "aside" }))));
fill($("#source"), h("option", { value: "" }, "random, deviation 1"), ...runs.map((id) => h("option", { value: id }, id)));
$("#methods").addEventListener("change", (event) => store.choose({ method: event.target.value }));
$("#source").addEventListener("change", (event) => store.choose({ run: event.target.value, layer: 1, head: 1 }));
$("#layer").addEventListener("change", (event) => store.choose({ layer: Number(event.target.value) }));
$("#head").addEventListener("change", (event) => store.choose({ head: Number(event.target.value) }));
$("#text").addEventListener("input", (event) => { chosen = null; store.set({ text: event.target.value }); });
$("#asking").addEventListener("submit", (event) => { event.preventDefault(); askSoon(0); });
$("#slide-K").addEventListener("input", (event) => store.set({ K: ORDERS[event.target.value] }));
$("#slide-W").addEventListener("input", (event) => store.set({ W: Number(event.target.value) }));
for (const letter of ["K", "W"]) $(`#${letter}`).addEventListener("change", (event) => {
  const size = Number(event.target.value), fine = Number.isInteger(size) && size >= 1 && (letter === "K" ? ORDERS.includes(size) : size <= 64);
  leftOut(fine ? [] : [`${letter} = “${event.target.value}” is left out: ${RANGES[letter]}.`]);
  if (fine) store.choose({ [letter]: size }); else event.target.value = store.state[letter];
});
$("#weights").addEventListener("toggle", renderHeats);

let before = store.state;
store.subscribe((state) => {
  if (state.text !== before.text || state.run !== before.run || state.layer !== before.layer) answer = null;
  const asks = ["text", "run", "layer", "method", "K", "W"].some((name) => state[name] !== before[name]);
  // The weights of softmax stay while only the method changes.
  if (asks && answer) answer = { ...answer, methods: [], heads: answer.heads.map(({ weights }) => ({ weights, method: mask(state.method, answer.tokens.length, state.W).map((line) => line.map((on) => on * 0.25)), error: undefined })) };
  before = state;
  render();
  if (asks) askSoon();
});
startPage();
wavefront();
render();
askSoon(0);
