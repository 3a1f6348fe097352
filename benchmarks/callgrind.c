/* Requests to callgrind, which are inline assembly and do nothing elsewhere. */
#include <valgrind/callgrind.h>

void count_start(void) {
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_ZERO_STATS;
}

void count_stop(const char *title) {
    CALLGRIND_DUMP_STATS_AT(title);
    CALLGRIND_STOP_INSTRUMENTATION;
}
