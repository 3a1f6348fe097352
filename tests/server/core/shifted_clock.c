/* Shifts the wall clock of a process by the seconds in the file that CLOCK_SHIFT_FILE names. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    char text[32] = {0};
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, now);
    const char *path = getenv("CLOCK_SHIFT_FILE");
    if (result == 0 && id == CLOCK_REALTIME && path) {
        int file = open(path, O_RDONLY);
        if (file >= 0) {
            if (read(file, text, sizeof text - 1) > 0)
                now->tv_sec += atoll(text);
            close(file);
        }
    }
    return result;
}
