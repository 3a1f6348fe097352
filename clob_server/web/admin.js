// The dashboard. It uses the routes under /api/admin with the operator's token.

import { LiveBook } from "./admin_book.js";
import { drawChain, drawOperations, drawSettlement } from "./chain.js";
import { count, el, patch, send, table, when } from "./common.js";

const EVERY_MS = 2000;
const EVERY_MAX_MS = 30000;
const TOKEN_KEY = "clob-token";
const at = (id) => document.getElementById(id);
const book = new LiveBook({ ladder: at("ladder"), tape: at("tape"), state: at("book-state"), orders: at("book-orders") });
let token = sessionStorage.getItem(TOKEN_KEY) ?? "";
let chosen = null;
let timer = 0;
let failures = 0;
let answeredMs = Date.now();

class RejectedError extends Error {}

async function request(method, path, body) {
  const response = await send(method, `/api/admin${path}`, {
    body,
    headers: { Authorization: `Bearer ${token}` },
  });
  const { ok, status, content } = response;
  if (!ok) throw new RejectedError(content?.code ? `${content.code}: ${content.detail}` : `status ${status}`);
  return content;
}

// Run an action, show its result in an element, and refresh the page.
async function act(id, success, action) {
  const result = at(id);
  try {
    await action();
    result.className = "result good";
    result.textContent = success;
  } catch (error) {
    result.className = "result bad";
    result.textContent = error.message;
  }
  await refresh();
}

// ----- engine ------------------------------------------------------------------------------

const NUMBERS = [
  ["commandSeq", "Commands", count],
  ["waiting", "Queued commands", count],
  ["markets", "Markets", count],
  ["openOrders", "Resting orders", count],
  ["subscribers", "Subscribers", count],
  ["historyLag", "History lag", count],
  ["uptimeS", "Uptime", (s) => `${count(s)} s`],
  ["eventHash", "Event hash", (hash) => `${hash.slice(0, 14)}…`],
];

function drawEngine(engine) {
  const phase = at("phase");
  phase.hidden = false;
  phase.textContent = engine.phase;
  phase.className = `badge ${engine.phase === "ready" ? "open" : "shut"}`;
  patch(
    at("engine"),
    ...NUMBERS.filter(([name]) => name in engine).map(([name, text, write]) =>
      el("div", { title: String(engine[name]) }, el("span", {}, text), el("b", { id: `engine-${name}` }, write(engine[name]))),
    ),
  );
}

// ----- markets -----------------------------------------------------------------------------

const TRANSITIONS = {
  open: [["halt", "Halt"], ["cancel-only", "Cancel only"]],
  cancelOnly: [["open", "Open"], ["halt", "Halt"]],
  halted: [["open", "Open"], ["cancel-only", "Cancel only"]],
  resolved: [],
};

function transition(market, name, text) {
  const path = `/markets/${encodeURIComponent(market.marketId)}/${name}`;
  const click = () => act("markets-result", `${market.marketId}: ${name} succeeded`, () => request("POST", path));
  return el("button", { on: { click } }, text);
}

// A button that asks before it does what cannot be undone.
function ending(market, text, question, run) {
  const click = () => {
    if (confirm(`${question} All its orders are removed. This cannot be undone.`)) {
      act("markets-result", `${market.marketId}: ${text} succeeded`, run);
    }
  };
  return el("button", { className: "danger", on: { click } }, text);
}

function endings(market) {
  if (market.mode === "resolved") return [];
  const path = `/markets/${encodeURIComponent(market.marketId)}`;
  const resolve = (text, outcome) =>
    ending(market, text, `Resolve ${market.marketId}: ${text}?`, () => request("POST", `${path}/resolve`, { outcome }));
  const remove = () => request("DELETE", path);
  return [
    resolve("YES won", "yes"),
    resolve("NO won", "no"),
    ...(market.settlement === "none" ? [ending(market, "Remove", `Remove ${market.marketId}?`, remove)] : []),
  ];
}

