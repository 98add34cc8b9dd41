#include "base/assert.h"

#include "base/escape.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

_Noreturn void assert_fail(const char *file, int line, const char *condition, const char *format,
                           ...)
{
    char text[4096], shown[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    escape_line(shown, sizeof shown, text);
    fprintf(stderr, "pacer: internal error at %s:%d: %s: %s\n", file, line, condition, shown);
    abort();
}
