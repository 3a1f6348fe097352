// An order book of one market, updated by the WebSocket: a snapshot first, then events.

import { count, el, patch, send, table, tokens } from "./common.js";

const TRADES_SHOWN = 50;
const SETTLEMENTS_MAX = 500;
const LEVELS_SHOWN = 12;
const RECONNECT_MS = 1000;
const RECONNECT_MAX_MS = 30000;
// A quiet connection is asked for a sign of life; two missing ones make the book stale, six end it.
const HEARTBEAT_MS = 5000;
const CHECK_MS = 500;

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
    this.seq = null;
    this.epoch = 0;
    this.attempts = 0;
    this.heardMs = 0;
    this.askedMs = 0;
    setInterval(() => this.check(), CHECK_MS);
  }

  follow(market, token, settles) {
    this.token = token;
    if (this.market !== market) {
      this.market = market;
      this.settles = settles;
      this.books.clear();
      this.trades = [];
      this.seq = null;
      this.attempts = 0;
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
    if (this.socket) this.socket.onclose = this.socket.onmessage = null;
    this.socket?.close();
    const address = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`;
    const socket = (this.socket = new WebSocket(address));
    this.heardMs = this.askedMs = Date.now();
    socket.onopen = () => {
      this.settlements.clear();
      const resume = this.seq === null ? {} : { resume: { seq: this.seq, epoch: this.epoch } };
      this.subscribe("orderbook", resume);
      if (this.settles) this.subscribe("settlement");
      this.loadTrades(this.market).catch(() => {});
    };
    socket.onmessage = (event) => {
      this.heardMs = this.askedMs = Date.now();
      this.attempts = 0;
      this.onMessage(JSON.parse(event.data));
    };
    socket.onclose = () => this.reconnect(socket);
  }

  subscribe(channel, more = {}) {
    this.socket.send(JSON.stringify({ type: "subscribe", channel, marketId: this.market, extended: true, ...more }));
  }

  reconnect(socket) {
    this.show("not connected", false);
    const wait = Math.min(RECONNECT_MS * 2 ** this.attempts, RECONNECT_MAX_MS);
    this.attempts += 1;
    setTimeout(() => this.socket === socket && this.connect(), wait);
  }

  // Ask a quiet connection for a sign of life, and show how long it has been silent.
  check() {
    const now = Date.now();
    const silent = now - this.heardMs;
    if (this.socket === null || this.socket.readyState > WebSocket.OPEN) return;
    if (silent >= 6 * HEARTBEAT_MS) {
      this.socket.onclose = null;
      this.reconnect(this.socket);
      this.socket.close();
    } else if (silent >= 2 * HEARTBEAT_MS) {
      this.show(`stale: silent for ${Math.floor(silent / 1000)} s`, false);
    }
    if (now - this.askedMs >= HEARTBEAT_MS && this.socket.readyState === WebSocket.OPEN) {
      this.askedMs = now;
      this.socket.send(JSON.stringify({ type: "ping", extended: true }));
    }
  }

  show(text, isLive) {
    this.place.state.textContent = text;
    this.place.state.className = `badge ${isLive ? "open" : "shut"}`;
    this.place.ladder.classList.toggle("stale", !isLive);
  }

  onMessage(message) {
    const { type, tokenId, data, seq } = message;
    if (type === "settlement") this.onSettlement(data);
    else if (type === "unsubscribed") this.end("market removed");
    else if (type === "error") this.end(message.code);
    else this.onBook(type, tokenId, data, seq, message);
  }

  // The market does not exist any more, or not yet.
  end(text) {
    this.books.clear();
    this.seq = null;
    this.show(text, false);
    this.draw();
  }

  onBook(type, tokenId, data, seq, { channel, resumed, epoch }) {
    if (type === "subscribed" && channel === "orderbook") {
      this.epoch = epoch;
      if (!resumed) this.books.clear();
    }
    if (type === "orderbook") {
      this.books.set(tokenId, { bids: levels(data.bids), asks: levels(data.asks) });
    } else if (this.books.has(tokenId)) {
      const book = this.books.get(tokenId);
      if (type === "order_added") change(book, data.side, data.price, BigInt(data.size), 1);
      if (type === "order_removed") change(book, data.side, data.price, -BigInt(data.size), -1);
      if (type === "order_reduced") change(book, data.side, data.price, -BigInt(data.reducedBy), 0);
      if (type === "trade") this.onTrade(book, data);
    }
    if (channel === "orderbook" && seq !== null && type !== "subscribed") this.seq = seq;
    if (this.seq !== null) this.show(`live, event ${count(this.seq)}`, true);
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
      patch(this.place.ladder, ladder(this.books.get(this.token)));
      const shown = this.trades.filter((each) => each.tokenId === this.token);
      patch(this.place.tape, tape(shown.map((each) => ({ ...each, ...this.settlements.get(each.id) }))));
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
  const allAsks = [...book.asks].sort(([a], [b]) => b - a);
  const allBids = [...book.bids].sort(([a], [b]) => b - a);
  const asks = allAsks.slice(-LEVELS_SHOWN);
  const bids = allBids.slice(0, LEVELS_SHOWN);
  const more = (number) =>
    number > 0 ? [el("tr", { className: "more" }, el("td", { colSpan: 3 }, `${count(number)} more levels`))] : [];
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
    el("tbody", {}, ...more(allAsks.length - asks.length), ...asks.map(row("ask")), el("tr", { className: "spread" }, el("td", { colSpan: 3 }, best)), ...bids.map(row("bid")), ...more(allBids.length - bids.length)),
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
