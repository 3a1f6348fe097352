/* Lower bound of signature checks: a loop of parse and recover.
 *
 * The two functions are passed by address from the library under test. No digest or address is
 * computed; the keys are xored so that the compiler keeps the calls.
 */
#include <stddef.h>
#include <stdint.h>
#include <time.h>

typedef int (*parse_t)(const void *, uint8_t *, const uint8_t *, int);
typedef int (*recover_t)(const void *, uint8_t *, const uint8_t *, const uint8_t *);

/* Returns nanoseconds, or 0 if a signature was rejected. */
uint64_t raw_recover(const void *context, parse_t parse, recover_t recover, const uint8_t *digests,
                     const uint8_t *signatures, size_t count, uint8_t mixed[64]) {
  struct timespec begin, end;
  uint8_t parsed[65], key[64];
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (size_t i = 0; i < count; i++) {
    const uint8_t *signature = signatures + 65 * i;
    if (!parse(context, parsed, signature, signature[64]) ||
        !recover(context, key, parsed, digests + 32 * i))
      return 0;
    for (int j = 0; j < 64; j++) mixed[j] ^= key[j];
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  return (uint64_t)(end.tv_sec - begin.tv_sec) * 1000000000u + end.tv_nsec - begin.tv_nsec;
}
