// Shows the values under the pointer in all figures, and draws all figures for a shorter range.
//
// All figures have one time axis and one cursor. Each was drawn for the whole run without a script;
// a chosen range is drawn from the fine columns in the page.

import { Cursor, LEVELS, LEVELS_LOW, TALL_PX, make, placed, pointAt } from "./plot.js";
import {
  bandPath, combine, dotsPath, gridPath, levelsOf, heightOf, moment, ownIn, rangeOf, rangePath,
  scaleFor, textOf, timeMarksNs, unpack, writer,
} from "./series.js";

const FILLS_MAX = 4;
const WHEEL_FACTOR = 0.8;
const DRAG_PX = 6;

const live = document.getElementById("live");
const plots = [];

// ----- one figure ----------------------------------------------------------------------------

class Plot {
  constructor(element, data) {
    Object.assign(this, { element, data, pixels: null, kept: null, cells: null, isDrawn: true });
    this.total = data.count * data.detail;
    this.panels = [...element.querySelectorAll(".panel")];
    this.fields = this.panels.map((panel) => panel.querySelector(".field"));
    this.texts = data.panels.map((panel) => writer(panel, data.labels));
    this.setRange(rangeOf(0, this.total, this.total, data.count));
    this.cursor = new Cursor(element, {
      count: this.range.count,
      describe: (column, y) => describe(this, column, y),
      point: (share) => showCursor(share),
      announce: (text) => (live.textContent = text),
    });
  }

  get own() {
    const { own } = this.data;
    return typeof own === "string" ? plots.find(({ element }) => element.id === own)?.data.own : own;
  }

  get isWhole() {
    return this.range.count * this.range.group >= this.total;
  }

  // The time at a share of the range; times are BigInt nanoseconds, which exceed the safe integers.
  timeAt(share) {
    const { start, group, count } = this.range;
    return fineTime(this.data, start + Math.floor(share * count) * group);
  }

  setRange(range) {
    this.range = range;
    // Combined on first use, since most figures are folded or out of sight.
    this.cells = null;
  }

  // The values of the range: for each panel its columns, and the own fills.
  get values() {
    this.cells ??= {
      panels: this.data.panels.map((panel) => panel.series.map((series) => combine(series, this.range))),
      own: this.own ? ownIn(this.own, this.range) : { fills: [], more: new Map() },
    };
    return this.cells;
  }

  zoom(range) {
    this.setRange(range);
    Object.assign(this.cursor, { count: range.count });
    this.isDrawn = false;
    if (this.element.closest("details:not([open])") === null) this.draw();
  }

  draw() {
    if (this.isDrawn) return;
    this.isDrawn = true;
    const { data, range, total } = this;
    this.kept ??= keep(this);
    for (const image of this.element.querySelectorAll(".heat")) {
      const share = (range.count * range.group) / total;
      image.style.width = `${100 / share}%`;
      image.style.left = `${(-range.start / total / share) * 100}%`;
    }
    if (this.isWhole) return drawWhole(this);
    const start = this.timeAt(0);
    const width = fineTime(data, range.start + range.count * range.group) - start;
    const marks = timeMarksNs(start, width);
    const times = marks.map(({ share, label }) => placed("left", share, label));
    this.element.querySelector(".times").replaceChildren(...times);
    data.panels.forEach((panel, at) => drawPanel(this, panel, at, marks));
    return undefined;
  }
}

// The first time of a fine column.
function fineTime(data, column) {
  const [width, count] = [BigInt(data.width), BigInt(data.count * data.detail)];
  return BigInt(data.start) + (width * BigInt(column) + count - 1n) / count;
}

// The drawing of the whole range, which was in the page.
function keep({ element, panels }) {
  const times = [...element.querySelector(".times").childNodes];
  return { times, panels: panels.map((panel) => keepPanel(panel)) };
}

function keepPanel(panel) {
  const paths = [...panel.querySelectorAll("svg path")].map((path) => path.getAttribute("d"));
  const picture = panel.querySelector("svg");
  return { paths, box: picture.getAttribute("viewBox"), levels: [...panel.querySelector(".levels").childNodes] };
}

