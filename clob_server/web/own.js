// The trader's own orders, fills, positions and balances in a market, live from the channel `user`.

import { app, call, on, onProblem, Problem, textOf } from "./app.js";
import { button, el, patch, table, tokens } from "./common.js";
import {
  BUY,
  choices,
  exact,
  openDialog,
  outcomeOf,
  parseTokens,
  report,
  serverTime,
  short,
  signedTokens,
  timeText,
  titleOf,
  workButton,
} from "./trade.js";
import { invitation } from "./wallet.js";

const FILLS_SHOWN = 30;
const ORDERS_SHOWN = 100;
const ACCOUNT_MS = 1500;
const OPEN = new Set(["open", "partial"]);

const sideOf = (side) => (side === BUY ? "buy" : "sell");

class Own extends HTMLElement {
  connectedCallback() {
    this.busy = new Set();
    this.result = el("p", { className: "result", role: "status" });
    this.heading = el("h3", { tabIndex: -1 }, "Your orders");
    this.cancelAllButton = workButton("Cancel all", () => this.try(() => this.cancelAll()), { className: "danger", ariaKeyShortcuts: "c" });
    this.body = el("div", { className: "own live-part" });
    this.append(el("div", { className: "own-head" }, this.heading, this.cancelAllButton), this.result, el("clob-key"), this.body);
    this.onCancelAll = () => this.cancelAllButton.click();
    document.addEventListener("clob-cancel-all", this.onCancelAll);
    this.ends = [on("wallet", () => this.follow()), on("key", () => this.follow()), on("wallets", () => this.draw()), on("current", () => this.followMarket())];
    this.followMarket();
  }

  disconnectedCallback() {
    document.removeEventListener("clob-cancel-all", this.onCancelAll);
    clearTimeout(this.timer);
    this.leave?.();
    for (const end of this.ends) end();
  }

  followMarket() {
    const id = app.current?.market.marketId;
    if (!id) return;
    if (id === this.marketId) return this.draw();
    this.marketId = id;
    this.follow();
  }

  // Follow another wallet or market from the beginning.
  follow() {
    this.leave?.();
    this.leave = null;
    Object.assign(this, { orders: new Map(), fills: [], positions: [], balances: [], problem: "", needsKey: false });
    report(this.result, "");
    const { wallet } = app;
    if (wallet && this.marketId) {
      this.leave = app.feed.subscribe({ channel: "user", maker: wallet.address }, (message) => this.onMessage(message));
    }
    this.draw();
  }

  // ----- messages ---------------------------------------------------------------------------

  onMessage(message) {
    const { type, data } = message;
    if (type === "error") return this.onError(message);
    if (type === "subscribed" && !message.resumed) this.load();
    if (type === "orders") this.orders = new Map(data.filter((each) => this.isHere(each)).map((each) => [each.id, each]));
    if (type === "order" && this.isHere(data)) this.keep(data);
    if (type === "fill" && this.isHere(data)) this.addFills([data]);
    if (type === "settlement") this.settle(data);
    if (type === "account") this.adopt(data);
    if (type === "fill") this.loadAccount();
    this.draw();
  }

  isHere({ marketId }) {
    return marketId === this.marketId;
  }

  keep(order) {
    if (OPEN.has(order.status)) this.orders.set(order.id, order);
    else this.orders.delete(order.id);
  }

  addFills(fills) {
    const known = new Map([...fills, ...this.fills].map((each) => [`${each.id} ${each.orderId}`, each]));
    this.fills = [...known.values()].sort((one, other) => other.timestamp - one.timestamp || other.seq - one.seq).slice(0, FILLS_SHOWN);
  }

  settle({ tradeId, settlement, txHash }) {
    this.fills = this.fills.map((each) => (each.id === tradeId ? { ...each, settlement, txHash } : each));
  }

  adopt(changed) {
    const known = new Map(this.balances.map((each) => [each.asset, each]));
    for (const each of changed) known.set(each.asset, { ...known.get(each.asset), ...each });
    this.balances = [...known.values()];
  }

  // ----- requests ---------------------------------------------------------------------------

  get query() {
    return `maker=${app.wallet.address}&marketId=${encodeURIComponent(this.marketId)}`;
  }

  async load() {
    const { wallet, marketId } = { wallet: app.wallet, marketId: this.marketId };
    try {
      const fills = await call("GET", `/api/fills?${this.query}&limit=${FILLS_SHOWN}`);
      if (wallet !== app.wallet || marketId !== this.marketId) return;
      this.addFills(fills);
      await this.readAccount();
      this.problem = "";
    } catch (error) {
      return this.fail(error);
    }
    this.draw();
  }

  // Load positions a little after a fill, once for several fills.
  loadAccount() {
    this.timer ??= setTimeout(() => {
      this.timer = null;
      this.readAccount().then(() => this.draw(), onProblem());
    }, ACCOUNT_MS);
  }

