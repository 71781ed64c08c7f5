const isDifference = page.kind === "difference";
const KINDS = ["code", "constants", "variables", "debug information", "line information", "symbols", "relocations", "attributes", "headers and the rest"];
const FORMS = { cubin: "machine code", ptx: "PTX", ltoir: "LTO-IR", object: "code object" };
/** More are neither readable nor quick to restyle. */
const MOST_TILES = 800;
/** Square pixels of the smallest tile; what is smaller is summed up. */
const LEAST_AREA = 40;

/** A node of the tree as the treemap shows it. `weight` is its area. */
class Item {
  constructor(parent, kind, name, figures) {
    Object.assign(this, { parent, kind, name, children: null, ...figures });
    this.bits = 0;
    this.target = kind === "target" ? name : undefined;
  }

  path() {
    return this.parent ? [...this.parent.path(), this] : [this];
  }

  size() {
    return isDifference ? signedBytes(this.bytes - this.old) : bytes(this.bytes);
  }

  describe() {
    const kinds = { form: FORMS[this.name] || this.name, rest: "not device code", part: "kind of bytes" };
    const lines = [this.path().slice(1).map((item) => item.name).join(" › ") || this.name];
    if (isDifference) lines.push(`${number(this.old)} → ${number(this.bytes)} bytes (${signed(this.bytes - this.old)})`);
    else {
      const of = this.parent ? `, ${share(this.weight, this.parent.weight)} of ${this.parent.name}` : "";
      lines.push(`${number(this.bytes)} bytes${this.isUncompressed ? " before compression" : ""}${of}`);
    }
    if (this.uncompressed && this.uncompressed !== this.bytes) lines.push(`${number(this.uncompressed)} bytes before compression`);
    if (this.kind === "group") lines.push(`${number(this.members.length)} functions`);
    if (this.images) lines.push(this.images === 1 ? "1 image" : `${number(this.images)} images`);
    if (this.copies > 1) lines.push(`in ${number(this.copies)} images`);
    if (kinds[this.kind]) lines.push(kinds[this.kind]);
    if (this.mangled) lines.push(this.mangled);
    return lines.join("\n");
  }
}

function partWeight(part) {
  return isDifference ? Math.abs(part[1] - part[2]) : part[1];
}

const sum = (list, of) => list.reduce((total, one) => total + of(one), 0);

/** The one part of a file with device code, if nearly all of the file is something else: the map begins there. */
const MOST_OTHERS = 0.8;
function beginning(item) {
  const parts = (item.nodes || []).filter((one) => one.kind !== "rest");
  const others = item.weight - sum(parts, (one) => one.weight);
  return !isDifference && parts.length === 1 && others > MOST_OTHERS * item.weight ? parts[0] : item;
}

/** A label that lines end in only where its parts do. */
function breakable(label) {
  return label.replace(/::|[<,_-]/g, "$&\u200b");
}

/** Adds the items of a node's children. Those of functions are made when they are looked at. */
function itemOf(node, parent) {
  const item = new Item(parent, node.kind, node.name, {
    node, bytes: node.bytes, old: node.old_bytes, images: node.images, uncompressed: node.uncompressed,
  });
  const { children = [], functions = [], parts = [] } = node;
  item.scale = 1;
  if (functions.length || parts.length) {
    const stored = node.bytes + (node.old_bytes || 0), whole = node.uncompressed + (node.old_uncompressed || 0);
    item.scale = whole > 0 ? stored / whole : 1;
    item.weight = isDifference
      ? item.scale * (sum(functions, (one) => sum(one[2], partWeight)) + sum(parts, partWeight))
      : node.bytes;
  } else {
    // A target with code of one form needs no frame of its own.
    if (node.kind === "target" && children.length === 1) {
      const only = itemOf(children[0], parent);
      return Object.assign(only, { kind: "target", name: `${node.name} ${FORMS[only.name] || only.name}`, target: node.name });
    }
    item.nodes = children.map((child) => itemOf(child, item));
    if (!isDifference) item.weight = node.bytes;
    else item.weight = item.nodes.length ? sum(item.nodes, (one) => one.weight) : Math.abs(node.bytes - node.old_bytes);
  }
  return item;
}