function drawMarkets(markets) {
  const rows = markets.map((market) => ({
    id: `market-${market.marketId}`,
    className: market.marketId === chosen?.marketId ? "chosen" : "",
    cells: [
      el(
        "span",
        {},
        el("a", { href: "#", on: { click: (event) => choose(event, market) } }, market.marketId),
        ...(market.settlement === "none" ? [] : [" ", el("span", { className: "badge", title: market.stalled?.reason ?? "Trades settle on the chain" }, market.custody === "escrow" ? "escrow" : "settles")]),
      ),
      market.question,
      el("span", { className: `badge ${market.mode === "open" ? "open" : "shut"}` }, market.outcome ? `${market.mode}: ${market.outcome}` : market.mode),
      count(market.seq),
      el("span", {}, ...TRANSITIONS[market.mode].map(([name, text]) => transition(market, name, text))),
      el("span", { className: "apart" }, ...endings(market)),
    ],
  }));
  patch(
    at("markets"),
    rows.length ? table(["Market", "Question", "Mode", "Events", "Change", "End"], rows, [3]) : el("p", { className: "faint" }, "No markets."),
  );
  if (!chosen && markets.length) choose(null, markets[0]);
}

function choose(event, market) {
  event?.preventDefault();
  chosen = market;
  at("book-name").textContent = market.marketId;
  const names = [["YES", market.yesTokenId], ["NO", market.noTokenId]].filter(([, id]) => id);
  at("book-token").replaceChildren(...names.map(([name, id]) => el("option", { value: id }, `${name} ${id.length > 12 ? `${id.slice(0, 10)}…` : id}`)));
  book.follow(market, market.yesTokenId);
  for (const row of at("markets").querySelectorAll("tr")) row.classList.toggle("chosen", row.id === `market-${market.marketId}`);
}

// ----- keys --------------------------------------------------------------------------------

function drawKeys(keys) {
  const rows = keys.map((key) => ({
    id: `key-${key.keyId}`,
    cells: [
      key.name,
      el("code", {}, key.keyId),
      key.scopes.join(", "),
      key.makers.length ? el("span", { title: key.makers.join("\n") }, count(key.makers.length)) : "0",
      when(key.created),
      when(key.lastUsed),
      key.active
        ? el("button", { className: "danger", on: { click: () => deactivate(key) } }, "Deactivate")
        : el("span", { className: "badge shut" }, "deactivated"),
    ],
  }));
  patch(
    at("keys"),
    rows.length ? table(["Name", "Id", "Scopes", "Makers", "Created", "Last used", "End"], rows, [3]) : el("p", { className: "faint" }, "No keys."),
  );
}

function deactivate(key) {
  if (!confirm(`Deactivate ${key.name}? This cannot be undone.`)) return;
  act("keys-result", `${key.name} is deactivated`, () => request("POST", `/keys/${key.keyId}/deactivate`));
}

// ----- limits ------------------------------------------------------------------------------

const LABELS = {
  ordersMax: "Resting orders per maker and market",
  tradesMax: "Trades per order",
  batchMax: "Orders per batch",
  finishedMax: "Finished orders kept",
  anonymousPerMinute: "Requests per minute, no key",
  keyPerMinute: "Requests per minute, key",
  ordersPerMinute: "Orders per minute",
  cancelsPerMinute: "Cancels per minute",
};

// The form is drawn once: a refresh would overwrite input.
function drawLimits(limits) {
  const form = at("limits-form");
  if (form.children.length) return;
  const inputs = Object.entries(limits).flatMap(([part, values]) =>
    Object.entries(values).map(([name, value]) =>
      el("label", {}, LABELS[name] ?? name, el("input", { type: "number", min: 0, name: `${part}.${name}`, value, required: true })),
    ),
  );
  form.replaceChildren(...inputs, el("button", { className: "main" }, "Set"));
}

// ----- chain -------------------------------------------------------------------------------

