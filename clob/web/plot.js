// Draws charts: scales, marks of axes, paths, and a cursor with values. The pages of the server draw
// whole charts with it; the reports of backtests, drawn without a script, use its cursor.
//
// A drawing has columns of equal width: 2 units wide each, HEIGHT units high, stretched by CSS
// (plot.css). Colours are CSS classes that set --colour: buy, sell, and those of the page.
//
//   new Chart(figure, title)            `figure`: an empty <figure>; the title is its accessible name
//   chart.show({ count, panels, marks, describe })      draws, and draws again: focus and cursor stay
//     count             number of columns, 1 or more
//     panels            [{ unit, height, scale, write, least, layers }], from the top: `height` in
//                       pixels, `write(value)` returns a label, `least` is the smallest step of labels
//     layers            [{ kind, colour, path }]; kind: "line", "fill", "body"
//     marks             [{ share, label }], from 0 (left) to 1: timeMarks() or your own
//     describe(column)  returns { title, rows: [{ colour, label }] } for the cursor
//   sparkline(values, label)            returns an <svg> of a line, without axes and cursor
//
//   scaleOf(values, { zero })           { low, high } with a margin; nulls are skipped
//   stepPath(values, scale)             a line that holds each value for a column; null is a gap
//   linePath(values, scale)             a line through the middles of the columns
//   areaPath(values, scale)             the area below a step line
//   barsPath(values, scale)             bars from the bottom, with air between them
//   candleLayers(candles, scale)        layers of [{ open, high, low, close } or null]
//   timeMarks(startMs, endMs, most)     round times, UTC

export const HEIGHT = 10_000;
export const LEVELS = 5;
export const LEVELS_LOW = 3;
export const TALL_PX = 120;
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [
  ...[1, 2, 5, 10, 15, 30].map((seconds) => seconds * 1000),
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * MINUTE),
  ...[1, 2, 3, 6, 12].map((hours) => hours * HOUR),
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].map((days) => days * DAY),
];

// ----- scales and marks ----------------------------------------------------------------------

export function scaleOf(values, { zero = false } = {}) {
  const known = values.filter((value) => value !== null);
  if (zero || !known.length) known.push(0);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const air = (high - low) / 16 || 1;
  return { low: zero && low >= 0 ? 0 : low - air, high: high + air };
}

// The height of a value from the top; values outside are drawn just outside.
export function yOf(value, { low, high }) {
  const y = Math.round(((high - value) * HEIGHT) / (high - low));
  return Math.min(Math.max(y, -HEIGHT), 2 * HEIGHT);
}

// The smallest step of 1, 2 or 5 times a power of ten with at most `most` pieces.
export function roundStep(width, most, least) {
  const wanted = Math.max(width / most, least, Number.MIN_VALUE);
  const power = 10 ** Math.floor(Math.log10(wanted));
  return [1, 2, 5, 10].map((unit) => unit * power).find((step) => step >= wanted * (1 - 1e-9));
}

export function multiples(low, high, step) {
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, n) => (first + n) * step);
}

export function timeMarks(startMs, endMs, most = 8) {
  const width = endMs - startMs;
  const step = STEPS.find((each) => each * most >= width) ?? STEPS.at(-1);
  return multiples(startMs, endMs - 1, step).map((ms) => ({
    share: (ms - startMs) / width,
    label: timeLabel(ms, step, width),
  }));
}

// The shortest unambiguous label of a round time.
function timeLabel(ms, step, width) {
  const text = new Date(ms).toISOString();
  if (step >= DAY || (ms % DAY === 0 && width > DAY)) return text.slice(width < 200 * DAY ? 5 : 0, 10);
  return text.slice(11, step % MINUTE ? 19 : 16);
}

// ----- paths ---------------------------------------------------------------------------------

export function stepPath(values, scale) {
  let path = "";
  let pen = null;
  values.forEach((value, column) => {
    const y = value === null ? null : yOf(value, scale);
    if (y !== null) path += pen === null ? `M${2 * column} ${y}` : y === pen ? "" : `V${y}`;
    if (y !== null) path += `H${2 * column + 2}`;
    pen = y;
  });
  return path;
}

