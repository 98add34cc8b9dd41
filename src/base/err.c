#include "base/err.h"

#include "base/escape.h"

#include <stdarg.h>
#include <stdio.h>

#define MESSAGE_SIZE 4096

static _Thread_local char message[MESSAGE_SIZE];

int err_set(int code, const char *format, ...)
{
    /* Formatted aside, because an argument may be the old message itself. */
    char text[MESSAGE_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    escape_line(message, sizeof message, text);
    return code;
}

int err_wrap(int code, const char *format, ...)
{
    char text[MESSAGE_SIZE];
    va_list args;
    va_start(args, format);
    int used = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (used >= 0 && used < MESSAGE_SIZE) {
        size_t room = (size_t)(MESSAGE_SIZE - used);
        snprintf(text + used, room, ": %.*s", (int)room, message); /* cut when too long */
    }
    escape_line(message, sizeof message, text);
    return code;
}

const char *err_message(void)
{
    return message;
}

int err_exit_status(int code)
{
    return code < 0 && code != ERR_PIPE ? -code : 0;
}