// Until the worker runs there are counters, but no list of operations.
async function showChain(chain) {
  drawChain(chain);
  if (chain.state !== "none") drawSettlement(await request("GET", "/chain/settlement"));
  if (chain.counts === null) return;
  const status = at("operations-status").value;
  const operations = await request("GET", `/chain/operations?limit=20${status ? `&status=${status}` : ""}`);
  drawOperations(operations, (each) =>
    act("chain-result", `${each.kind} ${each.number} continues`, () => request("POST", `/chain/operations/${encodeURIComponent(each.id)}/retry`)),
  );
}

// ----- forms -------------------------------------------------------------------------------

function onSubmit(id, handler) {
  at(id).addEventListener("submit", (event) => {
    event.preventDefault();
    handler(event.target, new FormData(event.target));
  });
}

onSubmit("market-form", (form, data) =>
  act("markets-result", `${data.get("marketId")} is open`, async () => {
    const fields = Object.fromEntries([...data].filter(([, value]) => value));
    await request("POST", "/markets", { ...fields, settles: data.has("settles") });
    form.reset();
  }),
);

onSubmit("key-form", (form, data) =>
  act("keys-result", "The key is shown only once:", async () => {
    const number = (name) => (data.get(name) ? Number(data.get(name)) : null);
    const created = await request("POST", "/keys", {
      name: data.get("name"),
      makers: data.get("makers").split(/\s+/).filter(Boolean),
      scopes: ["read", "trade", "cancel"].filter((scope) => data.has(scope)),
      requestsPerMinute: number("requestsPerMinute"),
      ordersPerMinute: number("ordersPerMinute"),
    });
    at("new-key").hidden = false;
    at("new-key").textContent = created.key;
    form.reset();
  }),
);

onSubmit("limits-form", (_, data) =>
  act("limits-result", "Limits changed", () => {
    const limits = {};
    for (const [name, value] of data) {
      const [part, field] = name.split(".");
      (limits[part] ??= {})[field] = Number(value);
    }
    return request("PUT", "/limits", limits);
  }),
);

onSubmit("enter", () => {
  token = at("token").value.trim();
  at("token").value = "";
  signIn();
});

at("operations-status").addEventListener("change", refresh);
at("book-token").addEventListener("change", (event) => book.follow(chosen, event.target.value));
at("leave").addEventListener("click", () => {
  sessionStorage.removeItem(TOKEN_KEY);
  location.reload();
});

// ----- session -----------------------------------------------------------------------------

async function load() {
  const [engine, markets, keys, limits, chain] = await Promise.all(
    ["/engine", "/markets", "/keys", "/limits", "/chain"].map((path) => request("GET", path)),
  );
  await showChain(chain);
  drawEngine(engine);
  drawMarkets(markets);
  drawKeys(keys);
  drawLimits(limits);
}

// Without an answer the numbers shown are old: they fade, and their age is shown.
async function refresh() {
  clearTimeout(timer);
  try {
    await load();
    failures = 0;
    answeredMs = Date.now();
  } catch (error) {
    failures += 1;
    const age = Math.round((Date.now() - answeredMs) / 1000);
    at("phase").hidden = false;
    at("phase").className = "badge shut";
    at("phase").textContent = error instanceof RejectedError ? error.message : `no response for ${age} s`;
  }
  at("board").classList.toggle("stale", failures > 0);
  timer = setTimeout(refresh, Math.min(EVERY_MS * 2 ** failures, EVERY_MAX_MS));
}

async function signIn() {
  try {
    await request("GET", "/engine");
  } catch (error) {
    sessionStorage.removeItem(TOKEN_KEY);
    at("gate-result").className = "result bad";
    at("gate-result").textContent = error.message;
    return;
  }
  sessionStorage.setItem(TOKEN_KEY, token);
  at("gate").hidden = true;
  at("board").hidden = false;
  at("leave").hidden = false;
  refresh();
}

if (token) signIn();
