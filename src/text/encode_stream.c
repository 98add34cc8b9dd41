/* A round is a buffer of text with marks where documents begin and end. To run it, the text is
 * cut into parts that encode independently (a document, or a piece of a long one), parts are
 * gathered into jobs of similar size, and threads take jobs. What belongs to a document that has
 * not ended and lies behind its last cut moves to the front of the next round. */
#include "text/encode_stream.h"

#include "base/assert.h"
#include "base/mem.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#define JOB_BYTES ((size_t)1 << 18)
#define JOBS_PER_THREAD 4
#define LEAST_ROUND ((size_t)1 << 21)
#define LONGEST_UNCUT ((size_t)1 << 26) /* without a place to cut; then it is cut anywhere */

/* Text [start, end) of the buffer. */
typedef struct {
    size_t start, end;
    uint64_t tag;
    bool ends;    /* the document */
    size_t count; /* ids, once encoded */
} Part;

typedef struct {
    size_t first, last; /* parts [first, last) */
    TokenList ids;
} Job;

struct EncodeStream {
    EncodeSink sink;
    void *context;
    int threads;
    Encoder **encoders; /* one per thread */
    size_t round;       /* bytes that start a run */
    uint8_t *text;
    size_t size, capacity;
    bool open; /* the document at open_start has begun and not ended */
    size_t open_start;
    uint64_t open_tag;
    Part *parts;
    size_t part_count, part_capacity;
    Job *jobs;
    size_t job_count, job_capacity;
};

EncodeStream *encode_stream_open(const Tokenizer *tokenizer, int threads, EncodeSink sink,
                                 void *context)
{
    PACER_ASSERT(threads >= 1, "%d threads", threads);
    EncodeStream *stream = mem_zalloc(1, sizeof *stream);
    stream->sink = sink;
    stream->context = context;
    stream->threads = threads;
    stream->encoders = mem_zalloc((size_t)threads, sizeof(Encoder *));
    for (int i = 0; i < threads; i++) {
        stream->encoders[i] = encoder_open(tokenizer);
    }
    size_t round = (size_t)threads * JOBS_PER_THREAD * JOB_BYTES;
    stream->round = round > LEAST_ROUND ? round : LEAST_ROUND;
    stream->capacity = stream->round;
    stream->text = mem_alloc(stream->capacity);
    return stream;
}

void encode_stream_close(EncodeStream *stream)
{
    if (stream != NULL) {
        for (int i = 0; i < stream->threads; i++) {
            encoder_close(stream->encoders[i]);
        }
        for (size_t i = 0; i < stream->job_capacity; i++) {
            token_list_free(&stream->jobs[i].ids);
        }
        free(stream->encoders);
        free(stream->jobs);
        free(stream->parts);
        free(stream->text);
        free(stream);
    }
}

static void add_part(EncodeStream *s, Part part)
{
    if (s->part_count == s->part_capacity) {
        s->part_capacity = s->part_capacity * 2 + 64;
        s->parts = mem_realloc(s->parts, s->part_capacity, sizeof *s->parts);
    }
    s->parts[s->part_count++] = part;
}

/* Cuts [start, end) into parts of about JOB_BYTES; the last one ends the document or not. */
static void add_document(EncodeStream *s, size_t start, size_t end, bool ends)
{
    while (end - start > JOB_BYTES) {
        size_t window = JOB_BYTES, cut = 0;
        while (cut == 0 && window < end - start) {
            cut = encoder_cut(s->encoders[0], s->text + start, window);
            window *= 2;
        }
        if (cut == 0) {
            break;
        }
        add_part(s, (Part){start, start + cut, s->open_tag, false, 0});
        start += cut;
    }
    add_part(s, (Part){start, end, s->open_tag, ends, 0});
}

static void gather_jobs(EncodeStream *s)
{
    s->job_count = 0;
    for (size_t first = 0, last; first < s->part_count; first = last) {
        last = first;
        while (last < s->part_count &&
               s->parts[last].end - s->parts[first].start <= JOB_BYTES + JOB_BYTES / 2) {
            last++;
        }
        last += last == first; /* a long one alone */
        if (s->job_count == s->job_capacity) {
            size_t capacity = s->job_capacity * 2 + 16;
            s->jobs = mem_realloc(s->jobs, capacity, sizeof *s->jobs);
            memset(s->jobs + s->job_capacity, 0, (capacity - s->job_capacity) * sizeof *s->jobs);
            s->job_capacity = capacity;
        }
        Job *job = &s->jobs[s->job_count++];
        job->first = first;
        job->last = last;
        job->ids.count = 0;
    }
}

