// The WebSocket of a page: subscriptions that survive a cut, heartbeats, and the truth about both.

// A silent connection is asked for a sign of life; two missing ones mean frozen, six end it.
export const HEARTBEAT_MS = 2500;
const CLOSE_AFTER = 6;
const TICK_MS = 250;
const LATE_MS = 2000;
const AHEAD_MS = 1000;
const QUIET_MS = 10000;
const RESUMED_MS = 4000;
const CONNECT_MS = 8000;
const CLOCK_MS = 5000;
const RECONNECT_MS = 200;
const STABLE_MS = 5000;
const RECONNECT_MAX_MS = 10000;
const RETRY_MS = { RECOVERING: 1000, UNKNOWN_MARKET: 5000 };
const EVENTS = new Set(["order_added", "order_removed", "order_reduced", "trade"]);
const RESUMABLE = new Set(["orderbook", "user"]);
const SIGNS = new Set(["pong", "heartbeat", "response"]);

// Data on the page is current only in these states; the others are connecting, late, frozen,
// reconnecting and offline.
const CURRENT = new Set(["live", "quiet", "resumed"]);

const keyOf = ({ channel, marketId, maker }) => `${channel} ${marketId ?? ""} ${(maker ?? "").toLowerCase()}`;

export class Feed {
  // onState is called with { state, text, isCurrent, silentMs } when one of the first three changes.
  constructor(onState) {
    this.onState = onState;
    this.state = "connecting";
    this.text = "connecting";
    this.entries = new Map();
    this.socket = null;
    this.nextId = 1;
    this.attempts = 0;
    this.openedAt = Infinity;
    this.offsetMs = null;
    this.lagMs = 0;
    this.apiKey = null;
  }

  get isOpen() {
    return this.socket?.readyState === WebSocket.OPEN;
  }

  get isCurrent() {
    return CURRENT.has(this.state);
  }

  // Server's time, Unix milliseconds, as far as it is known.
  now() {
    return Date.now() + (this.offsetMs ?? 0);
  }

  start() {
    setInterval(() => this.tick(), TICK_MS);
    addEventListener("online", () => this.hurry());
    addEventListener("offline", () => this.tick());
    document.addEventListener("visibilitychange", () => document.hidden || this.hurry());
    this.connect();
  }

  // Send the messages of a subscription to a listener; return a function that ends it. The request
  // is that of `subscribe` without type and resume. After `subscribed` with `resumed` false the
  // state follows from the beginning, which also happens when another listener joins.
  subscribe(request, listener) {
    const key = keyOf(request);
    let entry = this.entries.get(key);
    if (!entry) this.entries.set(key, (entry = { key, listeners: new Set(), position: null, epoch: 0 }));
    entry.request = { ...entry.request, ...request };
    entry.listeners.add(listener);
    this.renew(request);
    return () => this.leave(entry, listener);
  }

  // Request the state of a subscription from the beginning.
  renew(request) {
    const entry = this.entries.get(keyOf(request));
    if (!entry) return;
    entry.position = null;
    if (this.isOpen) this.ask(entry);
  }

  leave(entry, listener) {
    entry.listeners.delete(listener);
    if (entry.listeners.size || this.entries.get(entry.key) !== entry) return;
    this.entries.delete(entry.key);
    this.end(entry);
  }

  end({ request }) {
    const { channel, marketId, maker } = request;
    if (this.isOpen) this.send({ type: "unsubscribe", extended: true, channel, marketId, maker });
  }

  // Subscriptions to `user` are requested with this API key from now on; those of the one before end.
  useKey(apiKey) {
    this.apiKey = apiKey;
    for (const entry of this.entries.values()) if (entry.request.channel === "user") this.end(entry);
  }

  // ----- connection -------------------------------------------------------------------------

