// State of the trading page, shared by its elements, and the events between them.
//
//   app.info      body of GET /; null until it arrived
//   app.markets   bodies of GET /api/markets
//   app.wallet    wallet of the trader; null without one
//   app.feed      the connection, a Feed of connection.js
//   app.current   market on display: { market, tokenId, book }, book a MarketBook; else null
//
// Events, each with the new value: info, markets, wallet, feed ({ state, text, isCurrent }), current
// (another market, or its other token), book (MarketBook; at most once per frame), order (an
// order of the wallet changed: { orderId }), notice (text for the trader), key (another API key),
// keyProblem (a Problem: a request needs an API key, or another one).

import { send } from "./common.js";
import { Feed } from "./connection.js";

const PAGE = 100;
const PAGES_MAX = 20;
const CALL_MS = 30000;
const KEY = "clob-key";
// Requests that need an API key in production.
const NEEDS_KEY = /^\/api\/(accounts|fills|gasless)/;
const KEY_CODES = {
  API_KEY_REQUIRED: "An API key is needed",
  INVALID_API_KEY: "This API key is not valid",
  SCOPE_MISSING: "This API key may not do that",
  MAKER_NOT_ALLOWED: "This API key is for another wallet",
};

const listeners = new Map();

// Call a listener at each event; return a function that ends it.
export function on(event, listener) {
  if (!listeners.has(event)) listeners.set(event, new Set());
  listeners.get(event).add(listener);
  return () => listeners.get(event).delete(listener);
}

export function emit(event, value) {
  for (const listener of [...(listeners.get(event) ?? [])]) listener(value);
}

export const app = {
  info: null,
  markets: [],
  wallet: null,
  current: null,
  feed: new Feed((state) => emit("feed", state)),
  on,
  emit,
  // Change a field and send the event of its name.
  set(name, value) {
    app[name] = value;
    emit(name, value);
  },
};

// ----- storage of the tab --------------------------------------------------------------------

// Return a text that is stored for this tab; change it if there is a value, null removes it.
export function stored(name, value) {
  try {
    if (value) sessionStorage.setItem(name, value);
    else if (value === null) sessionStorage.removeItem(name);
    return sessionStorage.getItem(name);
  } catch {
    // Storage is blocked: the value lasts as long as the page.
    return null;
  }
}

app.feed.apiKey = stored(KEY);

// Use an API key from now on; null forgets it.
export function useKey(key) {
  stored(KEY, key);
  app.feed.useKey(key);
  emit("key");
}

// ----- requests ------------------------------------------------------------------------------

// A rejection by the server, with its code, its fields at fault and its other members; without a
// code the request got no answer, so that its result is unknown.
export class Problem extends Error {
  constructor(text, body = {}) {
    const { code, errors = [] } = body;
    const about = KEY_CODES[code];
    super(about ? `${about}: ${text}.` : text);
    Object.assign(this, { code, errors, body, isOfKey: Boolean(about) });
  }
}

// Text of an error for the trader; one that is no Problem is a mistake of the page.
export function textOf(error) {
  if (error instanceof Problem) return error.message;
  console.error(error);
  return `The page failed: ${error?.message}. Reload the page.`;
}

// Handle a Problem by its return value; a mistake of the page goes on.
export const onProblem = (act) => (error) => {
  if (error instanceof Problem) return act?.();
  throw error;
};

// Return the answer to a request; raise a Problem if it is not a success.
async function ask(method, path, { body, headers, timeoutMs } = {}) {
  const { apiKey } = app.feed;
  const options = { body: body && JSON.stringify(body), headers: { ...headers }, timeoutMs };
  if (apiKey && NEEDS_KEY.test(path)) options.headers["X-API-Key"] = apiKey;
  const answer = await send(method, path, options).catch(() => ({}));
  const { content, status } = answer;
  if (typeof content !== "object") {
    const changes = method !== "GET" && !path.endsWith("/simulate");
    throw new Problem(`The server did not answer${changes ? ", so the result is unknown" : ""}.`);
  }
  if (answer.ok) return answer;
  const problem = new Problem(content.detail ?? `The server answered with status ${status}.`, content);
  if (problem.isOfKey) emit("keyProblem", problem);
  throw problem;
}

export const call = async (method, path, options) => (await ask(method, path, { timeoutMs: CALL_MS, ...options })).content;

export const get = async (path) => (await ask("GET", path)).content;

// Return all entries of a list that has pages.
export async function list(path) {
  const found = [];
  let next = `${path}?limit=${PAGE}`;
  for (let page = 0; next && page < PAGES_MAX; page += 1) {
    const answer = await ask("GET", next);
    found.push(...answer.content);
    next = /<([^>]+)>;\s*rel="?next"?/.exec(answer.headers.get("Link") ?? "")?.[1];
  }
  return found;
}

export const marketPath = (id) => `/api/markets/${encodeURIComponent(id)}`;

export async function loadInfo() {
  app.set("info", await get("/"));
}

export async function loadMarkets() {
  app.set("markets", await list("/api/markets"));
}
