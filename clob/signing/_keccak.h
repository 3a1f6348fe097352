/* Keccak-256 in plain C; used by _keccak_c.pyx and _secp.h. */
#ifndef CLOB_KECCAK_H
#define CLOB_KECCAK_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "lanes are read as they lie in memory, which needs a little-endian machine"
#endif

#define KECCAK_RATE 136

static const uint64_t keccak_constants[24] = {
    0x0000000000000001u, 0x0000000000008082u, 0x800000000000808Au, 0x8000000080008000u,
    0x000000000000808Bu, 0x0000000080000001u, 0x8000000080008081u, 0x8000000000008009u,
    0x000000000000008Au, 0x0000000000000088u, 0x0000000080008009u, 0x000000008000000Au,
    0x000000008000808Bu, 0x800000000000008Bu, 0x8000000000008089u, 0x8000000000008003u,
    0x8000000000008002u, 0x8000000000000080u, 0x000000000000800Au, 0x800000008000000Au,
    0x8000000080008081u, 0x8000000000008080u, 0x0000000080000001u, 0x8000000080008008u,
};

static inline uint64_t keccak_turn(uint64_t lane, int by) {
    return by ? lane << by | lane >> (64 - by) : lane;
}

/* A round, from one state into another: the steps theta, rho and pi meet in a lane, chi in a row. */
static inline __attribute__((always_inline)) void keccak_round(
    const uint64_t *restrict from, uint64_t *restrict to, uint64_t constant) {
    uint64_t column[5], theta[5];
    for (int x = 0; x < 5; x++)
        column[x] = from[x] ^ from[x + 5] ^ from[x + 10] ^ from[x + 15] ^ from[x + 20];
    for (int x = 0; x < 5; x++)
        theta[x] = column[(x + 4) % 5] ^ keccak_turn(column[(x + 1) % 5], 1);
#define KECCAK_LANE(x, y, by) keccak_turn(from[x + 5 * y] ^ theta[x], by)
#define KECCAK_ROW(at, lane0, lane1, lane2, lane3, lane4) { \
        uint64_t a = lane0, b = lane1, c = lane2, d = lane3, e = lane4; \
        to[at] = a ^ (~b & c); \
        to[at + 1] = b ^ (~c & d); \
        to[at + 2] = c ^ (~d & e); \
        to[at + 3] = d ^ (~e & a); \
        to[at + 4] = e ^ (~a & b); \
    }
    KECCAK_ROW( 0, KECCAK_LANE(0, 0,  0), KECCAK_LANE(1, 1, 44), KECCAK_LANE(2, 2, 43),
               KECCAK_LANE(3, 3, 21), KECCAK_LANE(4, 4, 14))
    KECCAK_ROW( 5, KECCAK_LANE(3, 0, 28), KECCAK_LANE(4, 1, 20), KECCAK_LANE(0, 2,  3),
               KECCAK_LANE(1, 3, 45), KECCAK_LANE(2, 4, 61))
    KECCAK_ROW(10, KECCAK_LANE(1, 0,  1), KECCAK_LANE(2, 1,  6), KECCAK_LANE(3, 2, 25),
               KECCAK_LANE(4, 3,  8), KECCAK_LANE(0, 4, 18))
    KECCAK_ROW(15, KECCAK_LANE(4, 0, 27), KECCAK_LANE(0, 1, 36), KECCAK_LANE(1, 2, 10),
               KECCAK_LANE(2, 3, 15), KECCAK_LANE(3, 4, 56))
    KECCAK_ROW(20, KECCAK_LANE(2, 0, 62), KECCAK_LANE(3, 1, 55), KECCAK_LANE(4, 2, 39),
               KECCAK_LANE(0, 3, 41), KECCAK_LANE(1, 4,  2))
#undef KECCAK_LANE
#undef KECCAK_ROW
    to[0] ^= constant;
}

static void keccak_permute(uint64_t state[25]) {
    uint64_t other[25];
    for (int i = 0; i < 24; i += 2) {
        keccak_round(state, other, keccak_constants[i]);
        keccak_round(other, state, keccak_constants[i + 1]);
    }
}

static inline void keccak_absorb(uint64_t state[25], const uint8_t *block) {
    for (int i = 0; i < KECCAK_RATE / 8; i++) {
        uint64_t lane;
        memcpy(&lane, block + 8 * i, 8);
        state[i] ^= lane;
    }
    keccak_permute(state);
}

static void keccak256(const uint8_t *data, size_t length, uint8_t hash[32]) {
    uint64_t state[25] = {0};
    uint8_t last[KECCAK_RATE] = {0};
    for (; length >= KECCAK_RATE; data += KECCAK_RATE, length -= KECCAK_RATE)
        keccak_absorb(state, data);
    if (length) memcpy(last, data, length);
    last[length] ^= 0x01;
    last[KECCAK_RATE - 1] ^= 0x80;
    keccak_absorb(state, last);
    memcpy(hash, state, 32);
}

#endif
