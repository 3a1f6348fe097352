// A market: head, ladder, charts, tape, and the elements of the trader.
//
// <clob-ticket>, <clob-own> and <clob-funds> read app.current and app.wallet and follow the events
// `current`, `book` and `wallet`. A price that is chosen in the ladder is a bubbling event
// `clob-price` with detail { side, price, tokenId }: side 0 buys, 1 sells, null keeps the side.

import { app, emit, get, marketPath, onProblem } from "./app.js";
import "./charts.js";
import { button, cents, el, tokens } from "./common.js";
import "./ladder.js";
import { MarketBook } from "./market_book.js";
import { TRADES_SHOWN } from "./tape.js";

const MARKET_MS = 30000;
const LOAD_MS = 50;
const RETRY_MS = 5000;
const PROBLEMS = {
  UNKNOWN_MARKET: "This market does not exist yet.",
  market_removed: "This market was removed.",
};

class MarketView extends HTMLElement {
  // Load a market; called once, before the element enters the page.
  async load(marketId) {
    this.marketId = marketId;
    this.market = await get(marketPath(marketId));
    this.book = new MarketBook(this.market);
    this.tickers = {};
  }

  connectedCallback() {
    this.draw();
    const { marketId } = this;
    this.ends = [
      app.feed.subscribe({ channel: "orderbook", marketId }, (message) => this.onBook(message)),
      app.feed.subscribe({ channel: "ticker", marketId }, (message) => this.onTicker(message)),
      app.on("wallet", () => this.followWallet()),
    ];
    if (this.market.settlement === "chain") {
      // Settlements are not resumed: those of the trades on display are loaded after a cut.
      const onSettlement = ({ type, data }) => (type === "settlement" ? this.tape.settle(data) : this.loadTrades());
      this.ends.push(app.feed.subscribe({ channel: "settlement", marketId }, onSettlement));
    }
    this.timer = setInterval(() => this.reload().catch(onProblem()), MARKET_MS);
    this.choose(this.market.yesTokenId);
    this.followWallet();
  }

  disconnectedCallback() {
    for (const end of this.ends) end();
    this.leaveWallet?.();
    clearInterval(this.timer);
    clearTimeout(this.loading);
    cancelAnimationFrame(this.frame);
    app.set("current", null);
  }

  // ----- messages ---------------------------------------------------------------------------

  onBook(message) {
    const { type, data } = message;
    const result = this.book.apply(message);
    if (result === "gap") app.feed.renew({ channel: "orderbook", marketId: this.marketId });
    if (type === "trade" && result === "changed") this.onTrade(data);
    if (type === "orderbook") this.loadTrades();
    if (type === "unsubscribed") this.reload().catch(onProblem());
    if (result === "changed") this.schedule();
  }

  onTrade(trade) {
    this.tape.add([trade]);
    this.prices.add(trade);
  }

  onTicker({ type, data }) {
    if (type !== "ticker") return;
    this.tickers = { [data.yes.tokenId]: data.yes };
    if (data.no) this.tickers[data.no.tokenId] = data.no;
    this.drawFacts();
  }

  followWallet() {
    this.leaveWallet?.();
    this.leaveWallet = null;
    this.book.clearOwn();
    if (app.wallet) {
      const request = { channel: "user", maker: app.wallet.address };
      this.leaveWallet = app.feed.subscribe(request, (message) => this.book.applyUser(message) && this.schedule());
    }
    this.schedule();
  }

  // Load trades and candles again after the snapshots of both tokens, since events before them may be
  // missing. Trades that are newer than those of the answer stay, as settlements after the request.
  loadTrades(afterMs = LOAD_MS) {
    this.loading ??= setTimeout(async () => {
      this.loading = null;
      this.tape.settlements.clear();
      const { marketId, yesTokenId, noTokenId } = this.market;
      const queries = [yesTokenId, noTokenId].filter(Boolean).map((each) => get(`${marketPath(marketId)}/trades?limit=${TRADES_SHOWN}&tokenId=${each}`));
      const found = (await Promise.all(queries).catch(onProblem()))?.flat();
      if (!this.isConnected) return;
      if (!found) return this.loadTrades(RETRY_MS);
      const newer = [...this.tape.trades.values()].filter(({ tokenId, seq }) => found.every((each) => each.tokenId !== tokenId || each.seq < seq));
      this.tape.clear();
      this.tape.add([...found, ...newer]);
      this.schedule();
      if (this.isLoaded) this.prices.load();
      this.isLoaded = true;
    }, afterMs);
  }

