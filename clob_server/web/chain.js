// The chain on the dashboard: its status, settlement, and the operations of the outbox.

import { count, el, patch, table, when } from "./common.js";

const ETHER = 10n ** 18n;
const at = (id) => document.getElementById(id);

// Format wei, decimal digits, as ether with four decimals.
function ether(wei) {
  if (wei === null) return "";
  const parts = ((BigInt(wei) % ETHER) / 10n ** 14n).toString().padStart(4, "0");
  return `${(BigInt(wei) / ETHER).toLocaleString("en")}.${parts}`;
}

const short = (text) => (text && text.length > 14 ? `${text.slice(0, 12)}…` : (text ?? ""));

const NUMBERS = [
  ["head", "Newest block", (chain) => (chain.head === null ? "" : count(chain.head))],
  ["operator", "Operator", (chain) => short(chain.operator)],
  ["operatorBalance", "Operator balance, ether", (chain) => ether(chain.operatorBalance)],
  ["pending", "Pending", (chain) => (chain.counts ? count(chain.counts.pending) : "")],
  ["stuck", "Stuck", (chain) => (chain.counts ? count(chain.counts.stuck) : "")],
  ["failed", "Failed, undone", (chain) => (chain.counts ? count(chain.counts.failed) : "")],
  ["done", "Done", (chain) => (chain.counts ? count(chain.counts.done) : "")],
  ["numBumped", "Fee increases", (chain) => count(chain.numBumped)],
  ["numForeign", "Foreign nonces", (chain) => count(chain.numForeign)],
  ["rpcUrl", "Node", (chain) => chain.rpcUrl ?? ""],
];

export function drawChain(chain) {
  at("chain-card").hidden = chain.state === "none";
  at("chain-state").textContent = chain.isOutOfGas ? "out of gas" : chain.state;
  at("chain-state").className = `badge ${chain.state === "ready" && !chain.isOutOfGas ? "open" : "shut"}`;
  at("chain-detail").textContent = chain.detail;
  patch(
    at("chain"),
    ...NUMBERS.map(([name, text, write]) =>
      el("div", { title: String(chain[name] ?? "") }, el("span", {}, text), el("b", { id: `chain-${name}` }, write(chain))),
    ),
  );
}

const SETTLEMENT = [
  ["pending", "Waiting", (status) => count(status.pending)],
  ["submitted", "Sent", (status) => count(status.submitted)],
  ["oldestMs", "Oldest waiting for", (status) => `${count(Math.round(status.oldestMs / 1000))} s`],
  ["block", "Read up to block", (status) => (status.block === null ? "" : count(status.block))],
  ["wallets", "Watched wallets", (status) => count(status.wallets)],
  ["difference", "Accounts with a difference", (status) => count(status.difference)],
];

// Unsettled trades, and the latest failures.
export function drawSettlement(status) {
  at("settlement-detail").textContent = status.detail;
  patch(
    at("settlement"),
    ...SETTLEMENT.map(([name, text, write]) =>
      el("div", { title: String(status[name] ?? "") }, el("span", {}, text), el("b", { id: `settlement-${name}` }, write(status))),
    ),
  );
  const rows = status.failures.map((each) => ({
    cells: [when(each.traded), each.marketId, each.trades.map(count).join(" and "), each.reason],
  }));
  patch(
    at("settlement-failures"),
    ...(rows.length ? [table(["Traded", "Market", "Event", "Reason"], rows)] : []),
  );
}

// A step with its status and hash; the title shows all hashes and the error.
function step(each) {
  const hashed = each.hashes.at(-1) ?? "";
  return el("div", { title: [...each.hashes, each.error].filter(Boolean).join("\n") }, `${each.name} ${each.status} `, el("code", {}, short(hashed)));
}

export function drawOperations(operations, retry) {
  const rows = operations.map((each) => ({
    id: `operation-${each.number}`,
    cells: [
      count(each.number),
      el("span", { title: each.id }, each.kind),
      el("span", { className: `badge ${each.status === "done" ? "open" : "shut"}`, title: each.error ?? "" }, each.status),
      each.body.fills ? `${count(each.body.fills.length)} trades` : short(each.body.user ?? each.body.questionId),
      el("span", {}, ...each.steps.map(step)),
      when(each.changedMs),
      each.status === "stuck" ? el("button", { on: { click: () => retry(each) } }, "Retry") : "",
    ],
  }));
  patch(
    at("operations"),
    rows.length
      ? table(["No.", "Kind", "Status", "For", "Transactions", "Changed", "Action"], rows, [0])
      : el("p", { className: "faint" }, "No operations."),
  );
}
