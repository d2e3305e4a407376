// The ledger: textbook statements, filtered by verdict, topic and words, and checked here.

import { $, $$, announce, command, copyButton, fill, h, reading, s, say } from "./dom.js";
import { ledgerHeadline } from "./room_headlines.js";
import { createStore } from "./store.js";
import { hear, run } from "./live.js";
import { leftOut, problem, showHeadline, startPage } from "./page.js";

const data = reading();
const claims = data.claims;
const VERDICTS = { wrong: 2, imprecise: 4, "holds under assumptions": 6, holds: 3, empirical: 12 };
const TOPICS = [...new Set(claims.map(({ topic }) => topic))];
const FIRST = 20;

/** What checks said, by claim; what is being checked, by claim: the promise. */
const decided = new Map(), checking = new Map();
let mostShown = FIRST;

function readAddress(parameters) {
  const unread = [];
  const asked = parameters.get("verdict");
  const verdicts = asked === null ? ["wrong"] : asked === "all" ? [] : asked.split(",").filter((verdict) => {
    const isKnown = Object.hasOwn(VERDICTS, verdict);
    if (!isKnown) unread.push(`“${verdict}” is no verdict, and is left out.`);
    return isKnown;
  });
  let topic = parameters.get("topic") ?? "";
  if (topic && !TOPICS.includes(topic)) { unread.push(`“${topic}” is no topic, and is left out.`); topic = ""; }
  let open = parameters.get("open") ?? "";
  if (open && !claims.some(({ id }) => id === open)) { unread.push(`There is no statement ${open}.`); open = ""; }
  leftOut(unread);
  return { verdicts, topic, q: parameters.get("q") ?? "", open };
}
const store = createStore({ read: readAddress, write: ({ verdicts, topic, q, open }) => ({ verdict: verdicts.join(",") || "all", topic, q, open }) });

function found({ verdicts, topic, q }) {
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  return claims.filter((claim) => {
    const text = `${claim.id} ${claim.statement} ${claim.right} ${claim.topic}`.toLowerCase();
    return (!verdicts.length || verdicts.includes(claim.verdict)) && (!topic || claim.topic === topic) && words.every((word) => text.includes(word));
  });
}

/** A <math> element of a text that the catalogue brings; null for anything that is not only MathML. */
function mathFrom(text) {
  const math = new DOMParser().parseFromString(text, "text/html").querySelector("math");
  const inside = math ? [math, ...math.querySelectorAll("*")] : [];
  const isPlain = inside.every((one) => one.namespaceURI === math.namespaceURI && [...one.attributes].every(({ name }) => !/^on|href|src|style/i.test(name)));
  return math && isPlain ? document.importNode(math, true) : null;
}

/** A strip of shares, such as of verdicts: [{count, number, name}], of the greatest sum `of`. */
function strip(parts, of) {
  const shown = parts.filter(({ count }) => count);
  let x = 0;
  const bars = shown.map(({ count, number }) => {
    const bar = s("rect", { class: `dot c${number}`, x: Math.round(x), width: Math.max(Math.round((480 * count) / of - 1.5), 1), height: 12 });
    x += (480 * count) / of;
    return bar;
  });
  return s("svg", { viewBox: "0 0 480 12", preserveAspectRatio: "none", role: "img", "aria-label": shown.map(({ count, name }) => `${count} ${name}`).join(", ") }, ...bars);
}

const chip = (verdict) => h("span", { class: `chip c${VERDICTS[verdict]}` }, verdict);

function render() {
  const { state } = store;
  const shown = found(state);
  // A statement that an address opens is shown, whatever the filters say.
  const opened = claims.find(({ id }) => id === state.open);
  const all = opened && !shown.includes(opened) ? [opened, ...shown] : shown;
  const headline = ledgerHeadline({ total: claims.length, shown: shown.length, verdicts: state.verdicts, topic: state.topic, query: state.q });
  showHeadline(headline);
  const here = claims.filter(({ needs, by }) => !needs && by === "computation").length;
  const others = claims.filter(({ verdict }) => verdict === "imprecise").length;
  say($("#summary"), `${state.verdicts.join() === "wrong" && !state.topic && !state.q ? `${others} more are imprecise. ` : ""}${here} of the ${claims.length} are decided by a check that you can run here: open one and press Check.`);
  say($("#fold-summary"), `${state.verdicts.length ? `Only ${state.verdicts.join(", ")}` : "All verdicts"}${state.topic ? `, on ${state.topic}` : ""}${state.q ? `, with “${state.q}”` : ""}`);
  for (const box of $$("#verdicts input")) box.checked = state.verdicts.includes(box.value);
  if (document.activeElement !== $("#q")) $("#q").value = state.q;
  $("#topic").value = state.topic;
  say($("#check-all"), all.length === 1 ? "Check it" : `Check all ${all.length}`);
  $("#check-all").disabled = !all.length;

  const nodes = all.slice(0, Math.max(mostShown, all.indexOf(opened) + 1)).map(claimNode);
  for (const node of nodes) node.open = node.dataset.id === state.open;
  fill($("#claims"), ...nodes, shown.length ? null : nothing(state));
  $("#more").hidden = nodes.length >= all.length;
  say($("#count"), all.length ? `${nodes.length} of ${all.length} shown. ` : "");
}

