// <clob-ladder>: all 99 prices of a book as a grid, centred on the spread, with the trader's orders.
//
// A cell of the column Bids stands for a buy at its price, one of Asks for a sell. Choosing one is a
// bubbling event `clob-price` with detail { side, price, tokenId }; the price itself has the side null.

import { button, el, tokens } from "./common.js";
import { BUY, PRICE_MAX, SELL } from "./market_book.js";

const COLUMNS = ["bid", "price", "ask", "mine"];
const SIDES = [BUY, null, SELL, null];
const NAMES = ["Buy at", "Price", "Sell at", "Your orders at"];
const PAGE = 10;
const FAR = 8n;
const FOLLOW_AFTER_MS = 8000;

class Ladder extends HTMLElement {
  constructor() {
    super();
    this.rows = new Map();
    this.column = 1;
    this.price = 50;
    this.touchedAt = -Infinity;
  }

  connectedCallback() {
    if (this.grid) return;
    this.spread = el("span", { className: "number" });
    this.all = button("All prices", () => this.toggle(), { ariaPressed: "true" });
    const centre = button("Centre", () => this.centre(true));
    const heads = ["Bids", "Price", "Asks", "Yours"].map((text) => el("div", { role: "columnheader" }, text));
    this.grid = el(
      "div",
      { className: "ladder-grid", role: "grid", ariaLabel: "Order book by price", ariaRowCount: PRICE_MAX + 1 },
      el("div", { role: "row", className: "ladder-head" }, ...heads),
      el("div", { role: "rowgroup" }, ...this.makeRows()),
    );
    this.grid.onkeydown = (event) => this.onKey(event);
    this.grid.onclick = (event) => this.onClick(event);
    this.grid.addEventListener("focusin", (event) => this.onFocus(event.target.closest(".ladder-row > *")));
    for (const name of ["wheel", "touchmove", "pointerdown"]) {
      this.grid.addEventListener(name, () => (this.touchedAt = performance.now()), { passive: true });
    }
    this.append(el("div", { className: "bar" }, this.spread, el("span", { className: "grow" }), this.all, centre), this.grid);
    this.cell(this.price, this.column).tabIndex = 0;
  }

  makeRows() {
    const rows = [];
    for (let price = PRICE_MAX; price > 0; price -= 1) {
      const cells = COLUMNS.map((name) => el("div", { className: name, role: name === "price" ? "rowheader" : "gridcell", tabIndex: -1 }));
      for (const cell of cells) cell.append("");
      cells[1].firstChild.data = `${price}¢`;
      const row = el("div", { className: "ladder-row", role: "row", ariaRowIndex: PRICE_MAX + 2 - price }, ...cells);
      const texts = cells.map((cell) => cell.firstChild);
      this.rows.set(price, { price, row, cells, texts, sizes: [0n, 0n], shares: [0, 0], mine: "" });
      row.dataset.price = price;
      rows.push(row);
    }
    return rows;
  }

  cell(price, column) {
    return this.rows.get(price).cells[column];
  }

  // ----- drawing ----------------------------------------------------------------------------

  // Show the book of a token; only cells that changed are written. `last` is the price of the last trade.
  show(market, tokenId, last = null) {
    const isOther = this.tokenId !== tokenId || this.market !== market;
    this.market = market;
    this.tokenId = tokenId;
    this.seq = market.seq;
    const book = market.book(tokenId);
    const best = [book.best(BUY), book.best(SELL)];
    const scale = scaleOf(book);
    const own = market.own(tokenId);
    this.drawSizes(book, scale);
    this.drawOwn(own);
    this.drawMarks(best, last);
    this.best = best;
    if (!this.isAll) this.hideEmpty();
    // The first levels of a book are centred even under a pointer.
    this.isNew ||= isOther;
    this.centre(this.isNew);
    if (best[BUY] !== null || best[SELL] !== null) this.isNew = false;
    if (this.contains(document.activeElement)) this.label();
  }

  drawSizes(book, scale) {
    for (const line of this.rows.values()) {
      for (const side of [BUY, SELL]) {
        const size = book.sides[side].sizes[line.price];
        const share = size > 0n ? shareOf(size, scale) : 0;
        if (size !== line.sizes[side]) {
          line.sizes[side] = size;
          line.texts[side * 2].data = size > 0n ? tokens(size) : "";
        }
        if (share !== line.shares[side]) {
          line.shares[side] = share;
          line.cells[side * 2].style.backgroundSize = `${share}% 100%`;
        }
      }
    }
  }

  // Mark own orders: their size, and the size ahead of the first of them.
  drawOwn(own) {
    const places = new Map();
    for (const order of own) {
      const place = `${order.side} ${order.price}`;
      places.set(place, [...(places.get(place) ?? []), order]);
    }
    const texts = new Map();
    for (const orders of places.values()) {
      const { price } = orders[0];
      texts.set(price, [...(texts.get(price) ?? []), ownText(orders)]);
    }
    for (const line of this.rows.values()) {
      const text = (texts.get(line.price) ?? []).join("; ");
      if (text === line.mine) continue;
      line.mine = line.texts[3].data = text;
      line.cells[3].title = text.replace("≤", "at most");
      line.row.classList.toggle("is-mine", text !== "");
    }
  }

  drawMarks(best, last) {
    const marks = { "is-bid": best[BUY], "is-ask": best[SELL], "is-last": last };
    for (const [name, price] of Object.entries(marks)) {
      const old = this.marks?.[name] ?? null;
      if (old === price) continue;
      if (old !== null) this.rows.get(old).row.classList.remove(name);
      if (price !== null) this.rows.get(price).row.classList.add(name);
    }
    this.marks = marks;
    const [bid, ask] = best;
    const text = bid === null || ask === null ? "one side is empty" : `spread ${ask - bid}¢`;
    if (this.spread.textContent !== text) this.spread.textContent = text;
  }

