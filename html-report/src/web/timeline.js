const LABELS = 150;
const LANE = 17;
const CHART = 54;
const FAMILIES = [
  ["f0", "optimization", ["Merge", "Optimize"]],
  ["f1", "PTX and machine code by LLVM", ["Generate PTX", "Generate code", "Compile module"]],
  ["f2", "ptxas", ["ptxas", "Find lowest PTX version"]],
  ["f3", "device linker", ["nvlink", "ld.lld", "Join PTX", "Copy kernels"]],
  ["f4", "host linker", ["Execute host linker"]],
  ["f5", "reading", ["ExtractDeviceCode", "Read symbols", "Compare translation units"]],
  ["f6", "decisions", ["Partition", "Compare kernels", "Distribute jobs"]],
  ["f7", "bundling", ["Bundle linked output", "Wrap bundled images"]],
];
const PASS = "f8";
const familyOf = (span) => (span.is_pass ? PASS : (FAMILIES.find(([, , names]) => names.includes(span.name)) || ["f10"])[0]);

/** The spans of a link over time, with memory and running jobs above. */
class TimelineView {
  constructor(timeline) {
    Object.assign(this, timeline);
    this.from = 0;
    this.to = Math.max(1, this.end);
    this.critical = new Set(timeline.critical.map(([lane, span]) => `${lane}/${span}`));
    this.active = null;
    this.hasPasses = this.lanes.some((lane) => lane.spans.some((span) => span.is_pass));
    this.showsPasses = false;
    this.svg = el("svg:svg", { role: "group", "aria-label": "Spans by thread" });
    this.box = el("div", { class: "timeline", tabindex: "0", role: "application", "aria-label": "Timeline. Left and right move along a thread, up and down between threads, plus and minus zoom." }, this.svg);
    this.said = el("p", { class: "note", role: "status", "aria-live": "polite" });
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.svg.addEventListener("click", (event) => event.target.place && this.select(event.target.place));
    this.svg.addEventListener("dblclick", () => this.zoomToActive());
    tooltips(this.svg, (shape) => shape.place && this.describe(shape.place));
  }

  section() {
    onResize(this.box, () => this.draw());
    printListeners.push(() => this.draw());
    const button = (label, text, run) => el("button", { type: "button", "aria-label": label, onclick: run }, text);
    const tools = el("div", { class: "tools" }, button("Zoom in", "+", () => this.zoom(0.5)), button("Zoom out", "−", () => this.zoom(2)), button("Show all", "all", () => this.show(0, this.end)));
    if (this.hasPasses) tools.append(this.passButton());
    const families = this.hasPasses ? [...FAMILIES, [PASS, "LLVM's pass"]] : FAMILIES;
    const legend = [...families.map(([look, text]) => [look.replace("f", "k"), text]), ["k10", "other"]];
    const keys = el("ul", { class: "legend" }, ...legend.map(([look, text]) => el("li", {}, el("span", { class: `swatch ${look}` }), text)));
    const note = el("p", { class: "note" }, "Marked in red: the critical path, what the end of the link waited for, step by step backwards. ", el("kbd", {}, "arrows"), " move, ", el("kbd", {}, "Enter"), " zooms to a span, ", el("kbd", {}, "0"), " shows all.");
    return el("section", { id: "timeline" }, el("h2", {}, "Timeline"), note, tools, this.box, keys, this.said);
  }

  /** Shows and hides the passes of LLVM, which take many rows. */
  passButton() {
    const button = el("button", { type: "button", "aria-pressed": "false" }, "LLVM's passes");
    button.addEventListener("click", () => {
      this.showsPasses = !this.showsPasses;
      button.setAttribute("aria-pressed", this.showsPasses);
      if (this.active && !this.isShown(this.spanOf(this.active))) this.active = null;
      this.draw();
    });
    return button;
  }

  isShown(span) {
    return this.showsPasses || !span.is_pass;
  }

  spanOf([lane, span]) {
    return this.lanes[lane].spans[span];
  }

  describe(place) {
    const span = this.spanOf(place);
    const onPath = this.critical.has(place.join("/")) ? "\non the critical path" : "";
    return `${span.name}${span.detail ? `\n${span.detail}` : ""}\n${duration(span.duration / 1e6)}, from ${duration(span.start / 1e6)} on\n${this.lanes[place[0]].name}${onPath}`;
  }

  x(time) {
    return LABELS + ((time - this.from) / (this.to - this.from)) * (this.width - LABELS - 8);
  }

  draw() {
    this.width = printing ? PAPER : Math.max(500, this.box.clientWidth - 2);
    const parts = [];
    let y = this.axis(parts);
    y = this.chart(parts, y, this.memory, "memory", bytes);
    y = this.chart(parts, y, this.running, `jobs (${this.slots} at most)`, number, 0);
    this.lanes.forEach((lane, index) => { y = this.lane(parts, y, lane, index); });
    // Too many to be arguments of one call.
    const drawn = document.createDocumentFragment();
    parts.forEach((part) => drawn.append(part));
    this.svg.replaceChildren(drawn);
    this.svg.setAttribute("width", this.width);
    this.svg.setAttribute("height", y + 4);
  }

  axis(parts) {
    const span = this.to - this.from;
    const step = [1, 2, 5].flatMap((digit) => Array.from({ length: 10 }, (_, power) => digit * 10 ** power)).sort((a, b) => a - b).find((one) => span / one <= 10) || span;
    for (let time = Math.ceil(this.from / step) * step; time <= this.to; time += step) {
      const x = this.x(time);
      parts.push(el("svg:line", { class: "axis", x1: x, x2: x, y1: 2, y2: 16 }));
      if (x + 46 < this.width) parts.push(el("svg:text", { class: "quiet", x: x + 3, y: 12 }, this.label(time, step)));
    }
    return 18;
  }