function partItem(parent, part, scale) {
  return new Item(parent, "part", KINDS[part[0]], {
    bytes: part[1], old: part[2], weight: partWeight(part) * scale, part: part[0], isUncompressed: true,
  });
}

function childrenOf(item) {
  if (item.children) return item.children;
  if (item.nodes) item.children = item.nodes;
  else if (item.kind === "group") item.children = groupByName(item, item.members, item.beginning);
  else if (item.function) {
    item.children = item.function[2].map((part) => partItem(item, part, item.scale));
  } else if (item.node) {
    const { functions = [], parts = [] } = item.node;
    const scale = item.scale;
    const all = functions.map((one) => {
      const [name, copies, own] = one, [shown, mangled] = page.names[name], plain = shown.replace(/^void /, "");
      return new Item(item, "function", shown, {
        plain, ends: functions.length > MOST_BESIDE ? ends(plain) : [], mangled, copies, function: one, scale, weight: sum(own, partWeight) * scale, isUncompressed: true,
        bytes: sum(own, (part) => part[1]), old: isDifference ? sum(own, (part) => part[2]) : undefined,
      });
    });
    item.children = groupByName(item, all, 0);
    item.children.push(...parts.map((part) => partItem(item, part, scale)));
  } else item.children = [];
  item.children.sort((one, other) => other.weight - one.weight);
  return item.children;
}

/** As many functions are shown beside each other; more are grouped by the beginnings of their names. */
const MOST_BESIDE = 60;
const CHARACTER_OF_TILE = 7;

