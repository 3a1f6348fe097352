// <clob-markets>: the list of markets with prices, volume and a small chart, and its search.
//
// Rows in view follow the ticker of their market; their charts load one after another.

import { app, get, list, loadMarkets, marketPath, onProblem } from "./app.js";
import { button, cents, count, el, tokens } from "./common.js";
import { sparkline } from "./plot.js";

const ROWS = 100;
const FOLLOWED_MAX = 60;
const CHART_CANDLES = 288;
const CHART_PAUSE_MS = 150;
const CHART_AGE_MS = 300000;
const MARKETS_MS = 60000;
const charts = new Map();
const tickers = new Map();

class Markets extends HTMLElement {
  connectedCallback() {
    this.rows = new Map();
    this.followed = new Map();
    this.limit = ROWS;
    this.search = el("input", { type: "search", placeholder: "Question or id", on: { input: () => this.draw() } });
    this.order = el("select", { on: { change: () => this.sort() } }, el("option", { value: "new" }, "newest"), el("option", { value: "volume" }, "volume"));
    this.result = el("p", { className: "faint", role: "status" });
    this.more = button("Show more", () => this.showMore());
    const heads = ["Market", "Bid", "Ask", "Last", "24 h volume", "24 h"].map((text, index) =>
      el("div", { role: "columnheader", className: index ? "number" : "" }, text),
    );
    this.body = el("div", { role: "rowgroup" });
    this.append(
      el(
        "form",
        { className: "fields", role: "search", on: { submit: (event) => event.preventDefault() } },
        el("label", { className: "long" }, "Search", this.search),
        el("label", {}, "Order", this.order),
      ),
      this.result,
      el(
        "div",
        { className: "market-list card live-part", role: "table", ariaLabel: "Markets" },
        el("div", { role: "rowgroup" }, el("div", { role: "row", className: "market-row market-head" }, ...heads)),
        this.body,
      ),
      this.more,
    );
    this.watch = new IntersectionObserver((found) => this.onView(found));
    this.ends = [app.on("markets", () => this.draw())];
    if (app.markets.length) this.draw();
    else this.result.textContent = "Loading the markets.";
    this.timer = setInterval(() => this.refresh(), MARKETS_MS);
  }

  disconnectedCallback() {
    this.watch.disconnect();
    clearInterval(this.timer);
    for (const end of [...this.ends, ...this.followed.values()]) end();
  }

  // The order by volume needs the tickers of all markets, not only of the rows in view.
  async sort() {
    if (this.order.value === "volume") for (const each of await list("/api/tickers").catch(onProblem(() => []))) tickers.set(each.marketId, each);
    this.draw();
  }

  refresh() {
    loadMarkets().catch(onProblem());
    this.loadCharts();
  }

  showMore() {
    this.limit += ROWS;
    this.draw();
  }

  found() {
    const wanted = this.search.value.trim().toLowerCase();
    const found = app.markets.filter(({ question, marketId }) => `${question}\n${marketId}`.toLowerCase().includes(wanted)).reverse();
    if (this.order.value === "volume") found.sort((a, b) => compare(volumeOf(b), volumeOf(a)));
    return found;
  }

  draw() {
    const found = this.found();
    const shown = found.slice(0, this.limit);
    this.result.textContent = found.length === 1 ? "1 market" : `${count(found.length)} markets`;
    this.more.hidden = found.length <= this.limit;
    const kept = new Set(shown.map((each) => each.marketId));
    for (const [id, row] of this.rows) if (!kept.has(id)) this.remove(id, row);
    shown.forEach((market, index) => {
      const row = this.rows.get(market.marketId) ?? this.add(market);
      if (this.body.children[index] !== row.line) this.body.insertBefore(row.line, this.body.children[index] ?? null);
      fill(row, market, tickers.get(market.marketId));
    });
  }