  /** A time on the axis, with the digits by which marks differ. */
  label(time, step) {
    if (step >= 1e5) return `${(time / 1e6).toFixed(step >= 1e6 ? 0 : 1)} s`;
    if (step >= 100) return `${grouped.format((time / 1e3).toFixed(step >= 1e3 ? 0 : 1))} ms`;
    return `${number(time)} µs`;
  }

  chart(parts, y, points, label, format, before) {
    if (!points.length) return y;
    const most = points.reduce((peak, point) => Math.max(peak, point[1]), 0);
    const height = (value) => y + CHART - 4 - (value / Math.max(most, 1)) * (CHART - 8);
    let last = before === undefined ? points[0][1] : before;
    let path = `M${this.x(this.from)},${height(0)}L${this.x(this.from)},${height(last)}`;
    const clamp = (time) => this.x(Math.min(Math.max(time, this.from), this.to));
    for (const [time, value] of points) {
      path += `L${clamp(time)},${height(last)}L${clamp(time)},${height(value)}`;
      last = value;
    }
    path += `L${clamp(this.end)},${height(last)}L${clamp(this.end)},${height(0)}Z`;
    parts.push(el("svg:path", { class: "area", d: path }));
    parts.push(el("svg:text", { x: 6, y: y + 16 }, label), el("svg:text", { class: "quiet", x: 6, y: y + 32 }, `peak ${format(most)}`));
    parts.push(el("svg:line", { class: "axis", x1: 0, x2: this.width, y1: y + CHART, y2: y + CHART }));
    return y + CHART;
  }

  lane(parts, y, lane, index) {
    const depth = lane.spans.reduce((most, span) => (this.isShown(span) ? Math.max(most, span.depth) : most), 0) + 1;
    if (index % 2) parts.push(el("svg:rect", { class: "band", x: 0, y, width: this.width, height: depth * LANE + 3 }));
    parts.push(el("svg:text", { x: 6, y: y + 13 }, lane.name));
    lane.spans.forEach((span, at) => {
      if (!this.isShown(span)) return;
      const left = this.x(Math.max(span.start, this.from)), right = this.x(Math.min(span.start + span.duration, this.to));
      const place = [index, at], key = place.join("/"), isActive = this.active && this.active.join("/") === key;
      if (span.start > this.to || span.start + span.duration < this.from) return;
      // Shorter ones cannot be seen.
      if (right - left < 0.3 && !isActive && !this.critical.has(key)) return;
      const top = y + 1 + span.depth * LANE, width = Math.max(right - left, 0.6);
      const look = `span ${familyOf(span)}${isActive ? " active" : ""}`;
      const rect = el("svg:rect", { class: look, x: left, y: top, width, height: LANE - 2, rx: 1.5 });
      rect.place = place;
      parts.push(rect);
      if (this.critical.has(key)) parts.push(el("svg:rect", { class: "critical", x: left, y: top + LANE - 5, width: Math.max(width, 1), height: 3 }));
      const room = Math.floor((width - 6) / 6.2), text = span.detail && room > span.name.length + 8 ? `${span.name} ${span.detail.split("/").pop()}` : span.name;
      if (room > 3) parts.push(el("svg:text", { class: "on-span", x: left + 3, y: top + 12 }, text.length > room ? `${text.slice(0, room - 1)}…` : text));
    });
    return y + depth * LANE + 4;
  }

  show(from, to) {
    const least = 10;
    this.from = Math.max(0, Math.min(from, this.end - least));
    this.to = Math.min(Math.max(1, this.end), Math.max(to, this.from + least));
    this.draw();
  }

  zoom(factor) {
    const active = this.active && this.spanOf(this.active);
    const middle = active ? active.start + active.duration / 2 : (this.from + this.to) / 2;
    const half = ((this.to - this.from) * factor) / 2;
    this.show(middle - half, middle + half);
  }

  zoomToActive() {
    if (!this.active) return;
    const { start, duration: length } = this.spanOf(this.active);
    this.show(start - length * 0.1, start + length * 1.1);
  }

  select(place) {
    this.active = place;
    const { start, duration: length } = this.spanOf(place);
    if (start > this.to || start + length < this.from) this.show(start - length, start + 2 * length);
    else this.draw();
    this.said.textContent = this.describe(place).replaceAll("\n", ", ");
  }

  key(event) {
    const { key } = event;
    const isShown = (span) => this.isShown(span);
    const lanes = this.lanes.map((lane, index) => [lane, index]).filter(([lane]) => lane.spans.some(isShown));
    if (!lanes.length || isShortcut(event)) return;
    const [lane, at] = this.active || [lanes[0][1], -1];
    const along = { ArrowRight: 1, ArrowLeft: -1 }[key], across = { ArrowDown: 1, ArrowUp: -1 }[key];
    if (along) {
      let next = at + along;
      const { spans } = this.lanes[lane];
      while (spans[next] && !isShown(spans[next])) next += along;
      this.select([lane, spans[next] ? next : at >= 0 ? at : spans.findIndex(isShown)]);
    } else if (across) {
      const place = lanes.findIndex(([, index]) => index === lane);
      const [other, index] = lanes[Math.max(0, Math.min(place + across, lanes.length - 1))];
      const time = at >= 0 ? this.lanes[lane].spans[at].start : 0;
      const next = other.spans.findIndex((span) => span.start + span.duration > time && isShown(span));
      this.select([index, next < 0 ? other.spans.findLastIndex(isShown) : next]);
    } else if (key === "+" || key === "=") this.zoom(0.5);
    else if (key === "-") this.zoom(2);
    else if (key === "0") this.show(0, this.end);
    else if (key === "Enter") this.zoomToActive();
    else return;
    event.preventDefault();
  }
}
