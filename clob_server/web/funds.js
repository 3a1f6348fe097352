// The trader's funds on the chain: faucet, approvals, split, merge and redeem, each followed to its
// receipt. The operator pays the gas, except of approvals.

import { app, call, loadInfo, on, onProblem, Problem, textOf } from "./app.js";
import { el, patch, tokens } from "./common.js";
import { exact, parseTokens, report, serverTime, short, timeText, titleOf, workButton } from "./trade.js";
import { invitation } from "./wallet.js";

const MOST = (1n << 256n) - 1n;
const PERMIT_S = 3600;
const RETRY_MS = 500;
const OPERATION_TRIES = 300;
const BALANCE_MS = 700;
const CHAIN_MS = 3000;

// Functions of the contracts: the first four bytes of the hash of each signature.
const BALANCE_OF = "70a08231";
const ALLOWANCE = "dd62ed3e";
const APPROVE = "095ea7b3";
const NONCES = "7ecebe00";
const NAME = "06fdde03";
const TOKEN_BALANCE = "00fdd58e";
const IS_APPROVED_FOR_ALL = "e985e9c5";
const APPROVE_FOR_ALL = "a22cb465";

const DONE = {
  faucet: (amount) => `${amount} of collateral arrived from the faucet.`,
  split: (amount) => `${amount} of collateral were split into YES and NO tokens.`,
  merge: (amount) => `${amount} YES and NO tokens were merged into collateral.`,
  redeem: (amount) => `Tokens were redeemed for ${amount} of collateral.`,
};

// Name of a step as words: "collateral transfer" of collateralTransferTx.
const stepText = (name) => name.slice(0, -2).replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);

const word = (value) => BigInt(value).toString(16).padStart(64, "0");
const encode = (selector, ...values) => `0x${selector}${values.map(word).join("")}`;

const approvalLabel = (spender, asset) => `Approve the ${spender} for ${asset}`;

// Read a text that a contract returned: offset, length, bytes.
function decodedText(data) {
  const length = Number(BigInt(`0x${data.slice(66, 130)}`));
  const bytes = data.slice(130, 130 + 2 * length).match(/../g) ?? [];
  return new TextDecoder().decode(new Uint8Array(bytes.map((each) => parseInt(each, 16))));
}

class Funds extends HTMLElement {
  connectedCallback() {
    this.draw();
    const follow = () => this.follow();
    this.ends = [on("current", follow), on("wallet", follow), on("info", follow), on("wallets", follow)];
    this.follow();
  }

  disconnectedCallback() {
    clearTimeout(this.timer);
    this.leave?.();
    for (const end of this.ends) end();
  }

  draw() {
    const button = (label, work, options) => workButton(label, () => this.run(label, work), options);
    this.balances = el("dl", { className: "balances live-part" });
    this.amount = el("input", { id: "funds-amount", inputMode: "decimal", autocomplete: "off", value: "10" });
    this.amountError = el("span", { className: "field-error", id: "funds-amount-error", role: "alert" });
    this.amount.setAttribute("aria-describedby", this.amountError.id);
    this.faucet = button("Faucet", () => this.operate("faucet", { user: app.wallet.address }));
    this.split = button("Split", () => this.splitTokens());
    this.merge = button("Merge", () => this.convert("merge"));
    this.redeem = button("Redeem", () => this.operate("redeem", { user: app.wallet.address, conditionId: this.market.conditionId }));
    this.approvals = el("div", { className: "buttons" });
    this.approve = {};
    for (const spender of ["operator", "exchange"]) {
      for (const asset of ["collateral", "tokens"]) {
        const made = button(approvalLabel(spender, asset), () => this.approveAll(spender, asset));
        this.approve[`${spender} ${asset}`] = made;
        this.approvals.append(made);
      }
    }
    this.about = el("p", { className: "faint" });
    this.problem = el("p", { className: "result bad", role: "status" });
    this.steps = el("ol", { className: "steps" });
    this.result = el("p", { className: "result", role: "status" });
    // Without a wallet no button works; follow() shows them.
    this.main = el(
      "div",
      { hidden: true },
      this.balances,
      this.about,
      this.problem,
      el("label", { className: "field" }, "Amount", this.amount, this.amountError),
      el("p", { className: "buttons" }, this.faucet, this.split, this.merge, this.redeem),
      el("h3", {}, "Approvals"),
      this.approvals,
    );
    this.empty = el("div", {});
    this.replaceChildren(el("h3", {}, "Funds on the chain"), this.empty, this.main, this.steps, this.result);
  }

  get market() {
    return app.current.market;
  }

  // ----- what can be done -------------------------------------------------------------------

