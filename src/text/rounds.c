#include "text/rounds.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

struct TextRounds {
    RoundOptions options;
    uint8_t *text;
    size_t size, capacity;
    bool cut;  /* parts of the document were made already */
    bool open; /* the document at open_start has begun and not ended */
    size_t open_start;
    uint64_t open_tag;
    TextPart *parts;
    size_t part_count, part_capacity;
};

TextRounds *rounds_open(RoundOptions options)
{
    PACER_ASSERT(options.threads >= 1, "%d threads", options.threads);
    TextRounds *r = mem_zalloc(1, sizeof *r);
    r->options = options;
    r->capacity = options.round_bytes;
    r->text = mem_alloc(r->capacity + ROUNDS_AHEAD);
    return r;
}

void rounds_close(TextRounds *rounds)
{
    if (rounds != NULL) {
        free(rounds->parts);
        free(rounds->text);
        free(rounds);
    }
}

static void add_part(TextRounds *r, size_t start, size_t end, bool ends)
{
    r->parts = mem_grow(r->parts, r->part_count, &r->part_capacity, sizeof *r->parts);
    r->parts[r->part_count++] =
        (TextPart){.start = start, .end = end, .tag = r->open_tag, .begins = !r->cut, .ends = ends};
    r->cut = !ends;
}

/* Cuts [start, end) into parts; the last one ends the document or not. */
static void add_document(TextRounds *r, size_t start, size_t end, bool ends)
{
    size_t window = r->options.part_bytes;
    while (end - start > window) {
        size_t cut = r->options.cut(r->options.context, r->text + start, window);
        if (cut > 0) {
            add_part(r, start, start + cut, false);
        }
        start += cut;
        window = cut > 0 ? r->options.part_bytes : 2 * window;
    }
    add_part(r, start, end, ends);
}

/* Works on all parts, then keeps the text from `kept` on. */
static int run(TextRounds *r, size_t kept)
{
    const RoundOptions *o = &r->options;
    /* A thread team for nothing costs more than a short text. */
    size_t most = kept / o->part_bytes + 1;
    int team = most < (size_t)o->threads ? (int)most : o->threads;
#pragma omp parallel for schedule(dynamic) num_threads(team)
    for (size_t i = 0; i < r->part_count; i++) {
        o->work(o->context, omp_get_thread_num(), r->text + r->parts[i].start, &r->parts[i]);
    }
    int code = o->finish(o->context, r->parts, r->part_count);
    r->part_count = 0;
    memmove(r->text, r->text + kept, r->size - kept);
    r->size -= kept;
    r->open_start = 0;
    return code;
}

/* The buffer is full in the middle of a document. */
static int run_round(TextRounds *r)
{
    const RoundOptions *o = &r->options;
    const uint8_t *text = r->text + r->open_start;
    size_t size = r->size - r->open_start, cut = o->cut(o->context, text, size);
    if (cut == 0 && size >= o->most_bytes) {
        cut = size - o->margin;
        cut -= utf8_cut_off(text, cut);
    }
    if (cut > 0) {
        add_document(r, r->open_start, r->open_start + cut, false);
    }
    return r->part_count > 0 ? run(r, r->open_start + cut) : 0;
}

void rounds_begin(TextRounds *r, uint64_t tag)
{
    PACER_ASSERT(!r->open, "a document was begun inside another");
    r->open = true;
    r->open_tag = tag;
    r->open_start = r->size;
}

int rounds_put(TextRounds *r, const void *bytes, size_t size)
{
    PACER_ASSERT(r->open, "text outside a document");
    int code = 0;
    while (code == 0 && size > 0) {
        /* Without a cut the buffer grows by a round at a time. */
        if (r->size == r->capacity) {
            r->capacity += r->options.round_bytes;
            r->text = mem_realloc(r->text, r->capacity + ROUNDS_AHEAD, 1);
        }
        size_t room = r->capacity - r->size, part = size < room ? size : room;
        memcpy(r->text + r->size, bytes, part);
        r->size += part;
        bytes = (const char *)bytes + part;
        size -= part;
        code = r->size == r->capacity ? run_round(r) : 0;
    }
    return code;
}

int rounds_end(TextRounds *r)
{
    PACER_ASSERT(r->open, "the end of a document that was not begun");
    add_document(r, r->open_start, r->size, true);
    r->open = false;
    return r->size >= r->options.round_bytes ? run(r, r->size) : 0;
}

int rounds_flush(TextRounds *r)
{
    PACER_ASSERT(!r->open, "flush inside a document");
    return run(r, r->size);
}
