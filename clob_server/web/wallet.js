// The trader's wallet: a browser wallet (EIP-1193), or a development wallet of the test environment,
// whose key stays in the server. Everything is shown in words before it is signed or sent. And the
// trader's API key, which production asks for.

import { app, call, on, Problem, stored, textOf, useKey } from "./app.js";
import { button, el } from "./common.js";
import { choices, isSame, openDialog, short, typedData } from "./trade.js";

const STORED = "clob-wallet";
const UNKNOWN_CHAIN = 4902;
const REJECTED_BY_USER = 4001;

const hexOf = (number) => `0x${BigInt(number).toString(16)}`;
const pathOf = (address, verb) => `/api/test/wallets/${address}/${verb}`;

// Base of both wallets. `sign` takes the name and the message of a struct, and its words.
export class Wallet {
  constructor(address, name) {
    this.address = address;
    this.name = name;
    // Lowest nonce of its orders, as far as it is known.
    this.nonce = "0";
  }

  // Return the signature of a struct; raise an error if the trader declines.
  async sign(primaryType, message, words, domain = app.info.eip712) {
    await this.ready();
    await ask(this, "Sign", words);
    return this.signTyped(typedData(primaryType, message, domain));
  }

  // Send a transaction and return its hash.
  async send(transaction, words) {
    await this.ready();
    await ask(this, "Send", words);
    return this.sendTransaction(transaction);
  }

  // Wait for the block of a transaction; raise an error if it reverted.
  async confirm(hash) {
    for (;;) {
      const { status } = await this.receipt(hash);
      if (status === "confirmed") return;
      if (status === "reverted") throw new Problem(`Transaction ${hash} is in a block and has failed.`);
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  }

  async ready() {}
}

export class DevWallet extends Wallet {
  isDevelopment = true;

  async signTyped(data) {
    return (await call("POST", pathOf(this.address, "sign"), { body: data })).signature;
  }

  async sendTransaction(transaction) {
    return (await call("POST", pathOf(this.address, "send"), { body: transaction })).txHash;
  }

  async read(calls) {
    return (await call("POST", "/api/test/calls", { body: { calls } })).results;
  }

  async receipt(hash) {
    return call("GET", `/api/test/transactions/${hash}`);
  }
}

export class BrowserWallet extends Wallet {
  constructor(address, name, provider) {
    super(address, name);
    this.provider = provider;
  }

  async request(method, ...params) {
    try {
      return await this.provider.request({ method, params });
    } catch (error) {
      if (error?.code === REJECTED_BY_USER) throw new Problem("The wallet declined.");
      throw Object.assign(new Problem(`The wallet: ${error?.message ?? "unknown error"}`), { walletCode: error?.code });
    }
  }

  async chainId() {
    return Number(await this.request("eth_chainId"));
  }

  // Check that the wallet is on the chain of the exchange, and offer to switch.
  async ready() {
    const { chainId } = app.info.eip712;
    if ((await this.chainId()) === chainId) return;
    try {
      await this.request("wallet_switchEthereumChain", { chainId: hexOf(chainId) });
    } catch (error) {
      if (error.walletCode !== UNKNOWN_CHAIN || !app.info.chain?.rpcUrl) throw error;
      const nativeCurrency = { name: "Ether", symbol: "ETH", decimals: 18 };
      const chain = { chainId: hexOf(chainId), chainName: `clob ${chainId}`, rpcUrls: [app.info.chain.rpcUrl], nativeCurrency };
      await this.request("wallet_addEthereumChain", chain);
    }
    if ((await this.chainId()) !== chainId) throw new Problem(`The wallet must be on chain ${chainId}.`);
  }

  async signTyped(data) {
    return this.request("eth_signTypedData_v4", this.address, JSON.stringify(data));
  }

  async sendTransaction({ to, data, value = "0" }) {
    return this.request("eth_sendTransaction", { from: this.address, to, data, value: hexOf(value) });
  }

  async read(calls) {
    const results = await Promise.all(calls.map((each) => this.request("eth_call", each, "latest")));
    if (results.includes("0x")) throw new Problem("The wallet does not find the contracts of this exchange on its chain.");
    return results;
  }

