#include "report/web.h"

#include <string.h>

const char *web_asset(const char *name, size_t *size)
{
    for (const WebText *row = web_texts; row->name != NULL; row++) {
        if (strcmp(row->name, name) == 0) {
            if (size != NULL) {
                *size = strlen(row->text);
            }
            return row->text;
        }
    }
    if (size != NULL) {
        *size = 0;
    }
    return NULL;
}
