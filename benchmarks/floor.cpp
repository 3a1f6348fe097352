// The floor as a shared library: runs and times a stream, and hashes fills.
#include "floor.hpp"

#include <ctime>

namespace {

using bench::wei_t;

constexpr uint64_t WEI_PER_LOT = 1'000'000'000'000'000'000ull;

struct Event {
  uint8_t op, side;
  uint16_t price;
  uint32_t order_id;
  uint64_t lots;
};

uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1'000'000'000ull + uint64_t(t.tv_nsec);
}

// The hash depends on the order of the words.
inline uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15ull;
  return hash ^ (hash >> 29);
}

inline uint64_t mix_fill(uint64_t hash, uint64_t resting, uint64_t incoming, uint64_t price,
                         uint64_t lots) {
  return mix(mix(mix(mix(hash, resting), incoming), price), lots);
}

inline void execute(bench::Book &book, const Event *events, uint64_t begin, uint64_t end) {
  for (uint64_t i = begin; i < end; i++) {
    const Event &e = events[i];
    if (e.op == 0) {
      book.add(e.order_id, e.side, e.price, wei_t(e.lots) * WEI_PER_LOT);
    } else {
      book.cancel(e.order_id);
    }
  }
}

}  // namespace

extern "C" {

struct Result {
  uint64_t ns, num_fills, num_resting, hash;
};

// Run a stream and time it from event `prefill` on. Returns 0, or 1 if memory is missing.
int floor_run(const Event *events, uint64_t n, uint64_t prefill, uint32_t num_orders,
              uint64_t max_fills, Result *result) {
  bench::Book book(num_orders, max_fills);
  if (!book.ok()) return 1;
  execute(book, events, 0, prefill);
  uint64_t first = book.num_fills;
  uint64_t begin = now_ns();
  execute(book, events, prefill, n);
  result->ns = now_ns() - begin;
  result->num_fills = book.num_fills - first;
  result->num_resting = book.num_resting;
  result->hash = 0;
  for (uint64_t i = first; i < book.num_fills; i++) {
    const bench::Fill &f = book.fills[i];
    result->hash = mix_fill(result->hash, f.resting_id, f.incoming_id, f.price,
                            uint64_t(f.size / WEI_PER_LOT));
  }
  return 0;
}

// The same hash over rows of four words: resting id, incoming id, price, lots.
uint64_t floor_hash(const uint64_t *rows, uint64_t n) {
  uint64_t hash = 0;
  for (uint64_t i = 0; i < n; i++) {
    hash = mix_fill(hash, rows[4 * i], rows[4 * i + 1], rows[4 * i + 2], rows[4 * i + 3]);
  }
  return hash;
}

}  // extern "C"
