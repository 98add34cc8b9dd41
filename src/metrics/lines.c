#include "metrics/lines.h"

#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define LINE_LIMIT ((size_t)1 << 20)

int lines_read(const char *dir, LineTake *take, void *context, bool *torn)
{
    char *path = io_join(dir, "metrics.jsonl");
    char *text = NULL;
    size_t length = 0;
    int code = io_read_all(path, SIZE_MAX / 2, &text, &length);
    long number = 0;
    bool left_over = false;
    for (size_t at = 0; code == 0 && at < length;) {
        const char *newline = memchr(text + at, '\n', length - at);
        size_t size = newline != NULL ? (size_t)(newline - text) - at : length - at;
        char *where = mem_format("%s:%ld", path, ++number);
        cJSON *line = size <= LINE_LIMIT ? json_parse(text + at, size, NULL) : NULL;
        if (cJSON_IsObject(line)) {
            code = take(context, line, where, number);
        } else if (newline != NULL) {
            code = err_set(ERR_INPUT, "%s: not a line of a run's record", where);
        } else {
            left_over = true;
        }
        cJSON_Delete(line);
        free(where);
        at += size + 1;
    }
    free(text);
    free(path);
    if (torn != NULL) {
        *torn = left_over;
    }
    return code;
}