/** Nothing is found: offer to drop the filter that hides most. */
function nothing(state) {
  const ways = [
    ["Show all verdicts", { verdicts: [] }, state.verdicts.length],
    ["Search in all topics", { topic: "" }, state.topic],
    [`Drop “${state.q}”`, { q: "" }, state.q],
  ].filter(([, , used]) => used).map(([text, changed]) => ({ text, changed, count: found({ ...state, ...changed }).length }));
  const best = ways.sort((a, b) => b.count - a.count)[0];
  const drop = best?.count ? best : { text: "Drop all filters", changed: { verdicts: [], topic: "", q: "" }, count: claims.length };
  return h("p", {}, h("button", { type: "button", "data-key": "drop", onclick: () => { $("#q").value = drop.changed.q ?? $("#q").value; store.choose(drop.changed); } }, `${drop.text} (${drop.count})`));
}

const made = new Map();
function claimNode(claim) {
  if (!made.has(claim.id)) made.set(claim.id, makeClaim(claim));
  return made.get(claim.id);
}

function makeClaim(claim) {
  const body = h("div");
  const node = h("details", { class: "claim", "data-id": claim.id },
    h("summary", {}, h("span", { class: "code" }, claim.id), h("span", {}, claim.statement), chip(claim.verdict)), body);
  node.addEventListener("toggle", () => {
    if (node.open && !body.childNodes.length) fillBody(claim, body);
    if (node.open && store.state.open !== claim.id) store.choose({ open: claim.id });
    else if (!node.open && store.state.open === claim.id) store.choose({ open: "" });
  });
  return node;
}

function fillBody(claim, body) {
  const formulas = (claim.right_mathml ?? []).map(mathFrom).filter(Boolean);
  const label = { holds: "More exactly.", "holds under assumptions": "What must be assumed." }[claim.verdict] ?? "What is right.";
  const busy = checking.get(claim.id), result = decided.get(claim.id);
  fill(body,
    claim.right ? h("p", {}, h("b", {}, label), " ", claim.right) : null,
    formulas.length ? h("p", { class: "formulas" }, formulas.flatMap((formula) => [formula, " "])) : null,
    result ? resultNode(result) : null,
    busy?.error ? problem(busy.error) : null,
    claim.needs ? h("p", { class: "aside" }, `Its decision needs ${claim.needs}.`) : null,
    h("div", { class: "row" },
      busy && !busy.error
        ? h("button", { type: "button", "data-key": `check-${claim.id}`, onclick: () => busy.promise?.cancel() }, busy.text)
        : h("button", { class: "main", type: "button", "data-key": `check-${claim.id}`, onclick: () => check([claim.id]) }, result ? "Check again" : "Check"),
      copyButton("Copy link", () => `${location.origin}/ledger?open=${claim.id}`)),
    claim.command ? h("details", { class: "tabled" }, h("summary", {}, "The same in a terminal"), command(claim.command)) : null);
}

const near = (number) => (number === null || number === undefined ? "–" : Number(number.toPrecision(3)).toString());
function resultNode(result) {
  const word = result.passed === true ? h("span", { class: "chip c3" }, "passes") : result.passed === false ? h("span", { class: "chip c2" }, "fails") : h("span", { class: "chip" }, result.word || "open");
  const line = (name, ...content) => (content[0] ? [h("dt", {}, name), h("dd", {}, ...content)] : []);
  return h("dl", { class: "pair" },
    ...line("stated", result.stated), ...line("true", result.true), result.stated || result.true ? null : line("seen", result.evidence),
    h("dt", {}, "checked"), h("dd", {}, `now, ${near(result.seconds)} s`, result.measured === null || result.measured === undefined ? " " : `: off by ${near(result.measured)}, tolerance ${near(result.tolerance)} `, word));
}

function refresh(ids) {
  for (const id of ids) {
    const node = made.get(id), body = node && $(":scope > div", node);
    if (body?.childNodes.length) fillBody(claims.find((claim) => claim.id === id), body);
  }
}

