// What every room has: colours, the list of jobs, whether the server answers, what the address could not say.

import { $, $$, announce, fill, h, say } from "./dom.js";
import { cancel, connect, hear, isFile, progressText, running } from "./live.js";
import { several } from "./words.js";

const THEMES = ["", "light", "dark"];
const themeNames = { "": "as the system", light: "light", dark: "dark" };

function theme() {
  const button = $("#theme");
  let chosen = "";
  try { chosen = localStorage.getItem("porism-theme") ?? ""; } catch { /* no storage: as the system */ }
  const apply = () => {
    if (chosen) document.documentElement.dataset.theme = chosen; else delete document.documentElement.dataset.theme;
    button.setAttribute("aria-label", `Colours: ${themeNames[chosen]}`);
    button.title = button.getAttribute("aria-label");
  };
  button.addEventListener("click", () => {
    chosen = THEMES[(THEMES.indexOf(chosen) + 1) % THEMES.length];
    try { localStorage.setItem("porism-theme", chosen); } catch { /* it holds for this page */ }
    apply();
  });
  apply();
}

function jobsButton() {
  const button = $("#jobs"), dialog = $("#jobs-dialog");
  let isConnected = true;
  const show = () => {
    const now = running();
    say(button, !isConnected ? "Not connected" : now.length ? several(now.length, "job") : "No jobs");
    button.classList.toggle("bad", !isConnected);
    if (!dialog.open) return;
    fill($("ul", dialog), now.length
      ? now.map((job) => h("li", {}, h("span", {}, job.title ?? job.kind, h("span", { class: "aside" }, ` ${progressText(job)}`)), h("button", { type: "button", "data-key": job.job, onclick: () => cancel(job.job) }, "Cancel")))
      : h("li", {}, isConnected ? "Nothing is running or waiting." : "The server does not answer. This page tries again by itself; sliders still work."));
  };
  button.addEventListener("click", () => { dialog.showModal(); show(); });
  $("#jobs-close").addEventListener("click", () => dialog.close());
  hear("job", show);
  hear("connected", (now) => { isConnected = now; show(); });
  show();
}

/** Controls that fold on a narrow screen are open on a wide one. */
function folds() {
  const wide = matchMedia("(min-width: 54.01rem)");
  const apply = () => $$(".fold").forEach((fold) => { fold.open = wide.matches; });
  wide.addEventListener("change", apply);
  apply();
}

/** Start what every page has. */
export function startPage() {
  theme();
  folds();
  if (!isFile) { jobsButton(); connect(); }
}

/** The sentence that answers: shown, announced, and the title of the tab where that has no other. */
export function showHeadline(headline, title = headline) {
  say($("#headline"), headline);
  announce($("#announced"), headline);
  document.title = `${title} · Porism`;
}

/** Name what an address said that could not be read. */
export function leftOut(lines) {
  const note = $("#left-out");
  note.hidden = !lines.length;
  fill(note, ...lines.map((line) => h("p", {}, line)));
}

/** An error where it happened: what is wrong, and what mends it. */
export const problem = (error) => h("p", { class: "note", role: "alert" }, error.message, error.hint ? h("span", { class: "hint" }, ` ${error.hint}`) : null);