export function linePath(values, scale) {
  let isDown = false;
  return values.reduce((path, value, column) => {
    const part = value === null ? "" : `${isDown ? "L" : "M"}${2 * column + 1} ${yOf(value, scale)}`;
    isDown = value !== null;
    return path + part;
  }, "");
}

export const areaPath = (values, scale) => boxes(values, scale, 0);
export const barsPath = (values, scale) => boxes(values, scale, 0.3);

function boxes(values, scale, air) {
  return values.reduce((path, value, column) => {
    if (value === null || value <= scale.low) return path;
    return `${path}M${2 * column + air} ${HEIGHT}V${yOf(value, scale)}h${2 - 2 * air}V${HEIGHT}`;
  }, "");
}

export function candleLayers(candles, scale) {
  const paths = { buy: { line: "", body: "" }, sell: { line: "", body: "" } };
  candles.forEach((candle, column) => {
    if (candle === null) return;
    const { open, high, low, close } = candle;
    const path = paths[close < open ? "sell" : "buy"];
    path.line += `M${2 * column + 1} ${yOf(low, scale)}V${yOf(high, scale)}`;
    path.body += `M${2 * column + 0.4} ${yOf(open, scale)}V${yOf(close, scale)}h1.2V${yOf(open, scale)}z`;
  });
  return Object.entries(paths).flatMap(([colour, kinds]) =>
    Object.entries(kinds).map(([kind, path]) => ({ kind, colour, path })),
  );
}

// ----- elements ------------------------------------------------------------------------------

export function make(name, className, ...children) {
  const element = document.createElement(name);
  element.className = className;
  element.append(...children);
  return element;
}

function svg(name, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function drawing(count, label, ...paths) {
  const viewBox = `0 0 ${2 * count} ${HEIGHT}`;
  return svg("svg", { viewBox, preserveAspectRatio: "none", role: "img", "aria-label": label }, ...paths);
}

export function sparkline(values, label) {
  const path = svg("path", { class: "line", d: linePath(values, scaleOf(values)) });
  const picture = drawing(values.length, label, path);
  picture.classList.add("sparkline");
  return picture;
}

// ----- cursor --------------------------------------------------------------------------------

const tip = make("div", "tip");
tip.setAttribute("role", "presentation");

// Shows the values of a column under the pointer, or of one chosen by arrow keys, in a box. The
// fields of a figure are the elements of the class "field".
export class Cursor {
  // count: number of columns; describe(column, y) returns { title, rows } (y from 0, top, to 1; null
  // from the keyboard); point(share) draws the cursor, null removes it; announce(text) is for
  // screen readers.
  constructor(figure, { count, describe, point, announce }) {
    Object.assign(this, { figure, count, describe, point, announce, column: -1, y: null });
    figure.addEventListener("pointermove", (event) => this.onPointer(event));
    figure.addEventListener("pointerdown", (event) => this.onPointer(event));
    figure.addEventListener("pointerleave", () => this.hide());
    // A press on another figure has already shown that figure.
    figure.addEventListener("blur", () => this.hide());
    figure.addEventListener("keydown", (event) => this.onKey(event));
  }

  get isShown() {
    return tip.parentNode === this.figure;
  }

  onPointer(event) {
    const field = event.target.closest(".field");
    if (!field) return this.hide();
    const frame = field.getBoundingClientRect();
    const part = (place, start, length) => Math.min(Math.max((place - start) / length, 0), 0.999999);
    const column = Math.floor(part(event.clientX, frame.left, frame.width) * this.count);
    return this.show(column, part(event.clientY, frame.top, frame.height));
  }

  onKey(event) {
    const far = Math.max(1, Math.round(this.count / 20));
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -far, PageDown: far };
    let column = Math.max(this.column, 0);
    if (event.key === "Escape") return this.hide();
    if (event.key === "Home") column = 0;
    else if (event.key === "End") column = this.count - 1;
    else if (event.key in steps) column += (event.shiftKey ? 10 : 1) * steps[event.key];
    else return undefined;
    event.preventDefault();
    return this.announce(this.show(Math.min(Math.max(column, 0), this.count - 1), null));
  }

  // Draw the same column again, after its values changed.
  refresh() {
    if (this.isShown) this.show(Math.min(this.column, this.count - 1), this.y);
  }

  // Show a column, and return its texts.
  show(column, y) {
    Object.assign(this, { column, y });
    const share = (column + 0.5) / this.count;
    const { title, rows } = this.describe(column, y);
    const lines = rows.map(({ colour, label }) => make("span", "", make("i", colour), label));
    tip.replaceChildren(make("b", "", title), ...lines);
    this.point(share);
    this.figure.append(tip);
    const frame = this.figure.getBoundingClientRect();
    const field = this.figure.querySelector(".field").getBoundingClientRect();
    const left = field.left - frame.left + field.width * share;
    const beside = left + 16 + tip.offsetWidth > frame.width ? left - 16 - tip.offsetWidth : left + 16;
    tip.style.left = `${Math.max(0, Math.min(beside, frame.width - tip.offsetWidth))}px`;
    return [title, ...rows.map((row) => row.label)].join(", ");
  }

  hide() {
    if (!this.isShown) return;
    this.point(null);
    tip.remove();
  }
}

