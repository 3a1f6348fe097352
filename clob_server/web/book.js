// A book that is kept current by the stream: a snapshot first, then one event after the other.

import { ask, count, el, table, tokens } from "./common.js";

const TRADES_SHOWN = 50;
const STANDS_KEPT = 500;
const AGAIN_MS = 1000;

export class LiveBook {
  constructor({ ladder, tape, state }) {
    this.place = { ladder, tape, state };
    this.market = null;
    this.token = null;
    this.socket = null;
    this.books = new Map();
    this.trades = [];
    this.settles = false;
    this.stands = new Map();
    this.drawn = true;
  }

  follow(market, token, settles) {
    this.token = token;
    if (this.market !== market) {
      this.market = market;
      this.settles = settles;
      this.books.clear();
      this.trades = [];
      this.connect();
    }
    this.draw();
  }

  // The trades from before; those that the stream brings meanwhile are among them.
  async recall(market) {
    const got = await ask("GET", `/api/markets/${encodeURIComponent(market)}/trades?limit=${TRADES_SHOWN}`);
    if (got.ok && this.market === market) {
      const trades = new Map([...this.trades, ...got.content].map((each) => [each.id, each]));
      this.trades = [...trades.values()].sort((a, b) => b.seq - a.seq).slice(0, TRADES_SHOWN);
      this.draw();
    }
  }

  connect() {
    if (this.socket) this.socket.onclose = null;
    this.socket?.close();
    const address = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`;
    const socket = (this.socket = new WebSocket(address));
    socket.onopen = () => {
      this.stands.clear();
      for (const channel of this.settles ? ["orderbook", "settlement"] : ["orderbook"]) {
        socket.send(JSON.stringify({ type: "subscribe", channel, marketId: this.market }));
      }
      this.recall(this.market);
    };
    socket.onmessage = (event) => this.hear(JSON.parse(event.data));
    socket.onclose = () => {
      this.place.state.textContent = "not connected";
      this.place.state.className = "badge shut";
      setTimeout(() => this.socket === socket && this.connect(), AGAIN_MS);
    };
  }

  hear(message) {
    const { type, tokenId, data, seq } = message;
    if (type === "settlement") {
      this.stand(data);
      return;
    }
    if (type === "orderbook") {
      this.books.set(tokenId, { bids: levels(data.bids), asks: levels(data.asks) });
    } else if (this.books.has(tokenId)) {
      const book = this.books.get(tokenId);
      if (type === "order_added") change(book, data.side, data.price, BigInt(data.size), 1);
      if (type === "order_removed") change(book, data.side, data.price, -BigInt(data.size), -1);
      if (type === "trade") this.trade(book, data);
    }
    this.place.state.textContent = `live, event ${count(seq)}`;
    this.place.state.className = "badge open";
    this.draw();
  }

  trade(book, data) {
    change(book, data.incomingSide ? 0 : 1, data.price, -BigInt(data.size), 0);
    this.trades.unshift(data);
    this.trades.length = Math.min(this.trades.length, TRADES_SHOWN);
  }

  // How a trade stands on the chain may be told before the trade was recalled.
  stand({ tradeId, settlement, txHash, reason }) {
    this.stands.set(tradeId, { settlement, txHash, settlementReason: reason });
    if (this.stands.size > STANDS_KEPT) this.stands.delete(this.stands.keys().next().value);
    this.draw();
  }

  // However many events there are, a frame is drawn once.
  draw() {
    if (!this.drawn) return;
    this.drawn = false;
    requestAnimationFrame(() => {
      this.drawn = true;
      this.place.ladder.replaceChildren(ladder(this.books.get(this.token)));
      const shown = this.trades.filter((each) => each.tokenId === this.token);
      this.place.tape.replaceChildren(tape(shown.map((each) => ({ ...each, ...this.stands.get(each.id) }))));
    });
  }
}

function levels(list) {
  return new Map(list.map((each) => [each.price, { size: BigInt(each.size), orders: each.numOrders }]));
}

function change(book, side, price, size, orders) {
  const levels = side ? book.asks : book.bids;
  const level = levels.get(price) ?? { size: 0n, orders: 0 };
  level.size += size;
  level.orders += orders;
  if (level.size > 0n) levels.set(price, level);
  else levels.delete(price);
}

function ladder(book) {
  if (!book) return el("p", { className: "faint" }, "No book yet.");
  const asks = [...book.asks].sort(([a], [b]) => b - a);
  const bids = [...book.bids].sort(([a], [b]) => b - a);
  const most = [...asks, ...bids].reduce((max, [, { size }]) => (size > max ? size : max), 1n);
  const row = (side) => ([price, level]) => {
    const size = el("td", { className: "number" }, tokens(level.size));
    const share = Number((level.size * 100n) / most);
    size.style.backgroundImage = `linear-gradient(var(--${side === "bid" ? "buy" : "sell"}-bar) 0 0)`;
    size.style.backgroundSize = `${share}% 100%`;
    return el(
      "tr",
      { className: side },
      el("td", {}, `${price}¢`),
      size,
      el("td", { className: "number faint" }, String(level.orders)),
    );
  };
  const best = asks.length && bids.length ? `spread ${asks.at(-1)[0] - bids[0][0]}¢` : "one side is empty";
  return el(
    "table",
    { className: "ladder" },
    el("thead", {}, el("tr", {}, el("th", {}, "Price"), el("th", { className: "number" }, "Tokens"), el("th", { className: "number" }, "Orders"))),
    el("tbody", {}, ...asks.map(row("ask")), el("tr", { className: "spread" }, el("td", { colSpan: 3 }, best)), ...bids.map(row("bid"))),
  );
}

function tape(trades) {
  if (!trades.length) return el("p", { className: "faint" }, "There is none.");
  const rows = trades.map((each) => ({
    cells: [
      new Date(each.timestamp).toISOString().slice(11, 19),
      each.incomingSide ? "sold" : "bought",
      `${each.price}¢`,
      tokens(each.size),
      each.matchType,
      standing(each),
    ],
  }));
  return table(["Time", "", "Price", "Tokens", "Match", "Settlement"], rows, [2, 3]);
}

function standing({ settlement, txHash, settlementReason }) {
  if (settlement === "none") return el("span", { className: "faint" }, "none");
  const tone = { settled: "open", failed: "shut" }[settlement] ?? "";
  return el("span", { className: `badge ${tone}`, title: txHash ?? settlementReason ?? "" }, settlement);
}
