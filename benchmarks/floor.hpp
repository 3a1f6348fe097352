// The floor: a book of 99 prices with the bare work of matching, as a lower bound. Input is not
// checked; orders have no owner, time or name.
//
// Sizes are wei in 128 bits. Orders are nodes of one slab, linked per price, oldest first. Each list
// is circular over an anchor node, so that unlinking needs no branches. Two words per side mark the
// prices with orders. An array maps dense order numbers to nodes. There is no prefetching: a book
// that prefetches may be faster than the floor.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace bench {

typedef unsigned __int128 wei_t;

struct Node {
  wei_t size;
  uint32_t next, prev;
  uint32_t order_id, anchor;
};

struct Level {
  wei_t total;
  uint32_t num_orders;
};

struct Fill {
  wei_t size;
  uint32_t resting_id, incoming_id;
  uint32_t price;
};

// Cache lines begin at multiples of 64 bytes; aligned memory keeps each node in one line.
template <class T>
T *touched(size_t n) {
  size_t bytes = (n * sizeof(T) / 64 + 1) * 64;
  T *memory = static_cast<T *>(aligned_alloc(64, bytes));
  if (memory) memset(memory, 0xA5, bytes);
  return memory;
}

class Book {
 public:
  uint64_t num_fills = 0, num_resting = 0;
  Fill *fills;

  // Allocates and writes all memory here, outside the timed part.
  Book(uint32_t num_orders, uint64_t max_fills)
      : fills(touched<Fill>(max_fills)),
        nodes_(touched<Node>(ANCHORS + size_t{num_orders})),
        slot_of_(touched<uint32_t>(num_orders)) {
    if (!ok()) return;
    memset(slot_of_, 0, sizeof(uint32_t) * num_orders);
    for (uint32_t level = 0; level < ANCHORS; level++) {
      nodes_[level].next = nodes_[level].prev = level;
    }
  }
  Book(const Book &) = delete;
  Book &operator=(const Book &) = delete;
  ~Book() {
    free(slot_of_);
    free(nodes_);
    free(fills);
  }
  bool ok() const { return fills && nodes_ && slot_of_; }

  inline void add(uint32_t order_id, uint32_t side, uint32_t price, wei_t size) {
    if (side == 0) {
      for (uint32_t best; (best = lowest_ask()) <= price;) {
        if (!(size = match(SIDE | best, best, size, order_id))) return;
      }
    } else {
      for (uint32_t best; (best = highest_bid()) >= price;) {
        if (!(size = match(best, best, size, order_id))) return;
      }
    }
    rest(order_id, side * SIDE | price, size);
  }

  inline void cancel(uint32_t order_id) {
    uint32_t slot = slot_of_[order_id];
    if (!slot) return;
    Node &node = nodes_[slot];
    Level &level = levels_[node.anchor];
    const uint32_t next = node.next, prev = node.prev;
    level.total -= node.size;
    nodes_[prev].next = next;
    nodes_[next].prev = prev;
    if (--level.num_orders == 0) empty(node.anchor);
    release(slot, order_id);
  }

 private:
  static constexpr uint32_t SIDE = 128;  // anchors of bids are below it, those of asks above
  static constexpr uint32_t ANCHORS = 2 * SIDE;

  Node *nodes_;
  uint32_t *slot_of_;
  uint32_t top_ = ANCHORS, free_ = 0;
  Level levels_[ANCHORS] = {};
  uint64_t occupied_[4] = {};  // a bit per anchor: two words of bids, two of asks

  inline uint32_t lowest_ask() const {
    if (occupied_[2]) return __builtin_ctzll(occupied_[2]);
    if (occupied_[3]) return 64 + __builtin_ctzll(occupied_[3]);
    return SIDE;
  }
  inline uint32_t highest_bid() const {
    if (occupied_[1]) return 127 - __builtin_clzll(occupied_[1]);
    if (occupied_[0]) return 63 - __builtin_clzll(occupied_[0]);
    return 0;
  }
  inline void empty(uint32_t level) { occupied_[level >> 6] &= ~(1ull << (level & 63)); }

  inline void release(uint32_t slot, uint32_t order_id) {
    slot_of_[order_id] = 0;
    nodes_[slot].next = free_;
    free_ = slot;
    num_resting--;
  }

  inline void rest(uint32_t order_id, uint32_t anchor, wei_t size) {
    uint32_t slot = free_;
    if (slot) {
      free_ = nodes_[slot].next;
    } else {
      slot = top_++;
    }
    Node &node = nodes_[slot];
    uint32_t last = nodes_[anchor].prev;
    node.size = size;
    node.next = anchor;
    node.prev = last;
    node.order_id = order_id;
    node.anchor = anchor;
    nodes_[last].next = slot;
    nodes_[anchor].prev = slot;
    occupied_[anchor >> 6] |= 1ull << (anchor & 63);
    levels_[anchor].num_orders++;
    levels_[anchor].total += size;
    slot_of_[order_id] = slot;
    num_resting++;
  }

  inline wei_t match(uint32_t anchor, uint32_t price, wei_t size, uint32_t incoming_id) {
    Level &level = levels_[anchor];
    const wei_t before = size;
    uint32_t slot = nodes_[anchor].next;
    do {
      Node &node = nodes_[slot];
      wei_t traded = node.size < size ? node.size : size;
      Fill &fill = fills[num_fills++];
      fill.size = traded;
      fill.resting_id = node.order_id;
      fill.incoming_id = incoming_id;
      fill.price = price;
      size -= traded;
      if ((node.size -= traded)) break;
      uint32_t next = node.next;
      level.num_orders--;
      release(slot, node.order_id);
      slot = next;
    } while (size && slot != anchor);
    level.total -= before - size;
    nodes_[anchor].next = slot;
    nodes_[slot].prev = anchor;
    if (slot == anchor) empty(anchor);
    return size;
  }
};

}  // namespace bench
