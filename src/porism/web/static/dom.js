// Elements made without markup in strings: text stays text, whoever wrote it.

const SPACES = { svg: "http://www.w3.org/2000/svg", math: "http://www.w3.org/1998/Math/MathML" };

const present = (children) => children.flat().filter((child) => child !== null && child !== undefined && child !== false);

const make = (space) => (tag, attributes = {}, ...children) => {
  const node = space ? document.createElementNS(SPACES[space], tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" && !space) node.value = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...present(children));
  return node;
};

/** An HTML element: h("p", {class: "aside"}, "text", child). `onclick` and the like take functions. */
export const h = make(null);
/** The same for SVG and for MathML. */
export const s = make("svg");
export const m = make("math");

export const $ = (selector, root = document) => root.querySelector(selector);
export const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

/** Replace what an element holds; the focus stays on the control with the same id or data-key. */
export function fill(node, ...children) {
  const active = document.activeElement;
  const key = node.contains(active) && active !== node && (active.id || active.dataset.key);
  node.replaceChildren(...present(children));
  if (key) $$("[id], [data-key]", node).find((one) => one.id === key || one.dataset.key === key)?.focus();
}

/** Set a text only where it differs, so that nothing is announced twice. */
export const say = (node, text) => { if (node.textContent !== text) node.textContent = text; };

const announcing = new WeakMap();

/** A text in a live region, changed at most once a second: the last one counts. */
export function announce(node, text) {
  const state = announcing.get(node) ?? { last: -Infinity, timer: 0 };
  announcing.set(node, state);
  clearTimeout(state.timer);
  const wait = state.last + 1000 - performance.now();
  const now = () => { state.last = performance.now(); say(node, text); };
  if (wait <= 0) now();
  else state.timer = setTimeout(now, wait);
}

/** A button that copies a text and says so. */
export function copyButton(label, text) {
  const button = h("button", { type: "button" }, label);
  button.addEventListener("click", async () => {
    let told = "Copied";
    try { await navigator.clipboard.writeText(text()); } catch { told = "Not allowed here"; }
    button.textContent = told;
    setTimeout(() => { button.textContent = label; }, 1500);
  });
  return button;
}

/** A command line with a button that copies it. */
export const command = (text) => h("div", { class: "copy" }, h("pre", {}, h("code", {}, text.split(/(\n| (?=--))/).map((part, i) => (i % 2 ? part : h("span", {}, part))))), copyButton("Copy", () => text));

/** A table: columns [{title, number?}], rows of [first cell, ...others]; each cell text or node. */
export function table(label, columns, rows) {
  const cell = (row) => row.map((content, i) => {
    const number = columns[i].number ? "number" : undefined;
    return i ? h("td", { class: number }, content ?? "–") : h("th", { scope: "row", class: number }, content);
  });
  const head = columns.map(({ title, number }) => h("th", { scope: "col", class: number ? "number" : undefined }, title));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
    h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows.map((row) => h("tr", {}, cell(row))))));
}

export const badge = (number) => h("span", { class: `badge c${colour(number)}`, "aria-hidden": "true" }, String(number));
/** Twelve colours, used again from the thirteenth on. */
export const colour = (number) => ((number - 1) % 12) + 1;
export const reading = () => JSON.parse($("#data")?.textContent || "{}");
