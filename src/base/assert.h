#pragma once
/* Contracts between pacer's own parts. Stays on in release builds: a wrong shape must stop the
 * program where it happens and print the values that disagree. */

#ifdef __cplusplus
extern "C" {
#endif

void assert_fail(const char *file, int line, const char *condition, const char *format, ...)
    __attribute__((noreturn, format(printf, 4, 5)));

#ifdef __cplusplus
}
#endif

#define PACER_ASSERT(condition, ...)                                  \
    do {                                                              \
        if (!(condition)) {                                           \
            assert_fail(__FILE__, __LINE__, #condition, __VA_ARGS__); \
        }                                                             \
    } while (0)