  get isAll() {
    return this.all.ariaPressed === "true";
  }

  toggle() {
    this.all.ariaPressed = String(!this.isAll);
    if (this.isAll) for (const { row } of this.rows.values()) row.hidden = false;
    else this.hideEmpty();
    this.centre(true);
  }

  // Hide prices without orders, except the best ones and the one with the focus.
  hideEmpty() {
    const kept = new Set([...(this.best ?? []), this.price]);
    for (const { price, row, sizes, mine } of this.rows.values()) {
      const isEmpty = sizes[BUY] === 0n && sizes[SELL] === 0n && !mine && !kept.has(price);
      if (row.hidden !== isEmpty) row.hidden = isEmpty;
    }
  }

  // Scroll the spread to the middle, but not below a pointer, a focus or a recent scroll.
  centre(isForced) {
    const [bid, ask] = this.best ?? [];
    const other = this.marks?.["is-last"] ?? 50;
    const middle = (bid ?? ask ?? other) + (ask ?? bid ?? other);
    if (!isForced && middle === this.middle) return;
    const isBusy = this.grid.matches(":hover, :focus-within") || performance.now() - this.touchedAt < FOLLOW_AFTER_MS;
    if (!isForced && isBusy) return;
    this.middle = middle;
    let price = Math.round(middle / 2);
    if (this.rows.get(price).row.hidden) price = bid ?? ask ?? this.price;
    if (!this.contains(document.activeElement)) this.enter(price, 1);
    this.grid.scrollTop = this.rows.get(price).row.offsetTop - this.grid.clientHeight / 2;
  }

  // ----- choosing ---------------------------------------------------------------------------

  onClick(event) {
    const cell = event.target.closest(".ladder-row > *");
    if (cell) this.choose(Number(cell.parentNode.dataset.price), SIDES[[...cell.parentNode.children].indexOf(cell)]);
  }

  choose(price, side) {
    const detail = { side, price, tokenId: this.tokenId };
    this.dispatchEvent(new CustomEvent("clob-price", { bubbles: true, detail }));
  }

  onFocus(cell) {
    if (!cell) return;
    this.enter(Number(cell.parentNode.dataset.price), [...cell.parentNode.children].indexOf(cell));
    this.label();
  }

  // Make a cell the one that the Tab key enters.
  enter(price, column) {
    this.cell(this.price, this.column).tabIndex = -1;
    this.price = price;
    this.column = column;
    this.cell(price, column).tabIndex = 0;
  }

  // Name the cell with the focus: its column, price, and size.
  label() {
    const { cells, texts } = this.rows.get(this.price);
    const text = texts[this.column].data;
    const what = this.column === 1 ? "" : `: ${text || "empty"}`;
    const label = `${NAMES[this.column]} ${this.price}¢${what}`.replace("≤", "at most");
    if (cells[this.column].ariaLabel !== label) cells[this.column].ariaLabel = label;
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const steps = { ArrowUp: 1, ArrowDown: -1, PageUp: PAGE, PageDown: -PAGE };
    const { key } = event;
    if (key in steps) this.move(steps[key], 0);
    else if (key === "ArrowLeft" || key === "ArrowRight") this.move(0, key === "ArrowLeft" ? -1 : 1);
    else if (key === "Home" || key === "End") this.moveToBest(key === "Home" ? SELL : BUY);
    else if (key === "Enter" || key === " ") this.choose(this.price, SIDES[this.column]);
    else return;
    event.preventDefault();
  }

  // Move the focus by visible prices and columns.
  move(up, right) {
    let { price } = this;
    for (let left = Math.abs(up); left > 0; left -= 1) {
      let next = price + Math.sign(up);
      while (this.rows.get(next)?.row.hidden) next += Math.sign(up);
      if (this.rows.has(next)) price = next;
    }
    const column = Math.min(Math.max(this.column + right, 0), COLUMNS.length - 1);
    this.focusCell(price, column);
  }

  moveToBest(side) {
    const price = this.best?.[side] ?? null;
    if (price !== null) this.focusCell(price, side * 2);
  }

  focusCell(price, column) {
    const cell = this.cell(price, column);
    cell.focus({ preventScroll: true });
    cell.scrollIntoView({ block: "nearest" });
  }
}

// Size of a full bar: the largest level, but for those far above the median, which would hide the
// others; rounded up to a power of two, so that bars seldom change together.
function scaleOf(book) {
  const sizes = book.sides.flatMap((side) => side.sizes.filter((size) => size > 0n)).sort((a, b) => (a < b ? -1 : 1));
  const most = (sizes[sizes.length >> 1] ?? 1n) * FAR;
  return 1n << BigInt((sizes.findLast((size) => size <= most) ?? 1n).toString(2).length);
}

function shareOf(size, scale) {
  const share = Number((size * 100n) / scale);
  return Math.min(Math.max(share, 1), 100);
}

// Own orders of a side at a price: their size, and the place of the first in the queue.
function ownText(orders) {
  const first = orders.reduce((least, each) => (each.ahead < least.ahead ? each : least));
  const size = orders.reduce((sum, { remaining }) => sum + remaining, 0n);
  const place = first.ahead === 0n ? "next" : `${first.isExact ? "" : "≤ "}${tokens(first.ahead)} ahead`;
  return `${first.side === BUY ? "buy" : "sell"} ${tokens(size)}, ${place}`;
}

customElements.define("clob-ladder", Ladder);
