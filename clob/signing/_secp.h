/* Hex, hashes of structs and signature checks in plain C, without the GIL; used by _secp_c.pyx.
 *
 * Recovery calls three functions of libsecp256k1 by address. Signatures and digests are public, so
 * nothing here needs constant time.
 */
#ifndef CLOB_SECP_H
#define CLOB_SECP_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "_keccak.h"

/* ----- hex and addresses --------------------------------------------------------------------- */

/* The value of a hex digit, or 16. */
static inline unsigned hex_value(uint8_t digit) {
    unsigned number = digit - '0', letter = (digit | 0x20) - 'a';
    return number < 10 ? number : letter < 6 ? letter + 10 : 16;
}

/* Reads count bytes of hex; returns 0 if a character is not a hex digit. */
static inline int hex_read(const uint8_t *digits, size_t count, uint8_t *bytes) {
    unsigned wrong = 0;
    for (size_t i = 0; i < count; i++) {
        unsigned high = hex_value(digits[2 * i]), low = hex_value(digits[2 * i + 1]);
        wrong |= high | low;
        bytes[i] = (uint8_t)(high << 4 | (low & 15));
    }
    return wrong < 16;
}

/* Writes an address of 20 bytes as 42 characters, checksummed (EIP-55). */
static void address_write(const uint8_t bytes[20], uint8_t text[42]) {
    uint8_t hash[32];
    for (int i = 0; i < 20; i++) {
        text[2 * i + 2] = (uint8_t)"0123456789abcdef"[bytes[i] >> 4];
        text[2 * i + 3] = (uint8_t)"0123456789abcdef"[bytes[i] & 15];
    }
    keccak256(text + 2, 40, hash);
    for (int i = 0; i < 40; i++) {
        unsigned mark = i & 1 ? hash[i / 2] & 15 : hash[i / 2] >> 4;
        if (mark >= 8 && text[i + 2] >= 'a') text[i + 2] -= 32;
    }
    text[0] = '0';
    text[1] = 'x';
}

/* ----- signatures ---------------------------------------------------------------------------- */

/* The numbers of clob.signing.errors.Verdict. */
enum {
    VERDICT_VALID, VERDICT_INVALID_FIELD, VERDICT_UNSUPPORTED_TYPE, VERDICT_CONTRACT_WALLET,
    VERDICT_MALFORMED, VERDICT_INVALID_V, VERDICT_INVALID_R_OR_S, VERDICT_HIGH_S,
    VERDICT_NOT_RECOVERABLE, VERDICT_WRONG_SIGNER, VERDICT_NOT_AUTHORISED
};

/* The bits of clob.signing._secp_py. */
enum { RULE_EIP712 = 1, RULE_PERSONAL = 2, RULE_NEEDS_PROXY = 4, RULE_CONTRACT_ONLY = 8 };

/* libsecp256k1 keeps a signature in 65 opaque bytes and a public key in 64. */
typedef int (*secp_parse_t)(const void *, uint8_t *, const uint8_t *, int);
typedef int (*secp_recover_t)(const void *, uint8_t *, const uint8_t *, const uint8_t *);
typedef int (*secp_serialize_t)(const void *, uint8_t *, size_t *, const uint8_t *, unsigned);
#define SECP_UNCOMPRESSED 2

static struct {
    const void *context;
    secp_parse_t parse;
    secp_recover_t recover;
    secp_serialize_t serialize;
} secp;

static inline void secp_connect(
    uintptr_t context, uintptr_t parse, uintptr_t recover, uintptr_t serialize) {
    secp.context = (const void *)context;
    secp.parse = (secp_parse_t)parse;
    secp.recover = (secp_recover_t)recover;
    secp.serialize = (secp_serialize_t)serialize;
}

static const uint8_t curve_order[32] = {
    0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFE,
    0xBA, 0xAE, 0xDC, 0xE6, 0xAF, 0x48, 0xA0, 0x3B, 0xBF, 0xD2, 0x5E, 0x8C, 0xD0, 0x36, 0x41, 0x41,
};
static const uint8_t half_order[32] = {
    0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
    0x5D, 0x57, 0x6E, 0x73, 0x57, 0xA4, 0x50, 0x1D, 0xDF, 0xE9, 0x2F, 0x46, 0x68, 0x1B, 0x20, 0xA0,
};