  async readAccount() {
    const { wallet, marketId } = { wallet: app.wallet, marketId: this.marketId };
    if (!wallet) return;
    const account = await call("GET", `/api/accounts/${wallet.address}?marketId=${encodeURIComponent(marketId)}`);
    if (wallet !== app.wallet || marketId !== this.marketId) return;
    this.positions = account.positions;
    this.balances = account.balances;
  }

  onError(message) {
    const problem = new Problem(message.message, message);
    if (problem.isOfKey) app.emit("keyProblem", problem);
    this.fail(problem);
  }

  // Without a valid key nothing is known of the account.
  fail(error) {
    this.needsKey = error.isOfKey;
    this.problem = error.isOfKey ? "" : textOf(error);
    this.draw();
  }

  // ----- changes ----------------------------------------------------------------------------

  async try(work) {
    report(this.result, "");
    try {
      report(this.result, await work());
    } catch (error) {
      report(this.result, error);
    }
    // The element with the focus may have gone with its order.
    if (document.activeElement === document.body) this.heading.focus();
  }

  async cancel(order) {
    const timestamp = await serverTime();
    const { maker, id } = order;
    const signature = await app.wallet.sign("Cancel", { orderId: id, maker, timestamp: String(timestamp) }, `Cancel ${this.describe(order)}.`);
    const body = await call("DELETE", `/api/orders/${id}`, { body: { maker, timestamp, signature } });
    this.keep(body);
    this.draw();
    return `Order ${id} is cancelled.`;
  }

  async cancelAll() {
    const { wallet } = app;
    if (!wallet) throw new Problem("Connect a wallet first.");
    if (!this.orders.size) return "There is no open order to cancel.";
    const { market } = app.current;
    const timestamp = await serverTime();
    const message = { maker: wallet.address, marketId: market.marketId, tokenId: "", side: 2, timestamp: String(timestamp) };
    const words = `Cancel all my orders in “${titleOf(market)}” that were placed until ${timeText(timestamp)}.`;
    const signature = await wallet.sign("CancelAll", message, words);
    const path = `/api/orders?marketId=${encodeURIComponent(market.marketId)}`;
    const { numCancelled } = await call("DELETE", path, { body: { maker: wallet.address, timestamp, signature } });
    return `${numCancelled} ${numCancelled === 1 ? "order is" : "orders are"} cancelled.`;
  }

  async reduce(order) {
    const wanted = await askSize(order);
    if (wanted === null) return "";
    const timestamp = await serverTime();
    const { maker, id } = order;
    const remaining = wanted.toString();
    const message = { orderId: id, maker, remaining, timestamp: String(timestamp) };
    const words = `Reduce ${this.describe(order)} to ${exact(wanted)}; it keeps its place in the queue.`;
    const signature = await app.wallet.sign("Reduce", message, words);
    this.keep(await call("PATCH", `/api/orders/${id}`, { body: { maker, remaining, timestamp, signature } }));
    this.draw();
    return `Order ${id} is reduced to ${tokens(wanted)}.`;
  }

  describe({ side, tokenId, price, remaining }) {
    return `the order to ${sideOf(side)} ${exact(remaining)} ${outcomeOf(app.current.market, tokenId)} at ${price} cents`;
  }

  // ----- drawing ----------------------------------------------------------------------------

