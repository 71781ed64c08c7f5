const ROW = 26;
const PRINTED = 100;
const WIDTHS = { name: 520, number: 84, bytes: 84, change: 84, seconds: 84 };
/** The part of the table that names may take, so that there is room for figures on narrow screens. */
const NAME_SHARE = 0.42;
const CHARACTER = 7.6;

/** A table of which only the rows in view are elements. */
class DataTable {
  constructor(table) {
    this.table = table;
    this.rows = table.rows;
    this.order = Array.from(table.rows.keys());
    this.visible = this.order;
    this.sort = { column: table.sorted_by, descending: true };
    this.active = -1;
    this.widths = table.columns.map((column, index) => this.width(column, index));
    this.head = el("div", { class: "head", role: "row", "aria-rowindex": 1 });
    this.body = el("div", { class: "body", role: "rowgroup" });
    this.scroll = el("div", { class: "scroll", role: "grid", tabindex: "0", "aria-label": table.title, "aria-colcount": table.columns.length, "aria-describedby": `${table.id}-count` }, this.head, this.body);
    this.count = el("p", { class: "note", id: `${table.id}-count` });
    this.detail = el("div", { class: "detail", hidden: "" });
    this.scroll.addEventListener("scroll", () => this.draw(), { passive: true });
    this.scroll.addEventListener("keydown", (event) => this.key(event));
    this.body.addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (row) this.select(Number(row.dataset.at), true);
    });
    this.drawHead();
    this.resort();
  }

  section() {
    const { id, title, note } = this.table;
    printListeners.push(() => {
      this.drawHead();
      this.filter(this.query);
    });
    onResize(this.scroll, () => {
      this.drawHead();
      this.draw();
    });
    return el("section", { id }, el("h2", {}, title), note ? el("p", { class: "note" }, note) : null, this.count, el("div", { class: "grid" }, this.scroll), this.detail);
  }

  width(column, index) {
    if (column.kind === "text") {
      let most = column.label.length + 4;
      for (let at = 0; at < this.rows.length && at < 3000; at += 1) {
        const cell = this.rows[at][index];
        if (cell !== null) most = Math.max(most, page.texts[cell].length);
      }
      return Math.min(Math.max(most * CHARACTER + 18, 60), 420);
    }
    if (column.kind === "name") return WIDTHS.name;
    const longest = this.rows.reduce((most, row) => (Math.abs(row[index]) > Math.abs(most) ? row[index] : most), 0);
    return Math.max(WIDTHS[column.kind], column.label.length * 8.5 + 32, this.text(column, longest).length * CHARACTER + 24);
  }

  /** On paper, columns are as narrow as they may be. */
  widthOf(index) {
    const { kind } = this.table.columns[index];
    const most = { name: 420, text: 220 }[kind] || 96;
    if (printing) return Math.min(this.widths[index], most);
    return kind === "name" ? Math.min(this.widths[index], Math.max(150, NAME_SHARE * this.scroll.clientWidth)) : this.widths[index];
  }

  text(column, cell) {
    if (cell === null) return "–";
    switch (column.kind) {
      case "name": return page.names[cell][0];
      case "text": return page.texts[cell];
      case "change": return signed(cell);
      case "seconds": return duration(cell);
      default: return number(cell);
    }
  }

  drawHead() {
    this.head.replaceChildren(...this.table.columns.map((column, index) => {
      const isSorted = this.sort.column === index;
      const arrow = isSorted ? (this.sort.descending ? " ▼" : " ▲") : "";
      const left = isText(column);
      const button = el("button", { type: "button", class: left ? "left" : "", title: `${column.help} (filter: ${column.key})`, onclick: () => this.sortBy(index) }, column.label + arrow);
      button.style.width = `${this.widthOf(index)}px`;
      const sorting = isSorted ? (this.sort.descending ? "descending" : "ascending") : "none";
      return el("div", { role: "columnheader", "aria-sort": sorting, "aria-colindex": index + 1 }, button);
    }));
  }

  sortBy(index) {
    const descending = this.sort.column === index ? !this.sort.descending : !isText(this.table.columns[index]);
    this.sort = { column: index, descending };
    this.drawHead();
    this.head.children[index].firstChild.focus();
    this.resort();
  }

  resort() {
    const { column, descending } = this.sort;
    if (column !== null) {
      const { kind } = this.table.columns[column];
      const texts = kind === "name" ? nameTexts : kind === "text" ? otherTexts : null;
      const ranks = texts && this.ranks(texts);
      const keys = Float64Array.from(this.rows, (row) => {
        const cell = row[column];
        if (cell === null) return descending ? -Infinity : Infinity;
        return ranks ? ranks[cell] : kind === "change" ? Math.abs(cell) : cell;
      });
      const sign = descending ? -1 : 1;
      this.order.sort((one, other) => sign * (keys[one] - keys[other]) || one - other);
    }
    this.filter(this.query || parseQuery(""));
  }

  /** The places of texts in their order. */
  ranks(texts) {
    const order = Array.from(texts.keys()).sort((one, other) => (texts[one] < texts[other] ? -1 : texts[one] > texts[other] ? 1 : 0));
    const ranks = new Uint32Array(texts.length);
    order.forEach((text, rank) => { ranks[text] = rank; });
    return ranks;
  }

  /** Shows the rows that a query names, and returns their number. */
  filter(query) {
    this.query = query;
    const { columns } = this.table;
    const all = 2 ** query.words.length - 1;
    const { names, texts } = textBits(query.words);
    const searched = columns.flatMap((column, index) => (column.kind === "name" ? [[index, names]] : column.kind === "text" ? [[index, texts]] : []));
    const compared = query.comparisons.map(({ key, operator, value }) => ({ index: columns.findIndex((column) => column.key === key && !isText(column)), operator, value }));
    const holds = {
      "<": (one, other) => one < other, ">": (one, other) => one > other, "=": (one, other) => one === other,
      "<=": (one, other) => one <= other, ">=": (one, other) => one >= other,
    };
    const isShown = (at) => {
      const row = this.rows[at];
      let bits = 0;
      for (let one = 0; all && one < searched.length; one += 1) {
        const cell = row[searched[one][0]];
        if (cell !== null) bits |= searched[one][1][cell];
      }
      return bits === all && compared.every(({ index, operator, value }) => index >= 0 && row[index] !== null && holds[operator](row[index], value));
    };
    const isAll = all === 0 && compared.length === 0;
    this.visible = isAll ? this.order : this.order.filter(isShown);
    this.active = -1;
    this.detail.hidden = true;
    this.scroll.scrollTop = 0;
    this.scroll.setAttribute("aria-rowcount", this.visible.length + 1);
    this.count.textContent = isAll ? `${number(this.rows.length)} ${this.rows.length === 1 ? "row" : "rows"}` : `${number(this.visible.length)} of ${number(this.rows.length)} rows match`;
    this.draw();
    return this.visible.length;
  }

  draw() {
    const rows = printing ? Math.min(this.visible.length, PRINTED) : this.visible.length;
    this.body.style.height = `${rows * ROW}px`;
    const first = printing ? 0 : Math.max(0, Math.floor(this.scroll.scrollTop / ROW) - 8);
    const inView = Math.ceil((this.scroll.clientHeight || 500) / ROW) + 16;
    const last = printing ? rows : Math.min(rows, first + inView);
    const elements = [];
    for (let at = first; at < last; at += 1) elements.push(this.row(at));
    this.body.replaceChildren(...elements);
    const active = this.active >= first && this.active < last ? `${this.table.id}-row-${this.active}` : null;
    if (active) this.scroll.setAttribute("aria-activedescendant", active);
    else this.scroll.removeAttribute("aria-activedescendant");
    if (printing && rows < this.visible.length) this.count.textContent = `the first ${rows} of ${number(this.visible.length)} rows`;
  }

  row(at) {
    const cells = this.rows[this.visible[at]];
    const row = el("div", { class: at === this.active ? "row active" : "row", role: "row", id: `${this.table.id}-row-${at}`, "data-at": at, "aria-rowindex": at + 2, "aria-selected": String(at === this.active) });
    row.style.top = `${at * ROW}px`;
    this.table.columns.forEach((column, index) => {
      const width = this.widthOf(index);
      const text = column.kind === "name" && cells[index] !== null ? cutName(cells[index], Math.floor((width - 16) / CHARACTER)) : this.text(column, cells[index]);
      const left = isText(column);
      const isError = column.key === "severity" && text === "error";
      const cell = el("div", { class: `cell${left ? " left" : ""}${isError ? " error" : ""}`, role: "gridcell", "aria-colindex": index + 1, title: column.kind === "name" ? this.text(column, cells[index]) : undefined }, text);
      cell.style.width = `${width}px`;
      row.append(cell);
    });
    return row;
  }

  select(at, opens) {
    if (!this.visible.length) return;
    this.active = Math.max(0, Math.min(at, this.visible.length - 1));
    const top = this.active * ROW, head = this.head.offsetHeight, room = this.scroll.clientHeight - head - ROW;
    if (top < this.scroll.scrollTop) this.scroll.scrollTop = top;
    else if (top > this.scroll.scrollTop + room) this.scroll.scrollTop = top - room;
    this.draw();
    if (opens || !this.detail.hidden) this.open();
  }

  /** Shows all cells of the active row below the table. */
  open() {
    const row = this.rows[this.visible[this.active]];
    const entries = this.table.columns.flatMap((column, index) => {
      if (row[index] === null) return [];
      const mangled = column.kind === "name" ? page.names[row[index]][1] : null;
      const pair = [el("dt", {}, column.label), el("dd", {}, this.text(column, row[index]))];
      return mangled ? [...pair, el("dt", {}, "Mangled"), el("dd", {}, mangled)] : pair;
    });
    this.detail.replaceChildren(el("dl", {}, ...entries));
    this.detail.hidden = false;
  }

  key(event) {
    if (event.target !== this.scroll || isShortcut(event)) return;
    const pageful = Math.max(1, Math.floor(this.scroll.clientHeight / ROW) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: pageful, PageUp: -pageful };
    if (event.key in steps) this.select(this.active < 0 ? 0 : this.active + steps[event.key]);
    else if (event.key === "Home") this.select(0);
    else if (event.key === "End") this.select(this.visible.length - 1);
    else if (event.key === "Enter" && this.active >= 0) this.open();
    else if (event.key === "Escape" && !this.detail.hidden) this.detail.hidden = true;
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
