#pragma once
/* The loss of a model on prepared tokens, and on documents. Both start the evaluator's totals anew
 * and add to them what was done. */
#include "data/loader.h"
#include "data/source.h"
#include "text/tokenizer.h"
#include "use/evaluate.h"

/* The sequences of a split in the order of the stream, as a training run's validation takes them.
 * Each sequence of seq tokens is a window of its own. Sequences [0, count) of a loader with the
 * evaluator's seq; sizes: see eval_totals_add. ERR_FAILED naming the sequence whose loss is no
 * finite number; errors of evaluator_run and loader_fill. */
int evaluate_data(Evaluator *evaluator, const Loader *loader, uint64_t count,
                  const uint32_t *sizes);

/* A document is read as in training: the end token before it, and
 * behind it; every token of the text and the end token behind it are predicted, so a document of n
 * tokens has n + 1 predictions.
 *
 * A document that is longer than the evaluator's seq is cut into windows that overlap by half:
 * each but the first predicts its second half only. So every token is predicted once, and from
 * at least half a window of text before it, except at the document's beginning. */

typedef struct {
    const char *file; /* valid until source_close */
    uint64_t line;    /* of the file, on which the document begins */
    uint64_t number;  /* of the document, from 1 */
    uint64_t tokens;  /* predicted */
    uint64_t bytes;
    double nats;
} EvalDocument;

typedef struct {
    TextSource *source;
    const Tokenizer *tokenizer;
    uint32_t begin, end; /* ids of the tokens before and behind each document */
    int threads;         /* that encode */
    /* Called for every document in order, on every rank; an error ends the evaluation. May be
     * NULL. */
    int (*document)(void *user, const EvalDocument *document);
    void *user;
} EvalText;

/* *documents: how many were done completely. ERR_FAILED naming the document whose loss is no finite
 * number; errors of the source and of evaluator_run. */
int evaluate_text(Evaluator *evaluator, const EvalText *text, uint64_t *documents);
