// <clob-tape>: the newest trades of a token, newest first.

import { el, tokens, when } from "./common.js";

export const TRADES_SHOWN = 60;
const SETTLEMENTS_MAX = 500;
const CLASSES = ["", "number", "number", "settlement"];

class Tape extends HTMLElement {
  constructor() {
    super();
    this.trades = new Map();
    this.rows = new Map();
    this.settlements = new Map();
    this.tokenId = null;
    this.isChanged = true;
  }

  connectedCallback() {
    if (this.body) return;
    const heads = ["Time, UTC", "Price", "Tokens", "Settlement"].map((text, index) => el("th", { scope: "col", className: CLASSES[index] }, text));
    this.body = el("tbody");
    this.empty = el("p", { className: "faint" }, "No trades yet.");
    const table = el("table", {}, el("thead", {}, el("tr", {}, ...heads)), this.body);
    this.append(this.empty, el("div", { className: "tape-scroll", tabIndex: 0, role: "region", ariaLabel: "Trades, newest first" }, table));
  }

  // Add trades, bodies of GET /api/markets/{marketId}/trades or data of `trade`; known ones stay.
  add(trades) {
    if (trades.some((each) => each.settlement !== "none")) this.classList.add("settles");
    for (const trade of trades) if (!this.trades.has(trade.id)) this.trades.set(trade.id, { ...trade, ...this.settlements.get(trade.id) });
    this.isChanged = true;
  }

  // Forget all trades: those that are loaded next may not follow them.
  clear() {
    this.trades.clear();
    this.classList.remove("settles");
    this.isChanged = true;
  }

  // Change the settlement of a trade, data of `settlement`; it may arrive before the trade is loaded.
  settle({ tradeId, settlement, txHash, reason }) {
    const change = { settlement, txHash, settlementReason: reason };
    this.settlements.set(tradeId, change);
    if (this.settlements.size > SETTLEMENTS_MAX) this.settlements.delete(this.settlements.keys().next().value);
    const trade = this.trades.get(tradeId);
    if (trade) Object.assign(trade, change);
    const row = this.rows.get(tradeId);
    if (trade && row) mark(row, trade);
  }

  // Newest trade of a token; undefined without one.
  newest(tokenId) {
    let found;
    for (const trade of this.trades.values()) if (trade.tokenId === tokenId && !(trade.seq < found?.seq)) found = trade;
    return found;
  }

  // Show the trades of a token. Rows of known trades stay as they are.
  show(tokenId) {
    if (!this.isChanged && tokenId === this.tokenId) return;
    if (tokenId !== this.tokenId) {
      this.body.replaceChildren();
      this.rows.clear();
    }
    this.tokenId = tokenId;
    this.isChanged = false;
    this.forget();
    const shown = [...this.trades.values()].filter((each) => each.tokenId === tokenId).reverse();
    const kept = new Set(shown.map((each) => each.id));
    for (const [id, row] of this.rows) {
      if (kept.has(id)) continue;
      row.remove();
      this.rows.delete(id);
    }
    let next = this.body.firstChild;
    for (const trade of shown) {
      const row = this.rows.get(trade.id);
      if (row && row === next) next = next.nextSibling;
      else this.body.insertBefore(row ?? this.row(trade), next);
    }
    this.empty.hidden = shown.length > 0;
  }

  // Keep the newest trades of each token, in the order of their numbers.
  forget() {
    const counts = new Map();
    const kept = [...this.trades.values()].sort((a, b) => b.seq - a.seq).filter(({ tokenId }) => {
      counts.set(tokenId, (counts.get(tokenId) ?? 0) + 1);
      return counts.get(tokenId) <= TRADES_SHOWN;
    });
    this.trades = new Map(kept.reverse().map((each) => [each.id, each]));
  }

  row(trade) {
    const price = el("td", { className: `number ${trade.incomingSide ? "ask" : "bid"}` }, `${trade.incomingSide ? "▼" : "▲"} ${trade.price}¢`);
    price.firstChild.before(el("span", { className: "unseen" }, trade.incomingSide ? "sold " : "bought "));
    const size = el("td", { className: "number" }, tokens(trade.size));
    const row = el("tr", {}, el("td", {}, when(trade.timestamp).slice(11)), price, size, el("td", { className: "settlement" }, el("span")));
    mark(row, trade);
    this.rows.set(trade.id, row);
    return row;
  }
}

// State the settlement of a trade, with the rest in the title of its row, and strike a failed trade.
function mark(row, { matchType, settlement, txHash, settlementReason }) {
  row.title = settlement === "none" ? matchType : `${matchType}; settlement ${settlement}${settlementReason ? `: ${settlementReason}` : ""} ${txHash ?? ""}`;
  row.classList.toggle("has-failed", settlement === "failed");
  const badge = row.lastChild.firstChild;
  badge.textContent = settlement;
  badge.className = `badge ${{ settled: "open", failed: "shut" }[settlement] ?? ""}`;
}

customElements.define("clob-tape", Tape);
