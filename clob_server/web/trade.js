// Requests, typed data and words that the elements of the trader share.

import { app, call, textOf } from "./app.js";
import { button, el, tokens, when } from "./common.js";

const WEI_DIGITS = 18;
const SHORT = 6;
const TITLE_MAX = 200;
const ZERO = `0x${"0".repeat(40)}`;
const SIGNED_712 = 1;

export const BUY = 0;
export const SELL = 1;

// Time of the server, Unix milliseconds.
export async function serverTime() {
  return (await call("GET", "/api/time")).nowMs;
}

// ----- amounts and names --------------------------------------------------------------------

// Read a decimal text as wei; null if it is not a number above 0 with at most 18 decimals.
export function parseTokens(text) {
  const parts = /^(\d*)(?:\.(\d{0,18}))?$/.exec(text.trim().replaceAll(",", ""));
  if (!parts || !(parts[1] || parts[2])) return null;
  const wei = BigInt(parts[1] || 0) * 10n ** 18n + BigInt((parts[2] ?? "").padEnd(WEI_DIGITS, "0"));
  return wei > 0n ? wei : null;
}

// Format wei with all decimals, as an input reads it.
export function exact(wei) {
  const digits = BigInt(wei).toString().padStart(WEI_DIGITS + 1, "0");
  return `${digits.slice(0, -WEI_DIGITS)}.${digits.slice(-WEI_DIGITS)}`.replace(/\.?0+$/, "");
}

// Format wei that may be negative, as in a result.
export function signedTokens(wei) {
  return BigInt(wei) < 0n ? `−${tokens(-BigInt(wei))}` : tokens(wei);
}

// Collateral of a size at a price in cents, in wei.
export const collateralOf = (size, price) => (size * BigInt(price)) / 100n;

export const short = (hex) => `${hex.slice(0, SHORT)}…${hex.slice(-4)}`;

export const isSame = (one, other) => one?.toLowerCase() === other?.toLowerCase();

export const timeText = (ms) => `${when(ms)} UTC`;

export function outcomeOf(market, tokenId) {
  return tokenId === market.yesTokenId ? "YES" : tokenId === market.noTokenId ? "NO" : `token ${short(tokenId)}`;
}

// Question of a market as part of a sentence: without characters that change the direction or the
// lines of the words around it, and isolated from them.
export function titleOf({ question, marketId }) {
  const text = (question || marketId).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, " ");
  const cut = text.length > TITLE_MAX ? `${text.slice(0, TITLE_MAX)}…` : text;
  return `\u2068${cut}\u2069`;
}

// ----- typed data ---------------------------------------------------------------------------

const STRUCTS = {
  Order:
    "uint256 salt,address maker,address signer,address taker,uint256 tokenId,uint256 makerAmount,uint256 takerAmount," +
    "uint256 expiration,uint256 nonce,uint256 feeRateBps,uint8 side,uint8 signatureType",
  Cancel: "string orderId,address maker,uint256 timestamp",
  CancelAll: "address maker,string marketId,string tokenId,uint8 side,uint256 timestamp",
  Reduce: "string orderId,address maker,uint256 remaining,uint256 timestamp",
  Permit: "address owner,address spender,uint256 value,uint256 nonce,uint256 deadline",
};
const DOMAIN = { name: "string", version: "string", chainId: "uint256", verifyingContract: "address" };

// Typed data for eth_signTypedData_v4, in the domain of this exchange unless another one is given.
export function typedData(primaryType, message, domain = app.info.eip712) {
  const fields = STRUCTS[primaryType].split(",").map((field) => field.split(" "));
  return {
    types: {
      EIP712Domain: Object.keys(domain).map((name) => ({ name, type: DOMAIN[name] })),
      [primaryType]: fields.map(([type, name]) => ({ name, type })),
    },
    primaryType,
    domain,
    message,
  };
}

// Random salt, 128 bits in decimal digits.
export function salt() {
  const [high, low] = crypto.getRandomValues(new BigUint64Array(2));
  return ((high << 64n) | low).toString();
}

// Message of an order. `size` and `price` are those of the order: wei of tokens, cents.
export function orderMessage({ market, maker, tokenId, side, price, size, expiration, nonce }) {
  const amounts = [collateralOf(size, price).toString(), size.toString()];
  const [makerAmount, takerAmount] = side === BUY ? amounts : amounts.reverse();
  return {
    salt: salt(),
    maker,
    signer: maker,
    taker: ZERO,
    tokenId,
    makerAmount,
    takerAmount,
    expiration: String(expiration),
    nonce,
    feeRateBps: String(feeOf(market)),
    side,
    signatureType: SIGNED_712,
  };
}

// Highest fee rate of a market, basis points: the most that its orders agree to.
export const feeOf = ({ restingFeeRateBps, incomingFeeRateBps }) => Math.max(restingFeeRateBps, incomingFeeRateBps);

const KINDS = {
  GTC: "until it is cancelled",
  IOC: "at once; the part that does not trade is cancelled",
  FOK: "at once and completely, or not at all",
};

// An order as a sentence.
export function orderWords({ market, tokenId, side, price, size, timeInForce, postOnly, expiration }) {
  const total = exact(collateralOf(size, price));
  const verb = side === BUY ? "Buy" : "Sell";
  const limit = timeInForce === "GTC" || timeInForce === "GTD" ? `at ${price} cents` : `at ${price} cents or better`;
  const until = timeInForce === "GTD" ? `until ${timeText(expiration * 1000)}` : KINDS[timeInForce];
  const fee = feeOf(market) ? `, fee at most ${feeOf(market) / 100} %` : "";
  const maker = postOnly ? ", rejected if it would trade at once" : "";
  return `${verb} ${exact(size)} ${outcomeOf(market, tokenId)} of “${titleOf(market)}” ${limit}, total ${total}${fee}, valid ${until}${maker}.`;
}

// ----- elements -----------------------------------------------------------------------------

// A button that cannot be used twice while it works; the focus stays on it.
export const workButton = (label, work, options) => button(label, ({ currentTarget }) => working(currentTarget, work), options);

const busy = new WeakSet();

export async function working(button, work) {
  if (busy.has(button)) return;
  busy.add(button);
  button.ariaDisabled = "true";
  try {
    await work();
  } finally {
    busy.delete(button);
    button.ariaDisabled = null;
  }
}

// Show a question and resolve to the value of the button that ended it. `onsubmit` may prevent that.
export function openDialog(title, children, onsubmit) {
  const form = el("form", { method: "dialog", noValidate: true, on: { submit: onsubmit } }, el("h2", {}, title), ...children);
  const dialog = el("dialog", { className: "ask", ariaLabel: title }, form);
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.onclose = () => {
      dialog.remove();
      resolve(dialog.returnValue);
    };
  });
}

// Buttons of a question, the first with the focus.
export const choices = (...texts) =>
  el("p", { className: "buttons" }, ...texts.map((text, index) => el("button", { value: text, autofocus: index === 0, className: index ? "" : "main" }, text)));

// Show a text or an error below an element, announced by screen readers.
export function report(place, result, isGood = !(result instanceof Error)) {
  place.className = `result ${isGood ? "good" : "bad"}`;
  place.textContent = result instanceof Error ? textOf(result) : result;
}

export const isTyping = (target) => Boolean(target.closest?.("input:not([type=radio], [type=checkbox]), select, textarea, [contenteditable]"));
