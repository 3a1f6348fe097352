// Shows the values under the pointer; the cursor is at the same time in all figures.
"use strict";

const pad = (value, width) => String(value).padStart(width, "0");
const DAY = 86_400_000_000_000n;

// Times are BigInt nanoseconds, which exceed the safe integers.
function moment(ns, dated, decimals) {
  const rest = ((ns % DAY) + DAY) % DAY;
  const seconds = Number(rest / 1_000_000_000n);
  const part = decimals ? `.${pad(rest % 1_000_000_000n, 9).slice(0, decimals)}` : "";
  const time = [seconds / 3600, (seconds / 60) % 60, seconds % 60].map((n) => pad(Math.floor(n), 2));
  const clock = `${time.join(":")}${part}`;
  if (dated) return `${new Date(Number(ns / 1_000_000n)).toISOString().slice(0, 10)} ${clock}`;
  return ns >= DAY ? `day ${ns / DAY} ${clock}` : clock;
}

// Enough decimals of a second to distinguish neighbouring columns.
function decimalsOf(data) {
  const width = Number(BigInt(data.width) / BigInt(data.count));
  return [0, 3, 6].find((decimals) => width >= 10 ** (9 - decimals)) ?? 9;
}

function filled(texts) {
  let before = "";
  return texts.map((text) => (before = text === 0 ? before : text));
}

const tip = document.createElement("div");
tip.className = "tip";
tip.setAttribute("role", "presentation");
const live = document.getElementById("live");
const plots = [...document.querySelectorAll(".plot")].map(read);

function read(element) {
  const data = JSON.parse(element.querySelector("script").textContent);
  for (const line of data.lines) line.texts = filled(line.texts);
  return {
    element,
    data,
    fields: [...element.querySelectorAll(".field")],
    cursors: [...element.querySelectorAll(".cursor")],
    column: -1,
  };
}

function begin(data, column) {
  const width = BigInt(data.width);
  const count = BigInt(data.count);
  return BigInt(data.start) + (width * BigInt(column) + count - 1n) / count;
}

function point(share) {
  for (const plot of plots)
    for (const cursor of plot.cursors) {
      cursor.style.display = share === null ? "none" : "block";
      if (share !== null) cursor.style.left = `${share * 100}%`;
    }
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
  const heat = plot.data.heat;
  if (!heat || y === null) return null;
  const pixels = shades(plot);
  if (!pixels) return null;
  const row = Math.min(Math.floor(y * heat.rows), heat.rows - 1);
  const at = (row * pixels.width + column) * 4;
  const [red, , blue, opacity] = pixels.data.slice(at, at + 4);
  const low = heat.low + (heat.rows - 1 - row) * heat.band;
  const [first, last] = [low, low + heat.band - 1].map((price) => price.toLocaleString("en-US"));
  const price = heat.band > 1 ? `${first} to ${last}` : first;
  if (!opacity) return { colour: "own", label: `nothing at ${price}` };
  const step = heat.opacities.indexOf(opacity);
  const side = blue > red ? "bids" : "asks";
  return { colour: side, label: `about ${heat.sizes[step]} lots of ${side} at ${price}` };
}

function show(plot, column, x, y) {
  const { data } = plot;
  plot.column = column;
  point((column + 0.5) / data.count);
  const rows = [];
  const heat = depth(plot, column, y);
  if (heat) rows.push(heat);
  for (const line of data.lines) {
    const text = line.texts[column];
    if (text !== null && text !== "") rows.push({ colour: line.colour, label: `${line.label}: ${text}` });
  }
  const time = moment(begin(data, column), data.dated, decimalsOf(data));
  const title = document.createElement("b");
  title.textContent = time;
  tip.replaceChildren(
    title,
    ...rows.map((row) => {
      const line = document.createElement("span");
      const key = document.createElement("i");
      key.className = row.colour;
      line.append(key, row.label);
      return line;
    }),
  );
  plot.element.append(tip);
  const frame = plot.element.getBoundingClientRect();
  const left = x - frame.left;
  const beside = left + 16 + tip.offsetWidth > frame.width ? left - 16 - tip.offsetWidth : left + 16;
  tip.style.left = `${Math.max(0, Math.min(beside, frame.width - tip.offsetWidth))}px`;
  tip.style.top = "2.6rem";
  return [time, ...rows.map((row) => row.label)].join(", ");
}

function hide() {
  point(null);
  tip.remove();
}

for (const plot of plots) {
  const { element, data, fields } = plot;
  for (const field of fields) {
    const at = (event) => {
      const frame = field.getBoundingClientRect();
      const share = Math.min(Math.max((event.clientX - frame.left) / frame.width, 0), 0.999999);
      const y = Math.min(Math.max((event.clientY - frame.top) / frame.height, 0), 0.999999);
      show(plot, Math.floor(share * data.count), event.clientX, y);
    };
    field.addEventListener("pointermove", at);
    field.addEventListener("pointerdown", at);
    field.addEventListener("pointerleave", hide);
  }
  // A press on another figure has already shown that figure.
  element.addEventListener("blur", () => tip.parentNode === element && hide());
  element.addEventListener("keydown", (event) => {
    const far = Math.max(1, Math.round(data.count / 20));
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -far, PageDown: far };
    let column = plot.column < 0 ? 0 : plot.column;
    if (event.key === "Escape") return hide();
    if (event.key === "Home") column = 0;
    else if (event.key === "End") column = data.count - 1;
    else if (event.key in steps) column += (event.shiftKey ? 10 : 1) * steps[event.key];
    else return undefined;
    event.preventDefault();
    column = Math.min(Math.max(column, 0), data.count - 1);
    const frame = fields[0].getBoundingClientRect();
    live.textContent = show(plot, column, frame.left + (frame.width * column) / data.count, null);
    return undefined;
  });
}