  follow() {
    if (!app.current || !app.info) return;
    const { wallet, info } = app;
    const { conditionId, settlement, outcome } = this.market;
    const problem = info.chain ? "" : "This server has no chain, so no funds to move.";
    patch(this.empty, ...(problem ? [el("p", { className: "faint" }, problem)] : wallet ? [] : [invitation("Your funds")]));
    this.main.hidden = !wallet || problem !== "";
    if (this.main.hidden) return this.unwatch();
    const hasTokens = conditionId !== null;
    const deposit = this.market.custody === "escrow" ? "Orders need a deposit." : "";
    this.about.textContent = hasTokens ? deposit : "This market has no tokens on the chain.";
    this.faucet.hidden = info.environment !== "test";
    this.split.hidden = this.merge.hidden = !hasTokens;
    this.redeem.hidden = !hasTokens || outcome === null;
    this.approve["exchange collateral"].hidden = this.approve["exchange tokens"].hidden = settlement !== "chain";
    this.approve["operator tokens"].hidden = !hasTokens;
    this.watch(wallet);
    this.refresh();
  }

  // Balances change with each account of the wallet.
  watch(wallet) {
    if (this.watched === wallet) return;
    this.unwatch();
    this.watched = wallet;
    this.state = null;
    report(this.result, "");
    this.steps.replaceChildren();
    const listener = ({ type, data }) => (type === "account" || (type === "settlement" && data.settlement === "settled")) && this.refreshSoon();
    this.leave = app.feed.subscribe({ channel: "user", maker: wallet.address }, listener);
  }

  unwatch() {
    this.leave?.();
    this.leave = this.watched = null;
  }

  refreshSoon(ms = BALANCE_MS) {
    this.timer ??= setTimeout(() => {
      this.timer = null;
      this.refresh();
    }, ms);
  }

  // Read balances and approvals from the contracts.
  async refresh() {
    const { wallet, info } = app;
    if (!wallet || !app.current) return;
    const { chain } = info;
    const { yesTokenId, noTokenId, conditionId } = this.market;
    const { address } = wallet;
    const { collateral, conditionalTokens: contract, operator, exchange } = chain;
    if (!collateral || (!exchange && this.market.settlement === "chain")) return this.reload(chain.state);
    const calls = [
      { to: collateral, data: encode(BALANCE_OF, address) },
      { to: collateral, data: encode(ALLOWANCE, address, operator) },
      { to: contract, data: encode(IS_APPROVED_FOR_ALL, address, operator) },
    ];
    if (exchange) calls.push({ to: collateral, data: encode(ALLOWANCE, address, exchange) }, { to: contract, data: encode(IS_APPROVED_FOR_ALL, address, exchange) });
    if (conditionId) calls.push(...[yesTokenId, noTokenId].map((token) => ({ to: contract, data: encode(TOKEN_BALANCE, address, token) })));
    try {
      const values = (await wallet.read(calls)).map(BigInt);
      if (wallet !== app.wallet || !app.current) return;
      const [balance, allowance, hasOperator] = values.splice(0, 3);
      const [exchangeAllowance, hasExchange] = exchange ? values.splice(0, 2) : [0n, 0n];
      const [yes, no] = values;
      this.state = { balance, allowance, hasOperator, exchangeAllowance, hasExchange, yes, no };
      this.showState();
      this.problem.textContent = "";
    } catch (error) {
      this.problem.textContent = textOf(error);
      if (error.code === "CHAIN_UNAVAILABLE") this.refreshSoon(CHAIN_MS);
    }
  }

  // The addresses of the contracts are known once the chain is ready.
  reload(state) {
    this.problem.textContent = `The chain is ${state}.`;
    this.timer ??= setTimeout(() => {
      this.timer = null;
      loadInfo().catch(onProblem(() => this.reload(state)));
    }, CHAIN_MS);
  }

  showState() {
    const { balance, allowance, hasOperator, exchangeAllowance, hasExchange, yes, no } = this.state;
    const settles = this.market.settlement === "chain";
    const may = (amount, has) => `${amount > MOST / 2n ? "any" : tokens(amount)} collateral, ${has ? "any" : "no"} tokens`;
    const entries = [
      ["Collateral", tokens(balance)],
      ["YES", yes === undefined ? null : tokens(yes)],
      ["NO", no === undefined ? null : tokens(no)],
      ["Operator may take", may(allowance, hasOperator)],
      ["Exchange may take", settles ? may(exchangeAllowance, hasExchange) : null],
    ];
    const nodes = entries.filter(([, text]) => text !== null).map(([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, text)));
    this.balances.replaceChildren(...nodes);
    const done = { "operator collateral": allowance, "operator tokens": hasOperator, "exchange collateral": exchangeAllowance, "exchange tokens": hasExchange };
    for (const [name, isDone] of Object.entries(done)) this.approve[name].textContent = approvalLabel(...name.split(" ")) + (isDone ? ": approved" : "");
  }

