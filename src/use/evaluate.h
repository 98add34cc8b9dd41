#pragma once
/* How well a model predicts: the loss of windows, pieces of a text each of whose tokens is
 * predicted from the ones before it in the window. Windows of any length go through the model in
 * batches, the longest first; shorter ones are filled up behind their end, where a causal model
 * does not look.
 *
 * With several ranks every rank has the same windows, and batch k is computed by rank k mod
 * ranks; then each has all results. How batches are put together does not depend on the number
 * of ranks, and sums are made in double in the order of the windows, so the results do not
 * either. */
#include "base/progress.h"
#include "comm/comm.h"
#include "model/model.h"
#include "tensor/workspace.h"

typedef struct {
    Model *model; /* bound to its weights; must outlive the evaluator */
    Backend *backend;
    Comm *comm;               /* NULL: one rank */
    int64_t batch, seq;       /* windows at a time, tokens of the longest */
    bool separate;            /* documents in a window do not see each other */
    int32_t end;              /* token between them; may be set later, before a run */
    size_t memory;            /* bytes that may be taken; 0: what there is */
    bool fit;                 /* a batch that is too large is made smaller instead of refused */
    int (*interrupted)(void); /* 0, or the code to end with; NULL: never */
} EvaluatorSetup;

/* What the windows of an evaluation come to. */
typedef struct {
    uint64_t tokens;  /* predicted */
    uint64_t bytes;   /* of text that these tokens are; 0 unknown */
    uint64_t windows; /* passes through the model */
    double nats;      /* sum of the losses */
} EvalTotals;

typedef struct {
    EvaluatorSetup setup; /* batch is the one that fits */
    Ctx ctx;
    Workspace work;          /* state: batch and losses */
    int64_t ready[2];        /* batch and seq that it was last laid out for */
    Tensor ids, targets;     /* (batch * seq) i32 */
    Tensor starts;           /* likewise (document_starts); none unless setup.separate is set */
    Tensor losses, mean;     /* (batch * seq), (1) acc */
    int32_t *host_ids;       /* ids, then targets, then starts */
    void *host_losses;       /* as losses */
    AttentionKind attention; /* for whole batches; others may need another kind */
    double means;            /* sum of the means of this rank's batches, rounded as in training */
    int64_t batches;         /* of this rank */
    bool whole;              /* all batches so far had batch x seq tokens, all predicted */
    EvalTotals totals;       /* so far */
    Progress progress;       /* shown after each batch */
    double done, round;      /* parts of everything: what is behind us, what the current round is */
} Evaluator;

/* One piece of text. */
typedef struct {
    /* count + 1 of them; tokens[i + 1] is predicted from tokens[0..i]. ~t stands for a token t
     * whose prediction does not count. */
    const int32_t *tokens;
    int64_t count; /* 1 to seq */
    int64_t skip;  /* the first predictions, which another window has made; below count */
    bool done;     /* result: false where an interruption came before */
    double nats;   /* result: sum of the losses of predictions skip to count - 1 */
} EvalWindow;

/* ERR_MEMORY names the largest batch that fits. */
int evaluator_open(Evaluator *evaluator, const EvaluatorSetup *setup);
void evaluator_close(Evaluator *evaluator); /* a no-op on a zeroed one */

/* Bytes that passes of this shape take beside the model; model and backend of the setup alone
 * are used. */
size_t evaluator_bytes(const EvaluatorSetup *setup, int64_t batch, int64_t seq);

/* All ranks together, with the same windows. 0, ERR_MEMORY, or what `interrupted` said on some
 * rank; the windows that were done before are good then. A loss may be no finite number. */
int evaluator_run(Evaluator *evaluator, EvalWindow *windows, int64_t count);

/* Logits of the tokens that follow: row t of text b is of the token behind tokens[b][0..t]. tokens
 * (batch, seq) of the model's vocabulary, batch at most the setup's; logits (batch, seq, vocab) in
 * host memory. 0 or ERR_MEMORY. */
int evaluator_logits(Evaluator *evaluator, const int32_t *tokens, int64_t batch, float *logits);

/* Starts totals and progress anew; begin and end of a round are told by done and round. */
void evaluator_begin(Evaluator *evaluator);

/* Windows for one evaluator_run: enough for every rank, and for windows of like length to meet.
 * It depends on the number of ranks only when there are very many. */
int64_t evaluator_round(const Evaluator *evaluator);

/* Mean loss as a training run computes it: mean over batches of means in the accumulator's type.
 * False unless all batches were whole. All ranks together. */
int evaluator_mean(Evaluator *evaluator, double *mean, bool *whole);

double eval_loss(const EvalTotals *totals);          /* nats per token */
double eval_bits_per_byte(const EvalTotals *totals); /* NAN without bytes */

/* Bytes of text that each token is, by id (vocab); the end token is none. Caller frees. */
typedef struct Tokenizer Tokenizer;
uint32_t *eval_token_sizes(const Tokenizer *tokenizer, uint32_t end, int64_t vocab);

/* Adds a window that is done; sizes NULL: not known. Returns the bytes of what it predicts. */
uint64_t eval_totals_add(EvalTotals *totals, const EvalWindow *window, const uint32_t *sizes);
