#pragma once
/* What the parts of the library share, and what pacer's own commands call of it: the work of a
 * function of pacer.h, with a Config that is parsed and ranks that are joined already. */
#include "base/json.h"
#include "comm/comm.h"
#include "config/config.h"
#include "data/dataset.h"
#include "model/generate.h"
#include "text/decode.h"
#include "text/encode.h"
#include "train/loop.h"
#include "use/evaluate.h"
#include "use/writer.h"

#include <pacer.h>

struct pacer_options {
    Config config;
    pacer_validation_function *on_validation; /* NULL: none */
    void *validation_user;
};

/* A tokenizer together with the encoder that remembers pieces it has met. */
struct pacer_tokenizer {
    Tokenizer *tokenizer;
    Encoder *encoder;
    bool owned; /* the tokenizer; else it is a model's */
};

struct pacer_model {
    LoadedModel loaded;
    pacer_tokenizer *tokenizer; /* of the model; NULL: it has none */
    Generator generator;        /* of one text, once one was begun */
    bool begun;
    Evaluator batches;     /* for pacer_model_forward, once it was called */
    int64_t batches_of[2]; /* batch and seq that it was opened for */
};

/* The outcome of a command: named numbers (an object; NULL: none), and for a training its
 * directory (NULL: none). Both are taken over. */
pacer_result *result_new(char *directory, cJSON *numbers);

/* First in every function that does work: without a word from the host program the library is
 * silent. */
void api_enter(void);

/* The options checked as a command line would be, in a Config of the caller's (config_free, also
 * on failure). NULL stands for the defaults. ERR_INPUT when they are of another command, or lack
 * one it cannot do without. */
int api_config(const pacer_options *options, Command command, Config *out);

/* Around what a function does by options: api_enter and api_config, with *result NULL (result may
 * be NULL), no end asked for, and this thread shielded from signals. api_end, also on failure,
 * undoes it and returns code. */
int api_begin(const pacer_options *options, Command command, pacer_result **result, Config *out);
int api_end(Config *cfg, int code);

/* Has so many ranks make the updates of as many sequences as before, by another accum. ERR_INPUT
 * where that does not divide. */
int ranks_take(Config *cfg, int ranks);

/* CommOptions.board of a training; caller frees. */
char *api_board(const Config *cfg);

/* pacer_train. comm may be NULL: one rank. *out may be NULL when code is not 0; out itself may
 * be NULL. */
int api_train(Config *cfg, Comm *comm, const TrainWatcher *watcher, pacer_result **out);

/* --- tokenizers and data --- */

typedef struct {
    uint32_t vocab;
    size_t merges;
    uint64_t bytes;             /* of the texts */
    uint64_t pieces, different; /* that the pattern cut them into */
    uint64_t dropped;           /* rare pieces, to stay within the memory limit */
} TrainedTokenizer;

/* Learns from the texts and writes cfg->out. Ctrl-C or signals_request ends it. */
int api_tokenizer_train(const Config *cfg, int count, char **inputs, TrainedTokenizer *out);

/* The texts as shards in cfg->out; on success *dataset is what was made, opened. Ctrl-C or
 * signals_request ends it. */
int api_prepare(const Config *cfg, int count, char **inputs, Dataset *dataset);

/* --- text --- */

/* The lines of --stop as texts, then NULL; stops_free. */
char **stops_read(const char *lines);
void stops_free(char **stops);

/* writer_run with what `generate`'s options say of sampling and lengths. Ctrl-C or
 * signals_request ends it. */
int api_write(LoadedModel *loaded, const Config *cfg, char **stops, const TokenList *prompt,
              WriterTell *tell, void *user, Written *out);

/* --- code that several ranks run together --- */

/* Joins the ranks that this process was started among (comm_is_launched); cfg then has their
 * number. board: CommOptions.board. */
int ranks_join(Config *cfg, const char *board, Comm **comm);

/* Ends the job when code is an error that the other ranks may not know of and would wait for
 * ever with; else, and with comm NULL, it does nothing. Before anything that waits for them is
 * closed. */
void ranks_fail(Comm *comm, int code);

/* Closes comm (NULL is fine) and returns code, unless ranks_fail ends the job. */
int ranks_leave(Comm *comm, int code);
