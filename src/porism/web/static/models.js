// The models room: the runs that are there, one of them as it learns, and its model to try.

import { $, command, fill, h, reading, say } from "./dom.js";
import { metricName } from "./metric_name.js";
import { runHeadline } from "./room_headlines.js";
import { curves, wholeTicks } from "./plot.js";
import { createStore } from "./store.js";
import { ask, hear, watch } from "./live.js";
import { leftOut, problem, showHeadline, startPage } from "./page.js";
import { checkpointChoice } from "./checkpoint_choice.js";
import { tryForm } from "./try.js";
import { capital, fourDigits, several } from "./words.js";

const data = reading();
const runs = new Map(data.runs.map((row) => [row.id, row]));
let details = data.run ?? null, failed = null, tried = "", progress = null, checkpoint = null;

const readAddress = (parameters) => {
  const asked = parameters.get("run") ?? "";
  leftOut(asked && !runs.has(asked) ? [`There is no run “${asked}” in ${data.folder}/.`] : []);
  return { run: runs.has(asked) ? asked : "" };
};
const store = createStore({ read: readAddress, write: ({ run }) => ({ run }) });
const current = () => store.state.run || details?.id || [...runs.keys()][0] || "";
const plot = curves($("#plot"));

function renderList() {
  const words = $("#find").value.toLowerCase(), task = $("#task").value;
  const tasks = [...new Set([...runs.values()].map((row) => row.task).filter(Boolean))];
  if ($("#task").options.length !== tasks.length + 1) fill($("#task"), h("option", { value: "" }, "All tasks"), ...tasks.map((one) => h("option", { value: one, selected: one === task }, one)));
  const shown = [...runs.values()].filter((row) => (!task || row.task === task) && `${row.id} ${row.task} ${row.recipe}`.toLowerCase().includes(words));
  fill($("#runs"), ...shown.map((row) => h("a", { class: "run", href: `/models?run=${encodeURIComponent(row.id)}`, "data-key": row.id, "aria-current": row.id === current() ? "true" : null, onclick: (event) => { if (event.metaKey || event.ctrlKey) return; event.preventDefault(); store.choose({ run: row.id }); } },
    h("span", { class: "title" }, row.id, stateChip(row)),
    h("span", { class: "aside" }, h("span", {}, `${row.task ?? "unknown"}${row.seed === undefined || row.seed === null ? "" : ` · seed ${row.seed}`}`), h("span", {}, row.value === null || row.value === undefined ? "" : `${row.split ?? ""} ${fourDigits(row.value)}`)))),
  shown.length ? null : h("p", { class: "aside" }, "No run has these words."));
  say($("#fold-summary"), runs.size ? runs.size === 1 ? current() : `${current()}, one of ${runs.size} runs` : "No runs yet");
  say($("#folder"), `${several(runs.size, "run")} in ${data.folder}/. New ones appear by themselves.`);
}

function stateChip(row) {
  if (row.state === "running") return h("span", { class: "chip c1 live" }, row.epochs ? `epoch ${row.epoch} of ${row.epochs}` : "running");
  const colours = { diverged: 2, damaged: 2, stopped: 4 };
  return row.state in colours ? h("span", { class: `chip c${colours[row.state]}` }, row.state) : null;
}