static inline int scalar_fits(const uint8_t scalar[32]) {
    static const uint8_t zero[32];
    return memcmp(scalar, zero, 32) > 0 && memcmp(scalar, curve_order, 32) < 0;
}

/* Checks r, s and v, and replaces v by the parity. */
static int signature_check(uint8_t signature[65]) {
    uint8_t v = signature[64];
    if (v == 27 || v == 28) v -= 27;
    if (v > 1) return VERDICT_INVALID_V;
    if (!scalar_fits(signature) || !scalar_fits(signature + 32)) return VERDICT_INVALID_R_OR_S;
    if (memcmp(signature + 32, half_order, 32) > 0) return VERDICT_HIGH_S;
    signature[64] = v;
    return VERDICT_VALID;
}

/* Recovers the address from a signature that signature_check accepted. */
static int signature_recover(
    const uint8_t digest[32], const uint8_t signature[65], uint8_t address[20]) {
    uint8_t parsed[65], key[64], text[65], hash[32];
    size_t length = sizeof(text);
    if (!secp.parse(secp.context, parsed, signature, signature[64]) ||
        !secp.recover(secp.context, key, parsed, digest) ||
        !secp.serialize(secp.context, text, &length, key, SECP_UNCOMPRESSED))
        return VERDICT_NOT_RECOVERABLE;
    keccak256(text + 1, 64, hash);
    memcpy(address, hash + 12, 20);
    return VERDICT_VALID;
}

/* ----- signed structs ------------------------------------------------------------------------ */

static void digest_of_struct(
    const uint8_t separator[32], const uint8_t struct_hash[32], uint8_t digest[32]) {
    uint8_t text[66] = {0x19, 0x01};
    memcpy(text + 2, separator, 32);
    memcpy(text + 34, struct_hash, 32);
    keccak256(text, sizeof(text), digest);
}

static void digest_personal(const uint8_t digest[32], uint8_t personal[32]) {
    uint8_t text[60] = "\x19" "Ethereum Signed Message:\n32";
    memcpy(text + 28, digest, 32);
    keccak256(text, sizeof(text), personal);
}

/* The input of one verification, copied from Python, and its verdict. */
typedef struct {
    uint8_t *words;       /* type hash and words of the fields, num_bytes long; or the struct hash */
    size_t num_bytes;     /* if num_bytes is 0; or the digest if is_digest */
    uint8_t signature[65];
    uint8_t signer[20], owner[20];
    uint8_t rule, verdict, is_digest;
} Case;

/* Checks whether the signer signed one of the digests that the rule allows. */
static void case_verify(Case *it, const uint8_t separator[32]) {
    uint8_t hash[32], digest[32], address[20];
    int wanted[2] = {it->rule & RULE_EIP712, it->rule & RULE_PERSONAL};
    it->verdict = (uint8_t)signature_check(it->signature);
    if (it->verdict) return;
    if (it->is_digest) memcpy(digest, it->words, 32);
    else {
        if (it->num_bytes) keccak256(it->words, it->num_bytes, hash);
        else memcpy(hash, it->words, 32);
        digest_of_struct(separator, hash, digest);
    }
    it->verdict = VERDICT_NOT_RECOVERABLE;
    for (int i = 0; i < 2; i++) {
        if (i) digest_personal(digest, digest);
        if (!wanted[i] || signature_recover(digest, it->signature, address)) continue;
        if (memcmp(address, it->signer, 20) == 0) {
            int unauthorised = it->rule & RULE_NEEDS_PROXY || memcmp(it->signer, it->owner, 20) != 0;
            it->verdict = unauthorised ? VERDICT_NOT_AUTHORISED : VERDICT_VALID;
            return;
        }
        it->verdict = VERDICT_WRONG_SIGNER;
    }
}

static inline void cases_verify(Case *cases, size_t count, const uint8_t separator[32]) {
    for (size_t i = 0; i < count; i++)
        if (cases[i].verdict == VERDICT_VALID) case_verify(&cases[i], separator);
}

#endif
