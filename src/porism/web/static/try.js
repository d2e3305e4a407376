// Trying a model: text that is streamed, a picture, a recording, a drawn digit, a word, a node, numbers.

import { announce, command, fill, h, say } from "./dom.js";
import { hear, progressText, run, upload } from "./live.js";
import { problem } from "./page.js";
import { drawing } from "./drawing.js";
import { recorder } from "./recorder.js";

const LABELS = { text: "Text", word: "Word", node: "Number of the node", fields: "Numbers, with commas between them" };
const BUTTONS = { text: "Go on", word: "Find", node: "Label", fields: "Answer", digit: "Classify", image: "Answer", sound: "Transcribe" };

/** The form for a run's model, with its answer below. checkpoint: the choice of checkpoint_choice.js. */
export function tryForm({ id, facts, try: form }, checkpoint) {
  const answer = h("div", { class: "answer", hidden: true });
  // What streams is read aloud once, when it is whole.
  const spoken = h("p", { class: "hidden", "aria-live": "polite" });
  const status = h("p", { class: "aside" });
  const submit = h("button", { class: "main", type: "submit" }, form.kind === "text" && facts.task !== "language" ? "Classify" : BUTTONS[form.kind] ?? "Answer");
  const stop = h("button", { type: "button", hidden: true }, "Cancel");
  const input = inputFor(form);
  const options = (form.options ?? []).map(optionField);
  const node = h("form", { "aria-label": form.label },
    h("div", { class: "row" }, input.node, submit, stop),
    h("div", { class: "row spaced" }, options.map(({ node: field }) => field), checkpoint.node),
    answer, spoken, status);
  let job = null, working = null, streamed = "", sample = 0;

  hear("part", (part) => {
    if (!job || part.job !== job || part.text === undefined) return;
    if (part.sample !== sample) [streamed, sample] = [`${streamed}\n${input.prompt()}`, part.sample];
    streamed += part.text;
    answer.hidden = false;
    say(answer, streamed);
  });
  stop.addEventListener("click", () => working?.cancel());
  node.addEventListener("keydown", (event) => { if (event.key === "Escape" && working) { event.preventDefault(); working.cancel(); } });
  node.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (working) return;
    [streamed, sample] = [input.prompt?.() ?? "", 0];
    fill(status);
    fill(answer);
    answer.hidden = true;
    stop.hidden = false;
    submit.disabled = true;
    try {
      const given = await input.value();
      const body = { run: id, ...given, options: Object.fromEntries(options.map(({ name, value }) => [name, value()]).filter(([, value]) => value !== "")), seed: 0, checkpoint: checkpoint.value() };
      working = run("/api/predict", body, (now) => { job = now.job; fill(status, progressText(now)); });
      const result = await working;
      answer.hidden = false;
      fill(answer, ...resultNodes(result, given.input, (word) => { input.set(word); node.requestSubmit(); }));
      announce(spoken, answer.innerText);
      fill(status, result.note ?? "", result.command ? h("details", { class: "tabled" }, h("summary", {}, "The same in a terminal"), command(result.command)) : null);
    } catch (error) { fill(status, problem(error)); }
    working = job = null;
    stop.hidden = true;
    submit.disabled = false;
  });
  return node;
}

function optionField({ name, label, type, default: usual, min, max, step, choices }) {
  const control = type === "select"
    ? h("select", {}, (choices ?? []).map((choice) => h("option", { value: choice, selected: choice === usual }, choice || "as the recipe says")))
    : h("input", { type: "number", class: "short", value: usual, min, max, step });
  return { name, value: () => (type === "select" ? control.value : control.value === "" ? "" : Number(control.value)), node: h("label", {}, `${label} `, control) };
}

/** A control for a kind of input: {node, value() -> {input} or {upload}, set?, prompt?}. */
function inputFor(form) {
  if (form.kind === "digit") {
    const picture = drawing();
    return { node: picture.node, value: async () => ({ upload: (await upload(await picture.blob(), "image/png")).upload }) };
  }
  if (form.kind === "image" || form.kind === "sound") {
    const accept = form.kind === "image" ? "image/png,image/jpeg" : "audio/wav,audio/flac,audio/ogg,audio/mpeg";
    const file = h("input", { type: "file", accept, "aria-label": form.kind === "image" ? "A picture" : "A recording", id: "file" });
    const microphone = form.kind === "sound" ? recorder() : null;
    if (microphone) file.addEventListener("change", () => microphone.clear());
    return {
      node: h("div", { class: "row wider" }, file, microphone?.node),
      value: async () => {
        const chosen = microphone?.recording() ?? file.files[0];
        if (!chosen) throw new Error(form.kind === "image" ? "Choose a picture first." : "Choose a recording, or record one.");
        return { upload: (await upload(chosen, chosen.type)).upload };
      },
    };
  }
  const box = h("input", { type: "text", value: form.input ?? "", "aria-label": LABELS[form.kind] ?? form.label, class: "wider", autocomplete: "off" });
  return {
    node: box,
    set: (text) => { box.value = text; },
    prompt: () => box.value.trimEnd(),
    value: async () => ({ input: box.value }),
  };
}

function resultNodes(result, prompt, choose) {
  if (result.rows) {
    return [h("table", {}, result.columns ? h("thead", {}, h("tr", {}, result.columns.map((title) => h("th", { scope: "col" }, title)))) : null,
      h("tbody", {}, result.rows.map((cells) => h("tr", {}, cells.map((cell) => h("td", {}, String(cell)))))))];
  }
  if (result.samples || result.text !== undefined) {
    return (result.samples ?? [result.text]).map((text) => {
      if (!result.samples || !prompt) return h("p", {}, text);
      const given = prompt.trimEnd();
      return text.startsWith(given) ? h("p", {}, h("b", {}, given), text.slice(given.length)) : h("p", {}, text);
    });
  }
  if (result.classes) {
    return [h("table", { class: "tally" }, h("tbody", {}, result.classes.slice(0, 10).map(({ label, probability }) => h("tr", {},
      h("th", { scope: "row" }, label), h("td", { class: "number" }, `${(probability * 100).toFixed(1)}\u00a0%`), h("td", {}, h("meter", { min: 0, max: 1, value: probability, "aria-label": label }))))))];
  }
  if (result.neighbours) {
    return [h("ul", { class: "chips" }, result.neighbours.map(({ word, similarity }) => h("li", {}, h("button", { type: "button", class: "quiet", onclick: () => choose(word) }, word), h("span", { class: "aside" }, similarity.toFixed(3)))))];
  }
  if (result.picture) return [h("img", { src: result.picture, alt: "What the model made of the picture", class: "pixels" })];
  return [h("pre", {}, JSON.stringify(result, null, 1))];
}
