// The values of figures in fine columns: reads them, combines them to the columns of a range, and
// draws panels from them, as clob/replay/report draws the whole range.

import { HEIGHT, multiples, roundStep, scaleOf } from "./plot.js";

const SECOND = 10n ** 9n;
const MINUTE_NS = 60n * SECOND;
const HOUR_NS = 60n * MINUTE_NS;
const DAY_NS = 24n * HOUR_NS;
// Times before have no date: they are times of an unknown day.
const FIRST_DATE_NS = 3650n * DAY_NS;
const STEPS_NS = [
  ...Array.from({ length: 10 }, (_, power) => [1n, 2n, 5n].map((unit) => unit * 10n ** BigInt(power))).flat(),
  ...[10n, 15n, 30n].map((count) => count * SECOND),
  ...[1n, 2n, 5n, 10n, 15n, 30n].map((count) => count * MINUTE_NS),
  ...[1n, 2n, 3n, 6n, 12n].map((count) => count * HOUR_NS),
  ...Array.from({ length: 6 }, (_, power) => [1n, 2n, 5n].map((unit) => unit * 10n ** BigInt(power) * DAY_NS)).flat(),
].sort((one, other) => (one < other ? -1 : 1));

// ----- reading -------------------------------------------------------------------------------

// Reads the compressed data of a figure.
export async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const data = await new Response(stream).json();
  for (const panel of data.panels) panel.series.forEach(restore);
  return data;
}

// Restores values from differences; see encode() in figure.py.
function restore(series) {
  let base = 0;
  series.last.forEach((step, at) => {
    const held = step === null ? base : base + step;
    if (step !== null) series.last[at] = held;
    if (series.low[at] !== null) series.low[at] += Math.min(base, held);
    if (series.high[at] !== null) series.high[at] += Math.max(base, held);
    base = held;
  });
}

// ----- ranges --------------------------------------------------------------------------------

// A range of fine columns from `start`, in `count` columns of `group` fine ones. It holds all
// columns from `first` to `last` (exclusive) and has at most `shown` columns, `least` at least.
export function rangeOf(first, last, total, shown, least = 16) {
  const wanted = Math.min(Math.max(Math.round(last - first), least), total);
  const group = Math.ceil(wanted / shown);
  const count = Math.min(Math.ceil(wanted / group), Math.floor(total / group));
  const middle = (first + last - count * group) / 2;
  const start = wanted === total ? 0 : Math.round(Math.min(Math.max(middle, 0), total - count * group));
  return { start, group, count };
}

// The values of a series in the columns of a range, with null where there is none.
export function combine(series, { start, group, count }) {
  const columns = { low: [], high: [], last: [] };
  for (let at = start; at < start + count * group; at += group) {
    let [low, high, sum] = [null, null, 0];
    for (let fine = at; fine < at + group; fine += 1) {
      if (series.low[fine] !== null && (low === null || series.low[fine] < low)) low = series.low[fine];
      if (series.high[fine] !== null && (high === null || series.high[fine] > high)) high = series.high[fine];
      sum += series.last[fine] ?? 0;
    }
    columns.low.push(series.adds ? sum : low);
    columns.high.push(series.adds ? sum : high);
    columns.last.push(series.adds ? sum : series.last[at + group - 1]);
  }
  return columns;
}

// ----- texts ---------------------------------------------------------------------------------

const pad = (value, width) => String(value).padStart(width, "0");
const modulo = (value, by) => ((value % by) + by) % by;

// An amount in wei as tokens, exactly.
export function amount(wei) {
  const size = wei < 0n ? -wei : wei;
  const decimals = pad(size % 10n ** 18n, 18).replace(/0+$/, "");
  return `${wei < 0n ? "-" : ""}${(size / 10n ** 18n).toLocaleString("en-US")}${decimals && `.${decimals}`}`;
}

function dateOf(ns) {
  if (ns < FIRST_DATE_NS) return `day ${ns / DAY_NS}`;
  return new Date(Number(ns / 1_000_000n)).toISOString().slice(0, 10);
}

function clock(ns, decimals) {
  const rest = modulo(ns, DAY_NS);
  const parts = [rest / HOUR_NS, (rest / MINUTE_NS) % 60n, (rest / SECOND) % 60n].map((part) => pad(part, 2));
  const fraction = decimals ? `.${pad(rest % SECOND, 9).slice(0, decimals)}` : "";
  return `${parts.join(":")}${fraction}`;
}

// A time, with its date or day number unless it is on day 0.
export function moment(ns, decimals) {
  const text = clock(ns, decimals);
  return ns >= 0n && ns < DAY_NS ? text : `${dateOf(ns)} ${text}`;
}

// Round times of a range of `width` nanoseconds, as time_marks() of lines.py.
export function timeMarksNs(start, width, most = 8n) {
  const step = STEPS_NS.find((each) => each * most >= width) ?? STEPS_NS.at(-1);
  const decimals = step < SECOND ? 10 - String(step).length : 0;
  const marks = [];
  for (let at = start + modulo(-start, step); at < start + width; at += step) {
    const share = Number(((at - start) * 10_000n) / width) / 10_000;
    marks.push({ share, label: timeLabelNs(at, step, decimals, width) });
  }
  return marks;
}

