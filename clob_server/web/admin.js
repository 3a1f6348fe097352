// The dashboard: everything goes through the routes under /api/admin, with the operator's token.

import { LiveBook } from "./book.js";
import { drawChain, drawOperations, drawSettlement } from "./chain.js";
import { ask, count, el, table, when } from "./common.js";

const EVERY_MS = 2000;
const KEPT = "clob-token";
const at = (id) => document.getElementById(id);
const book = new LiveBook({ ladder: at("ladder"), tape: at("tape"), state: at("book-state") });
let token = sessionStorage.getItem(KEPT) ?? "";
let chosen = null;
let timer = 0;

class Refused extends Error {}

async function operate(method, path, body) {
  const got = await ask(method, `/api/admin${path}`, {
    body,
    headers: { Authorization: `Bearer ${token}` },
  });
  if (!got.ok) throw new Refused(got.content?.code ? `${got.content.code}: ${got.content.detail}` : `status ${got.status}`);
  return got.content;
}

// Do something, say what came of it, and show everything as it is then.
async function act(place, done, work) {
  const told = at(place);
  try {
    await work();
    told.className = "told good";
    told.textContent = done;
  } catch (error) {
    told.className = "told bad";
    told.textContent = error.message;
  }
  await refresh();
}

// ----- engine ------------------------------------------------------------------------------

const NUMBERS = [
  ["commandSeq", "Commands", count],
  ["waiting", "Waiting", count],
  ["markets", "Markets", count],
  ["openOrders", "Orders that rest", count],
  ["subscribers", "Subscribers", count],
  ["historyLag", "History behind by", count],
  ["uptimeS", "Up for", (s) => `${count(s)} s`],
  ["eventHash", "Event hash", (hash) => `${hash.slice(0, 14)}…`],
];

function drawEngine(engine) {
  const phase = at("phase");
  phase.hidden = false;
  phase.textContent = engine.phase;
  phase.className = `badge ${engine.phase === "ready" ? "open" : "shut"}`;
  at("engine").replaceChildren(
    ...NUMBERS.filter(([name]) => name in engine).map(([name, text, write]) =>
      el("div", { title: String(engine[name]) }, el("span", {}, text), el("b", { id: `engine-${name}` }, write(engine[name]))),
    ),
  );
}

// ----- markets -----------------------------------------------------------------------------

const STEPS = {
  open: [["halt", "Halt"], ["cancel-only", "Cancels only"]],
  cancelOnly: [["open", "Open"], ["halt", "Halt"]],
  halted: [["open", "Open"], ["cancel-only", "Cancels only"]],
  resolved: [],
};

function step(market, name, text, body) {
  const grave = body !== undefined;
  return el(
    "button",
    {
      className: grave ? "grave" : "",
      on: {
        click: () => {
          const path = `/markets/${encodeURIComponent(market.marketId)}/${name}`;
          if (!grave || confirm(`Resolve ${market.marketId}: ${text}? All its orders are removed, for good.`)) {
            act("markets-told", `${market.marketId}: done`, () => operate("POST", path, body));
          }
        },
      },
    },
    text,
  );
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
        ...(market.settlement === "none" ? [] : [" ", el("span", { className: "badge", title: "Its trades settle on the chain" }, "settles")]),
      ),
      market.question,
      el("span", { className: `badge ${market.mode === "open" ? "open" : "shut"}` }, market.outcome ? `${market.mode}: ${market.outcome}` : market.mode),
      count(market.seq),
      el(
        "span",
        {},
        ...STEPS[market.mode].map(([name, text]) => step(market, name, text)),
        ...(market.mode === "resolved" ? [] : [step(market, "resolve", "YES won", { outcome: "yes" }), step(market, "resolve", "NO won", { outcome: "no" })]),
      ),
    ],
  }));
  at("markets").replaceChildren(
    rows.length ? table(["Market", "Question", "Mode", "Events", ""], rows, [3]) : el("p", { className: "faint" }, "There is none."),
  );
  if (!chosen && markets.length) choose(null, markets[0]);
}

function choose(event, market) {
  event?.preventDefault();
  chosen = market;
  at("book-name").textContent = market.marketId;
  const names = [["YES", market.yesTokenId], ["NO", market.noTokenId]].filter(([, id]) => id);
  at("book-token").replaceChildren(...names.map(([name, id]) => el("option", { value: id }, `${name} ${id.length > 12 ? `${id.slice(0, 10)}…` : id}`)));
  book.follow(market.marketId, market.yesTokenId, market.settlement !== "none");
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
        ? el("button", { className: "grave", on: { click: () => deactivate(key) } }, "Deactivate")
        : el("span", { className: "badge shut" }, "deactivated"),
    ],
  }));
  at("keys").replaceChildren(
    rows.length ? table(["Name", "Id", "Scopes", "Makers", "Made", "Last used", ""], rows, [3]) : el("p", { className: "faint" }, "There is none."),
  );
}

