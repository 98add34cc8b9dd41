#include "data/source_internal.h"

#include "base/log.h"
#include "base/page.h"
#include "text/pretok_scan.h"
#include "text/unicode.h"

#include <inttypes.h>
#include <stdlib.h>

uint64_t source_count_lines(const uint8_t *bytes, size_t size)
{
    uint64_t count = 0;
#pragma omp simd reduction(+ : count)
    for (size_t i = 0; i < size; i++) {
        count += bytes[i] == '\n';
    }
    return count;
}

static uint64_t count_crlf(const uint8_t *bytes, size_t size)
{
    uint64_t count = 0;
#pragma omp simd reduction(+ : count)
    for (size_t i = 1; i < size; i++) {
        count += (bytes[i - 1] == '\r') & (bytes[i] == '\n');
    }
    return count;
}

size_t odd_look(OddText *odd, const uint8_t *bytes, size_t size)
{
    uint64_t invalid = scan_invalid(bytes, size);
    size_t first = size;
    if (invalid > 0 && odd->invalid == 0) {
        first = 0;
        for (int length; (length = utf8_length(bytes + first, size - first)) > 0;) {
            first += (size_t)length;
        }
    }
    odd->invalid += invalid;
    odd->crlf += count_crlf(bytes, size);
    return first;
}

/* "A; B; C" of what there is, or NULL. Caller frees. */
static char *describe(const OddText *odd, bool mark)
{
    Page all = {0};
    if (odd->invalid > 0) {
        page_put(&all, "%" PRIu64 " byte%s not UTF-8", odd->invalid,
                 odd->invalid == 1 ? " is" : "s are");
        if (odd->first_line > 0) {
            page_put(&all, ", the first on line %" PRIu64, odd->first_line);
        }
        if (odd->first_line > 0 && odd->first_offset != UINT64_MAX) {
            page_put(&all, " at byte %" PRIu64, odd->first_offset);
        }
        page_put(&all, " (kept; iconv converts other encodings)");
    }
    if (odd->crlf > 0) {
        page_put(&all, "%s%" PRIu64 " line%s in CR LF (kept; tr -d '\\r' makes it LF)",
                 all.size > 0 ? "; " : "", odd->crlf, odd->crlf == 1 ? " ends" : "s end");
    }
    if (mark) {
        page_put(&all, "%sthe byte order mark at its start is left out", all.size > 0 ? "; " : "");
    }
    return all.text;
}

static bool is_odd(const OddText *odd)
{
    return odd->invalid > 0 || odd->crlf > 0;
}

void odd_say(OddFiles *files, const OddText *odd, const char *name, bool mark)
{
    char *words = describe(odd, mark);
    if (words == NULL) {
        return;
    }
    if (files->count++ < SOURCE_MOST_WARNINGS) {
        (is_odd(odd) ? log_warn : log_info)("%s: %s", name, words);
    } else {
        files->rest.invalid += odd->invalid;
        files->rest.crlf += odd->crlf;
    }
    free(words);
}

void odd_say_rest(OddFiles *files)
{
    char *words = describe(&files->rest, false);
    if (words != NULL) {
        log_warn("in %" PRIu64 " more files: %s", files->count - SOURCE_MOST_WARNINGS, words);
    }
    free(words);
    *files = (OddFiles){0};
}