function drawWhole({ element, panels, kept }) {
  element.querySelector(".times").replaceChildren(...kept.times);
  panels.forEach((panel, at) => {
    const { paths, box, levels } = kept.panels[at];
    panel.querySelector("svg").setAttribute("viewBox", box);
    panel.querySelectorAll("svg path").forEach((path, index) => path.setAttribute("d", paths[index]));
    panel.querySelector(".levels").replaceChildren(...levels);
  });
}

function drawPanel(plot, panel, at, marks) {
  const element = plot.panels[at];
  const columns = plot.values.panels[at];
  const scale = scaleFor(panel, columns);
  const width = 2 * plot.range.count;
  const most = element.clientHeight >= TALL_PX ? LEVELS : LEVELS_LOW;
  const levels = levelsOf(panel, scale, most, plot.texts[at]);
  const paths = panel.layers.flatMap((layer) => layerPaths(layer, plot, panel, columns, scale, width));
  const picture = element.querySelector("svg");
  picture.setAttribute("viewBox", `0 0 ${width} 10000`);
  [gridPath(levels, marks, width), ...paths].forEach((path, index) => picture.children[index].setAttribute("d", path));
  const labels = levels.map(({ y, label }) => placed("top", y / 10_000, label));
  element.querySelector(".levels").replaceChildren(...labels);
}

// The paths of a layer: one, or one for each colour of dots.
function layerPaths(layer, plot, panel, columns, scale, width) {
  if ("level" in layer) return [`M0 ${heightOf(layer.level, scale)}H${width}`];
  if ("line" in layer) return [rangePath(columns[layer.line], scale)];
  if ("band" in layer) {
    const [lower, upper] = layer.band.map((index) => (index === null ? null : columns[index][layer.part]));
    return [bandPath(lower, upper, scale)];
  }
  const fills = plot.values.own.fills.filter(({ kind }) => kind === layer.dots);
  return layer.colours.map(() => dotsPath(fills, panel.factor, scale));
}

// ----- values --------------------------------------------------------------------------------

// Enough decimals of a second to distinguish neighbouring columns.
function decimalsOf({ data, range }) {
  const width = Number(BigInt(data.width) / BigInt(data.count * data.detail)) * range.group;
  return [0, 3, 6].find((decimals) => width >= 10 ** (9 - decimals)) ?? 9;
}

// Reads sizes from the opacities of the pixels of a heat map.
function shades(plot) {
  if (plot.pixels) return plot.pixels;
  const image = plot.element.querySelector(".heat");
  if (!image || !image.complete) return null;
  const canvas = document.createElement("canvas");
  canvas.width = image.naturalWidth;
  canvas.height = image.naturalHeight;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(image, 0, 0);
  plot.pixels = context.getImageData(0, 0, canvas.width, canvas.height);
  return plot.pixels;
}

function depth(plot, column, y) {
  const { heat } = plot.data;
  if (!heat || y === null) return null;
  const pixels = shades(plot);
  if (!pixels) return null;
  const fine = plot.range.start + (column + 0.5) * plot.range.group;
  const place = Math.floor((fine / plot.total) * pixels.width);
  const row = Math.min(Math.floor(y * heat.rows), heat.rows - 1);
  const at = (row * pixels.width + place) * 4;
  const [red, , blue, opacity] = pixels.data.slice(at, at + 4);
  const low = heat.low + (heat.rows - 1 - row) * heat.band;
  const [first, last] = [low, low + heat.band - 1].map(plot.texts[0]);
  const price = heat.band > 1 ? `${first} to ${last}` : first;
  if (!opacity) return { colour: "own", label: `nothing at ${price}` };
  const step = heat.opacities.indexOf(opacity);
  const side = blue > red ? "bids" : "asks";
  return { colour: side, label: `about ${heat.sizes[step]} lots of ${side} at ${price}` };
}

function ownText(plot, column) {
  const { fills, more } = plot.values.own;
  const some = fills.filter((fill) => fill.column === column);
  if (!some.length) return null;
  const text = some.slice(0, FILLS_MAX).map(({ kind, price, size }) => {
    const word = kind % 2 ? "sold" : "bought";
    return `${word} ${size.toLocaleString("en-US")} at ${plot.texts[0](price)}`;
  });
  const left = some.length - text.length + (more.get(column) ?? 0);
  return text.join(", ") + (left ? ` and ${left.toLocaleString("en-US")} more` : "");
}

