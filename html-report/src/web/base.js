const page = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

/** Makes an element. Texts become text nodes, so that no name is ever read as markup. */
function el(tag, properties = {}, ...children) {
  const element = tag.startsWith("svg:")
    ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4))
    : document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const grouped = new Intl.NumberFormat("en-US");
const number = (value) => grouped.format(value);
const signed = (value) => (value > 0 ? "+" : "") + grouped.format(value);

/** 12,345 bytes as 12.3 kB. */
function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let scaled = Math.abs(value), unit = 0;
  // From here on, three digits would be rounded to 1000.
  while (scaled >= 999.5 && unit < units.length - 1) { scaled /= 1000; unit += 1; }
  const digits = unit === 0 || scaled >= 100 ? 0 : scaled >= 10 ? 1 : 2;
  return `${value < 0 ? "−" : ""}${scaled.toFixed(digits)} ${units[unit]}`;
}

const signedBytes = (value) => (value > 0 ? "+" : "") + bytes(value);

/** Seconds as 12.3 s, 12 ms or 40 µs. */
function duration(seconds) {
  if (seconds >= 0.9995) return `${seconds.toFixed(seconds >= 100 ? 0 : 2)} s`;
  if (seconds >= 0.0009995) return `${(seconds * 1000).toFixed(seconds >= 0.1 ? 0 : 1)} ms`;
  return `${Math.round(seconds * 1e6)} µs`;
}

const share = (part, whole) => (whole > 0 ? `${((100 * part) / whole).toFixed(part / whole < 0.0995 ? 1 : 0)} %` : "");
const lower = (text) => text.toLowerCase();
const nameTexts = page.names.map(([shown, mangled]) => lower(mangled === null ? shown : `${shown} ${mangled}`));
const otherTexts = page.texts.map(lower);

/** The numbers of the names in their order, their places in it, and how many characters each begins with like the one before it. */
const sortedNames = (() => {
  let found = null;
  return () => {
    if (found) return found;
    const text = (at) => page.names[at][0];
    const order = Array.from(page.names.keys()).sort((one, other) => (text(one) < text(other) ? -1 : 1));
    const places = new Uint32Array(order.length), shared = new Uint32Array(order.length + 1);
    order.forEach((name, place) => {
      places[name] = place;
      if (place === 0) return;
      const one = text(order[place - 1]), other = text(name);
      while (shared[place] < one.length && one[shared[place]] === other[shared[place]]) shared[place] += 1;
    });
    found = { places, shared };
    return found;
  };
})();

/** Where a name differs from others that begin as it does, the last place first. */
function differences(number) {
  const { places, shared } = sortedNames(), found = new Set();
  for (const step of [0, 1]) {
    let least = Infinity;
    for (let at = places[number] + step; at > 0 && at < shared.length - 1 && least > 0; at += step || -1) {
      least = Math.min(least, shared[at]);
      found.add(least);
    }
  }
  return [...found].sort((one, other) => other - one);
}

/** A name in about so many characters: its beginning, and the words in which it differs from others. */
function cutName(number, most) {
  const [whole] = page.names[number], name = whole.replace(/^void /, ""), gone = whole.length - name.length;
  if (name.length <= most) return name;
  const isKept = new Uint8Array(name.length);
  let room = most - 2;
  const keep = (from, to) => { for (let at = from; at < to && room > 0; at += 1) if (!isKept[at]) { isKept[at] = 1; room -= 1; } };
  const isEnd = (at) => /[<>(),:&* ]/.test(name[at]);
  for (const place of differences(number).map((place) => place - gone)) {
    if (place < 0 || place >= name.length || isKept[place] || room < most / 3) continue;
    let from = place, to = place + 1;
    while (from > 0 && place - from < 6 && !isEnd(from - 1)) from -= 1;
    while (to < name.length && to - place < 12 && !isEnd(to)) to += 1;
    keep(from, to);
    room -= 1;
  }
  keep(0, name.length);
  let cut = "";
  for (let at = 0; at < name.length; at += 1) {
    if (isKept[at]) cut += name[at];
    else if (!cut.endsWith("…")) cut += "…";
  }
  return cut;
}

const isText = (column) => column.kind === "name" || column.kind === "text";
const comparable = new Set(page.tables.flatMap((table) => table.columns.filter((column) => !isText(column)).map((column) => column.key)));

/** What is searched for: words that all have to be found, and comparisons of numbers such as registers>128. The beginning of a name such as
    reduce<256 is a word. */
function parseQuery(text) {
  const words = [], comparisons = [];
  for (const token of lower(text).split(/\s+/).filter(Boolean)) {
    const match = /^([a-z]+)(<=|>=|<|>|=)(-?[\d.]+)$/.exec(token);
    if (match && comparable.has(match[1])) comparisons.push({ key: match[1], operator: match[2], value: Number(match[3]) });
    else words.push(token);
  }
  return { words: words.slice(0, 30), comparisons };
}

/** For each text, which of the words it contains, as bits. */
function wordBits(texts, words) {
  const bits = new Int32Array(texts.length);
  words.forEach((word, index) => {
    for (let at = 0; at < texts.length; at += 1) if (texts[at].includes(word)) bits[at] |= 1 << index;
  });
  return bits;
}

/** The same for the two lists of texts of the page, which all views search for the same words. */
const textBits = (() => {
  let last = null, bits = null;
  return (words) => {
    const key = words.join(" ");
    if (key !== last) {
      last = key;
      bits = { names: wordBits(nameTexts, words), texts: wordBits(otherTexts, words) };
    }
    return bits;
  };
})();

/** Runs `resize` when the width of an element changes. */
function onResize(element, resize) {
  let width = 0;
  new ResizeObserver(() => {
    if (Math.abs(element.clientWidth - width) > 1) {
      width = element.clientWidth;
      resize();
    }
  }).observe(element);
}

/** Whether a key is part of a shortcut of the browser or the system, such as zooming or going back. */
const isShortcut = (event) => event.ctrlKey || event.metaKey || event.altKey;

/** Pixels of a page of paper in landscape. */
const PAPER = 960;
let printing = false;
const printListeners = [];
function setPrinting(is) {
  if (printing === is) return;
  printing = is;
  printListeners.forEach((listener) => listener());
}
window.addEventListener("beforeprint", () => setPrinting(true));
window.addEventListener("afterprint", () => setPrinting(false));
matchMedia("print").addEventListener("change", (event) => setPrinting(event.matches));