  add(market) {
    const { marketId, question } = market;
    const link = el("a", { href: `#/m/${encodeURIComponent(marketId)}`, dir: "auto" }, question || marketId);
    const badge = el("span", { className: "badge" });
    const id = el("span", { className: "faint mono" }, question ? marketId : "");
    const cells = ["Bid", "Ask", "Last", "24 h volume"].map((name) => {
      const cell = el("div", { role: "cell", className: "number" }, "");
      cell.dataset.name = name;
      return cell;
    });
    const chart = el("div", { role: "cell", className: "market-chart" }, charts.has(marketId) ? chartOf(charts.get(marketId)) : null);
    const line = el(
      "div",
      { role: "row", className: "market-row" },
      el("div", { role: "cell", className: "market-name" }, link, el("div", {}, badge, id)),
      ...cells,
      chart,
    );
    line.dataset.market = marketId;
    const row = { line, cells, chart, badge };
    this.rows.set(marketId, row);
    this.watch.observe(line);
    return row;
  }

  remove(id, { line }) {
    this.watch.unobserve(line);
    line.remove();
    this.rows.delete(id);
    this.leave(id);
  }

  // ----- rows in view -----------------------------------------------------------------------

  onView(found) {
    for (const { target, isIntersecting } of found) {
      const { market } = target.dataset;
      if (!isIntersecting) this.leave(market);
      else if (this.rows.has(market)) this.follow(market);
    }
    this.loadCharts();
  }

  follow(marketId) {
    if (this.followed.has(marketId) || this.followed.size >= FOLLOWED_MAX) return;
    const onMessage = (message) => message.type === "ticker" && this.onTicker(message.data);
    this.followed.set(marketId, app.feed.subscribe({ channel: "ticker", marketId }, onMessage));
  }

  leave(marketId) {
    this.followed.get(marketId)?.();
    this.followed.delete(marketId);
  }

  onTicker(ticker) {
    tickers.set(ticker.marketId, ticker);
    const row = this.rows.get(ticker.marketId);
    if (row) fill(row, app.markets.find((each) => each.marketId === ticker.marketId), ticker);
  }

  // Load the charts of the rows in view one after another, not to use up the requests of a minute.
  async loadCharts() {
    if (this.isLoading) return;
    this.isLoading = true;
    for (let id = this.nextChart(); id !== undefined && this.isConnected; id = this.nextChart()) {
      charts.set(id, { at: performance.now(), prices: await loadChart(id).catch(onProblem(() => [])) });
      this.rows.get(id)?.chart.replaceChildren(chartOf(charts.get(id)));
      await new Promise((done) => setTimeout(done, CHART_PAUSE_MS));
    }
    this.isLoading = false;
  }

  // Next market in view without a chart, or with an old one.
  nextChart() {
    return [...this.followed.keys()].find((id) => !(performance.now() - charts.get(id)?.at < CHART_AGE_MS));
  }
}

// Prices of the last 24 hours; by the minute while a market is new.
async function loadChart(marketId) {
  const prices = async (interval) =>
    (await get(`${marketPath(marketId)}/candles?interval=${interval}&limit=${CHART_CANDLES}`)).candles.map((each) => each.close);
  const found = await prices("5m");
  return found.length > 2 ? found : prices("1m");
}

function fill({ cells, badge }, market, ticker) {
  const yes = ticker?.yes;
  const bid = yes ? yes.bestBid?.price : market.bestBid;
  const ask = yes ? yes.bestAsk?.price : market.bestAsk;
  const texts = [cents(bid), cents(ask), cents(yes?.lastPrice), yes ? tokens(yes.volume24h) : ""];
  texts.forEach((text, index) => {
    if (cells[index].firstChild.data !== text) cells[index].firstChild.data = text;
  });
  const mode = market.mode === "resolved" ? `resolved: ${market.outcome}` : market.mode;
  badge.hidden = market.mode === "open";
  if (badge.textContent !== mode) badge.textContent = mode;
}

const volumeOf = ({ marketId }) => BigInt(tickers.get(marketId)?.yes.volume24h ?? 0);
const compare = (a, b) => (a < b ? -1 : Number(a > b));

function chartOf({ prices }) {
  if (prices.length < 2) return el("span", { className: "faint" }, "–");
  const [first, last] = [prices[0], prices.at(-1)];
  const picture = sparkline(prices, `From ${first}¢ to ${last}¢, lowest ${Math.min(...prices)}¢, highest ${Math.max(...prices)}¢`);
  picture.classList.add(last < first ? "sell" : "buy");
  return picture;
}

customElements.define("clob-markets", Markets);
