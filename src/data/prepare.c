#include "data/prepare.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/bytes.h"
#include "data/documents.h"
#include "data/out_folder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define CHUNK_BYTES ((size_t)1 << 18)
#define LIVE_AFTER 2.0   /* seconds until progress is shown */
#define LIVE_EVERY 0.2   /* on a terminal */
#define PLAIN_EVERY 10.0 /* elsewhere, as lines */

enum { TRAIN, VALIDATION, SPLITS };

/* The shards of one split, one being written at a time. */
typedef struct {
    ShardWriter *writer; /* NULL between shards */
    int shards;
    uint64_t documents, text_bytes; /* of the shard being written */
    uint64_t all_documents;
} Sink;

typedef struct {
    const PrepareOptions *options;
    OutFolder folder;
    Manifest manifest;
    Sink sinks[SPLITS];
    XXH3_state_t *hash;
    uint64_t bytes, bytes_done; /* of the input files */
    double started, said;
    uint8_t chunk[CHUNK_BYTES];
    uint32_t tokens[CHUNK_BYTES];
} Preparation;

static void say_progress(Preparation *p, uint64_t position)
{
    double now = clock_seconds(), every = log_is_terminal() ? LIVE_EVERY : PLAIN_EVERY;
    if (now - p->started < LIVE_AFTER || now - p->said < every) {
        return;
    }
    p->said = now;
    double done = (double)(p->bytes_done + position), rate = done / (now - p->started);
    char left[CLOCK_DURATION_SIZE];
    clock_duration(((double)p->bytes - done) / rate, left);
    (log_is_terminal() ? log_live : log_info)("preparing: %.0f of %.0f MB, %.0f MB/s, %s left",
                                              done / 1e6, (double)p->bytes / 1e6, rate / 1e6, left);
}

static int too_many_shards(const Preparation *p)
{
    return err_set(ERR_INPUT,
                   "--shard-tokens %" PRIu64 " would make more than %d shards; use a larger one",
                   p->options->shard_tokens, MANIFEST_MAX_SHARDS);
}

static int open_shard(Preparation *p, int split)
{
    Sink *sink = &p->sinks[split];
    if (p->manifest.shard_count + SPLITS > MANIFEST_MAX_SHARDS) {
        return too_many_shards(p);
    }
    char stem[32];
    snprintf(stem, sizeof stem, "%s-%05d", split == VALIDATION ? "validation" : "train",
             sink->shards);
    sink->shards++;
    return shard_writer_open(p->folder.path, stem, BYTES_VOCAB, bytes_tokenizer_hash(),
                             &sink->writer);
}

static int close_shard(Preparation *p, int split)
{
    Sink *sink = &p->sinks[split];
    ShardInfo info;
    int code = shard_writer_finish(sink->writer, sink->documents, sink->text_bytes, &info);
    if (code == 0) {
        manifest_add(&p->manifest, split == VALIDATION, info);
    }
    sink->writer = NULL;
    sink->documents = sink->text_bytes = 0;
    return code;
}

/* Appends tokens to a split, beginning new shards as they fill. The tokens are text, or one end of a
 * document. */
static int put(Preparation *p, int split, const uint32_t *tokens, uint64_t count, bool text)
{
    Sink *sink = &p->sinks[split];
    int code = 0;
    while (code == 0 && count > 0) {
        if (sink->writer == NULL && (code = open_shard(p, split)) != 0) {
            break;
        }
        uint64_t room = p->options->shard_tokens - shard_writer_tokens(sink->writer);
        uint64_t part = count < room ? count : room;
        code = shard_writer_put(sink->writer, tokens, part);
        sink->text_bytes += text ? part : 0;
        sink->documents += text ? 0 : part;
        sink->all_documents += text ? 0 : part;
        tokens += part;
        count -= part;
        if (code == 0 && part == room) {
            code = close_shard(p, split);
        }
    }
    return code;
}

static int put_text(Preparation *p, int split, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        p->tokens[i] = p->chunk[i];
    }
    return put(p, split, p->tokens, size, true);
}

static size_t chunk_at(Document document, uint64_t at)
{
    return document.size - at < CHUNK_BYTES ? (size_t)(document.size - at) : CHUNK_BYTES;
}

/* Reads the document once to hash it, which decides its split, and again to write it, unless the
 * first chunk was all of it. */
