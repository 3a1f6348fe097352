// An order book of one market, updated by the WebSocket: a snapshot first, then events.

import { count, el, send, table, tokens } from "./common.js";

const TRADES_SHOWN = 50;
const SETTLEMENTS_MAX = 500;
const RECONNECT_MS = 1000;

export class LiveBook {
  constructor({ ladder, tape, state }) {
    this.place = { ladder, tape, state };
    this.market = null;
    this.token = null;
    this.socket = null;
    this.books = new Map();
    this.trades = [];
    this.settles = false;
    this.settlements = new Map();
    this.isDrawn = true;
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

  // Load earlier trades, and merge them with those received meanwhile.
  async loadTrades(market) {
    const response = await send("GET", `/api/markets/${encodeURIComponent(market)}/trades?limit=${TRADES_SHOWN}`);
    if (response.ok && this.market === market) {
      const trades = new Map([...this.trades, ...response.content].map((each) => [each.id, each]));
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
      this.settlements.clear();
      for (const channel of this.settles ? ["orderbook", "settlement"] : ["orderbook"]) {
        socket.send(JSON.stringify({ type: "subscribe", channel, marketId: this.market }));
      }
      this.loadTrades(this.market);
    };
    socket.onmessage = (event) => this.onMessage(JSON.parse(event.data));
    socket.onclose = () => {
      this.place.state.textContent = "not connected";
      this.place.state.className = "badge shut";
      setTimeout(() => this.socket === socket && this.connect(), RECONNECT_MS);
    };
  }

  onMessage(message) {
    const { type, tokenId, data, seq } = message;
    if (type === "settlement") {
      this.onSettlement(data);
      return;
    }
    if (type === "orderbook") {
      this.books.set(tokenId, { bids: levels(data.bids), asks: levels(data.asks) });
    } else if (this.books.has(tokenId)) {
      const book = this.books.get(tokenId);
      if (type === "order_added") change(book, data.side, data.price, BigInt(data.size), 1);
      if (type === "order_removed") change(book, data.side, data.price, -BigInt(data.size), -1);
      if (type === "trade") this.onTrade(book, data);
    }
    this.place.state.textContent = `live, event ${count(seq)}`;
    this.place.state.className = "badge open";
    this.draw();
  }

  onTrade(book, data) {
    change(book, data.incomingSide ? 0 : 1, data.price, -BigInt(data.size), 0);
    this.trades.unshift(data);
    this.trades.length = Math.min(this.trades.length, TRADES_SHOWN);
  }

  // The settlement of a trade may arrive before the trade is loaded.
  onSettlement({ tradeId, settlement, txHash, reason }) {
    this.settlements.set(tradeId, { settlement, txHash, settlementReason: reason });
    if (this.settlements.size > SETTLEMENTS_MAX) this.settlements.delete(this.settlements.keys().next().value);
    this.draw();
  }

  // Draw once per frame, for any number of events.
  draw() {
    if (!this.isDrawn) return;
    this.isDrawn = false;
    requestAnimationFrame(() => {
      this.isDrawn = true;
      this.place.ladder.replaceChildren(ladder(this.books.get(this.token)));
      const shown = this.trades.filter((each) => each.tokenId === this.token);
      this.place.tape.replaceChildren(tape(shown.map((each) => ({ ...each, ...this.settlements.get(each.id) }))));
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
  const best = asks.length && bids.length ? `spread ${asks.at(-1)[0] - bids[0][0]}¢` : "no spread: one side is empty";
  return el(
    "table",
    { className: "ladder" },
    el("thead", {}, el("tr", {}, el("th", {}, "Price"), el("th", { className: "number" }, "Tokens"), el("th", { className: "number" }, "Orders"))),
    el("tbody", {}, ...asks.map(row("ask")), el("tr", { className: "spread" }, el("td", { colSpan: 3 }, best)), ...bids.map(row("bid"))),
  );
}

function tape(trades) {
  if (!trades.length) return el("p", { className: "faint" }, "No trades.");
  const rows = trades.map((each) => ({
    cells: [
      new Date(each.timestamp).toISOString().slice(11, 19),
      each.incomingSide ? "sold" : "bought",
      `${each.price}¢`,
      tokens(each.size),
      each.matchType,
      settlementBadge(each),
    ],
  }));
  return table(["Time", "", "Price", "Tokens", "Match", "Settlement"], rows, [2, 3]);
}

function settlementBadge({ settlement, txHash, settlementReason }) {
  if (settlement === "none") return el("span", { className: "faint" }, "none");
  const tone = { settled: "open", failed: "shut" }[settlement] ?? "";
  return el("span", { className: `badge ${tone}`, title: txHash ?? settlementReason ?? "" }, settlement);
}
