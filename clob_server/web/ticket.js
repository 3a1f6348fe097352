// The ticket: an order is written, previewed by the server, shown in words, signed and placed.

import { app, call, on, textOf } from "./app.js";
import { button, el, patch, tokens } from "./common.js";
import {
  BUY,
  SELL,
  choices,
  collateralOf,
  isSame,
  isTyping,
  openDialog,
  orderMessage,
  orderWords,
  outcomeOf,
  parseTokens,
  report,
  serverTime,
  signedTokens,
  working,
} from "./trade.js";
import { invitation } from "./wallet.js";

const PREVIEW_MS = 400;
// The book changes several times a second; the rate limit allows 100 requests a minute.
const BOOK_PREVIEW_MS = 3000;
const LIMITED_MS = 15000;
const PRICE_MIN = 1;
const PRICE_MAX = 99;
const MIDDLE = 50;
const MARKET_CENTS = 5;
const MINUTE_S = 60;
const KINDS = {
  limit: ["Limit", "rests until it trades or is cancelled"],
  market: ["Market", "trades at once up to the worst price"],
  IOC: ["Immediate or cancel", "trades at once; the rest is cancelled"],
  FOK: ["Fill or kill", "trades at once as a whole, or not at all"],
};
const EXPIRIES = { 0: "until cancelled", 10: "10 minutes", 60: "1 hour", 1440: "1 day", 10080: "1 week" };
// Fields of the ticket by the fields of requests that the server names.
const FIELDS = { price: "price", size: "size", makerAmount: "size", takerAmount: "size" };
const CODES = { INSUFFICIENT_BALANCE: "size", AMOUNT_TOO_SMALL: "size", PRICE_OUT_OF_RANGE: "price" };

const KEYS = [
  ["b", "buy: the side, then the size"],
  ["s", "sell: the side, then the size"],
  ["+ or =", "price up by one cent"],
  ["-", "price down by one cent"],
  ["o", "other outcome, YES or NO"],
  ["Enter", "in a field of the ticket: place the order"],
  ["c", "cancel all own orders in this market"],
  ["?", "this help"],
  ["Arrows, Page, Home, End", "in the ladder: move; Enter, b or s takes the price"],
];

class Ticket extends HTMLElement {
  connectedCallback() {
    this.side = BUY;
    this.draw();
    this.onKey = (event) => this.key(event);
    this.onPrice = ({ detail }) => this.take(detail);
    document.addEventListener("keydown", this.onKey);
    document.addEventListener("clob-price", this.onPrice);
    const refresh = () => this.update();
    const forget = () => {
      this.retry = null;
      this.update();
    };
    this.ends = [on("current", () => this.follow()), on("wallet", forget), on("wallets", refresh), on("info", refresh)];
    this.ends.push(on("book", () => this.followBook()), on("feed", (state) => this.followFeed(state)));
    this.follow();
  }

  disconnectedCallback() {
    document.removeEventListener("keydown", this.onKey);
    document.removeEventListener("clob-price", this.onPrice);
    clearTimeout(this.timer);
    for (const end of this.ends) end();
  }

  // ----- drawing ----------------------------------------------------------------------------