// Draw the line of the cursor in fields.
export function pointAt(share, cursors) {
  for (const cursor of cursors) {
    cursor.style.display = share === null ? "none" : "block";
    if (share !== null) cursor.style.left = `${share * 100}%`;
  }
}

// ----- charts --------------------------------------------------------------------------------

export class Chart {
  constructor(figure, title) {
    const live = make("div", "unseen");
    live.setAttribute("aria-live", "polite");
    this.panels = make("div", "");
    this.times = make("div", "times");
    this.times.setAttribute("aria-hidden", "true");
    this.shape = null;
    figure.classList.add("plot");
    figure.tabIndex = 0;
    figure.setAttribute("role", "group");
    figure.setAttribute("aria-label", `${title}. Left and right arrow keys read the values.`);
    figure.append(this.panels, this.times, live);
    this.title = title;
    this.cursor = new Cursor(figure, {
      count: 1,
      describe: () => ({ title: "", rows: [] }),
      point: (share) => pointAt(share, this.panels.querySelectorAll(".cursor")),
      announce: (text) => (live.textContent = text),
    });
  }

  show({ count, panels, marks, describe }) {
    const shape = panels.map(({ layers }) => layers.map(({ kind, colour }) => `${kind} ${colour}`));
    if (this.shape !== JSON.stringify(shape)) {
      this.shape = JSON.stringify(shape);
      this.panels.replaceChildren(...shape.map((classes) => emptyPanel(classes)));
    }
    panels.forEach((panel, index) => fillPanel(this.panels.children[index], panel, count, marks, this.title));
    this.times.replaceChildren(...marks.map(({ share, label }) => placed("left", share, label)));
    Object.assign(this.cursor, { count, describe });
    this.cursor.refresh();
  }
}

export function placed(edge, share, label) {
  const element = make("span", "", label);
  element.style[edge] = `${share * 100}%`;
  return element;
}

function emptyPanel(classes) {
  const paths = ["grid", ...classes].map((name) => svg("path", { class: name }));
  const field = make("div", "field", drawing(1, "", ...paths), make("div", "cursor"));
  const panel = make("div", "panel", make("div", "unit"), make("div", "levels"), field);
  for (const part of [...panel.children].slice(0, 2)) part.setAttribute("aria-hidden", "true");
  return panel;
}

function fillPanel(element, panel, count, marks, title) {
  const { unit, height, scale, write = String, least = 0, layers } = panel;
  const most = height >= TALL_PX ? LEVELS : LEVELS_LOW;
  const values = multiples(scale.low, scale.high, roundStep(scale.high - scale.low, most, least));
  const [name, levels, field] = element.children;
  const picture = field.firstChild;
  const heights = values.map((value) => `M0 ${yOf(value, scale)}H${2 * count}`);
  const times = marks.map(({ share }) => `M${(share * 2 * count).toFixed(2)} 0V${HEIGHT}`);
  element.style.height = `${height}px`;
  name.textContent = unit;
  levels.replaceChildren(...values.map((value) => placed("top", yOf(value, scale) / HEIGHT, write(value))));
  picture.setAttribute("viewBox", `0 0 ${2 * count} ${HEIGHT}`);
  picture.setAttribute("aria-label", `${title}: ${unit}`);
  [[...heights, ...times].join(""), ...layers.map(({ path }) => path)].forEach((path, index) =>
    picture.children[index].setAttribute("d", path),
  );
}