  connect() {
    clearTimeout(this.timer);
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`);
    this.socket = socket;
    this.startedAt = performance.now();
    socket.onopen = () => this.onOpen();
    socket.onmessage = (event) => this.onMessage(JSON.parse(event.data));
    socket.onclose = () => this.drop();
  }

  onOpen() {
    this.wasOpen = true;
    this.heardAt = this.eventAt = this.openedAt = performance.now();
    this.askedAt = this.askedFirstAt = 0;
    this.lagMs = 0;
    this.measuredAt = 0;
    this.hasGap = false;
    this.measure();
    for (const entry of this.entries.values()) this.ask(entry);
    this.tick();
  }

  // End the socket and connect later: soon if it lasted, else each time after a longer wait.
  drop() {
    const { socket } = this;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
    this.socket = null;
    for (const entry of this.entries.values()) entry.isConfirmed = false;
    if (performance.now() - this.openedAt >= STABLE_MS) this.attempts = 0;
    this.openedAt = Infinity;
    const wait = Math.min(RECONNECT_MS * 2 ** this.attempts, RECONNECT_MAX_MS);
    this.attempts += 1;
    this.timer = setTimeout(() => this.connect(), wait * (0.5 + Math.random() / 2));
    this.resumedAt = null;
    this.tick();
  }

  // The network or the page came back: connect now.
  hurry() {
    this.attempts = 0;
    if (!this.socket) this.connect();
    this.tick();
  }

  send(message) {
    this.socket.send(JSON.stringify(message));
  }

  ask(entry) {
    clearTimeout(entry.retry);
    entry.id = this.nextId++;
    entry.isConfirmed = entry.hasFailed = false;
    const { position, epoch, request, id } = entry;
    const resume = position === null ? undefined : { ...position, epoch };
    const apiKey = request.channel === "user" ? this.apiKey : null;
    this.send({ type: "subscribe", extended: true, ...request, apiKey: apiKey ?? undefined, id, resume });
  }

  // ----- messages ---------------------------------------------------------------------------

  onMessage(message) {
    this.heardAt = performance.now();
    const { type } = message;
    if (type === "pong") this.askedFirstAt = this.lagMs = 0;
    else if (type === "response") this.onClock(message);
    else if (type === "error") this.onError(message);
    else this.route(message);
    if (!SIGNS.has(type)) this.eventAt = this.heardAt;
    if (!this.isCurrent) this.tick();
  }

  route(message) {
    for (const entry of [...this.entries.values()]) {
      if (message.type === "subscribed" && message.id === entry.id) this.onSubscribed(entry, message);
      else if (!entry.isConfirmed || !matches(entry.request, message)) continue;
      if (entry.isConfirmed) this.deliver(entry, message);
    }
  }

  onSubscribed(entry, message) {
    entry.isConfirmed = true;
    entry.epoch = message.epoch;
    entry.target = message.seq ?? 0;
    if (!message.resumed) {
      if (this.wasCut && RESUMABLE.has(message.channel)) this.hasGap = true;
      entry.position = null;
    }
    if (this.wasCut && this.isComplete()) this.resumedAt = performance.now();
  }

  deliver(entry, message) {
    const { type, seq } = message;
    if (EVENTS.has(type) && seq > entry.target) this.onTime(message.timestamp);
    move(entry, message);
    if (type === "unsubscribed") {
      if (!message.reason) return;
      entry.position = null;
      this.retry(entry, RETRY_MS.UNKNOWN_MARKET);
    }
    for (const listener of [...entry.listeners]) listener(message);
  }

  onError(message) {
    for (const entry of this.entries.values()) {
      if (entry.id !== message.id) continue;
      entry.isConfirmed = false;
      entry.hasFailed = true;
      if (message.code in RETRY_MS) this.retry(entry, RETRY_MS[message.code]);
      for (const listener of [...entry.listeners]) listener(message);
    }
  }

  retry(entry, ms) {
    clearTimeout(entry.retry);
    entry.retry = setTimeout(() => this.isOpen && this.entries.get(entry.key) === entry && this.ask(entry), ms);
  }

  isComplete() {
    return [...this.entries.values()].every((entry) => entry.isConfirmed || entry.hasFailed);
  }

  // ----- time and state ---------------------------------------------------------------------

  // Measure the difference to the server's time.
  measure() {
    const now = performance.now();
    if (this.measuredAt && now - this.measuredAt < CLOCK_MS) return;
    this.measuredAt = now;
    this.send({ type: "request", id: this.nextId++, operation: "get_time" });
  }

  // A slow answer says little about the time, so it is not used.
  onClock({ status, body }) {
    const took = performance.now() - this.measuredAt;
    if (status === 200 && took < LATE_MS / 2) this.offsetMs = body.nowMs + took / 2 - Date.now();
  }

  onTime(timestamp) {
    if (this.offsetMs === null) return;
    this.lagMs = this.now() - timestamp;
    if (this.lagMs > LATE_MS || this.lagMs < -AHEAD_MS) this.measure();
  }

  tick() {
    const now = performance.now();
    if (this.isOpen) {
      const silent = now - this.heardAt;
      if (silent >= CLOSE_AFTER * HEARTBEAT_MS && this.askedFirstAt && now - this.askedFirstAt >= HEARTBEAT_MS) return this.drop();
      if (now - this.askedAt >= HEARTBEAT_MS) this.ping(now);
    } else if (this.socket && now - this.startedAt >= CONNECT_MS) {
      return this.drop();
    }
    this.show(this.stateAt(now));
  }

  ping(now) {
    this.askedAt = now;
    this.askedFirstAt ||= now;
    this.send({ type: "ping", extended: true, id: this.nextId++ });
  }

  stateAt(now) {
    if (!this.isOpen) {
      if (this.wasOpen) this.wasCut = true;
      if (!navigator.onLine) return "offline";
      return this.wasOpen ? "reconnecting" : "connecting";
    }
    const asked = this.askedFirstAt ? now - this.askedFirstAt : 0;
    if (now - this.heardAt >= 2 * HEARTBEAT_MS && asked >= HEARTBEAT_MS) return "frozen";
    if ((this.wasCut || !this.wasCurrent) && !this.isComplete()) return this.wasCut ? "reconnecting" : "connecting";
    if (asked >= LATE_MS || this.lagMs > LATE_MS) return "late";
    if (this.resumedAt && now - this.resumedAt < RESUMED_MS) return "resumed";
    this.wasCut = false;
    this.wasCurrent = true;
    return now - this.eventAt >= QUIET_MS ? "quiet" : "live";
  }

  show(state) {
    let text = state;
    if (state === "quiet") text = "live, no events";
    if (state === "resumed") text = this.hasGap ? "resumed, state loaded again" : "resumed without a gap";
    if (state === "frozen") text = `frozen: silent for ${Math.floor((performance.now() - this.heardAt) / 1000)} s`;
    if (state === "late") text = `late by ${Math.max(2, Math.round(this.lagMs / 1000))} s`;
    if (state === this.state && text === this.text) return;
    this.state = state;
    this.text = text;
    this.onState({ state, text, isCurrent: this.isCurrent });
  }
}

// Whether a message belongs to a subscription. Messages of a maker name it in one of four fields.
function matches({ channel, marketId, maker }, message) {
  if (message.channel !== channel) return false;
  if (marketId && message.marketId && message.marketId !== marketId) return false;
  if (!maker) return true;
  const { data = {} } = message;
  const makers = [message.maker, data.maker, data.buyer, data.seller].filter(Boolean);
  return !makers.length || makers.some((each) => each.toLowerCase() === maker.toLowerCase());
}

// Keep the position to resume from. Both tokens of a market have messages with the same number, so
// that of an event is complete only when a later one arrives; a repeated message is skipped by the
// book. The position of a maker is that of the messages, not of the confirmation before them.
function move(entry, { type, channel, seq, cursor, data }) {
  if (channel === "orderbook" && EVENTS.has(type)) entry.position = { seq: seq - 1 };
  else if (channel === "orderbook" && type === "heartbeat") entry.position = { seq };
  else if (channel === "user" && type === "fill") entry.position = { cursor: data.cursor };
  else if (channel === "user" && type !== "subscribed" && cursor) entry.position = { cursor };
}