  draw() {
    const change = () => this.changed();
    const radio = (name, value, text, id) =>
      el("label", { className: `pick ${id}` }, el("input", { type: "radio", name, value, on: { change } }), el("span", {}, text));
    const input = (name, options) => el("input", { id: `ticket-${name}`, name, autocomplete: "off", on: { input: change }, ...options });
    const field = (name, label, control) => {
      this.errors[name] = el("span", { className: "field-error", id: `ticket-${name}-error`, role: "alert" });
      control.setAttribute("aria-describedby", this.errors[name].id);
      return el("label", { className: "field" }, label, control, this.errors[name]);
    };
    this.errors = {};
    const options = (entries) => entries.map(([value, text]) => el("option", { value }, text));
    this.price = input("price", { type: "number", min: PRICE_MIN, max: PRICE_MAX, step: 1, value: MIDDLE, required: true });
    this.size = input("size", { inputMode: "decimal", value: "10", required: true });
    this.kind = el("select", { name: "kind", on: { change } }, ...options(Object.entries(KINDS).map(([name, [text]]) => [name, text])));
    this.expiry = el("select", { name: "expiry", on: { change } }, ...options(Object.entries(EXPIRIES)));
    this.postOnly = el("input", { type: "checkbox", name: "postOnly", on: { change } });
    this.about = el("span", { className: "faint" });
    this.priceLabel = document.createTextNode("Price, cents");
    this.words = el("p", { className: "words", dir: "auto" });
    this.preview = el("div", { className: "preview", role: "status" });
    this.result = el("p", { className: "result", role: "status" });
    this.submitButton = el("button", { className: "main submit" });
    this.invitation = el("div", {});
    this.outcomes = el("fieldset", { className: "picks" }, el("legend", { className: "unseen" }, "Outcome"), radio("outcome", "yes", "YES", "yes"), radio("outcome", "no", "NO", "no"));
    this.form = el(
      "form",
      { className: "ticket", noValidate: true },
      el("div", { className: "ticket-head" }, el("h3", {}, "Ticket"), button("Keys ?", () => help(), { ariaLabel: "Keys" })),
      el("fieldset", { className: "picks" }, el("legend", { className: "unseen" }, "Side"), radio("side", BUY, "Buy", "buy"), radio("side", SELL, "Sell", "sell")),
      this.outcomes,
      el("div", { className: "pair" }, field("price", this.priceLabel, this.price), field("size", "Size, tokens", this.size)),
      el("label", { className: "field" }, "Order", this.kind, this.about),
      el("label", { className: "field only-limit" }, "Valid", this.expiry),
      el("label", { className: "box only-limit" }, this.postOnly, " Post only: reject it if it would trade at once"),
      this.words,
      this.preview,
      this.invitation,
      this.submitButton,
      this.result,
    );
    this.form.onsubmit = (event) => {
      event.preventDefault();
      working(this.submitButton, () => this.submit());
    };
    this.replaceChildren(this.form);
  }

  // Adopt the market and token on display.
  follow() {
    const { current } = app;
    this.hidden = !current;
    if (!current) return;
    const { market, tokenId } = current;
    this.outcomes.hidden = !market.noTokenId;
    this.form.elements.outcome.value = tokenId === market.noTokenId ? "no" : "yes";
    this.form.elements.side.value = String(this.side);
    if (this.shown !== market.marketId) {
      this.shown = market.marketId;
      this.price.value = MIDDLE;
      this.isFresh = true;
      this.retry = null;
    }
    this.update();
  }

  // A preview of an old book is not shown.
  followFeed({ isCurrent }) {
    this.asked = null;
    if (isCurrent) this.schedule();
    else this.showPreview([]);
  }

  // Suggest the best price once the book is there, unless the trader was faster.
  followBook() {
    const best = this.isFresh && app.current ? this.bestPrice() : null;
    if (best === null) return this.schedule(BOOK_PREVIEW_MS);
    this.isFresh = false;
    this.price.value = best;
    this.update();
  }

  // Best price of the other side of the book, at which an order trades; null without one.
  bestPrice() {
    const { book, tokenId } = app.current;
    return book.book(tokenId).best(1 - this.side);
  }

  changed() {
    const { elements } = this.form;
    const { market, tokenId } = app.current;
    this.side = Number(elements.side.value);
    if (elements.kind.value === "market" && this.lastKind !== "market") this.boundPrice();
    this.lastKind = elements.kind.value;
    const chosen = elements.outcome.value === "no" ? market.noTokenId : market.yesTokenId;
    this.retry = null;
    this.isFresh = false;
    if (chosen !== tokenId) this.closest("clob-market").choose(chosen);
    else this.update();
  }

  // Suggest the worst price of a market order: a few cents beyond the best one.
  boundPrice() {
    const best = this.bestPrice();
    if (best === null) return;
    const price = best + (this.side === BUY ? MARKET_CENTS : -MARKET_CENTS);
    this.price.value = Math.min(Math.max(price, PRICE_MIN), PRICE_MAX);
  }

  update() {
    if (!app.current || !app.info) return;
    const order = this.read();
    const isLimit = this.kind.value === "limit";
    const verb = this.side === BUY ? "Buy" : "Sell";
    this.form.classList.toggle("is-sell", this.side === SELL);
    for (const each of this.form.querySelectorAll(".only-limit")) each.hidden = !isLimit;
    this.about.textContent = KINDS[this.kind.value][1];
    this.priceLabel.data = isLimit ? "Price, cents" : "Worst price, cents";
    this.words.textContent = order ? orderWords(order) : "";
    patch(this.invitation, ...(app.wallet ? [] : [invitation("Trading")]));
    this.submitButton.textContent = this.retry ? "Send the same order again" : `${verb} ${outcomeOf(app.current.market, app.current.tokenId)}`;
    this.submitButton.hidden = !app.wallet;
    this.schedule();
  }

  // ----- the order --------------------------------------------------------------------------

