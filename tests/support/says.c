#include "support/says.h"

#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

void must(int code)
{
    if (code != 0) {
        fail_msg("%s", err_message());
    }
}

void assert_says(const char *words)
{
    if (strstr(err_message(), words) == NULL) {
        fail_msg("message \"%s\" does not say \"%s\"", err_message(), words);
    }
}
