// The book and the trades of a market on the dashboard, from the parts of the trading page.

import { count, send } from "./common.js";
import { Feed } from "./connection.js";
import "./ladder.js";
import { BUY, MarketBook, SELL } from "./market_book.js";
import { TRADES_SHOWN } from "./tape.js";

export class LiveBook {
  // The places are <clob-ladder>, <clob-tape>, a badge for the state, and a text for the orders.
  constructor({ ladder, tape, state, orders }) {
    Object.assign(this, { ladder, tape, state, orders });
    this.feed = new Feed(() => this.showState());
    this.book = null;
    this.ends = [];
    this.frame = null;
  }

  follow(market, tokenId) {
    this.tokenId = tokenId;
    if (this.book?.market.marketId !== market.marketId) this.change(market);
    this.schedule();
  }

  change(market) {
    const { marketId } = market;
    const isFirst = this.book === null;
    this.book = new MarketBook(market);
    for (const end of this.ends) end();
    if (isFirst) this.feed.start();
    this.tape.clear();
    this.ends = [this.feed.subscribe({ channel: "orderbook", marketId }, (message) => this.onBook(message))];
    if (market.settlement === "none") return;
    this.ends.push(this.feed.subscribe({ channel: "settlement", marketId }, (message) => this.onSettlement(message)));
  }

  // ----- messages ---------------------------------------------------------------------------

  onBook(message) {
    const result = this.book.apply(message);
    if (message.type === "subscribed" && !message.resumed) this.load();
    if (message.type === "trade" && result === "changed") this.tape.add([message.data]);
    if (result === "gap") this.feed.renew({ channel: "orderbook", marketId: this.book.market.marketId });
    if (result === "changed") this.schedule();
  }

  // Settlements are not resumed: after a cut, those of the trades on display are loaded.
  onSettlement({ type, data }) {
    if (type === "settlement") this.tape.settle(data);
    if (type === "subscribed") this.load();
  }

  // Load the newest trades; those known keep their place.
  async load() {
    const { market } = this.book;
    const path = `/api/markets/${encodeURIComponent(market.marketId)}/trades?limit=${TRADES_SHOWN}`;
    const answer = await send("GET", path).catch(() => null);
    if (!answer?.ok || this.book.market !== market) return;
    this.tape.add(answer.content);
    for (const each of answer.content) this.tape.settle({ ...each, tradeId: each.id, reason: each.settlementReason });
    this.schedule();
  }

  // ----- drawing ----------------------------------------------------------------------------

  showState() {
    const problem = this.book.problem;
    this.state.textContent = problem || this.feed.text;
    this.state.className = `badge ${this.feed.isCurrent && !problem ? "open" : "shut"}`;
    this.ladder.classList.toggle("stale", !this.feed.isCurrent);
  }

  // Draw once per frame, for any number of messages.
  schedule() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.tape.show(this.tokenId);
      this.ladder.show(this.book, this.tokenId, this.tape.newest(this.tokenId)?.price ?? null);
      const [bids, asks] = [BUY, SELL].map((side) => ordersOf(this.book.book(this.tokenId).levels(side)));
      this.orders.textContent = `${bids} to buy, ${asks} to sell`;
      this.showState();
    });
  }
}

function ordersOf(levels) {
  const number = levels.reduce((sum, [, , orders]) => sum + orders, 0);
  return number === 1 ? "1 order" : `${count(number)} orders`;
}
