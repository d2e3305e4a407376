// The cost room's Measure: seconds of a pass of each layer on this machine, one after the other.

import { fill, h, say } from "./dom.js";
import { progressText, run } from "./live.js";
import { problem } from "./page.js";

const told = (seconds) => (seconds < 1e-3 ? `${(seconds * 1e6).toPrecision(3)} µs` : seconds < 1 ? `${(seconds * 1e3).toPrecision(3)} ms` : `${seconds.toPrecision(3)} s`);

function timeText({ seconds, passes, disturbed, predicted_seconds: predicted, bound }) {
  const how = passes === 1 ? "one pass" : `the median of ${passes} passes`;
  const other = disturbed ? ", while other work had the machine" : "";
  return `${told(seconds)} (${how}${other})${predicted === null ? "" : `; ${told(predicted)} predicted, bound by ${bound}`}`;
}

/**
 * A function that measures the layers of `asked()`: {at, layers: [{name, body}]}. `button` cancels while it works;
 * `place` has a line for each layer.
 */
export function measuring(button, place, asked) {
  const label = button.textContent;
  let now = null;

  async function timeAll(calibrate) {
    const { at, layers } = asked();
    const lines = layers.map(({ name }) => h("li", {}, h("b", {}, name), " ", h("span", {}, "waits")));
    fill(place, h("p", {}, `A pass forward and backward at ${at}:`), h("ul", {}, lines));
    let isCalibrated = true, isCancelled = false;
    for (const [i, { body }] of layers.entries()) {
      const text = lines[i].lastChild;
      if (isCancelled) { say(text, "not measured"); continue; }
      now = run("/api/measure", { ...body, calibrate }, (job) => say(text, progressText(job)));
      try {
        const result = await now;
        isCalibrated &&= result.predicted_seconds !== null;
        say(text, timeText(result));
      } catch (error) {
        isCancelled = error.code === "cancelled";
        text.replaceWith(isCancelled ? h("span", {}, "cancelled") : problem(error));
      }
    }
    now = null;
    if (isCalibrated || isCancelled) return;
    place.append(h("p", { class: "aside" }, "A prediction beside it is made from what this machine can do, which is measured once and takes some minutes. ",
      h("button", { type: "button", onclick: () => start(true) }, "Predict too")));
  }
  async function start(calibrate) {
    if (now) { now.cancel(); return; }
    button.textContent = "Cancel";
    button.focus();
    await timeAll(calibrate);
    button.textContent = label;
  }
  return () => start(false);
}
