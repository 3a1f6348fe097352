// The books of a market's two tokens, kept by the messages of the channel orderbook, with the orders
// of the trader and their place in the queue. Data only: no elements, no requests.

export const PRICE_MAX = 99;
export const BUY = 0;
export const SELL = 1;

const CRC = Int32Array.from({ length: 256 }, (_, index) => {
  let value = index;
  for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value;
});

export function crc32(text) {
  let value = -1;
  for (let index = 0; index < text.length; index += 1) value = (value >>> 8) ^ CRC[(value ^ text.charCodeAt(index)) & 255];
  return (value ^ -1) >>> 0;
}

// A side of a book: size in wei and number of orders by price. Orders that came after the snapshot
// are known by id, in the order of the queue; the others are ahead of them.
class Side {
  constructor(levels = []) {
    this.sizes = new Array(PRICE_MAX + 1).fill(0n);
    this.counts = new Int32Array(PRICE_MAX + 1);
    this.known = new Map();
    for (const { price, size, numOrders } of levels) {
      this.sizes[price] = BigInt(size);
      this.counts[price] = numOrders;
    }
  }

  queue(price) {
    if (!this.known.has(price)) this.known.set(price, new Map());
    return this.known.get(price);
  }

  add(price, id, size) {
    this.sizes[price] += size;
    this.counts[price] += 1;
    this.queue(price).set(id, size);
  }

  reduce(price, id, size) {
    this.sizes[price] -= size;
    const queue = this.queue(price);
    if (queue.has(id)) queue.set(id, queue.get(id) - size);
  }

  remove(price, id, size) {
    this.reduce(price, id, size);
    this.counts[price] -= 1;
    this.queue(price).delete(id);
  }

  // Size ahead of an order: exact if the order came after the snapshot, else the most possible.
  ahead(price, id, remaining) {
    let known = 0n;
    let before = null;
    for (const [each, size] of this.queue(price)) {
      if (each === id) before = known;
      known += size;
    }
    const unknown = this.sizes[price] - known;
    if (before !== null) return { ahead: unknown + before, isExact: true };
    const ahead = unknown > remaining ? unknown - remaining : 0n;
    return { ahead, isExact: ahead === 0n };
  }
}

class Book {
  constructor({ seq = 0, data = { bids: [], asks: [] } } = {}) {
    this.seq = seq;
    this.sides = [new Side(data.bids), new Side(data.asks)];
  }

  // Best price of a side; null if the side is empty.
  best(side) {
    const { sizes } = this.sides[side];
    if (side === BUY) {
      for (let price = PRICE_MAX; price > 0; price -= 1) if (sizes[price] > 0n) return price;
    } else {
      for (let price = 1; price <= PRICE_MAX; price += 1) if (sizes[price] > 0n) return price;
    }
    return null;
  }

  // Levels of a side, best first: [price, size, number of orders].
  levels(side) {
    const { sizes, counts } = this.sides[side];
    const found = [];
    for (let price = 1; price <= PRICE_MAX; price += 1) if (sizes[price] > 0n) found.push([price, sizes[price], counts[price]]);
    return side === BUY ? found.reverse() : found;
  }

  checksum() {
    const [bids, asks] = [BUY, SELL].map((side) => this.levels(side).map(([price, size]) => `${price}:${size}`).join(","));
    return crc32(`${bids}|${asks}`);
  }
}

export class MarketBook {
  // The market is a body of GET /api/markets.
  constructor(market) {
    this.market = market;
    this.orders = new Map();
    this.clear();
  }

  clear() {
    this.seq = null;
    this.books = new Map();
    this.problem = "";
  }

  get isReady() {
    return this.seq !== null;
  }

  // Book of a token; empty before its snapshot.
  book(tokenId) {
    return this.books.get(tokenId) ?? new Book();
  }

  // Apply a message of the channel orderbook. Return "changed", "same", or "gap" if the state has to
  // be requested from the beginning.
  apply(message) {
    const { type, seq, tokenId } = message;
    if (type === "subscribed") {
      if (!message.resumed) this.clear();
      return "changed";
    }
    if (type === "unsubscribed" || type === "error") {
      this.clear();
      this.problem = type === "error" ? message.code : (message.reason ?? "");
      return "changed";
    }
    if (type === "heartbeat") return this.check(message);
    if (type === "orderbook") return this.replace(message);
    if (this.seq !== null && seq > this.seq + 1) return "gap";
    if (!this.books.has(tokenId)) this.books.set(tokenId, new Book({ seq: seq - 1 }));
    const book = this.books.get(tokenId);
    if (seq <= book.seq) return "same";
    this.change(book, message);
    this.seq = book.seq = seq;
    return "changed";
  }

  change(book, { type, data }) {
    if (type === "trade") {
      const { restingOrderId, incomingSide, price, size } = data;
      book.sides[1 - incomingSide].reduce(price, restingOrderId, BigInt(size));
      return;
    }
    const { orderId, side, price } = data;
    if (type === "order_added") book.sides[side].add(price, orderId, BigInt(data.size));
    else if (type === "order_removed") book.sides[side].remove(price, orderId, BigInt(data.size));
    else if (type === "order_reduced") book.sides[side].reduce(price, orderId, BigInt(data.reducedBy));
  }

  replace(message) {
    const book = new Book(message);
    this.books.set(message.tokenId, book);
    this.seq = message.seq;
    return book.checksum() === message.data.checksum ? "changed" : "gap";
  }

  // Compare with the checksums of the server, which belong to the number of the heartbeat.
  check({ seq, checksums = [] }) {
    if (seq !== this.seq) return "gap";
    return checksums.every((each) => this.book(each.tokenId).checksum() === each.checksum) ? "same" : "gap";
  }

  // ----- orders of the trader ---------------------------------------------------------------

  // Apply a message of the channel user; return whether an order of the market changed.
  applyUser({ type, data }) {
    if (type === "orders") {
      this.orders = new Map(data.filter((each) => this.isOwn(each)).map((each) => [each.id, each]));
      return true;
    }
    if (type === "error") this.clearOwn();
    if (type !== "order" || !this.isOwn(data)) return type === "error";
    if (data.status === "open" || data.status === "partial") this.orders.set(data.id, data);
    else this.orders.delete(data.id);
    return true;
  }

  isOwn({ marketId }) {
    return marketId === this.market.marketId;
  }

  clearOwn() {
    this.orders.clear();
  }

  // Own resting orders in the book of a token: { id, side, price, remaining, ahead, isExact }. In a
  // complementary market an order of the other token shows at 100 less its price, on the other side.
  own(tokenId) {
    const found = [];
    for (const order of this.orders.values()) {
      const isDirect = order.tokenId === tokenId;
      if (!isDirect && !this.market.complementary) continue;
      const side = isDirect ? order.side : 1 - order.side;
      const price = isDirect ? order.price : 100 - order.price;
      const remaining = BigInt(order.remaining);
      const place = this.book(tokenId).sides[side].ahead(price, order.id, remaining);
      found.push({ id: order.id, side, price, remaining, ...place });
    }
    return found;
  }
}