/** Check claims; the button of each counts seconds. */
async function check(ids) {
  const began = performance.now();
  const entries = ids.map((id) => [id, { text: "Checking, 0 s" }]);
  for (const [id, entry] of entries) checking.set(id, entry);
  refresh(ids);
  const promise = run("/api/claims/check", { ids });
  const clock = setInterval(() => {
    const text = `Checking, ${Math.floor((performance.now() - began) / 1000)} s · Cancel`;
    for (const [id, entry] of entries) { entry.text = text; entry.promise = promise; const button = $(`[data-key="check-${id}"]`); if (button && checking.get(id) === entry) say(button, text); }
  }, 500);
  for (const [, entry] of entries) entry.promise = promise;
  let error = null;
  try {
    const result = await promise;
    for (const claim of result?.claims ?? []) decided.set(claim.id, claim);
  } catch (refused) { error = refused; }
  clearInterval(clock);
  for (const [id] of entries) {
    checking.delete(id);
    if (error && ids.length === 1 && error.code !== "cancelled") checking.set(id, { error });
  }
  refresh(ids);
  if (ids.length === 1) checking.delete(ids[0]);
  return error;
}

async function checkAll() {
  const ids = found(store.state).map(({ id }) => id);
  if (store.state.open && !ids.includes(store.state.open)) ids.unshift(store.state.open);
  ids.forEach((id) => decided.delete(id));
  const button = $("#check-all"), told = $("#checked");
  const tally = () => {
    const results = ids.map((id) => decided.get(id)).filter(Boolean);
    const fails = results.filter(({ passed }) => passed === false), open = results.filter(({ passed }) => passed === null).length;
    return `${results.length} of ${ids.length} checked: ${results.length - fails.length - open} pass, ${fails.length} fail${open ? `, ${open} stay open` : ""}${fails.length ? ` (${fails.map(({ id }) => id).join(", ")})` : ""}.`;
  };
  const clock = setInterval(() => announce(told, tally()), 300);
  const work = check(ids);
  button.hidden = true;
  const stop = h("button", { type: "button", onclick: () => checking.get(ids[0])?.promise?.cancel() }, "Cancel");
  button.after(stop);
  const error = await work;
  clearInterval(clock);
  stop.remove();
  button.hidden = false;
  button.focus();
  say(told, tally() + (error ? ` ${error.message}` : ""));
}

function byTopic() {
  $("#topics-title").after(h("p", {}, Object.keys(VERDICTS).map((verdict) => [chip(verdict), " "]).flat()));
  const most = Math.max(...TOPICS.map((topic) => claims.filter((claim) => claim.topic === topic).length));
  fill($("#topics"), ...TOPICS.map((topic) => {
    const mine = claims.filter((claim) => claim.topic === topic);
    const parts = Object.entries(VERDICTS).map(([name, number]) => ({ name, number, count: mine.filter(({ verdict }) => verdict === name).length }));
    const link = h("a", { href: `?verdict=all&topic=${topic}`, title: data.topics[topic], onclick: (event) => { event.preventDefault(); mostShown = FIRST; store.choose({ topic, verdicts: [] }); scrollTo({ top: 0 }); } }, topic);
    return h("tr", {}, h("th", { scope: "row" }, link), h("td", { class: "number" }, String(mine.length)), h("td", {}, strip(parts, most)));
  }));
}

fill($("#verdicts"), ...Object.keys(VERDICTS).map((verdict) => h("li", {}, h("label", { class: "row" },
  h("input", { type: "checkbox", value: verdict, id: `verdict-${verdict.replaceAll(" ", "-")}` }), chip(verdict)), h("span", { class: "number" }, String(claims.filter((claim) => claim.verdict === verdict).length)))));
fill($("#topic"), h("option", { value: "" }, "All topics"), ...TOPICS.map((topic) => h("option", { value: topic }, topic)));
$("#verdicts").addEventListener("change", () => { mostShown = FIRST; store.choose({ verdicts: $$("#verdicts input:checked").map((box) => box.value) }); });
$("#topic").addEventListener("change", (event) => { mostShown = FIRST; store.choose({ topic: event.target.value }); });
$("#q").addEventListener("input", (event) => { mostShown = FIRST; store.set({ q: event.target.value.trim() }); });
$("#filters").addEventListener("submit", (event) => event.preventDefault());
$("#check-all").addEventListener("click", checkAll);
$("#more").addEventListener("click", () => { mostShown += 40; render(); });
hear("part", ({ claim }) => { if (claim) { decided.set(claim.id, claim); refresh([claim.id]); } });
store.subscribe(render);
startPage();
byTopic();
render();
if (store.state.open) claimNode(claims.find(({ id }) => id === store.state.open)).scrollIntoView({ block: "center" });