  // Return the order in the fields; null and an error at the field if one is invalid. Its expiration
  // is computed again from the server's time when it is signed.
  read() {
    const price = Number(this.price.value);
    const size = parseTokens(this.size.value);
    const isPrice = Number.isInteger(price) && price >= PRICE_MIN && price <= PRICE_MAX;
    const minutes = Number(this.expiry.value);
    this.fault("price", isPrice ? "" : `must be whole cents from ${PRICE_MIN} to ${PRICE_MAX}`);
    this.fault("size", size ? "" : "must be a number above 0 with at most 18 decimals");
    if (!isPrice || !size) return null;
    const { market, tokenId } = app.current;
    const isLimit = this.kind.value === "limit";
    const lasts = isLimit && minutes > 0;
    return {
      market,
      tokenId,
      side: this.side,
      price,
      size,
      minutes: lasts ? minutes : 0,
      expiration: lasts ? Math.floor(app.feed.now() / 1000) + minutes * MINUTE_S : 0,
      timeInForce: isLimit ? (lasts ? "GTD" : "GTC") : this.kind.value === "FOK" ? "FOK" : "IOC",
      postOnly: isLimit && this.postOnly.checked,
    };
  }

  fault(name, text) {
    const control = this[name];
    if (this.errors[name].textContent !== text) this.errors[name].textContent = text;
    control.ariaInvalid = text ? "true" : null;
    return text !== "";
  }

  // Show a rejection beside the field that it is about, in the words of the server.
  reject(error) {
    const [{ path } = {}] = error.errors ?? [];
    const name = FIELDS[path] ?? CODES[error.code];
    if (!name) return false;
    this.fault(name, error.message);
    return true;
  }

  // ----- preview ----------------------------------------------------------------------------

  schedule(ms = PREVIEW_MS) {
    const at = performance.now() + ms;
    if (this.timer && this.dueAt <= at) return;
    clearTimeout(this.timer);
    this.dueAt = at;
    this.timer = setTimeout(() => {
      this.timer = null;
      this.look();
    }, ms);
  }

  // Ask the server what the order would do now; only the newest question counts, and the same
  // question about the same book is not asked again.
  async look() {
    if (!app.current || document.hidden || !app.feed.isCurrent) return;
    const order = this.read();
    const { wallet } = app;
    if (!order || !wallet) return this.showPreview([]);
    const question = JSON.stringify([wallet.address, orderWords(order).replace(/ until .*/, ""), app.current.book.seq, app.balances]);
    if (question === this.asked) return;
    this.asked = question;
    const body = this.body(orderMessage({ ...order, maker: wallet.address, nonce: wallet.nonce }), order);
    let lines;
    try {
      const outlook = await call("POST", "/api/orders/simulate", { body });
      if (question !== this.asked) return;
      if (outlook.valid) lines = outlookLines(order, outlook);
      else lines = this.reject({ ...outlook.refusal, message: outlook.refusal.detail }) ? [] : [outlook.refusal.detail];
    } catch (error) {
      if (question !== this.asked) return;
      lines = this.reject(error) ? [] : [textOf(error)];
      if (error.code === "RATE_LIMITED") this.schedule(LIMITED_MS);
    }
    this.checkCover(order);
    this.showPreview(lines);
  }

  // Where trades settle, compare with the balances: a preview without a signature does not.
  checkCover({ market, tokenId, side, price, size }) {
    if (market.settlement !== "chain" || !app.balances) return;
    const needed = side === BUY ? collateralOf(size, price) : size;
    const asset = side === BUY ? market.collateral : tokenId;
    const held = BigInt(app.balances.find((each) => isSame(each.asset, asset))?.available ?? 0);
    if (held < needed) this.fault("size", `needs ${tokens(needed)} ${side === BUY ? "of collateral" : "tokens"}; ${signedTokens(held)} available to the exchange, see “Funds”`);
  }

  showPreview(lines) {
    const text = lines.join("\n");
    if (this.previewText === text) return;
    this.previewText = text;
    this.preview.replaceChildren(...lines.map((line) => el("p", {}, line)));
  }

  // ----- placing ----------------------------------------------------------------------------

  async submit() {
    const { wallet } = app;
    const order = this.read();
    if (!wallet || (!order && !this.retry)) return this.form.querySelector("[aria-invalid=true]")?.focus();
    report(this.result, "Working…");
    try {
      this.retry ??= await this.sign(wallet, order);
      const created = await call("POST", "/api/orders", { body: this.retry });
      this.retry = null;
      report(this.result, createdText(order, created));
      app.emit("order", { orderId: created.orderId });
    } catch (error) {
      // While the result is unknown, only the same order may be sent again: it counts once.
      if (error.code && error.code !== "OUTCOME_UNKNOWN") this.retry = null;
      // Only a rejection names the nonce that the maker was raised to.
      if (error.code === "NONCE_TOO_LOW") wallet.nonce = /at least (\d+)/.exec(error.message)?.[1] ?? wallet.nonce;
      const isShown = error.code && this.reject(error);
      report(this.result, isShown ? "The order was rejected." : error, false);
      if (isShown) this.form.querySelector("[aria-invalid=true]")?.focus();
    }
    this.update();
  }

