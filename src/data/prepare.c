#include "data/prepare.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "data/out_folder.h"
#include "text/encode_stream.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRAIN, VALIDATION, SPLITS };

/* The shards of one split, one being written at a time. */
typedef struct {
    ShardWriter *writer; /* NULL between shards */
    int shards;
    uint64_t documents, text_bytes; /* of the shard being written */
    uint64_t all_documents;
} Sink;

/* Documents go into the stream with their split and these as the tag, and come out of it as ids in
 * the same order, which take_ids writes. The pieces of a document of which not all counts go one by
 * one. */
enum { TAG_SPLIT = 1, TAG_LEFT_OUT = 2, TAG_GOES_ON = 4 };

typedef struct {
    const PrepareOptions *options;
    TextSource *source;
    EncodeStream *stream;
    OutFolder folder;
    Manifest manifest;
    Sink sinks[SPLITS];
    Progress progress;
} Preparation;

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
    return shard_writer_open(p->folder.path, stem, p->manifest.vocab, p->manifest.tokenizer_hash,
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

/* Appends as many of the ids to the split's shard as it has room for: *part of them, at least
 * one. A full shard gives way to a new one first. */
static int put_some(Preparation *p, int split, const uint32_t *ids, size_t count, bool left_out,
                    size_t *part)
{
    Sink *sink = &p->sinks[split];
    if (sink->writer != NULL && shard_writer_tokens(sink->writer) == p->options->shard_tokens) {
        int code = close_shard(p, split);
        if (code != 0) {
            return code;
        }
    }
    int code = sink->writer == NULL ? open_shard(p, split) : 0;
    if (code != 0) {
        return code;
    }
    uint64_t room = p->options->shard_tokens - shard_writer_tokens(sink->writer);
    *part = count < room ? count : (size_t)room;
    code = shard_writer_put(sink->writer, ids, *part);
    if (left_out) {
        shard_writer_leave_out(sink->writer, *part);
    }
    return code;
}

/* Bytes of the ids' own texts, of at most `most` that all have together: those of a tokenizer that
 * rewrites what it reads may be more. */
static uint64_t text_of(const Tokenizer *tokenizer, const uint32_t *ids, size_t count,
                        uint64_t most)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < count && bytes < most; i++) {
        size_t size;
        tokenizer_bytes(tokenizer, ids[i], &size);
        bytes += size;
    }
    return bytes < most ? bytes : most;
}

/* Writes ids that are `bytes` of text; where they lie in two shards or more, each gets the bytes of
 * its own. */
static int take_ids(void *context, uint64_t tag, const uint32_t *ids, size_t count, uint64_t bytes,
                    bool ends)
{
    Preparation *p = context;
    int split = (int)(tag & TAG_SPLIT), code = 0;
    bool left_out = (tag & TAG_LEFT_OUT) != 0;
    Sink *sink = &p->sinks[split];
    while (code == 0 && count > 0) {
        size_t part = 0;
        code = put_some(p, split, ids, count, left_out, &part);
        uint64_t text = part < count ? text_of(p->options->tokenizer, ids, part, bytes) : bytes;
        sink->text_bytes += code == 0 ? text : 0;
        bytes -= text;
        ids += part;
        count -= part;
    }
    if (code == 0 && ends && (tag & TAG_GOES_ON) == 0) {
        size_t part;
        code = put_some(p, split, &p->options->end, 1, left_out, &part);
        sink->documents += code == 0;
        sink->all_documents += code == 0;
    }
    return code;
}

static int check_interrupted(const Preparation *p)
{
    int (*interrupted)(void) = p->options->source.interrupted;
    return interrupted == NULL ? 0 : interrupted();
}

static int prepare_pieces(Preparation *p, const SourceDocument *document, uint64_t split)
{
    int code = 0;
    uint64_t start = 0;
    for (size_t i = 0; code == 0 && i < document->piece_count; i++) {
        const SourcePiece *piece = &document->pieces[i];
        bool last = i + 1 == document->piece_count;
        rounds_begin(p->stream->rounds,
                     split | (piece->counts ? 0 : TAG_LEFT_OUT) | (last ? 0 : TAG_GOES_ON));
        code = rounds_put(p->stream->rounds, document->bytes + start, (size_t)(piece->end - start));
        code = code != 0 ? code : rounds_end(p->stream->rounds);
        start = piece->end;
    }
    progress_say(&p->progress, source_position(p->source), source_bytes(p->source));
    return code != 0 ? code : check_interrupted(p);
}

static int prepare_document(Preparation *p, const SourceDocument *document)
{
    double draw = (double)(document->hash >> 11) * 0x1p-53; /* in [0, 1) */
    uint64_t split = draw < p->options->val_fraction ? VALIDATION : TRAIN;
    if (document->pieces != NULL) {
        return prepare_pieces(p, document, split);
    }
    rounds_begin(p->stream->rounds, split);
    int code = 0;
    for (size_t size = 1; code == 0 && size > 0;) {
        const uint8_t *bytes;
        code = source_chunk(p->source, &bytes, &size);
        if (code == 0 && size > 0) {
            code = rounds_put(p->stream->rounds, bytes, size);
        }
        progress_say(&p->progress, source_position(p->source), source_bytes(p->source));
        code = code != 0 ? code : check_interrupted(p);
    }
    return code != 0 ? code : rounds_end(p->stream->rounds);
}

