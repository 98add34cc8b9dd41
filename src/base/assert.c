#include "base/assert.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

_Noreturn void assert_fail(const char *file, int line, const char *condition, const char *format,
                           ...)
{
    fprintf(stderr, "pacer: internal error at %s:%d: %s: ", file, line, condition);
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    abort();
}