  // Return the signed body of an order. Its expiration is by the server's time.
  async sign(wallet, order) {
    const { minutes } = order;
    if (minutes) order.expiration = Math.floor((await serverTime()) / 1000) + minutes * MINUTE_S;
    const message = orderMessage({ ...order, maker: wallet.address, nonce: wallet.nonce });
    const signature = await wallet.sign("Order", message, orderWords(order));
    return { ...this.body(message, order), signature };
  }

  body(message, { market, timeInForce, postOnly }) {
    return { ...message, marketId: market.marketId, timeInForce, postOnly };
  }

  // ----- keys and the ladder ----------------------------------------------------------------

  take({ side, price, tokenId }) {
    if (!app.current) return;
    if (side !== null && side !== undefined) this.pick(side);
    this.price.value = price;
    this.retry = null;
    this.isFresh = false;
    if (tokenId && tokenId !== app.current.tokenId) this.closest("clob-market").choose(tokenId);
    else this.update();
    this.size.focus({ preventScroll: true });
    this.size.select();
  }

  pick(side) {
    this.side = side;
    this.form.elements.side.value = String(side);
    this.retry = null;
    this.update();
  }

  step(cents) {
    this.price.value = Math.min(Math.max(Number(this.price.value) + cents, PRICE_MIN), PRICE_MAX);
    this.retry = null;
    this.isFresh = false;
    this.update();
  }

  key(event) {
    const { key, target } = event;
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!app.current || isTyping(target) || document.querySelector("dialog[open]")) return;
    if (key === "b" || key === "s") {
      this.pick(key === "b" ? BUY : SELL);
      this.size.focus();
      this.size.select();
    } else if (key === "+" || key === "=") this.step(1);
    else if (key === "-") this.step(-1);
    else if (key === "o" && app.current.market.noTokenId) this.other();
    else if (key === "c") document.dispatchEvent(new CustomEvent("clob-cancel-all"));
    else if (key === "?") help();
    else return;
    event.preventDefault();
  }

  other() {
    const { market, tokenId } = app.current;
    this.closest("clob-market").choose(tokenId === market.yesTokenId ? market.noTokenId : market.yesTokenId);
  }
}

// Describe the expected result of an order, as lines of text.
function outlookLines({ side, market, tokenId, size, price, timeInForce }, outlook) {
  const { filledTokens, filledCollateral, averagePrice, remaining, trades } = outlook;
  const fee = trades.reduce((sum, each) => sum + BigInt(each.fee), 0n);
  const unit = side === BUY ? ` ${outcomeOf(market, tokenId)}` : "";
  const lines = [];
  if (trades.length) {
    const money = side === BUY ? "cost" : "receive";
    lines.push(`Trades at once: ${tokens(filledTokens)} of ${tokens(size)} at ${averagePrice} cents on average, ${money} ${tokens(filledCollateral)}, fee ${tokens(fee)}${unit}.`);
  } else {
    lines.push("Nothing trades at once.");
  }
  if (remaining !== "0") {
    const rests = timeInForce === "GTC" || timeInForce === "GTD";
    const worth = tokens(collateralOf(BigInt(remaining), price));
    lines.push(rests ? `${tokens(remaining)} rest in the book at ${price} cents, worth ${worth}.` : `${tokens(remaining)} are cancelled.`);
  }
  return lines;
}

function createdText(order, { orderId, trades, status, duplicate }) {
  const filled = trades.reduce((sum, each) => sum + BigInt(each.size), 0n);
  const traded = filled ? `traded ${tokens(filled)}, ` : "";
  const before = duplicate ? "was accepted before: " : "accepted: ";
  return `Order ${orderId} ${before}${traded}${status}.`;
}

// Show the keys.
function help() {
  const rows = KEYS.map(([key, text]) => el("tr", {}, el("td", {}, el("kbd", {}, key)), el("td", {}, text)));
  const note = el("p", { className: "faint" }, "They work while no field has the focus.");
  return openDialog("Keys", [note, el("table", {}, el("tbody", {}, ...rows)), choices("Close")]);
}

customElements.define("clob-ticket", Ticket);