  async receipt(hash) {
    const found = await this.request("eth_getTransactionReceipt", hash);
    if (!found) return { status: "pending" };
    return { status: Number(found.status) ? "confirmed" : "reverted" };
  }
}

// ----- the question before a signature ------------------------------------------------------

let skips = false;

// Show what is signed or sent; raise an error unless the trader agrees. For development
// wallets the question can be skipped until the page is left.
async function ask(wallet, verb, words) {
  const { isDevelopment, name } = wallet;
  if (skips && isDevelopment) return;
  const skip = el("input", { type: "checkbox" });
  const box = isDevelopment ? [el("label", { className: "box" }, skip, " Do not ask again on this page")] : [];
  const text = el("p", { className: "words", dir: "auto" }, words);
  if ((await openDialog(`${verb} with ${name}?`, [text, ...box, choices(verb, "Decline")])) !== verb) throw new Problem("You declined; nothing was sent.");
  skips ||= skip.checked;
}

// ----- finding wallets ----------------------------------------------------------------------

const providers = new Map();
const announced = (event) => {
  const { info, provider } = event.detail ?? {};
  if (!provider?.request) return;
  providers.set(info?.uuid ?? provider, { name: String(info?.name ?? "Browser wallet").slice(0, 40), provider });
  document.querySelectorAll("clob-wallet").forEach((each) => each.draw());
};
let devWallets = [];

async function find() {
  addEventListener("eip6963:announceProvider", announced);
  dispatchEvent(new Event("eip6963:requestProvider"));
  if (window.ethereum && !providers.size) providers.set("injected", { name: "Browser wallet", provider: window.ethereum });
  if (app.info.environment !== "test") return;
  const { wallets } = await call("GET", "/api/test/wallets");
  devWallets = wallets.map(({ address, name }) => new DevWallet(address, name));
}

function choose(wallet) {
  stored(STORED, wallet?.isDevelopment ? wallet.address : null);
  app.set("wallet", wallet);
}

const followed = new WeakSet();

async function connect({ name, provider }) {
  const wallet = new BrowserWallet("", name, provider);
  const [address] = await wallet.request("eth_requestAccounts");
  if (!address) throw new Problem("The wallet gave no account.");
  wallet.address = address;
  choose(wallet);
  if (followed.has(provider) || !provider.on) return;
  followed.add(provider);
  const isChosen = () => app.wallet?.provider === provider;
  provider.on("accountsChanged", ([next]) => isChosen() && choose(next ? new BrowserWallet(next, name, provider) : null));
  provider.on("chainChanged", () => isChosen() && app.set("wallet", app.wallet));
}

// ----- the element in the head of the page --------------------------------------------------

class WalletElement extends HTMLElement {
  connectedCallback() {
    this.button = button("", () => this.toggle(), { id: "wallet-button", ariaExpanded: "false" });
    this.menu = el("div", { className: "wallet-menu card", hidden: true, role: "group", ariaLabel: "Wallets" });
    this.note = el("span", { className: "unseen", role: "status" });
    this.append(this.button, this.menu, this.note);
    this.addEventListener("keydown", (event) => event.key === "Escape" && this.toggle(false));
    this.outside = (event) => this.contains(event.target) || this.toggle(false, false);
    document.addEventListener("pointerdown", this.outside);
    this.ends = [on("wallet", () => this.draw()), on("info", () => this.start())];
    this.draw();
    if (app.info) this.start();
  }

  disconnectedCallback() {
    document.removeEventListener("pointerdown", this.outside);
    for (const end of this.ends) end();
  }

  async start() {
    if (this.hasStarted) return;
    this.hasStarted = true;
    await find().catch((error) => this.fail(error));
    const last = stored(STORED);
    const known = devWallets.find(({ address }) => address === last);
    if (known) choose(known);
    this.draw();
    app.emit("wallets", devWallets);
  }

  toggle(isOpen = this.menu.hidden, keepsFocus = true) {
    if (this.menu.hidden === !isOpen) return;
    this.menu.hidden = !isOpen;
    this.button.ariaExpanded = String(isOpen);
    if (isOpen) this.menu.querySelector("button")?.focus();
    else if (keepsFocus) this.button.focus();
  }

