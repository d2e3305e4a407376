// The compare room: runs of one task side by side, what they cost, and what else differs.

import { $, $$, badge, command, copyButton, fill, h, reading, say, table } from "./dom.js";
import { curves, wholeTicks } from "./plot.js";
import { metricName } from "./metric_name.js";
import { createStore } from "./store.js";
import { ask, hear, watch } from "./live.js";
import { leftOut, problem, showHeadline, startPage } from "./page.js";
import { fourDigits, several, short } from "./words.js";

const data = reading();
const runs = new Map(data.runs.map((row) => [row.id, row]));
const AXES = { epochs: "epoch", seconds: "seconds", tokens: "tokens", flops: "FLOPs" };
let found = data.comparison ?? null, failed = null;

/** Names of runs may have commas: one is taken where the list has it. */
function namesIn(text) {
  const parts = text.split(","), names = [];
  for (let i = 0; i < parts.length;) {
    let taken = 1;
    for (let n = parts.length - i; n > 1; n--) if (runs.has(parts.slice(i, i + n).join(","))) { taken = n; break; }
    names.push(parts.slice(i, i + taken).join(","));
    i += taken;
  }
  return names.filter(Boolean);
}

function readAddress(parameters) {
  const unread = [];
  const names = parameters.has("runs") ? namesIn(parameters.get("runs")) : data.state.runs;
  const picked = [...new Set(names)].filter((name) => {
    const row = runs.get(name);
    if (!row) unread.push(`There is no run “${name}”.`);
    else if (row.state === "damaged") unread.push(`“${name}” is left out, it is damaged: ${row.message}`);
    return row && row.state !== "damaged";
  });
  let x = parameters.get("x") ?? "epochs";
  if (!Object.hasOwn(AXES, x)) { unread.push(`“${x}” is no axis: epochs are shown.`); x = "epochs"; }
  leftOut(unread);
  return { runs: picked, metric: parameters.get("metric") ?? "", x };
}
const store = createStore({ read: readAddress, write: ({ runs: picked, metric, x }) => ({ runs: picked.join(","), metric, x }) });
// A comparison comes with the page, of what the server could read of the address.
if (store.state.runs.join() !== data.state.runs.join()) found = null;
const plot = curves($("#plot"));
const numberOf = (name) => store.state.runs.indexOf(name) + 1;
/** The shortest end of a run's name that only it has among those compared. */
function shortName(name) {
  const others = store.state.runs.filter((other) => other !== name);
  const parts = name.split("/");
  for (let i = parts.length - 1; i >= 0; i--) {
    const end = parts.slice(i).join("/");
    if (!others.some((other) => other === end || other.endsWith(`/${end}`))) return end;
  }
  return name;
}

function renderPicks() {
  const { runs: picked } = store.state;
  const task = runs.get(picked[0])?.task;
  const refused = new Map((found?.refused ?? []).map(({ run, why }) => [run, why]));
  const rows = [...runs.values()].sort((a, b) => (b.task === task) - (a.task === task));
  fill($("#picks"), ...rows.map((row) => {
    const isPicked = picked.includes(row.id);
    return h("li", {}, h("label", { class: "row grow" }, h("input", { type: "checkbox", value: row.id, "data-key": row.id, checked: isPicked, disabled: row.state === "damaged" }), isPicked ? badge(numberOf(row.id)) : null, h("span", { class: "grow" }, row.id)),
      h("span", { class: "aside" }, row.task === task || !task ? fourDigits(row.value) : row.task),
      isPicked && refused.has(row.id) ? h("p", { class: "note block" }, refused.get(row.id)) : null);
  }));
  say($("#fold-summary"), `${several(picked.length, "run")}${found?.metric ? `, by ${metricName(found.metric)}` : ""}`);
}

