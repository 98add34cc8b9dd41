#include "config/batch_ramp.h"

#include "base/err.h"
#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORM "; write it as 8@0,16@20%%,32@5M: sequences per update @ share or tokens"

static int wrong(const char *mark, const char *why)
{
    return err_set(ERR_INPUT, "\"%.40s\" %s" FORM, mark, why);
}

/* Digits and perhaps a fraction, then a percent sign. */
static bool parse_share(const char *text, double *share)
{
    size_t digits = strspn(text, "0123456789.");
    char *end;
    double percent = strtod(text, &end);
    *share = percent / 100;
    return digits > 0 && strcmp(text + digits, "%") == 0 && end == text + digits && percent <= 100;
}

static int parse_mark(char *text, BatchRampMark *mark)
{
    char whole[64];
    snprintf(whole, sizeof whole, "%.60s", text);
    char *place = strchr(text, '@');
    if (place == NULL) {
        return wrong(whole, "says not from where on");
    }
    *place++ = '\0';
    if (config_parse_count(text, &mark->sequences) != 0) {
        return wrong(whole, "begins with no number of sequences");
    }
    mark->tokens = -1;
    mark->share = 0;
    if (strcmp(place, "0") != 0 && !parse_share(place, &mark->share)) {
        if (config_parse_count(place, &mark->tokens) != 0) {
            return wrong(whole, "ends with no share of the run and no number of tokens");
        }
    }
    return 0;
}

int batch_ramp_parse(const char *text, BatchRampMark marks[BATCH_RAMP_MOST], int *count)
{
    char room[4096];
    *count = 0;
    if (strlen(text) >= sizeof room) {
        return err_set(ERR_INPUT, "longer than %zu characters", sizeof room - 1);
    }
    snprintf(room, sizeof room, "%s", text);
    for (char *at = room, *next; at != NULL; at = next) {
        next = strchr(at, ',');
        if (next != NULL) {
            *next++ = '\0';
        }
        if (*count == BATCH_RAMP_MOST) {
            return err_set(ERR_INPUT, "more than %d batches" FORM, BATCH_RAMP_MOST);
        }
        BatchRampMark *mark = &marks[*count], *before = *count > 0 ? mark - 1 : NULL;
        char whole[64];
        snprintf(whole, sizeof whole, "%.60s", at);
        int code = parse_mark(at, mark);
        if (code != 0) {
            return code;
        }
        if (before == NULL && (mark->tokens > 0 || mark->share > 0)) {
            return wrong(whole, "is the first and does not begin @0");
        }
        bool known = before != NULL && (mark->tokens < 0) == (before->tokens < 0);
        if (before != NULL && mark->tokens < 0 && mark->share == 0) {
            return wrong(whole, "begins @0 like the first");
        }
        if (known &&
            (mark->tokens < 0 ? mark->share <= before->share : mark->tokens <= before->tokens)) {
            return wrong(whole, "begins no later than the one before it");
        }
        ++*count;
    }
    return 0;
}
