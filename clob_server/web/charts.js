// <clob-price-chart> and <clob-depth-chart>: the candles of a token, and its book as cumulated sizes.

import { app, get, marketPath, onProblem } from "./app.js";
import { button, cents, count, el } from "./common.js";
import { BUY, PRICE_MAX, SELL } from "./market_book.js";
import { areaPath, barsPath, candleLayers, Chart, scaleOf, stepPath, timeMarks } from "./plot.js";

const INTERVALS = { "1m": 60_000, "5m": 300_000, "1h": 3_600_000, "1d": 86_400_000 };
const COLUMNS = 120;
const COLUMNS_MIN = 30;
const LOADS_MAX = 3;
const REDRAW_MS = 500;
const TICK_MS = 5000;
const WEI = 1e18;
const AIR = 2;

const rounded = (value) => count(Number(value.toPrecision(4)));

// Draws at most twice a second, and only while it is in the page.
class LiveChart extends HTMLElement {
  connectedCallback() {
    const figure = el("figure");
    this.append(figure);
    this.chart = new Chart(figure, this.constructor.title);
  }

  schedule() {
    this.timer ??= setTimeout(() => {
      this.timer = null;
      if (this.isConnected) this.draw();
    }, REDRAW_MS);
  }
}

class PriceChart extends LiveChart {
  static title = "Price, UTC";

  connectedCallback() {
    this.interval = "1m";
    this.buttons = Object.keys(INTERVALS).map((name) => button(name, () => this.choose(name)));
    this.append(el("div", { className: "switch", role: "group", ariaLabel: "Interval of the chart" }, ...this.buttons));
    super.connectedCallback();
    this.ticking = setInterval(() => (this.isLoaded ? this.schedule() : this.load()), TICK_MS);
  }

  disconnectedCallback() {
    clearInterval(this.ticking);
  }

  choose(interval) {
    this.interval = interval;
    return this.show(this.marketId, this.tokenId);
  }

  show(marketId, tokenId) {
    this.marketId = marketId;
    this.tokenId = tokenId;
    this.candles = new Map();
    for (const button of this.buttons) button.ariaPressed = String(button.textContent === this.interval);
    return this.load();
  }

  // Load the candles; again if a trade arrived meanwhile, which they may contain or not. Until they
  // are loaded, it is tried again at each tick.
  async load() {
    const { marketId, tokenId, interval } = this;
    const query = new URLSearchParams({ tokenId, interval, limit: COLUMNS });
    this.isLoaded = false;
    for (let attempt = 0; attempt < LOADS_MAX && !(this.isLoaded && !this.hasTraded); attempt += 1) {
      this.hasTraded = false;
      const found = await get(`${marketPath(marketId)}/candles?${query}`).catch(onProblem());
      if (!found || tokenId !== this.tokenId || interval !== this.interval) return;
      this.candles = new Map(found.candles.map((each) => [each.timestamp, { ...each, volume: Number(each.volume) / WEI }]));
      this.isLoaded = true;
    }
    this.draw();
  }

  // Add a trade to the last candle.
  add({ tokenId, timestamp, price, size }) {
    if (tokenId !== this.tokenId) return;
    this.hasTraded = true;
    const start = timestamp - (timestamp % INTERVALS[this.interval]);
    const candle = this.candles.get(start) ?? { open: price, high: price, low: price, volume: 0, numTrades: 0 };
    candle.high = Math.max(candle.high, price);
    candle.low = Math.min(candle.low, price);
    candle.close = price;
    candle.volume += Number(size) / WEI;
    candle.numTrades += 1;
    this.candles.set(start, candle);
    this.schedule();
  }

  draw() {
    const width = INTERVALS[this.interval];
    const now = app.feed.now();
    const last = now - (now % width);
    const age = Math.round((last - Math.min(last, ...this.candles.keys())) / width) + 1;
    const columns = Math.min(Math.max(age, COLUMNS_MIN), COLUMNS);
    const starts = Array.from({ length: columns }, (_, index) => last - (columns - 1 - index) * width);
    const candles = starts.map((start) => this.candles.get(start) ?? null);
    const prices = scaleOf(candles.flatMap((each) => (each ? [each.low, each.high] : [])));
    const volumes = candles.map((each) => each && each.volume);
    const traded = scaleOf(volumes, { zero: true });
    this.chart.show({
      count: columns,
      panels: [
        { unit: "price", height: 150, scale: prices, write: cents, least: 1, layers: candleLayers(candles, prices) },
        { unit: "tokens", height: 48, scale: traded, write: rounded, layers: [{ kind: "fill", colour: "volume", path: barsPath(volumes, traded) }] },
      ],
      marks: timeMarks(starts[0], last + width, 6),
      describe: (column) => describeCandle(starts[column], candles[column]),
    });
  }
}

function describeCandle(start, candle) {
  const title = `${new Date(start).toISOString().slice(0, 16).replace("T", " ")} UTC`;
  if (!candle) return { title, rows: [{ colour: "", label: "no trade" }] };
  const { open, high, low, close, volume, numTrades } = candle;
  const colour = close < open ? "sell" : "buy";
  const prices = `open ${open}¢, high ${high}¢, low ${low}¢, close ${close}¢`;
  return { title, rows: [{ colour, label: prices }, { colour: "volume", label: `${rounded(volume)} tokens in ${count(numTrades)} trades` }] };
}

class DepthChart extends LiveChart {
  static title = "Depth";

  show(market, tokenId) {
    this.market = market;
    this.tokenId = tokenId;
    this.schedule();
  }

  draw() {
    const book = this.market.book(this.tokenId);
    const [bids, asks] = [BUY, SELL].map((side) => book.levels(side));
    const prices = [...bids, ...asks].map(([price]) => price);
    const low = Math.max(1, Math.min(PRICE_MAX, ...prices) - AIR);
    const high = Math.min(PRICE_MAX, Math.max(1, ...prices) + AIR);
    const columns = Array.from({ length: Math.max(1, high - low + 1) }, (_, index) => low + index);
    const sums = [cumulated(bids, columns, 1), cumulated(asks, columns, -1)];
    const scale = scaleOf(sums.flat(), { zero: true });
    const layers = ["buy", "sell"].flatMap((colour, side) => [
      { kind: "fill", colour, path: areaPath(sums[side], scale) },
      { kind: "line", colour, path: stepPath(sums[side], scale) },
    ]);
    const step = Math.ceil(columns.length / 8);
    const marks = columns.flatMap((price, index) => (price % step ? [] : [{ share: (index + 0.5) / columns.length, label: cents(price) }]));
    this.chart.show({
      count: columns.length,
      panels: [{ unit: "tokens", height: 110, scale, write: rounded, layers }],
      marks,
      describe: (column) => describeDepth(columns[column], sums.map((side) => side[column])),
    });
  }
}

// Size of all levels between the best price and each column; null beyond the book.
function cumulated(levels, columns, sign) {
  return columns.map((price) => {
    const sum = levels.reduce((total, [level, size]) => (sign * (level - price) >= 0 ? total + size : total), 0n);
    return sum > 0n ? Number(sum) / WEI : null;
  });
}

function describeDepth(price, [bids, asks]) {
  const rows = [
    { colour: "buy", label: `${rounded(bids ?? 0)} bid at ${price}¢ or more` },
    { colour: "sell", label: `${rounded(asks ?? 0)} asked at ${price}¢ or less` },
  ];
  return { title: cents(price), rows };
}

customElements.define("clob-price-chart", PriceChart);
customElements.define("clob-depth-chart", DepthChart);
