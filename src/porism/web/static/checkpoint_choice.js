// Which checkpoint of a run answers: the best, or the one before it.

import { fill, h } from "./dom.js";

const NAMES = { best: "best", "best.previous": "the one before" };

/** {node, value(), choose(name), update(checkpoint)}: the choice is hidden where there is nothing to choose. */
export function checkpointChoice() {
  const select = h("select", {});
  const node = h("label", { hidden: true }, "Checkpoint ", select);
  return {
    node,
    value: () => (node.hidden ? undefined : select.value),
    choose: (name) => { select.value = name; select.focus(); },
    /** checkpoint: {damaged, whole} of /api/run. A damaged best one stays in the list, and the server says what it lacks. */
    update({ damaged = [], whole = [] } = {}) {
      const chosen = select.value;
      const shown = damaged.length ? [{ name: "best", epoch: null }, ...whole.filter(({ name }) => name !== "best")] : whole;
      fill(select, ...shown.map(({ name, epoch }) => h("option", { value: name }, `${NAMES[name] ?? name}, ${epoch === null ? "damaged" : `epoch ${epoch}`}`)));
      select.value = shown.some(({ name }) => name === chosen) ? chosen : shown[0]?.name ?? "";
      node.hidden = shown.length < 2;
    },
  };
}