function deactivate(key) {
  if (!confirm(`Deactivate ${key.name}? It opens nothing from now on, for good.`)) return;
  act("keys-told", `${key.name} is deactivated`, () => operate("POST", `/keys/${key.keyId}/deactivate`));
}

// ----- limits ------------------------------------------------------------------------------

const WORDS = {
  ordersMax: "Orders a maker and market",
  tradesMax: "Trades an order",
  batchMax: "Orders a batch",
  finishedMax: "Finished orders at hand",
  anonymousPerMinute: "Requests a minute, no key",
  keyPerMinute: "Requests a minute, key",
  ordersPerMinute: "Orders a minute",
  cancelsPerMinute: "Cancels a minute",
};

// Drawn once: whoever types in it must not be interrupted.
function drawLimits(limits) {
  const form = at("limits-form");
  if (form.children.length) return;
  const inputs = Object.entries(limits).flatMap(([part, values]) =>
    Object.entries(values).map(([name, value]) =>
      el("label", {}, WORDS[name] ?? name, el("input", { type: "number", min: 0, name: `${part}.${name}`, value, required: true })),
    ),
  );
  form.replaceChildren(...inputs, el("button", { className: "main" }, "Set"));
}

// ----- chain -------------------------------------------------------------------------------

// Before there is a worker there are numbers, but no list.
async function showChain(chain) {
  drawChain(chain);
  if (chain.state !== "none") drawSettlement(await operate("GET", "/chain/settlement"));
  if (chain.counts === null) return;
  const status = at("operations-status").value;
  const found = await operate("GET", `/chain/operations?limit=20${status ? `&status=${status}` : ""}`);
  drawOperations(found, (each) =>
    act("chain-told", `${each.kind} ${each.number} goes on`, () => operate("POST", `/chain/operations/${encodeURIComponent(each.id)}/retry`)),
  );
}

// ----- forms -------------------------------------------------------------------------------

function formed(id, work) {
  at(id).addEventListener("submit", (event) => {
    event.preventDefault();
    work(event.target, new FormData(event.target));
  });
}

formed("market-form", (form, data) =>
  act("markets-told", `${data.get("marketId")} is open`, async () => {
    const wanted = Object.fromEntries([...data].filter(([, value]) => value));
    await operate("POST", "/markets", { ...wanted, settles: data.has("settles") });
    form.reset();
  }),
);

formed("key-form", (form, data) =>
  act("keys-told", "This key is shown once; it cannot be seen again:", async () => {
    const number = (name) => (data.get(name) ? Number(data.get(name)) : null);
    const made = await operate("POST", "/keys", {
      name: data.get("name"),
      makers: data.get("makers").split(/\s+/).filter(Boolean),
      scopes: ["read", "trade", "cancel"].filter((scope) => data.has(scope)),
      requestsPerMinute: number("requestsPerMinute"),
      ordersPerMinute: number("ordersPerMinute"),
    });
    at("new-key").hidden = false;
    at("new-key").textContent = made.key;
    form.reset();
  }),
);

formed("limits-form", (_, data) =>
  act("limits-told", "The limits are set", () => {
    const wanted = {};
    for (const [name, value] of data) {
      const [part, field] = name.split(".");
      (wanted[part] ??= {})[field] = Number(value);
    }
    return operate("PUT", "/limits", wanted);
  }),
);

formed("enter", () => {
  token = at("token").value.trim();
  at("token").value = "";
  enter();
});

at("operations-status").addEventListener("change", refresh);
at("book-token").addEventListener("change", (event) => book.follow(chosen.marketId, event.target.value, chosen.settlement !== "none"));
at("leave").addEventListener("click", () => {
  sessionStorage.removeItem(KEPT);
  location.reload();
});

// ----- from the token on -------------------------------------------------------------------

async function refresh() {
  clearTimeout(timer);
  try {
    const [engine, markets, keys, limits, chain] = await Promise.all(
      ["/engine", "/markets", "/keys", "/limits", "/chain"].map((path) => operate("GET", path)),
    );
    await showChain(chain);
    drawEngine(engine);
    drawMarkets(markets);
    drawKeys(keys);
    drawLimits(limits);
  } catch (error) {
    at("phase").hidden = false;
    at("phase").className = "badge shut";
    at("phase").textContent = error instanceof Refused ? error.message : "no answer";
  }
  timer = setTimeout(refresh, EVERY_MS);
}

async function enter() {
  try {
    await operate("GET", "/engine");
  } catch (error) {
    sessionStorage.removeItem(KEPT);
    at("gate-told").className = "told bad";
    at("gate-told").textContent = error.message;
    return;
  }
  sessionStorage.setItem(KEPT, token);
  at("gate").hidden = true;
  at("board").hidden = false;
  at("leave").hidden = false;
  refresh();
}

if (token) enter();