  draw() {
    const { wallet } = app;
    this.button.textContent = wallet ? `${wallet.name} ${short(wallet.address)}` : "Connect a wallet";
    this.note.textContent = wallet ? `${wallet.name} is connected` : "";
    const item = (text, act, isCurrent) => button(text, act, { ariaCurrent: isCurrent ? "true" : null });
    const browser = [...providers.values()].map((each) =>
      item(each.name, () => connect(each).then(() => this.toggle(false)).catch((error) => this.fail(error)), wallet?.provider === each.provider),
    );
    const development = devWallets.map((each) =>
      item(`${each.name} ${short(each.address)}`, () => this.use(each), isSame(wallet?.address, each.address)),
    );
    const part = (title, items) => (items.length ? [el("strong", {}, title), ...items] : []);
    const none = browser.length + development.length ? [] : [el("p", {}, "No wallet was found. Install a browser wallet and load the page again.")];
    const end = wallet ? [item("Disconnect", () => this.use(null))] : [];
    this.error = el("p", { className: "result bad", role: "alert" });
    this.menu.replaceChildren(
      ...part("Browser wallets", browser),
      ...part("Development wallets: their keys are public", development),
      ...none,
      ...end,
      this.error,
    );
  }

  use(wallet) {
    choose(wallet);
    this.toggle(false);
  }

  fail(error) {
    (this.menu.hidden ? this.note : this.error).textContent = textOf(error);
  }
}

// Buttons that connect a development wallet by one click, for elements that need a wallet.
export function invitation(purpose) {
  const buttons = devWallets.slice(0, 3).map((each) => button(each.name, () => choose(each)));
  const text = `${purpose} needs a wallet. `;
  if (!buttons.length) return el("p", {}, `${text}Connect one at the top of the page.`);
  return el("div", { className: "invitation" }, el("p", {}, `${text}Use a development wallet, with play money:`), el("p", { className: "buttons" }, ...buttons));
}

// ----- API key -------------------------------------------------------------------------------

const ABOUT_KEY =
  "Your orders, fills and balances need an API key with the scope read, bound to your wallet; split, merge and redeem also the scope trade. " +
  "The operator of this exchange creates it. It is sent to this server alone. Signed orders and cancels need no key.";

// A form that shows once a request needs a key. The key is in the page only while it is typed.
class ApiKey extends HTMLElement {
  connectedCallback() {
    this.problem = el("p", { id: "key-problem", className: "result bad", role: "alert" });
    this.input = el("input", { id: "api-key", type: "password", autocomplete: "off" });
    this.input.setAttribute("aria-describedby", this.problem.id);
    const onsubmit = (event) => {
      event.preventDefault();
      this.use(this.input.value.trim());
    };
    const field = el("label", { className: "field" }, "API key", this.input);
    this.form = el("form", { on: { submit: onsubmit } }, el("p", {}, ABOUT_KEY), field, el("button", { className: "main" }, "Use the key"));
    this.forget = button("Forget the key", () => this.use(null));
    this.known = el("p", { className: "buttons" }, "An API key is stored for this tab.", this.forget);
    this.append(this.problem, this.form, this.known);
    this.ends = [on("keyProblem", (problem) => this.show(problem)), on("wallet", () => this.show(null))];
    this.show(null);
  }

  disconnectedCallback() {
    for (const end of this.ends) end();
  }

  // Show the form for a problem, null for none.
  show(problem) {
    this.problem.textContent = problem?.message ?? "";
    this.form.hidden = !problem;
    this.known.hidden = !app.feed.apiKey;
  }

  // Use a key, null for none; headers have no other characters.
  use(key) {
    this.input.value = "";
    const isValid = key === null || /^[!-~]+$/.test(key);
    if (isValid) useKey(key);
    this.show(key && isValid ? null : { message: isValid ? "" : "This is no API key: it must be one text without spaces." });
    (this.form.hidden ? this.forget : this.input).focus();
  }
}

customElements.define("clob-key", ApiKey);
customElements.define("clob-wallet", WalletElement);