function renderRun() {
  $("#empty").hidden = runs.size > 0;
  $("#one").hidden = $("#trying").hidden = !details;
  if (!runs.size) {
    say($("#headline"), "No model has been trained here yet");
    say($("#summary"), "Train a first one in a terminal; it appears here by itself.");
    fill($("#empty"), command(data.command));
    return;
  }
  fill($("#failed"), failed ? problem(failed) : null);
  const row = runs.get(current());
  if (!details) {
    const damaged = row?.state === "damaged";
    say($("#headline"), damaged ? `${row.id} cannot be read` : `Opening ${current()}`);
    say($("#summary"), damaged ? row.message ?? "" : "");
    return;
  }
  const valid = details.curves.find(({ name }) => name === "valid") ?? details.curves.at(-1) ?? { x: [], y: [], name: "" };
  const lower = details.lower_is_better !== false;
  const name = details.facts.recipe ?? details.id;
  const metric = metricName(details.metric ?? "");
  const headline = runHeadline({ name, state: row?.state ?? "finished", metric, split: valid.name, points: valid.x.map((epoch, i) => [epoch, valid.y[i]]), lower, epochs: row?.epochs, counts: details.checkpoint?.best_epoch, message: row?.message });
  showHeadline(headline, name);
  say($("#summary"), sentences(row, valid, lower));
  fill($("#facts"), ...Object.entries(details.facts).filter(([key]) => !["task", "recipe"].includes(key)).map(([key, value]) => h("div", {}, h("dt", {}, key), h("dd", {}, String(value)))));
  const { damaged = [], whole = [] } = details.checkpoint ?? {};
  const older = whole.find(({ name }) => name !== "best");
  fill($("#damaged"), damaged.length ? h("p", { class: "note" }, `Damaged: ${damaged.join(", ")}. `, older ? h("button", { type: "button", "data-key": "older", onclick: () => checkpoint.choose(older.name) }, `Use the one before it, of epoch ${older.epoch}`) : null) : null);
  const best = details.checkpoint?.best_epoch;
  const log = details.curves.every(({ y }) => y.every((value) => value > 0)) && metric === "perplexity";
  $("#figure").hidden = !details.curves.length;
  say($("#caption"), `${capital(metric)}${log ? ", logarithmic" : ""}. The ring is the checkpoint that counts.`);
  plot.draw({
    label: `${metric} over ${valid.x.at(-1) ?? 0}${row?.epochs ? ` of ${row.epochs}` : ""} epochs. ${details.curves.map(({ name: split, y }) => `${split} went from ${fourDigits(y[0])} to ${fourDigits(y.at(-1))}`).join(", ")}.`,
    series: details.curves.map(({ name: split, x, y }) => ({ name: split, number: split === "valid" ? 1 : 12, x, y, ring: split === valid.name ? x.indexOf(best) : undefined })),
    x: { title: "epoch", low: 1, high: Math.max(row?.epochs ?? 0, valid.x.at(-1) ?? 2, 2), format: String, ticks: wholeTicks },
    y: { log, format: fourDigits },
  });
  $("#to-compare").href = `/compare?runs=${encodeURIComponent(details.id)}`;
  $("#to-report").hidden = !details.report;
  $("#to-report").href = `/api/run/report?id=${encodeURIComponent(details.id)}`;
  $("#to-cost").hidden = !details.cost?.link;
  $("#to-cost").href = `/cost?${details.cost?.link ?? ""}`;
  if (tried !== details.id) {
    tried = details.id;
    checkpoint = checkpointChoice();
    fill($("#try"), details.try ? tryForm(details, checkpoint) : h("p", { class: "aside" }, "Models of this task cannot be tried here."));
    say($("#try-title"), details.try ? `Try it: ${details.try.label[0].toLowerCase()}${details.try.label.slice(1)}` : "Try it");
  }
  checkpoint.update(details.checkpoint);
  if (details.command && $("#repeat code")?.textContent !== details.command) fill($("#repeat"), command(details.command));
}

function sentences(row, valid, lower) {
  const parts = [];
  if (valid.y.length > 1) {
    const step = valid.y.at(-1) - valid.y.at(-2);
    parts.push(step === 0 ? "The same as an epoch ago." : `${fourDigits(Math.abs(step))} ${step < 0 ? "lower" : "higher"} than an epoch ago${(step < 0) === lower ? "" : ", which is worse"}.`);
  }
  const at = progress?.id === details.id ? progress : details.progress;
  if (row?.state === "running" && at) {
    if (at.steps) parts.push(`Epoch ${at.epoch}, step ${at.step} of ${at.steps}${at.loss === null || at.loss === undefined ? "" : `, loss ${fourDigits(at.loss)}`}.`);
    if (at.seconds_left) parts.push(`About ${at.seconds_left < 90 ? `${Math.round(at.seconds_left)} s` : `${Math.round(at.seconds_left / 60)} min`} left.`);
  }
  if (row?.state === "running" && details.checkpoint?.best_epoch) parts.push("You can already try its best checkpoint below.");
  const test = details.metrics?.test?.[details.metric];
  if (typeof test === "number") parts.push(`On test it has ${fourDigits(test)}.`);
  return parts.join(" ");
}

let asked = 0;
async function load(id) {
  if (runs.get(id)?.state === "damaged") { asked++; failed = details = null; renderList(); renderRun(); return; } // its row says why
  const turn = ++asked;
  try {
    const found = await ask(`/api/run?id=${encodeURIComponent(id)}`);
    if (turn !== asked) return;
    [details, failed] = [found, null];
    if (found.run) runs.set(id, found.run);
  } catch (error) {
    if (turn !== asked) return;
    failed = error;
    if (details?.id !== id) details = null;
  }
  renderList();
  renderRun();
}

let waiting = 0;
function reload() {
  clearTimeout(waiting);
  waiting = setTimeout(() => { if (current()) load(current()); }, 250);
}

hear("run", ({ id, listed, event }) => {
  if (listed === null) runs.delete(id);
  else if (listed) runs.set(id, listed);
  if (event?.event === "progress") { progress = { id, ...event }; if (details?.id === id) renderRun(); return; }
  renderList();
  if (id === current()) { watch(id); reload(); } else if (!details) renderRun();
});
store.subscribe(() => {
  details = null;
  progress = null;
  renderList();
  renderRun();
  if (current()) { watch(current()); load(current()); }
});
$("#find").addEventListener("input", renderList);
$("#task").addEventListener("change", renderList);
startPage();
renderList();
renderRun();
watch("*", ...(current() ? [current()] : []));
if (current() && !details) load(current());
