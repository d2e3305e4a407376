// The cost room's Save as one file: the server writes it, and knows its own layers; what was derived here is put in.

import { $, fill, h } from "./dom.js";
import { problem } from "./page.js";

const DATA = /(<script type="application\/json" id="data">).*(<\/script>)/;

/** Let a link save `shown()`, {costs, state, …}, as the room's data where a cost is of a module of the user's own. */
export function saving(link, shown) {
  link.addEventListener("click", async (event) => {
    const data = shown();
    if (!data.costs.some(({ target }) => target.includes(":"))) return;
    event.preventDefault();
    try {
      const page = await (await fetch(link.href)).text();
      // As the server writes it: no text in it may end the element.
      const written = JSON.stringify(data).replaceAll("<", "\\u003c");
      const file = new Blob([page.replace(DATA, (_, start, end) => start + written + end)], { type: "text/html" });
      h("a", { href: URL.createObjectURL(file), download: "porism-cost.html" }).click();
    } catch { fill($("#measured"), problem({ message: "The server does not answer.", hint: "Is porism serve still running?" })); }
  });
}
