#pragma once
#include "config/config.h"

#include <stdlib.h>
#include <string.h>

/* The first option with one of `flags` (0: the first recorded option) whose values differ, or
 * NULL. */
static inline const Option *config_first_difference(const Config *a, const Config *b,
                                                    unsigned flags)
{
    for (const Option *option = config_options(); option->name != NULL; option++) {
        if (flags != 0 ? (option->flags & flags) != 0 : !(option->flags & OPTION_NO_RECORD)) {
            char *in_a = config_value_text(a, option), *in_b = config_value_text(b, option);
            bool same = strcmp(in_a, in_b) == 0;
            free(in_a);
            free(in_b);
            if (!same) {
                return option;
            }
        }
    }
    return NULL;
}