  // ----- running ----------------------------------------------------------------------------

  async run(label, work) {
    this.steps.replaceChildren();
    report(this.result, `${label}: working…`);
    try {
      report(this.result, await work());
    } catch (error) {
      if (error.atAmount) {
        this.amountError.textContent = error.message;
        this.amount.focus();
        report(this.result, "");
      } else {
        report(this.result, error);
      }
    }
    await this.refresh();
  }

  readAmount() {
    const amount = parseTokens(this.amount.value);
    this.amountError.textContent = "";
    if (amount === null) throw Object.assign(new Problem("must be a number above 0 with at most 18 decimals"), { atAmount: true });
    return amount;
  }

  // Show the transactions of an operation, by step.
  showSteps(hashes) {
    const known = Object.entries(hashes ?? {}).filter(([name, hash]) => name.endsWith("Tx") && hash);
    const nodes = known.map(([name, hash]) => el("li", {}, `${stepText(name)}: `, el("code", { title: hash }, short(hash))));
    this.steps.replaceChildren(...nodes);
  }

  // Run an operation to its end. The same request with the same key follows the same operation, also
  // after a cut connection.
  async operate(kind, body) {
    const headers = { "Idempotency-Key": crypto.randomUUID?.() ?? String(crypto.getRandomValues(new Uint32Array(4))), Prefer: "wait=1" };
    for (let tries = 0; ; tries += 1) {
      try {
        const answer = await call("POST", `/api/gasless/${kind}`, { body, headers });
        this.showSteps(answer);
        return DONE[kind](kind === "faucet" ? answer.amount : tokens(answer.amount));
      } catch (error) {
        const isPending = error.code === "OPERATION_PENDING" || error.code === "OUTCOME_UNKNOWN" || !error.code;
        if (!isPending || tries === OPERATION_TRIES) throw error;
        this.showSteps(error.body.hashes);
        report(this.result, error.code ? `Operation ${error.body.operation ?? ""} is in progress…` : `${error.message} Asking again…`);
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }

  convert(kind, more = {}) {
    const { conditionId, yesTokenId, noTokenId } = this.market;
    const body = { user: app.wallet.address, amount: this.readAmount().toString(), conditionId, yesTokenId, noTokenId };
    return this.operate(kind, { ...body, ...more });
  }

  // Split collateral; without an approval that reaches, a permit is signed for the amount.
  async splitTokens() {
    const amount = this.readAmount();
    await this.refresh();
    if (!this.state || this.state.allowance >= amount) return this.convert("split");
    if (this.state.balance < amount) throw Object.assign(new Problem(`must be at most the balance of ${tokens(this.state.balance)}`), { atAmount: true });
    return this.convert("split", { permit: await this.signPermit(amount) });
  }

  async signPermit(amount) {
    const { wallet, info } = app;
    const { collateral, operator } = info.chain;
    const { address } = wallet;
    const [nonce, name] = await wallet.read([
      { to: collateral, data: encode(NONCES, address) },
      { to: collateral, data: encode(NAME) },
    ]);
    const deadline = Math.floor((await serverTime()) / 1000) + PERMIT_S;
    const message = { owner: address, spender: operator, value: amount.toString(), nonce: BigInt(nonce).toString(), deadline: String(deadline) };
    const domain = { name: decodedText(name), version: "1", chainId: info.eip712.chainId, verifyingContract: collateral };
    const words = `Allow the operator ${operator} to take ${exact(amount)} of my collateral until ${timeText(deadline * 1000)}, to split it into tokens of “${titleOf(this.market)}”.`;
    const signature = await wallet.sign("Permit", message, words, domain);
    return {
      value: message.value,
      deadline: message.deadline,
      r: signature.slice(0, 66),
      s: `0x${signature.slice(66, 130)}`,
      v: 27 + (parseInt(signature.slice(130), 16) % 27),
    };
  }

  // ----- approvals --------------------------------------------------------------------------

  async approveAll(spender, asset) {
    const { wallet } = app;
    const { collateral, conditionalTokens, [spender]: address } = app.info.chain;
    const isCollateral = asset === "collateral";
    const data = isCollateral ? encode(APPROVE, address, MOST) : encode(APPROVE_FOR_ALL, address, 1n);
    const words = `Allow the ${spender} ${address} to take any amount of my ${isCollateral ? "collateral" : "outcome tokens"}, until I change it.`;
    const hash = await wallet.send({ to: isCollateral ? collateral : conditionalTokens, data, value: "0" }, words);
    this.showSteps({ approveTx: hash });
    report(this.result, "Sent; waiting for its block…");
    await wallet.confirm(hash);
    return "The approval is in a block.";
  }
}

customElements.define("clob-funds", Funds);