  draw() {
    if (!app.current) return;
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      if (app.current) this.render();
    });
  }

  render() {
    const { size } = this.orders;
    const isKnown = app.wallet && !this.needsKey;
    app.balances = isKnown ? this.balances : null;
    this.body.hidden = Boolean(this.needsKey);
    this.heading.textContent = isKnown ? `Open orders: ${size}${size > ORDERS_SHOWN ? `, the newest ${ORDERS_SHOWN} here` : ""}` : "Your orders";
    this.cancelAllButton.hidden = size === 0 || !isKnown;
    if (!app.wallet) return patch(this.body, invitation("Your account"));
    if (this.body.querySelector(":scope > :not([id])")) this.body.replaceChildren();
    const hadFocus = this.body.contains(document.activeElement);
    patch(this.body, this.orderNode(), ...this.positionNodes(), ...this.fillNodes(), ...this.balanceNodes(), this.problemNode());
    // A row that went with the focus leaves it to the heading.
    if (hadFocus && !this.body.contains(document.activeElement)) this.heading.focus();
  }

  problemNode() {
    const { problem } = this;
    return el("p", { id: "own-problem", ...(problem && { className: "result bad", role: "alert" }) }, problem);
  }

  orderNode() {
    const { market } = app.current;
    const orders = [...this.orders.values()].slice(-ORDERS_SHOWN);
    if (!orders.length) return el("p", { id: "no-orders", className: "faint" }, "No open orders in this market.");
    const rows = orders.map((order) => {
      const words = this.describe(order);
      const ariaDisabled = this.busy.has(order.id) ? "true" : null;
      const act = (label, work) => button(label, () => this.act(order, work), { id: `${label}-${order.id}`, ariaLabel: `${label} ${words}`, ariaDisabled });
      const until = order.expiration ? timeText(order.expiration * 1000).slice(5, 16) : "no limit";
      return {
        id: `own-${order.id}`,
        cells: [
          orderNode(order.side, outcomeOf(market, order.tokenId)),
          el("span", {}, act("Cancel", () => this.cancel(order)), act("Reduce", () => this.reduce(order))),
          `${order.price}¢`,
          tokens(order.remaining),
          tokens(order.filledTokens),
          until,
        ],
      };
    });
    return wrap("orders-table", "Open orders", table(["Order", "Change", "Price", "Remaining", "Filled", "Until"], rows, [2, 3, 4]));
  }

  // Change an order; while that works, its buttons do nothing.
  async act(order, work) {
    if (this.busy.has(order.id)) return;
    this.busy.add(order.id);
    this.draw();
    await this.try(work);
    this.busy.delete(order.id);
    this.draw();
  }

  positionNodes() {
    const { market } = app.current;
    const shown = this.positions.filter((each) => each.netSize !== "0" || each.realised !== "0");
    const rows = shown.map(({ tokenId, netSize, averagePrice, cost, realised, fees, redemptionValue }) => {
      const result = BigInt(realised) - BigInt(fees) + (redemptionValue === null ? 0n : BigInt(redemptionValue) - BigInt(cost));
      const average = averagePrice === null ? "–" : `${averagePrice}¢`;
      return { id: `position-${tokenId}`, cells: [outcomeOf(market, tokenId), signedTokens(netSize), average, signedTokens(result)] };
    });
    return part("positions", "Positions", "No trades in this market.", ["Outcome", "Size", "Average", "Result"], rows, [1, 2, 3]);
  }

  fillNodes() {
    const { market } = app.current;
    const rows = this.fills.map(({ id, orderId, timestamp, side, tokenId, price, size, fee, settlement, txHash }) => {
      const outcome = outcomeOf(market, tokenId);
      const unit = side === BUY && fee !== "0" ? ` ${outcome}` : "";
      const state = settlement === "none" ? "–" : txHash ? `${settlement} ${short(txHash)}` : settlement;
      return {
        id: `fill-${id}-${orderId}`,
        cells: [timeText(timestamp).slice(5, 19), orderNode(side, outcome), `${price}¢`, tokens(size), tokens(fee) + unit, el("span", { title: txHash ?? "" }, state)],
      };
    });
    return part("fills", "Fills", "No fills in this market.", ["Time, UTC", "Order", "Price", "Size", "Fee", "Settlement"], rows, [2, 3, 4]);
  }

  balanceNodes() {
    const { market } = app.current;
    if (market.settlement !== "chain") return [];
    const rows = this.balances.map(({ asset, available, reserved, unsettled }) => ({
      id: `balance-${asset}`,
      cells: [asset === market.collateral ? "Collateral" : outcomeOf(market, asset), signedTokens(available), tokens(reserved), tokens(unsettled)],
    }));
    const none = "Nothing on the chain that the exchange may take: see “Funds”.";
    return part("balances", "Balances at the exchange", none, ["Asset", "Available", "In orders", "Unsettled"], rows, [1, 2, 3]);
  }
}

const orderNode = (side, outcome) => el("span", { className: side === BUY ? "bid" : "ask" }, `${sideOf(side)} ${outcome}`);

// A heading and its table, or a sentence if there are no rows.
function part(name, title, none, heads, rows, numbers) {
  const content = rows.length ? wrap(`${name}-table`, title, table(heads, rows, numbers)) : el("p", { id: `no-${name}`, className: "faint" }, none);
  return [el("h3", { id: `own-${name}` }, title), content];
}

const wrap = (id, ariaLabel, content) => el("div", { id, role: "region", ariaLabel, className: "own-table" }, content);

// Ask for the new remaining size of an order; null if the trader declines.
async function askSize({ remaining }) {
  const most = BigInt(remaining);
  const input = el("input", { id: "reduce-to", inputMode: "decimal", autocomplete: "off", autofocus: true, value: exact(most / 2n) });
  const error = el("span", { className: "field-error", role: "alert" });
  let wanted = null;
  const check = (event) => {
    wanted = event.submitter?.value === "Decline" ? null : parseTokens(input.value);
    if (event.submitter?.value === "Decline" || (wanted !== null && wanted < most)) return;
    event.preventDefault();
    wanted = null;
    error.textContent = `must be a number above 0 and below ${exact(most)}`;
  };
  const label = el("label", { className: "field" }, `New remaining size, below ${exact(most)}`, input, error);
  await openDialog("Reduce the order", [label, choices("Reduce", "Decline")], check);
  return wanted;
}

customElements.define("clob-own", Own);