/** Where parts of a name end: namespaces, templates and their arguments. */
function ends(name) {
  const found = [];
  for (const match of name.matchAll(/::|[<(,]|(?<=[A-Za-z])_/g)) found.push(match.index + match[0].length);
  return found;
}

/** Groups functions whose names begin with the same namespace, template or arguments, `shared` characters of which all have. */
function groupByName(parent, functions, shared) {
  if (functions.length <= MOST_BESIDE) return functions;
  const first = functions[0].plain;
  let same = first.length;
  for (const one of functions) {
    let at = shared;
    while (at < same && first[at] === one.plain[at]) at += 1;
    same = at;
  }
  const by = (endOf) => {
    const groups = new Map();
    for (const one of functions) {
      const beginning = one.plain.slice(0, endOf(one));
      if (groups.has(beginning)) groups.get(beginning).push(one);
      else groups.set(beginning, [one]);
    }
    return groups;
  };
  let groups = by((one) => one.ends.find((at) => at > same) || one.plain.length);
  // Numbered names.
  if (groups.size === functions.length) groups = by(() => same + 1);
  if (groups.size === functions.length) return functions;
  return [...groups].flatMap(([beginning, members]) => (members.length === 1 ? members : [groupItem(parent, beginning, members)]));
}

function groupItem(parent, beginning, members) {
  const item = new Item(parent, "group", `${beginning}…`, {
    members, weight: sum(members, (one) => one.weight), bytes: sum(members, (one) => one.bytes), isUncompressed: true,
    old: isDifference ? sum(members, (one) => one.old) : undefined,
  });
  members.forEach((one) => { one.parent = item; });
  item.beginning = beginning.length;
  return item;
}

/** Squarified layout: rows of items whose rectangles are as square as possible. */
function squarify(items, { x, y, w, h }) {
  const total = sum(items, (item) => item.weight), placed = [];
  let scale = total > 0 ? (w * h) / total : 0, start = 0;
  while (start < items.length && w > 0 && h > 0) {
    const side = Math.min(w, h);
    let end = start, area = 0, worst = Infinity;
    while (end < items.length) {
      const next = area + items[end].weight * scale;
      const largest = items[start].weight * scale, smallest = items[end].weight * scale;
      const ratio = Math.max((side * side * largest) / (next * next), (next * next) / (side * side * smallest));
      if (end > start && !(ratio <= worst)) break;
      worst = ratio; area = next; end += 1;
    }
    const thickness = Math.min(area / side, w >= h ? w : h);
    let along = 0;
    for (const item of items.slice(start, end)) {
      const length = area > 0 ? (item.weight * scale * side) / area : 0;
      placed.push([item, w >= h ? { x, y: y + along, w: thickness, h: length } : { x: x + along, y, w: length, h: thickness }]);
      along += length;
    }
    if (w >= h) { x += thickness; w -= thickness; } else { y += thickness; h -= thickness; }
    start = end;
  }
  return placed;
}

class Treemap {
  constructor(tree) {
    this.root = itemOf(tree, null);
    if (this.root.nodes && this.root.nodes.length === 1) { this.root = this.root.nodes[0]; this.root.parent = null; }
    this.current = beginning(this.root);
    this.query = { words: [] };
    const names = [...new Set(this.targets(this.root))];
    names.sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
    this.colours = new Map(names.map((name, index) => [name, index % 10]));
    this.crumbs = el("div", { class: "crumbs", role: "navigation", "aria-label": "Path in the treemap" });
    this.map = el("div", { class: "treemap", role: "tree", "aria-label": "Bytes" });
    this.legend = el("ul", { class: "legend" });
    this.map.addEventListener("click", (event) => this.zoomTo(event.target));
    this.map.addEventListener("keydown", (event) => this.key(event));
    tooltips(this.map, (tile) => tile.item && tile.item.describe());
  }

  section() {
    const note = isDifference
      ? "Areas are bytes that came and went. What is equal in both is left out."
      : "Areas are bytes as stored. Below a target, they are divided by the bytes before compression.";
    const keys = el("p", { class: "note" }, `${note} `, el("kbd", {}, "arrows"), " move, ", el("kbd", {}, "Enter"), " goes in, ", el("kbd", {}, "Esc"), " goes out.");
    onResize(this.map, () => this.draw());
    printListeners.push(() => this.draw());
    return el("section", { id: "bytes" }, el("h2", {}, isDifference ? "Bytes that changed" : "Bytes"), keys, this.crumbs, this.map, this.legend);
  }

  * targets(item) {
    if (item.target) yield item.target;
    for (const one of item.nodes || []) yield* this.targets(one);
  }

  colour(item) {
    if (isDifference) return item.bytes >= item.old ? "k-more" : "k-less";
    if (item.kind === "part" && this.current.kind === "function") return `k${item.part}`;
    for (let one = item; one; one = one.parent) if (one.target) return `k${this.colours.get(one.target)}`;
    return "k10";
  }

  /** Draws the current item. The tile of `focused` gets the focus. */
  draw(focused) {
    const had = this.map.contains(document.activeElement);
    this.map.replaceChildren();
    this.tiles = [];
    const width = printing ? PAPER : this.map.clientWidth, height = printing ? 480 : this.map.clientHeight;
    this.map.style.height = printing ? `${height}px` : "";
    // The larger ones first: if there are too many tiles, the smallest stay closed.
    this.closed = [[this.current, { x: 0, y: 0, w: width - 2, h: height - 2 }, 1, null]];
    for (let at = 0; at < this.closed.length; at += 1) {
      const [item, box, depth, tile] = this.closed[at];
      // Those that are still closed get the same share.
      const most = (MOST_TILES - this.tiles.length) / (this.closed.length - at);
      if (at === 0 || most > 4) this.level(item, box, depth, Math.max(most, 8));
      else {
        tile.classList.replace("outer", "leaf");
        tile.setAttribute("aria-expanded", "false");
      }
    }
    this.drawCrumbs();
    this.drawLegend();
    this.mark();
    const wanted = this.tiles.find((tile) => tile.item === focused) || this.tiles[0];
    if (wanted) wanted.tabIndex = 0;
    if (wanted && (had || focused)) wanted.focus({ preventScroll: true });
  }

  level(item, box, depth, most) {
    const all = childrenOf(item), total = sum(all, (one) => one.weight);
    const pixels = total > 0 ? (box.w * box.h) / total : 0;
    const isShown = (one, index) => index < most && one.weight * pixels >= LEAST_AREA;
    const shown = all.filter(isShown), rest = all.filter((one, index) => one.weight > 0 && !isShown(one, index));
    if (rest.length === 1) shown.push(rest[0]);
    else if (rest.length) {
      const few = new Item(item, "few", `${number(rest.length)} smaller ones`, {
        weight: sum(rest, (one) => one.weight), bytes: sum(rest, (one) => one.bytes), old: sum(rest, (one) => one.old || 0),
        members: rest, isUncompressed: rest[0].isUncompressed,
      });
      few.children = rest;
      shown.push(few);
      shown.sort((one, other) => other.weight - one.weight);
    }
    const placed = squarify(shown, box);
    placed.forEach(([one, { x, y, w, h }], index) => {
      if (w < 2 || h < 2) return;
      const canOpen = w > 46 && h > 36 && depth < 4 && childrenOf(one).some((child) => child.weight > 0);
      // The parts of a function are shown when it is the current item, or large.
      const opens = canOpen && one.kind !== "few" && (one.kind !== "function" || depth === 1);
      const tile = el("div", {
        class: `tile ${opens ? "outer" : "leaf"} ${this.colour(one)}${w < 20 || h < 14 ? " few" : ""}`, role: "treeitem", tabindex: "-1",
        "aria-level": depth, "aria-setsize": placed.length, "aria-posinset": index + 1, "aria-label": `${one.name}, ${one.size()}, ${share(one.weight, item.weight)} of ${item.name}`,
        "aria-expanded": childrenOf(one).length ? String(opens) : undefined,
      });
      Object.assign(tile.style, { left: `${x}px`, top: `${y}px`, width: `${w}px`, height: `${h}px` });
      tile.item = one;
      tile.depth = depth;
      const label = this.label(one, w, h, opens);
      if (w > 34 && h > 14) tile.textContent = breakable(h > 34 || opens || w > 160 ? `${label}  ${one.size()}` : label);
      this.map.append(tile);
      this.tiles.push(tile);
      if (opens) this.closed.push([one, { x: x + 3, y: y + 18, w: w - 6, h: h - 21 }, depth + 1, tile]);
    });
  }

  /** The name of an item for a tile, which may have several lines. Groups end where their members differ. */
  label(item, w, h, opens) {
    const lines = opens ? 1 : Math.max(1, Math.floor((h - 2) / 15));
    const most = Math.max(16, Math.floor((w - 10) / CHARACTER_OF_TILE) * lines - item.size().length - 2);
    if (item.kind === "function") return cutName(item.function[0], most);
    if (item.kind !== "group") return item.name;
    const known = item.parent.kind === "group" ? `…${item.name.slice(item.parent.beginning)}` : item.name;
    const counted = `${known} (${number(item.members.length)})`;
    return counted.length <= most ? counted : `…${counted.slice(1 - most)}`;
  }

  drawCrumbs() {
    const path = this.current.path();
    this.crumbs.replaceChildren(...path.flatMap((item, index) => {
      const label = `${item.name} (${item.size()})`;
      if (index === path.length - 1) return [el("span", { "aria-current": "location" }, label)];
      return [el("button", { type: "button", onclick: () => this.go(item, path[index + 1]) }, label), el("span", { "aria-hidden": "true" }, "›")];
    }));
  }

  drawLegend() {
    const entries = isDifference
      ? [["k-more", "more bytes"], ["k-less", "fewer bytes"]]
      : this.current.kind === "function"
        ? childrenOf(this.current).map((one) => [`k${one.part}`, one.name])
        : [...[...this.colours].map(([name, index]) => [`k${index}`, name]), ["k10", "not device code"]];
    this.legend.replaceChildren(...entries.map(([colour, name]) => el("li", {}, el("span", { class: `swatch ${colour}` }), name)));
  }

  go(item, focused) {
    this.current = item;
    hideTooltip();
    this.draw(focused || childrenOf(item)[0]);
  }

  zoomTo(tile) {
    if (!tile.item) return;
    const { item } = tile;
    if (item !== this.current && childrenOf(item).length) this.go(item);
    else tile.focus();
  }

  key(event) {
    const tile = event.target;
    if (!tile.item || isShortcut(event)) return;
    const { key } = event;
    if (key === "Enter" || key === " ") this.zoomTo(tile);
    else if (key === "Escape" || key === "Backspace") {
      if (!this.current.parent) return;
      const left = this.current;
      this.go(left.parent, left);
    } else if (key === "Home") this.go(this.root);
    else if (key.startsWith("Arrow")) this.move(tile, key.slice(5));
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Moves the focus to the nearest tile in a direction, of any depth: inwards first. */
  move(tile, direction) {
    const box = (one) => one.getBoundingClientRect();
    const from = box(tile), x = (from.left + from.right) / 2, y = (from.top + from.bottom) / 2;
    const horizontal = direction === "Left" || direction === "Right", sign = direction === "Left" || direction === "Up" ? -1 : 1;
    let best = null, least = Infinity;
    for (const other of this.tiles) {
      if (other === tile || other.classList.contains("outer")) continue;
      const to = box(other), toX = (to.left + to.right) / 2, toY = (to.top + to.bottom) / 2;
      const ahead = sign * (horizontal ? toX - x : toY - y), aside = Math.abs(horizontal ? toY - y : toX - x);
      const distance = ahead + 2 * aside;
      if (ahead > 1 && distance < least) { least = distance; best = other; }
    }
    if (!best) return;
    this.tiles.forEach((one) => { one.tabIndex = -1; });
    best.tabIndex = 0;
    best.focus();
  }

  /** Finds what a query names; returns how many functions and bytes that are. */
  search(query) {
    this.query = query;
    this.matched = null;
    if (query.words.length) {
      const all = 2 ** query.words.length - 1, bits = textBits(query.words).names;
      const found = { functions: 0, bytes: 0 };
      this.matched = new Map();
      const own = (text) => query.words.reduce((set, word, index) => (lower(text).includes(word) ? set | (1 << index) : set), 0);
      const visit = (item, above) => {
        const here = above | own(item.name);
        let weight = 0;
        if (item.nodes) for (const child of item.nodes) weight += visit(child, here);
        for (const one of item.node.functions || []) {
          if ((here | bits[one[0]]) !== all) continue;
          found.functions += 1;
          found.bytes += sum(one[2], (part) => part[1]);
          weight += sum(one[2], partWeight) * item.scale;
        }
        if (here === all) weight = item.weight;
        this.matched.set(item, weight);
        item.bits = here;
        return weight;
      };
      visit(this.root, 0);
      Object.assign(this, { all, nameBits: bits });
      this.mark();
      return found;
    }
    this.mark();
    return null;
  }

  isHit(item) {
    if (this.matched.has(item)) return this.matched.get(item) > 0;
    if (item.members) return item.members.some((one) => this.isHit(one));
    let form = item.parent;
    while (form.function || form.kind === "group") form = form.parent;
    const name = item.function || item.parent.function;
    return (form.bits | (name ? this.nameBits[name[0]] : 0)) === this.all;
  }

  /** Dims the tiles in which nothing is found. */
  mark() {
    for (const tile of this.tiles || []) {
      const isHit = Boolean(this.matched) && this.isHit(tile.item);
      tile.classList.toggle("dim", Boolean(this.matched) && !isHit);
      tile.classList.toggle("hit", isHit && !tile.classList.contains("outer"));
    }
  }
}
