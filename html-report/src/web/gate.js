/** How a cell of the gate looks. */
function lookOfGate({ verdict, passes }) {
  if (verdict === "-") return "runs-not";
  if (!passes) return "fails";
  return verdict === "runs" ? "runs-code" : "runs-ptx";
}

const RUNG_MARKS = { assembled: "a", observed: "o", loaded: "l" };

/** A table of GPUs or files, and of drivers. Arrow keys move between its cells. */
class GateTable {
  constructor(matrix, index) {
    this.matrix = matrix;
    this.id = index ? `gate${index + 1}` : "gate";
  }

  section() {
    const { matrix } = this;
    const head = el("tr", {}, el("th", { scope: "col" }, ""), ...matrix.columns.map((column) => el("th", { scope: "col" }, column)));
    this.rows = matrix.rows.map((row) => el("tr", {}, el("th", { scope: "row" }, row.name), ...row.cells.map((cell, index) => this.cell(row, cell, index))));
    const box = matrixBox(matrix.title, head, this.rows);
    const legend = [["runs-code", "runs from machine code"], ["runs-ptx", "the driver compiles PTX, or only some kernels run, as allowed"], ["fails", "not as required"], ["runs-not", "no such machine, or nothing to run"]];
    const keys = el("ul", { class: "legend" }, ...legend.map(([look, text]) => el("li", {}, el("span", { class: `swatch ${look}` }), text)));
    const marks = "A letter says what a cell stands on beyond documented rules: a, assembled by ptxas; o, observed with this driver on this GPU; l, loaded on this GPU.";
    return el("section", { id: this.id }, el("h2", {}, matrix.title), el("p", { class: "note" }, `${matrix.note} Each cell has its reason. ${marks}`), box, keys);
  }

  cell(row, tile, index) {
    const shown = [tile.verdict === "-" ? "–" : tile.verdict, tile.text].filter(Boolean).join(" ");
    const mark = RUNG_MARKS[tile.rung];
    const why = [`${row.name}, ${this.matrix.columns[index]}: ${tile.verdict === "-" ? "nothing to judge" : tile.verdict}`, tile.rung, tile.why].filter(Boolean).join("\n");
    const cell = el("td", { class: lookOfGate(tile), tabindex: "-1", "aria-label": why }, shown, mark ? el("sup", {}, mark) : null);
    cell.why = why;
    return cell;
  }
}
