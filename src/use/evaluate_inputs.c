#include "use/evaluate_inputs.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/mem.h"
#include "text/encode_stream.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- prepared tokens --- */

/* Sequences [first, first + count) as windows; tokens (count, seq + 1), scratch (2, seq). */
static int read_round(const Loader *loader, uint64_t first, int64_t count, EvalWindow *windows,
                      int32_t *tokens, int32_t *scratch)
{
    int64_t seq = loader->seq;
    int code = 0;
    for (int64_t i = 0; code == 0 && i < count; i++, tokens += seq + 1) {
        code = loader_fill(loader, first + (uint64_t)i, 1, scratch, scratch + seq);
        const int32_t *targets = scratch + seq;
        tokens[0] = scratch[0];
        for (int64_t t = 1; t < seq; t++) {
            tokens[t] = targets[t - 1] < 0 ? ~scratch[t] : scratch[t];
        }
        tokens[seq] = targets[seq - 1];
        windows[i] = (EvalWindow){.tokens = tokens, .count = seq};
    }
    return code;
}

static int add_round(const Loader *loader, uint64_t first, int64_t count, const EvalWindow *windows,
                     const uint32_t *sizes, EvalTotals *totals)
{
    for (int64_t i = 0; i < count; i++) {
        if (windows[i].done && !isfinite(windows[i].nats)) {
            uint64_t sequence = first + (uint64_t)i, inside;
            const Shard *shard =
                split_locate(loader->split, loader_start(loader, sequence), &inside);
            return err_set(ERR_FAILED,
                           "the loss of sequence %" PRIu64 " (from token %" PRIu64
                           " of %s on) is %f: the model's weights are broken, or its dtype is too "
                           "narrow for them",
                           sequence, inside, shard->path, windows[i].nats);
        }
        if (windows[i].done) {
            eval_totals_add(totals, &windows[i], sizes);
        }
    }
    return 0;
}

int evaluate_data(Evaluator *e, const Loader *loader, uint64_t count, const uint32_t *sizes)
{
    evaluator_begin(e);
    PACER_ASSERT(loader->seq == e->setup.seq, "seq %lld of the loader, %lld of the evaluator",
                 (long long)loader->seq, (long long)e->setup.seq);
    size_t round = (size_t)evaluator_round(e), seq = (size_t)loader->seq;
    round = round < count ? round : (size_t)count;
    EvalWindow *windows = mem_zalloc(round, sizeof *windows);
    int32_t *tokens = mem_zalloc(round * (seq + 1) + 2 * seq, sizeof *tokens);
    int code = 0;
    for (uint64_t first = 0; code == 0 && first < count; first += round) {
        int64_t part = (int64_t)(count - first < round ? count - first : round);
        e->done = (double)first / (double)count;
        e->round = (double)part / (double)count;
        code = read_round(loader, first, part, windows, tokens, tokens + round * (seq + 1));
        code = comm_agree(e->setup.comm, code);
        if (code == 0) {
            code = evaluator_run(e, windows, part);
            int broken = add_round(loader, first, part, windows, sizes, &e->totals);
            code = code != 0 ? code : broken;
        }
    }
    free(windows);
    free(tokens);
    return code;
}

/* --- documents --- */

/* Text is read and encoded by a stream, whose ids arrive in order in take_ids. There they become
 * windows of a round; a full round is evaluated at once, so memory does not depend on the size
 * of documents or inputs. All windows of earlier rounds are done, so at the end of a round every
 * document that has ended is complete, and at most the last one is still under way. */

typedef struct {
    EvalDocument document; /* bytes: of what its windows so far predict */
    uint64_t text_bytes;   /* that were encoded */
    bool ended;            /* all its windows are in this round or an earlier one */
} Pending;

typedef struct {
    Evaluator *evaluator;
    const EvalText *text;
    uint32_t *sizes; /* eval_token_sizes */
    int64_t seq, stride;
    /* Documents that were read and not yet reported; the first has number `reported` + 1. */
    Pending *pending;
    size_t pending_count, pending_room;
    uint64_t reported;
    /* The window being filled: of document number `current`. */
    int32_t *open; /* seq + 1 */
    int64_t held, skip;
    uint64_t current; /* 0: between documents */
    /* The round: windows with their documents' numbers, tokens (room, seq + 1). */
    EvalWindow *windows;
    uint64_t *numbers;
    int32_t *tokens;
    int64_t count, room;
    uint64_t read; /* bytes of text so far, encoded or not */
} Evaluation;