// The shortest unambiguous label of a round time.
function timeLabelNs(at, step, decimals, width) {
  if (step >= DAY_NS || (at % DAY_NS === 0n && width > DAY_NS)) {
    const day = dateOf(at);
    return at >= FIRST_DATE_NS && width < 200n * DAY_NS ? day.slice(5) : day;
  }
  const time = clock(at, decimals);
  return step % MINUTE_NS === 0n ? time.slice(0, -3) : time;
}

// Returns a function that writes a value of a panel.
export function writer(panel, labels) {
  if (panel.kind === "amount") return (value) => amount(BigInt(value) * BigInt(panel.unit));
  if (panel.kind === "price" && labels) {
    return (value) => labels.texts[value - labels.low] ?? "";
  }
  return (value) => value.toLocaleString("en-US");
}

// The text of a column: the last value, and the range if there are several.
export function textOf({ low, high, last }, column, write) {
  if (low[column] === null) return null;
  if (low[column] === high[column]) return write(low[column]);
  const end = last[column] === null ? "none" : write(last[column]);
  return `${end} (${write(low[column])} to ${write(high[column])})`;
}

// ----- drawings ------------------------------------------------------------------------------

// The scale of a panel for the values of a range, within the scale of the whole range.
export function scaleFor(panel, columns) {
  if (panel.fixed || !columns.length) return panel;
  const inside = (value) => Math.min(Math.max(value, panel.low), panel.high);
  const ends = (part, pick) => columns.map((each) => each[part].reduce(pick, null));
  const least = (one, other) => (other !== null && (one === null || other < one) ? other : one);
  const most = (one, other) => (other !== null && (one === null || other > one) ? other : one);
  const values = [...ends("low", least), ...ends("high", most)].filter((value) => value !== null).map(inside);
  if (!values.length) return panel;
  const { low, high } = scaleOf(values, { zero: panel.zero });
  return { low, high: Math.max(high, low + 1) };
}

// The height of a value from the top, as Scale.y() of lines.py.
export function heightOf(value, { low, high }) {
  const y = Math.floor(((high - value) * HEIGHT) / (high - low));
  return Math.min(Math.max(y, -HEIGHT), 2 * HEIGHT);
}

// The heights to draw to within a column, the nearer extreme first.
function turns(pen, bottom, top, end) {
  const far = (y) => Math.abs(y - (pen ?? end));
  const heights = [];
  for (const y of far(bottom) <= far(top) ? [bottom, top] : [top, bottom]) {
    if (y !== (heights.at(-1) ?? pen)) heights.push(y);
  }
  return heights.at(-1) === end ? heights : [...heights, end];
}

// The path of a step line with the range of each column, as steps() of lines.py.
export function rangePath({ low, high, last }, scale) {
  let path = "";
  let pen = null;
  last.forEach((value, column) => {
    const x = 2 * column + 1;
    if (low[column] === null) {
      if (pen !== null) path += `H${x - 1}`;
      pen = null;
      return;
    }
    const [bottom, top] = [heightOf(low[column], scale), heightOf(high[column], scale)];
    const end = value === null ? Math.floor((bottom + top) / 2) : heightOf(value, scale);
    if (pen === null) path += `M${x - 1} ${end}`;
    else if (bottom === top && top === pen) return;
    path += `H${x}`;
    path += turns(pen, bottom, top, end).map((y) => `V${y}`).join("");
    pen = value === null ? null : end;
  });
  return pen === null ? path : `${path}H${2 * last.length}`;
}

export function bandPath(lower, upper, scale) {
  return upper.reduce((path, value, column) => {
    const below = lower ? lower[column] : 0;
    if (value === null || below === null) return path;
    const [from, to] = [heightOf(below, scale), heightOf(value, scale)];
    return from === to ? path : `${path}M${2 * column} ${from}V${to}h2V${from}`;
  }, "");
}

// The own fills of a range: [{ column, kind, price, size }], and of each column the number left out.
export function ownIn(own, { start, group, count }) {
  const fills = [];
  const more = new Map();
  let fine = 0;
  const column = () => Math.floor((fine - start) / group);
  own.columns.forEach((step, at) => {
    fine += step;
    if (fine < start || fine >= start + count * group) return;
    fills.push({ column: column(), kind: own.kinds[at], price: own.prices[at], size: own.sizes[at] });
  });
  for (const [at, left] of own.more) {
    fine = at;
    if (at >= start && at < start + count * group) more.set(column(), (more.get(column()) ?? 0) + left);
  }
  return { fills, more };
}

export function dotsPath(fills, factor, scale) {
  const places = new Set(fills.map(({ column, price }) => `M${2 * column + 1} ${heightOf(factor * price, scale)}h0`));
  return [...places].join("");
}

// Grid lines of a scale at round values: [{ y, label }].
export function levelsOf(panel, scale, most, write) {
  const wei = panel.kind === "amount" ? Number(panel.unit) / 1e18 : 1 / panel.factor;
  const [low, high] = [scale.low * wei, scale.high * wei];
  const step = roundStep(high - low, most, panel.kind === "amount" ? 0 : 1);
  const digits = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));
  const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  const text = (value) => (panel.kind === "amount" ? value.toLocaleString("en-US", options) : write(Math.round(value)));
  return multiples(low, high, step)
    .map((value) => ({ y: heightOf(value / wei, scale), label: text(value) }))
    .filter(({ label }) => label);
}

export function gridPath(levels, marks, width) {
  const across = levels.map(({ y }) => `M0 ${y}H${width}`);
  const down = marks.map(({ share }) => `M${Math.floor(share * width)} 0V${HEIGHT}`);
  return [...across, ...down].join("");
}