static void encode_job(EncodeStream *s, Encoder *encoder, Job *job)
{
    for (size_t i = job->first; i < job->last; i++) {
        Part *part = &s->parts[i];
        size_t before = job->ids.count;
        encoder_run(encoder, s->text + part->start, part->end - part->start, &job->ids);
        part->count = job->ids.count - before;
    }
}

static int hand_over(EncodeStream *s)
{
    int code = 0;
    for (size_t j = 0; code == 0 && j < s->job_count; j++) {
        const uint32_t *ids = s->jobs[j].ids.ids;
        for (size_t i = s->jobs[j].first; code == 0 && i < s->jobs[j].last; i++) {
            Part part = s->parts[i];
            code = s->sink(s->context, part.tag, ids, part.count, part.end - part.start, part.ends);
            ids += part.count;
        }
    }
    return code;
}

/* Encodes and hands over all parts, then keeps the text from `kept` on. */
static int run(EncodeStream *s, size_t kept)
{
    gather_jobs(s);
    /* A thread team for nothing costs more than a short text. */
    int team = s->job_count < (size_t)s->threads ? (int)s->job_count : s->threads;
#pragma omp parallel for schedule(dynamic) num_threads(team > 0 ? team : 1)
    for (size_t j = 0; j < s->job_count; j++) {
        encode_job(s, s->encoders[omp_get_thread_num()], &s->jobs[j]);
    }
    int code = hand_over(s);
    s->part_count = 0;
    memmove(s->text, s->text + kept, s->size - kept);
    s->size -= kept;
    s->open_start = 0;
    return code;
}

/* A place to cut anywhere: not inside a character, where that can be helped. */
static size_t hard_cut(const uint8_t *text, size_t size)
{
    size_t cut = size;
    while (cut > size - 4 && (text[cut - 1] & 0xc0) == 0x80) {
        cut--;
    }
    return cut - 1 > 0 && text[cut - 1] >= 0xc0 ? cut - 1 : size;
}

/* The buffer is full in the middle of a document. */
static int run_round(EncodeStream *s)
{
    size_t length = s->size - s->open_start;
    size_t cut = encoder_cut(s->encoders[0], s->text + s->open_start, length);
    if (cut == 0 && length >= LONGEST_UNCUT) {
        cut = hard_cut(s->text + s->open_start, length);
    }
    if (cut > 0) {
        add_document(s, s->open_start, s->open_start + cut, false);
    }
    return s->part_count > 0 ? run(s, s->open_start + cut) : 0;
}

void encode_stream_begin(EncodeStream *stream, uint64_t tag)
{
    PACER_ASSERT(!stream->open, "a document was begun inside another");
    stream->open = true;
    stream->open_tag = tag;
    stream->open_start = stream->size;
}

int encode_stream_put(EncodeStream *s, const void *bytes, size_t size)
{
    PACER_ASSERT(s->open, "text outside a document");
    int code = 0;
    while (code == 0 && size > 0) {
        /* Without a cut the buffer grows by a round at a time. */
        if (s->size + 1 > s->capacity) {
            s->capacity += s->round;
            s->text = mem_realloc(s->text, s->capacity, 1);
        }
        size_t room = s->capacity - s->size, part = size < room ? size : room;
        memcpy(s->text + s->size, bytes, part);
        s->size += part;
        bytes = (const char *)bytes + part;
        size -= part;
        code = s->size == s->capacity ? run_round(s) : 0;
    }
    return code;
}

int encode_stream_end(EncodeStream *s)
{
    PACER_ASSERT(s->open, "the end of a document that was not begun");
    add_document(s, s->open_start, s->size, true);
    s->open = false;
    return s->size >= s->round ? run(s, s->size) : 0;
}

int encode_stream_flush(EncodeStream *s)
{
    PACER_ASSERT(!s->open, "flush inside a document");
    return run(s, s->size);
}

uint64_t encode_stream_invalid(const EncodeStream *stream)
{
    uint64_t invalid = 0;
    for (int i = 0; i < stream->threads; i++) {
        invalid += encoder_invalid(stream->encoders[i]);
    }
    return invalid;
}