static Pending *pending_of(Evaluation *v, uint64_t number)
{
    PACER_ASSERT(number > v->reported && number <= v->reported + v->pending_count,
                 "document %" PRIu64, number);
    return &v->pending[number - v->reported - 1];
}

static int add_windows(Evaluation *v)
{
    for (int64_t i = 0; i < v->count; i++) {
        const EvalWindow *window = &v->windows[i];
        EvalDocument *document = &pending_of(v, v->numbers[i])->document;
        if (window->done && !isfinite(window->nats)) {
            return err_set(ERR_FAILED,
                           "%s:%" PRIu64 ": the loss of document %" PRIu64
                           " is %f: the model's weights are broken, or its dtype is too narrow "
                           "for them",
                           document->file, document->line, document->number, window->nats);
        }
        if (window->done) {
            document->bytes += eval_totals_add(&v->evaluator->totals, window, v->sizes);
            document->tokens += (uint64_t)(window->count - window->skip);
            document->nats += window->nats;
        }
    }
    return 0;
}

/* Tells of the documents that are complete. An end token that the text itself contains stands
 * for bytes too, which windows do not count. */
static int report(Evaluation *v)
{
    size_t complete = 0;
    int code = 0;
    for (; code == 0 && complete < v->pending_count && v->pending[complete].ended; complete++) {
        Pending *pending = &v->pending[complete];
        v->evaluator->totals.bytes += pending->text_bytes - pending->document.bytes;
        pending->document.bytes = pending->text_bytes;
        if (v->text->document != NULL) {
            code = v->text->document(v->text->user, &pending->document);
        }
    }
    v->reported += complete;
    v->pending_count -= complete;
    memmove(v->pending, v->pending + complete, v->pending_count * sizeof *v->pending);
    return code;
}

/* For progress: which part of all text is behind us, and which the round is. Inputs may hold
 * more than text (JSON), in the same measure as so far. */
static void place_round(Evaluation *v)
{
    const TextSource *source = v->text->source;
    double position = (double)source_position(source), all = (double)source_bytes(source);
    double text = position > 0 ? all * (double)v->read / position : 0;
    EvalTotals round = {0};
    for (int64_t i = 0; i < v->count; i++) {
        eval_totals_add(&round, &v->windows[i], v->sizes);
    }
    v->evaluator->done = text > 0 ? (double)v->evaluator->totals.bytes / text : 0;
    v->evaluator->round = text > 0 ? (double)round.bytes / text : 0;
}

/* Where an interruption has left windows out, no document of this round counts as complete. */
static int run_round(Evaluation *v)
{
    if (v->count == 0) {
        return report(v); /* the last window of a document may have been the last of a round */
    }
    place_round(v);
    int code = evaluator_run(v->evaluator, v->windows, v->count);
    int broken = add_windows(v);
    code = code != 0 ? code : broken;
    code = code != 0 ? code : report(v);
    v->count = 0;
    return code;
}

/* Puts the open window into the round, which is run when it is full. */
static int close_window(Evaluation *v)
{
    int32_t *tokens = v->tokens + v->count * (v->seq + 1);
    memcpy(tokens, v->open, (size_t)v->held * sizeof *tokens);
    v->windows[v->count] = (EvalWindow){.tokens = tokens, .count = v->held - 1, .skip = v->skip};
    v->numbers[v->count] = v->current;
    v->count++;
    return v->count == v->room ? run_round(v) : 0;
}

static int put_token(Evaluation *v, int32_t id)
{
    v->open[v->held++] = id;
    if (v->held <= v->seq) {
        return 0;
    }
    int code = close_window(v);
    v->held -= v->stride;
    v->skip = v->held - 1;
    memmove(v->open, v->open + v->stride, (size_t)v->held * sizeof *v->open);
    return code;
}