static int prepare_documents(Preparation *p)
{
    for (;;) {
        SourceDocument document;
        bool found;
        int code = source_next(p->source, &document, &found);
        if (code == 0 && !found) {
            return rounds_flush(p->stream->rounds);
        }
        code = code != 0 ? code : prepare_document(p, &document);
        if (code != 0) {
            return code;
        }
    }
}

/* The last shards. */
static int finish(Preparation *p)
{
    uint64_t train = p->sinks[TRAIN].all_documents, validation = p->sinks[VALIDATION].all_documents;
    if (train == 0) {
        return err_set(ERR_INPUT, "all documents fell into the validation split; give more "
                                  "documents or --val-fraction 0");
    }
    if (validation == 0 && p->options->val_fraction > 0) {
        log_warn("none of %" PRIu64 " documents fell into the validation split: training will have "
                 "no validation loss. More documents (separated by " TOKENIZER_END ") or a larger "
                 "--val-fraction help.",
                 train);
    }
    int code = 0;
    for (int split = 0; code == 0 && split < SPLITS; split++) {
        if (p->sinks[split].writer != NULL) {
            code = close_shard(p, split);
        }
    }
    return code;
}

/* Too many shards are found out now rather than after thousands of them, as far as that can be
 * known: a token stands for at most as many bytes as the longest one has. */
static int check_shards(const Preparation *p)
{
    const Tokenizer *tokenizer = p->options->tokenizer;
    size_t longest = 1;
    for (uint32_t id = 0; id < tokenizer->vocab; id++) {
        size_t size = tokenizer_added_of(tokenizer, id) == NULL ? tokenizer->tokens[id].size : 0;
        longest = size > longest ? size : longest;
    }
    uint64_t tokens = source_bytes(p->source) / longest;
    return tokens / p->options->shard_tokens < MANIFEST_MAX_SHARDS ? 0 : too_many_shards(p);
}

static int compare_shards(const void *a, const void *b)
{
    const ManifestShard *x = a, *y = b;
    return x->validation != y->validation ? x->validation - y->validation
                                          : strcmp(x->info.file, y->info.file);
}

static int commit(Preparation *p)
{
    qsort(p->manifest.shards, (size_t)p->manifest.shard_count, sizeof *p->manifest.shards,
          compare_shards); /* they were finished in any order */
    const Tokenizer *tokenizer = p->options->tokenizer;
    char *name = mem_format(OUT_FOLDER_TOKENIZER "-%016" PRIx64 ".json", tokenizer->hash);
    char *path = io_join(p->folder.path, name);
    p->manifest.tokenizer_file = name;
    int code = tokenizer_write_json(tokenizer, path);
    free(path);
    code = code != 0 ? code : check_interrupted(p);
    bool replaces = p->folder.manifest.shard_count > 0;
    code = code != 0 ? code : out_folder_commit(&p->folder, &p->manifest);
    if (code == 0 && replaces) {
        log_info("replaced the dataset that was in %s", p->folder.path);
    }
    return code;
}

int prepare_dataset(const PrepareOptions *options)
{
    PACER_ASSERT(options->shard_tokens > 0 && options->threads > 0,
                 "shard_tokens %" PRIu64 ", threads %d", options->shard_tokens, options->threads);
    if (!(options->val_fraction >= 0 && options->val_fraction < 1)) {
        return err_set(ERR_INPUT, "--val-fraction %g: must be at least 0 and below 1",
                       options->val_fraction);
    }
    Preparation *p = mem_zalloc(1, sizeof *p);
    p->options = options;
    manifest_init(&p->manifest, options->tokenizer_name, options->tokenizer->hash,
                  options->tokenizer->vocab);
    int code = source_open(options->source, &p->source);
    p->progress = progress_begin("preparing");
    code = code != 0 ? code : check_shards(p);
    code = code != 0 ? code : out_folder_open(&p->folder, options->out);
    if (code == 0) {
        p->stream = encode_stream_open(options->tokenizer, options->threads, take_ids, p);
        code = prepare_documents(p);
    }
    code = code != 0 ? code : finish(p);
    code = code != 0 ? code : commit(p);
    for (int split = 0; split < SPLITS; split++) {
        shard_writer_abandon(p->sinks[split].writer);
    }
    encode_stream_close(p->stream);
    out_folder_close(&p->folder);
    manifest_free(&p->manifest);
    source_close(p->source);
    free(p);
    return code == ERR_INTERRUPTED || code == ERR_TERMINATED
               ? err_set(code, "stopped; %s is as it was before", options->out)
               : code;
}