static int prepare_document(Preparation *p, Documents *file, Document document)
{
    XXH3_64bits_reset(p->hash);
    for (uint64_t at = 0; at < document.size; at += CHUNK_BYTES) {
        size_t size = chunk_at(document, at);
        int code = documents_read(file, document.offset + at, p->chunk, size);
        if (code != 0) {
            return code;
        }
        XXH3_64bits_update(p->hash, p->chunk, size);
    }
    double draw = (double)(XXH3_64bits_digest(p->hash) >> 11) * 0x1p-53; /* in [0, 1) */
    int split = draw < p->options->val_fraction ? VALIDATION : TRAIN, code = 0;
    for (uint64_t at = 0; code == 0 && at < document.size; at += CHUNK_BYTES) {
        size_t size = chunk_at(document, at);
        if (document.size > CHUNK_BYTES) {
            code = documents_read(file, document.offset + at, p->chunk, size);
        }
        code = code != 0 ? code : put_text(p, split, size);
        say_progress(p, document.offset + at + size);
    }
    const uint32_t end = BYTES_END;
    return code != 0 ? code : put(p, split, &end, 1, false);
}

static int prepare_file(Preparation *p, const char *path)
{
    Documents *file;
    int code = documents_open(path, &file);
    if (code != 0) {
        return code;
    }
    bool found = true;
    uint64_t count = 0;
    while (code == 0 && found) {
        Document document;
        code = documents_next(file, &document, &found);
        if (code == 0 && found) {
            code = prepare_document(p, file, document);
            count++;
        }
    }
    if (code == 0 && count == 0) {
        log_warn("%s: no text in it; left out", path);
    }
    p->bytes_done += documents_bytes(file);
    documents_close(file);
    return code;
}

/* The last shards. */
static int finish(Preparation *p)
{
    uint64_t train = p->sinks[TRAIN].all_documents, validation = p->sinks[VALIDATION].all_documents;
    if (train == 0) {
        return err_set(ERR_INPUT, validation == 0
                                      ? "no text in the files given; nothing was prepared"
                                      : "all documents fell into the validation split; give more "
                                        "documents or --val-fraction 0");
    }
    if (validation == 0 && p->options->val_fraction > 0) {
        log_warn("none of %" PRIu64 " documents fell into the validation split: training will have "
                 "no validation loss. More documents (separated by lines of %s) or a larger "
                 "--val-fraction help.",
                 train, BYTES_SEPARATOR);
    }
    int code = 0;
    for (int split = 0; code == 0 && split < SPLITS; split++) {
        if (p->sinks[split].writer != NULL) {
            code = close_shard(p, split);
        }
    }
    return code;
}

/* Every input can be opened and is sized before anything is written. */
static int measure_files(Preparation *p)
{
    for (int i = 0; i < p->options->file_count; i++) {
        Documents *file;
        int code = documents_open(p->options->files[i], &file);
        if (code != 0) {
            return code;
        }
        p->bytes += documents_bytes(file);
        documents_close(file);
    }
    /* Found out now rather than after thousands of them. */
    return p->bytes / p->options->shard_tokens < MANIFEST_MAX_SHARDS ? 0 : too_many_shards(p);
}

static int check_options(const PrepareOptions *options)
{
    PACER_ASSERT(options->shard_tokens > 0, "shard_tokens %" PRIu64, options->shard_tokens);
    if (strcmp(options->tokenizer, BYTES_NAME) != 0) {
        return err_set(ERR_INPUT,
                       "--tokenizer %s: only \"%s\" (every byte a token) is supported in this "
                       "version",
                       options->tokenizer, BYTES_NAME);
    }
    if (!(options->val_fraction >= 0 && options->val_fraction < 1)) {
        return err_set(ERR_INPUT, "--val-fraction %g: must be at least 0 and below 1",
                       options->val_fraction);
    }
    return options->file_count > 0
               ? 0
               : err_set(ERR_INPUT, "no text files given: pacer data prepare --out DIR FILE...");
}

static int compare_shards(const void *a, const void *b)
{
    const ManifestShard *x = a, *y = b;
    return x->validation != y->validation ? x->validation - y->validation
                                          : strcmp(x->info.file, y->info.file);
}

int prepare_dataset(const PrepareOptions *options)
{
    int code = check_options(options);
    if (code != 0) {
        return code;
    }
    Preparation *p = mem_zalloc(1, sizeof *p);
    p->options = options;
    p->started = clock_seconds();
    p->hash = XXH3_createState();
    manifest_init(&p->manifest, BYTES_NAME, bytes_tokenizer_hash(), BYTES_VOCAB);
    code = measure_files(p);
    code = code != 0 ? code : out_folder_open(&p->folder, options->out);
    for (int i = 0; code == 0 && i < options->file_count; i++) {
        code = prepare_file(p, options->files[i]);
    }
    code = code != 0 ? code : finish(p);
    if (code == 0) { /* shards were finished in any order */
        qsort(p->manifest.shards, (size_t)p->manifest.shard_count, sizeof *p->manifest.shards,
              compare_shards);
        code = out_folder_commit(&p->folder, &p->manifest);
    }
    for (int split = 0; split < SPLITS; split++) {
        shard_writer_abandon(p->sinks[split].writer);
    }
    out_folder_close(&p->folder);
    manifest_free(&p->manifest);
    XXH3_freeState(p->hash);
    free(p);
    return code;
}
