/** Moves the focus between the cells of a matrix by the arrow keys. */
function moveInMatrix(rows, event) {
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const step = steps[event.key], cell = event.target;
  if (!step || isShortcut(event) || !(cell instanceof HTMLTableCellElement)) return;
  const row = rows[rows.indexOf(cell.parentElement) + step[0]];
  const next = row && row.cells[cell.cellIndex + step[1]];
  if (next && next.hasAttribute("tabindex")) {
    cell.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }
  event.preventDefault();
}

/** The table of a matrix, whose cells show their reasons. */
function matrixBox(title, head, rows) {
  const table = el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows));
  const box = el("div", { class: "matrix", role: "region", "aria-label": title }, table);
  tooltips(box, (cell) => cell.why);
  box.addEventListener("keydown", (event) => moveInMatrix(rows, event));
  const first = box.querySelector("td[tabindex]");
  if (first) first.tabIndex = 0;
  return box;
}

/** How a cell looks, and in few letters what a GPU runs. */
function outcomeOf(report) {
  const [form, target] = report.outcome.split(" ");
  if (form === "no-kernels") return ["runs-not", "–"];
  if (!report.runs) {
    const nothing = ["no-binary", "symbol-not-found"].includes(form) || report.error === null;
    return nothing ? ["runs-not", "–"] : ["fails", "error"];
  }
  if (form === "sass" || form === "code") return ["runs-code", target || form];
  if (form === "ptx") return ["runs-ptx", `PTX ${target}`];
  return ["runs-ptx", report.outcome];
}

function whyOf(group, report) {
  const lines = [`${report.gpu}: ${report.outcome}`, report.reason];
  if (report.error) lines.push(report.error);
  if (report.parts.length) lines.push(`links ${report.parts.map((part) => `${part.name} of ${part.container}`).slice(0, 6).join(", ")}`);
  for (const { entry, why } of report.passed_over.slice(0, 12)) lines.push(`not entry ${entry} (${group.entries[entry - 1] || ""}): ${why}`);
  return lines.join("\n");
}

/** A table of GPUs and groups of containers. Arrow keys move between its cells. */
class GpuTable {
  constructor(matrix, index) {
    this.matrix = matrix;
    this.id = index ? `gpus${index + 1}` : "gpus";
    const order = (name) => Number((/\d+/.exec(name) || [0])[0]);
    const runs = new Map();
    for (const { gpus } of matrix.groups) for (const { gpu, runs: does } of gpus) runs.set(gpu, runs.get(gpu) || does);
    const isAmd = (name) => name.startsWith("gfx");
    const names = [...runs.keys()].filter((name) => !isAmd(name) || runs.get(name));
    this.hidden = runs.size - names.length;
    this.gpus = names.sort((one, other) => isAmd(one) - isAmd(other) || order(one) - order(other) || (one < other ? -1 : 1));
  }

  section() {
    const { matrix } = this;
    const head = el("tr", {}, el("th", { scope: "col" }, "Containers"), el("th", { scope: "col" }, "Number"), ...this.gpus.map((gpu) => el("th", { scope: "col" }, gpu)));
    this.rows = matrix.groups.map((group) => {
      const reports = new Map(group.gpus.map((report) => [report.gpu, report]));
      const cells = this.gpus.map((gpu) => {
        const report = reports.get(gpu);
        if (!report) return el("td", {}, "");
        const [look, text] = outcomeOf(report);
        const cell = el("td", { class: look, tabindex: "-1", "data-column": gpu, "aria-label": `${text === "–" ? "nothing" : text}. ${whyOf(group, report)}` }, text);
        cell.why = whyOf(group, report);
        return cell;
      });
      const what = { linked: ", linked", object: ", an object", data: ", in data" }[group.role] || "";
      const where = el("th", { scope: "row" }, `${group.places}${what}`);
      where.why = `${group.places}${what}\n${group.entries.join(", ")}\n${group.basis === "observed" ? "as seen on GPUs" : "as documented"}`;
      return el("tr", {}, where, el("td", { class: "runs-not", "data-column": "containers" }, number(group.containers)), ...cells);
    });
    if (this.rows.length > 1) this.rows.unshift(this.all());
    const box = matrixBox(matrix.title, head, this.rows);
    const notes = [`Driver: ${matrix.driver}.`, "Each cell has its reason."];
    if (matrix.parts) notes.push(`${number(matrix.parts)} containers are parts of linked ones.`);
    if (this.hidden) notes.push(`${this.hidden} GPUs run nothing and are left out.`);
    const legend = [["runs-code", "machine code"], ["runs-ptx", "PTX or a link by the driver"], ["runs-not", "nothing for this GPU"], ["fails", "an error"]];
    const keys = el("ul", { class: "legend" }, ...legend.map(([look, text]) => el("li", {}, el("span", { class: `swatch ${look}` }), text)));
    return el("section", { id: this.id }, el("h2", {}, matrix.title), el("p", { class: "note" }, notes.join(" ")), box, keys);
  }

  /** The row that says on how many containers of all each GPU runs something. */
  all() {
    const { groups } = this.matrix;
    const total = groups.reduce((count, group) => count + group.containers, 0);
    const cells = this.gpus.map((gpu) => {
      const runs = (looks) => groups.reduce((count, group) => {
        const report = group.gpus.find((one) => one.gpu === gpu);
        return count + (report && looks.includes(outcomeOf(report)[0]) ? group.containers : 0);
      }, 0);
      const code = runs(["runs-code"]), ptx = runs(["runs-ptx"]), fails = runs(["fails"]);
      const look = fails ? "fails" : code ? "runs-code" : ptx ? "runs-ptx" : "runs-not";
      const cell = el("td", { class: look, tabindex: "-1", "data-column": gpu }, number(code + ptx));
      cell.why = `${gpu} runs machine code of ${number(code)}, PTX of ${number(ptx)}, and nothing of ${number(total - code - ptx)} containers`;
      cell.setAttribute("aria-label", cell.why);
      return cell;
    });
    return el("tr", { class: "all" }, el("th", { scope: "row" }, "all: how many run"), el("td", { class: "runs-not", "data-column": "containers" }, number(total)), ...cells);
  }
}