// The rows of a panel in a column.
function rowsOf(plot, at, column) {
  return plot.data.panels[at].series.flatMap(({ colour, label }, index) => {
    const text = textOf(plot.values.panels[at][index], column, plot.texts[at]);
    return text === null ? [] : [{ colour, label: `${label}: ${text}` }];
  });
}

// The values of a column: its time, the size under the pointer, a row for each line, own fills.
function describe(plot, column, y) {
  const rows = plot.data.panels.flatMap((_, at) => rowsOf(plot, at, column));
  const [heat, own] = [depth(plot, column, y), ownText(plot, column)];
  if (heat) rows.unshift(heat);
  if (own !== null) rows.push({ colour: "own", label: `own fills: ${own}` });
  return { title: moment(plot.timeAt(column / plot.range.count), decimalsOf(plot)), rows };
}

// Draws the cursor in all figures, with the values beside the name of each panel.
function showCursor(share) {
  pointAt(share, document.querySelectorAll(".cursor"));
  for (const plot of plots) {
    if (plot.element.closest("details:not([open])")) continue;
    const column = share === null ? 0 : Math.floor(share * plot.range.count);
    plot.panels.forEach((panel, at) => {
      const rows = share === null ? [] : rowsOf(plot, at, column);
      panel.querySelector(".readout").textContent = rows.map(({ label }) => label).join(" · ");
    });
  }
}

// ----- the range of all figures --------------------------------------------------------------

class Zoom {
  constructor(tools) {
    this.ends = [0, 1];
    this.range = make("output", "range");
    this.buttons = Object.fromEntries(
      [
        ["in", "+", "Zoom in", () => this.scale(0.5)],
        ["out", "−", "Zoom out", () => this.scale(2)],
        ["earlier", "‹", "Earlier", () => this.move(-0.5)],
        ["later", "›", "Later", () => this.move(0.5)],
        ["whole", "Whole run", "Whole run", () => this.show(0, 1)],
      ].map(([key, text, label, action]) => [key, button(tools, text, label, action)]),
    );
    tools.append(this.range);
    this.write();
  }

  // Show from one share of the run to another.
  show(first, last) {
    const { data, total } = plots[0];
    const { start, group, count } = rangeOf(first * total, last * total, total, data.count);
    this.ends = [start / total, (start + count * group) / total];
    for (const plot of plots) {
      const [from, to] = this.ends.map((end) => end * plot.total);
      plot.zoom(rangeOf(from, to, plot.total, plot.data.count));
    }
    for (const plot of plots) plot.cursor.hide();
    this.write();
  }

  // Enlarge the range by a factor around a share of what is shown.
  scale(factor, at = 0.5) {
    const [first, last] = this.ends;
    const width = Math.min((last - first) * factor, 1);
    const start = Math.min(Math.max(first + (last - first - width) * at, 0), 1 - width);
    this.show(start, start + width);
  }

  // Move by a part of the range.
  move(part) {
    const [first, last] = this.ends;
    const by = Math.min(Math.max((last - first) * part, -first), 1 - last);
    this.show(first + by, last + by);
  }

  // Show a range by shares of what is shown.
  select(from, to) {
    const [first, last] = this.ends;
    const [start, end] = [from, to].sort((one, other) => one - other).map((at) => first + (last - first) * at);
    this.show(start, end);
  }

  write() {
    const [first, last] = this.ends;
    const isWhole = last - first >= 1;
    const [plot] = plots;
    const ends = [plot.timeAt(0), plot.timeAt(1) - 1n].map((ns) => moment(ns, decimalsOf(plot)));
    this.range.textContent = `${ends.join(" to ")}${isWhole ? " (all)" : ""}`;
    this.buttons.whole.disabled = isWhole;
    this.buttons.out.disabled = isWhole;
    this.buttons.earlier.disabled = first <= 0;
    this.buttons.later.disabled = last >= 1;
    this.buttons.in.disabled = plot.range.group === 1 && plot.range.count <= 16;
  }
}

function button(parent, text, label, action) {
  const element = make("button", "", text);
  element.type = "button";
  element.title = label;
  element.setAttribute("aria-label", label);
  element.addEventListener("click", action);
  parent.append(element);
  return element;
}