function render() {
  renderPicks();
  const { x } = store.state;
  const isEmpty = runs.size < 2;
  $("#empty").hidden = !isEmpty;
  $("#pickers").hidden = isEmpty;
  $("#results").hidden = $("#differs").hidden = $("#metric").closest("fieldset").hidden = !found;
  if (!found) {
    say($("#headline"), isEmpty ? "There are not two runs to compare yet" : store.state.runs.length < 2 ? "Pick two runs to compare" : "Comparing");
    say($("#summary"), isEmpty ? "Train two models in a terminal; they appear here by themselves." : "Runs of one task and one data set can be compared.");
    if (isEmpty) fill($("#empty"), command(data.command));
    fill($("#failed"), failed ? problem(failed) : null);
    return;
  }
  fill($("#failed"), failed ? problem(failed) : null, ...found.refused.map(({ run, why }) => h("p", { class: "note" }, `${run ? `${run} is left out: ` : ""}${why.replace(/\.$/, "")}.`)));
  showHeadline(found.headline);
  say($("#summary"), found.summary);
  const metric = metricName(found.metric);
  fill($("#metric"), ...found.metrics.map((name) => h("option", { value: name, selected: name === found.metric }, metricName(name))));
  $("#metric").value = found.metric;
  const rows = found.table.rows.map(({ run, cells, best }) => [
    h("a", { href: `/models?run=${encodeURIComponent(run)}` }, badge(numberOf(run)), shortName(run)),
    ...cells.map((cell, i) => (best.includes(i) ? h("b", {}, cell) : cell)),
  ]);
  fill($("#table"), table("Results", [{ title: "run" }, ...found.table.columns.map((title) => ({ title, number: true }))], rows));
  const possible = Object.keys(AXES).filter((axis) => found.curves.every((curve) => curve[axis]));
  for (const input of $$("#axes input")) { input.checked = input.value === x; input.disabled = !possible.includes(input.value); input.parentElement.classList.toggle("off", input.disabled); }
  const axis = possible.includes(x) ? x : "epochs";
  const log = metric === "perplexity" && found.curves.every(({ y }) => y.every((value) => value > 0));
  say($("#caption"), `Valid ${metric}${log ? ", logarithmic" : ""}${axis === x ? "" : `; not all runs know their ${AXES[x]}`}`);
  const format = axis === "epochs" ? String : axis === "seconds" ? (value) => `${fourDigits(value)} s` : (value) => short(value, axis === "flops" ? "FLOP" : "");
  plot.draw({
    label: `Valid ${metric} over ${AXES[axis]} of ${found.curves.length} runs; each ends at: ${found.curves.map(({ run, y }) => `${shortName(run)} ${fourDigits(y.at(-1))}`).join(", ")}`,
    series: found.curves.map((curve) => {
      const best = curve.y.length ? curve.y.indexOf(found.lower_is_better === false ? Math.max(...curve.y) : Math.min(...curve.y)) : -1;
      return { name: shortName(curve.run), number: numberOf(curve.run), x: curve[axis], y: curve.y, ring: best };
    }),
    x: { title: AXES[axis], format, ticks: axis === "epochs" ? wholeTicks : undefined, low: axis === "epochs" ? 1 : 0, high: Math.max(...found.curves.flatMap((curve) => curve[axis]), axis === "epochs" ? 2 : 0) },
    y: { log, format: fourDigits },
  });
  fill($("#differing"), found.differing.length
    ? table("Differing fields", [{ title: "field" }, ...found.runs.map((run) => ({ title: `${numberOf(run)} ${shortName(run)}` }))], found.differing.map(({ field, values }) => [field, ...values]))
    : h("p", {}, "Nothing but the model."));
  fill($("#budget"), found.command ? [h("p", {}, "To compare on an equal budget:"), command(found.command)] : null);
}

let turn = 0;
async function load() {
  const { runs: picked, metric } = store.state, mine = ++turn;
  if (picked.length < 2) { found = null; failed = null; render(); return; }
  try {
    const answer = await ask(`/api/compare?runs=${picked.map(encodeURIComponent).join(",")}${metric ? `&metric=${encodeURIComponent(metric)}` : ""}`);
    if (mine !== turn) return;
    [found, failed] = [answer, null];
  } catch (error) { if (mine !== turn) return; failed = error; }
  render();
}

let waiting = 0;
hear("run", ({ id, listed }) => {
  if (listed === null) runs.delete(id); else if (listed) runs.set(id, listed); else return;
  renderPicks();
  if (runs.size < 2) render();
  if (store.state.runs.includes(id)) { clearTimeout(waiting); waiting = setTimeout(load, 400); }
});
$("#picks").addEventListener("change", (event) => {
  const { value, checked } = event.target, { runs: picked } = store.state;
  store.choose({ runs: checked ? [...picked, value] : picked.filter((name) => name !== value) });
});
$("#metric").addEventListener("change", (event) => store.choose({ metric: event.target.value }));
$("#axes").addEventListener("change", (event) => store.choose({ x: event.target.value }));
let before = store.state;
store.subscribe((state) => {
  const asks = state.runs.join() !== before.runs.join() || state.metric !== before.metric;
  before = state;
  render();
  if (asks) load();
});
$("#pickers").addEventListener("submit", (event) => event.preventDefault());
$("#buttons").append(copyButton("Copy link", () => store.address));
fill($("#axes"), ...Object.entries(AXES).map(([axis, title]) => h("label", {}, h("input", { type: "radio", name: "x", value: axis, "data-key": `axis-${axis}` }), axis === "epochs" ? "epochs" : title)));
startPage();
render();
watch("*");
if (!found && store.state.runs.length > 1) load();