  // The mode of a market is in no message.
  async reload() {
    const before = JSON.stringify([this.market.mode, this.market.outcome, this.market.noTokenId]);
    Object.assign(this.market, await get(marketPath(this.marketId)));
    const { mode, outcome, noTokenId } = this.market;
    if (!this.isConnected || JSON.stringify([mode, outcome, noTokenId]) === before) return;
    this.drawHead();
    app.set("current", app.current);
  }

  // ----- drawing ----------------------------------------------------------------------------

  choose(tokenId) {
    this.tokenId = tokenId;
    app.set("current", { market: this.market, tokenId, book: this.book });
    this.drawHead();
    this.drawFacts();
    this.prices.show(this.marketId, tokenId);
    this.schedule();
  }

  // Draw once per frame, for any number of messages.
  schedule() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.drawBook();
      emit("book", this.book);
    });
  }

  drawBook() {
    const { book, tokenId } = this;
    const problem = PROBLEMS[book.problem] ?? book.problem;
    this.problem.hidden = problem === "";
    this.problem.textContent = problem;
    this.tape.show(tokenId);
    this.depth.show(book, tokenId);
    this.ladder.show(book, tokenId, this.tape.newest(tokenId)?.price ?? null);
  }

  draw() {
    this.ladder = el("clob-ladder");
    this.tape = el("clob-tape");
    this.prices = el("clob-price-chart");
    this.depth = el("clob-depth-chart");
    this.question = el("h2", { className: "question", dir: "auto" });
    this.mode = el("span", { className: "badge shut" });
    this.outcomes = el("div", { className: "switch", role: "group", ariaLabel: "Outcome" });
    this.facts = el("dl", { className: "facts live-part" });
    this.problem = el("p", { className: "result bad", role: "status" });
    const part = (label, className, ...children) => el("section", { className: `card ${className}`, ariaLabel: label }, ...children);
    this.replaceChildren(
      el("div", { className: "market-head" }, this.question, el("div", { className: "bar" }, this.outcomes, this.mode, this.facts), this.problem),
      el(
        "div",
        { className: "trade-board" },
        part("Order book", "live-part", this.ladder),
        part("Ticket", "", el("clob-ticket")),
        el("div", { className: "stack" }, part("Charts", "live-part", this.prices, el("h3", {}, "Depth"), this.depth), part("Trades", "live-part", el("h3", {}, "Trades"), this.tape)),
        part("Your orders", "wide-part", el("clob-own")),
        part("Your funds", "", el("clob-funds")),
      ),
    );
  }

  drawHead() {
    const { question, marketId, yesTokenId, noTokenId, mode, outcome } = this.market;
    this.question.textContent = question || marketId;
    this.mode.hidden = mode === "open";
    this.mode.textContent = mode === "resolved" ? `resolved: ${outcome}` : mode;
    const choice = (name, tokenId) =>
      button(name, () => this.choose(tokenId), { ariaPressed: String(tokenId === this.tokenId), disabled: !tokenId });
    const buttons = [choice("YES", yesTokenId), choice("NO", noTokenId)];
    const hadFocus = [...this.outcomes.children].indexOf(document.activeElement);
    this.outcomes.replaceChildren(...buttons);
    buttons[hadFocus]?.focus();
  }

  drawFacts() {
    const ticker = this.tickers[this.tokenId];
    const facts = {
      Last: cents(ticker?.lastPrice),
      Bid: cents(ticker?.bestBid?.price),
      Ask: cents(ticker?.bestAsk?.price),
      "24 h volume": ticker ? tokens(ticker.volume24h) : "–",
      "24 h low, high": `${cents(ticker?.low24h)}, ${cents(ticker?.high24h)}`,
    };
    if (!this.facts.firstChild) {
      this.facts.append(...Object.keys(facts).map((name) => el("div", {}, el("dt", {}, name), el("dd", { className: "number" }, ""))));
    }
    Object.values(facts).forEach((text, index) => {
      const { firstChild } = this.facts.children[index].lastChild;
      if (firstChild.data !== text) firstChild.data = text;
    });
  }
}

customElements.define("clob-market", MarketView);