// Lets a pointer drag a range, and keys and the wheel change it.
function attach(plot, zoom) {
  const { element } = plot;
  let drag = null;
  const shareAt = (event, field) => {
    const frame = field.getBoundingClientRect();
    return Math.min(Math.max((event.clientX - frame.left) / frame.width, 0), 1);
  };
  const stop = () => {
    drag?.boxes.forEach((box) => box.remove());
    drag = null;
  };
  element.addEventListener("pointerdown", (event) => {
    const field = event.target.closest(".field");
    if (!field || event.button !== 0) return;
    drag = { field, from: shareAt(event, field), x: event.clientX, boxes: [] };
  });
  element.addEventListener("pointermove", (event) => {
    if (!drag || Math.abs(event.clientX - drag.x) < DRAG_PX) return;
    if (!drag.boxes.length) {
      element.setPointerCapture(event.pointerId);
      drag.boxes = plot.fields.map((field) => field.appendChild(make("div", "chosen")));
    }
    drag.to = shareAt(event, drag.field);
    for (const box of drag.boxes) {
      box.style.left = `${Math.min(drag.from, drag.to) * 100}%`;
      box.style.width = `${Math.abs(drag.to - drag.from) * 100}%`;
    }
  });
  element.addEventListener("pointerup", () => {
    const { from, to, boxes } = drag ?? { boxes: [] };
    stop();
    if (boxes.length) zoom.select(from, to);
  });
  element.addEventListener("pointercancel", stop);
  element.addEventListener("dblclick", () => zoom.show(0, 1));
  element.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = plot.cursor.isShown ? (plot.cursor.column + 0.5) / plot.range.count : 0.5;
    const actions = {
      "+": () => zoom.scale(0.5, at),
      "=": () => zoom.scale(0.5, at),
      "-": () => zoom.scale(2, at),
      0: () => zoom.show(0, 1),
      "<": () => zoom.move(-0.5),
      ">": () => zoom.move(0.5),
    };
    if (event.key === "Escape") stop();
    if (!(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
    live.textContent = zoom.range.textContent;
  });
  // The wheel alone scrolls the page.
  const wheel = (event) => {
    const field = event.target.closest(".field");
    if (!field || !event.ctrlKey) return;
    event.preventDefault();
    zoom.scale(event.deltaY < 0 ? WHEEL_FACTOR : 1 / WHEEL_FACTOR, shareAt(event, field));
  };
  element.addEventListener("wheel", wheel, { passive: false });
}

// ----- folded books --------------------------------------------------------------------------

const books = [...document.querySelectorAll("details.book")];

function foldAll(tools) {
  if (books.length < 2) return;
  const isOpen = () => books.every((book) => book.open);
  const open = button(tools, "Open all books", "Open all books", () => {
    const before = isOpen();
    for (const book of books) book.open = !before;
  });
  const name = () => {
    const label = isOpen() ? "Fold all books" : "Open all books";
    open.textContent = label;
    open.setAttribute("aria-label", label);
    open.title = label;
  };
  for (const book of books) book.addEventListener("toggle", name);
}

// Opens the book of a link.
function openLinked() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const book = target?.querySelector("details.book") ?? target?.closest("details.book");
  if (!book || book.open) return;
  book.open = true;
  target.scrollIntoView();
}

function printAll() {
  const folded = books.filter((book) => !book.open);
  for (const book of folded) book.open = true;
  for (const plot of plots) plot.draw();
  addEventListener("afterprint", () => folded.forEach((book) => (book.open = false)), { once: true });
}

// ----- start ---------------------------------------------------------------------------------

async function start() {
  for (const element of document.querySelectorAll(".plot")) {
    plots.push(new Plot(element, await unpack(element.querySelector("script").textContent)));
  }
  if (plots.length) {
    const tools = make("div", "tools");
    tools.setAttribute("role", "toolbar");
    tools.setAttribute("aria-label", "Time range of all figures");
    const zoom = new Zoom(tools);
    foldAll(tools);
    document.querySelector(".tiles").after(tools);
    for (const plot of plots) attach(plot, zoom);
    for (const book of books) {
      book.addEventListener("toggle", () => {
        for (const plot of plots) if (book.open && book.contains(plot.element)) plot.draw();
      });
    }
  }
  document.documentElement.dataset.ready = "";
}

addEventListener("hashchange", openLinked);
addEventListener("beforeprint", printAll);
openLinked();
// The page is shown before its data are read.
addEventListener("load", () => setTimeout(start));
