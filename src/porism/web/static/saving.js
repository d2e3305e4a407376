// The cost room's Save as one file, for modules of the user's own: the server writes the file and knows its own layers,
// and what was derived here is put in. Loaded when somebody saves.

const DATA = /(<script type="application\/json" id="data">).*(<\/script>)/;

/** Save the page at an address with other data. */
export async function save(address, data) {
  const page = await (await fetch(address)).text();
  // As the server writes it: no text in it may end the element.
  const written = JSON.stringify(data).replaceAll("<", "\\u003c");
  const file = new Blob([page.replace(DATA, (_, start, end) => start + written + end)], { type: "text/html" });
  Object.assign(document.createElement("a"), { href: URL.createObjectURL(file), download: "porism-cost.html" }).click();
}
