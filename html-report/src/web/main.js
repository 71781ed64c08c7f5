byId("title").textContent = page.title;
byId("footer").textContent = `Written by ${page.producer}. Sizes in words count 1000 bytes to the kB.`;

const THEMES = ["auto", "light", "dark"];
let theme = "auto";
function setTheme(next) {
  theme = next;
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  byId("theme").textContent = `theme: ${theme}`;
  byId("theme").setAttribute("aria-label", `Colours: ${theme}. Press for ${THEMES[(THEMES.indexOf(theme) + 1) % 3]}.`);
}
byId("theme").addEventListener("click", () => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % 3]));
setTheme("auto");

const treemap = page.tree && (page.tree.children || page.tree.functions) ? new Treemap(page.tree) : null;
const tables = page.tables.map((table) => new DataTable(table));
const views = [
  ...(page.timeline ? [new TimelineView(page.timeline)] : []),
  ...(treemap ? [treemap] : []),
  ...page.gate.map((matrix, index) => new GateTable(matrix, index)),
  ...page.gpus.map((matrix, index) => new GpuTable(matrix, index)),
  ...tables,
];
const facts = el("dl", { class: "facts" }, ...page.facts.map(({ label, value }) => el("div", {}, el("dt", {}, label), el("dd", {}, value.replace(/\d{5,}/g, (digits) => number(digits))))));
const sections = views.map((view) => view.section());
byId("main").replaceChildren(facts, ...sections);
byId("sections").append(...sections.map((section) => el("a", { href: `#${section.id}` }, section.querySelector("h2").textContent)));

/** Searches in the treemap and in all tables. */
function search(text) {
  const query = parseQuery(text);
  const rows = tables.map((table) => [table.table.title, table.filter(query)]);
  const found = treemap && treemap.search(query);
  const parts = rows.filter(([, count]) => count).map(([title, count]) => `${number(count)} in ${title}`);
  if (found && found.functions) parts.push(`${number(found.functions)} functions of ${bytes(found.bytes)} in the treemap`);
  byId("found").textContent = text.trim() ? `${parts.length ? parts.join(", ") : "nothing"} found` : "";
}
let pending = 0;
byId("search").addEventListener("input", () => {
  cancelAnimationFrame(pending);
  pending = requestAnimationFrame(() => search(byId("search").value));
});
document.addEventListener("keydown", (event) => {
  const isTyping = event.target instanceof HTMLInputElement;
  if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey) {
    byId("search").focus();
    byId("search").select();
    event.preventDefault();
  } else if (event.key === "Escape") {
    hideTooltip();
    if (isTyping && byId("search").value) {
      byId("search").value = "";
      search("");
    } else if (isTyping) event.target.blur();
  }
});
// What a link in the header leads to is not hidden by the header.
const header = document.querySelector("header");
const setPadding = () => { document.documentElement.style.scrollPaddingTop = `${header.offsetHeight + 10}px`; };
setPadding();
onResize(header, setPadding);
performance.mark("drawn");
// What was drawn is on the screen after the next frame.
requestAnimationFrame(() => setTimeout(() => performance.mark("shown")));