static int end_document(Evaluation *v)
{
    int code = put_token(v, (int32_t)v->text->end);
    /* After a window that was just full there may be nothing left to predict. */
    bool left = v->held - 1 > v->skip;
    pending_of(v, v->current)->ended = true;
    code = code == 0 && left ? close_window(v) : code;
    v->current = 0;
    return code;
}

/* EncodeSink; tag: the document's number. */
static int take_ids(void *context, uint64_t tag, const uint32_t *ids, size_t count, uint64_t bytes,
                    bool ends)
{
    Evaluation *v = context;
    if (v->current == 0) {
        v->current = tag;
        v->open[0] = (int32_t)v->text->begin;
        v->held = 1;
        v->skip = 0;
    }
    pending_of(v, tag)->text_bytes += bytes;
    int code = 0;
    for (size_t i = 0; code == 0 && i < count; i++) {
        code = put_token(v, (int32_t)ids[i]);
    }
    return code == 0 && ends ? end_document(v) : code;
}

static int read_documents(Evaluation *v, EncodeStream *stream)
{
    int (*interrupted)(void) = v->evaluator->setup.interrupted;
    for (;;) {
        SourceDocument document;
        bool found;
        int code = source_next(v->text->source, &document, &found);
        if (code == 0 && !found) {
            code = rounds_flush(stream->rounds);
            return code != 0 ? code : run_round(v);
        }
        if (code == 0 && document.pieces != NULL) {
            code = err_set(ERR_INPUT,
                           "%s:%" PRIu64 ": a record of which only a part counts; make tokens of "
                           "it with `pacer data prepare` and evaluate with --data",
                           document.file, document.line);
        }
        if (code != 0) {
            return code;
        }
        if (v->pending_count == v->pending_room) {
            v->pending_room = v->pending_room > 0 ? v->pending_room * 2 : 64;
            v->pending = mem_realloc(v->pending, v->pending_room, sizeof *v->pending);
        }
        uint64_t number = v->reported + v->pending_count + 1;
        v->pending[v->pending_count++] =
            (Pending){.document = {.file = document.file, .line = document.line, .number = number}};
        rounds_begin(stream->rounds, number);
        for (size_t size = 1; code == 0 && size > 0;) {
            const uint8_t *bytes;
            code = source_chunk(v->text->source, &bytes, &size);
            v->read += code == 0 ? size : 0;
            if (code == 0 && size > 0) {
                code = rounds_put(stream->rounds, bytes, size);
            }
        }
        code = code != 0 ? code : rounds_end(stream->rounds);
        if (code == 0 && interrupted != NULL && v->evaluator->setup.comm == NULL) {
            code = interrupted(); /* several ranks find out together, in a round */
        }
        if (code != 0) {
            return code;
        }
    }
}

int evaluate_text(Evaluator *evaluator, const EvalText *text, uint64_t *documents)
{
    int64_t vocab = evaluator->setup.model->spec.vocab, seq = evaluator->setup.seq;
    PACER_ASSERT(text->tokenizer->vocab <= vocab, "%u tokens, vocabulary %lld",
                 text->tokenizer->vocab, (long long)vocab);
    Evaluation v = {.evaluator = evaluator, .text = text, .seq = seq};
    evaluator_begin(evaluator);
    v.stride = seq > 1 ? seq / 2 : 1;
    v.sizes = eval_token_sizes(text->tokenizer, text->end, vocab);
    v.room = evaluator_round(evaluator);
    v.open = mem_zalloc((size_t)seq + 1, sizeof *v.open);
    v.windows = mem_zalloc((size_t)v.room, sizeof *v.windows);
    v.numbers = mem_zalloc((size_t)v.room, sizeof *v.numbers);
    v.tokens = mem_zalloc((size_t)v.room * (size_t)(seq + 1), sizeof *v.tokens);
    EncodeStream *stream = encode_stream_open(text->tokenizer, text->threads, take_ids, &v);
    int code = read_documents(&v, stream);
    *documents = v.reported;
    encode_stream_close(stream);
    free(v.sizes);
    free(v.pending);
    free(v.open);
    free(v.windows);
    free(v.numbers);
    free(v.tokens);
    return code;
}
