#ifndef PACER_H
#define PACER_H
/* libpacer: pacer's commands as functions of C and C++. docs/guide/library.md has a tour.
 *
 * Errors. A function that can fail returns 0 or one of the negative codes below, and pacer_error()
 * then says what is wrong and what to do about it; the message belongs to the thread that made the
 * call. Output parameters are only written on success, except that handles are set to NULL on
 * failure.
 *
 * Ownership. What a function gives as a handle is released with the function named beside it; NULL
 * is fine there. Memory that a function gives as char *, int32_t * and the like is released with
 * pacer_free. A const pointer that is returned belongs to the handle it was asked from.
 *
 * Threads. A handle is used by one thread at a time; different handles may be used at the same time
 * by different threads, except that one training at a time goes on in a process. A model computes
 * with threads of its own.
 *
 * The host program. The library writes nothing to stdout or stderr unless pacer_log asks it to,
 * installs no signal handlers, and does not end the process. (Two things it cannot survive: an
 * allocation of a few bytes that the system refuses, and a mistake of its own, found by an
 * assertion.)
 *
 * Binary interface. Types are opaque, or structs that the library fills and that grow at their
 * end only; functions may be added. Whatever else changes raises the number in the name
 * libpacer.so.0. */
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PACER_API_VERSION 2 /* raised when functions are added */

#if defined(__GNUC__)
#define PACER_EXPORT __attribute__((visibility("default")))
#else
#define PACER_EXPORT
#endif

/* The negated code is the exit status of the command that would have failed. */
enum {
    PACER_OK = 0,
    PACER_FAILED =
        -1,           /* something outside failed: disk full, I/O error, a loss that is no number */
    PACER_INPUT = -2, /* wrong use, an unknown option, a file that is not what it should be */
    PACER_MEMORY = -3,      /* what was asked for does not fit in memory */
    PACER_CHECK = -4,       /* done, but a self-check failed */
    PACER_STOPPED = -130,   /* ended early as asked; a training has saved what it did */
    PACER_PIPE = -141,      /* nobody reads standard output any more, which ends a command with 0 */
    PACER_TERMINATED = -143 /* the same, for a program that took SIGTERM as pacer's own does */
};

PACER_EXPORT const char *pacer_version(void); /* "0.2.0" */
PACER_EXPORT int pacer_api_version(void);     /* PACER_API_VERSION of the library in use */

/* The message of this thread's last failure; "" if there was none. Valid until the next one. */
PACER_EXPORT const char *pacer_error(void);

/* Releases memory that a function of this file gave. */
PACER_EXPORT void pacer_free(void *memory);

/* What the library tells on stderr: nothing (as it begins), errors, warnings too, what the
 * command would say, or more. For the whole process. */
enum {
    PACER_LOG_NONE = -1,
    PACER_LOG_ERRORS = 0,
    PACER_LOG_WARNINGS = 1,
    PACER_LOG_INFO = 2,
    PACER_LOG_DEBUG = 3
};
PACER_EXPORT void pacer_log(int level);

/* --- options --- */

/* The options of one command, named and written as on its command line: "steps" and "100" for
 * --steps 100, "graph" and "off" for --graph=off. `pacer train --help` lists them. */
typedef struct pacer_options pacer_options;

/* Every option of "train", "generate", "eval", "tokenizer train", ... at its default. */
PACER_EXPORT int pacer_options_new(const char *command, pacer_options **out);
PACER_EXPORT void pacer_options_free(pacer_options *options);

/* An unknown name and a value out of range are PACER_INPUT; the value before stays. What options
 * mean together is checked by the function that takes them. Of an option that may be given
 * several times, each value is a line. */
PACER_EXPORT int pacer_options_set(pacer_options *options, const char *name, const char *value);

/* The value as text; *value to pacer_free. */
PACER_EXPORT int pacer_options_get(const pacer_options *options, const char *name, char **value);

/* Sets options from a YAML file of `option: value` lines; the later of this and
 * pacer_options_set wins. One file. */
PACER_EXPORT int pacer_options_load(pacer_options *options, const char *path);

/* --- training --- */

/* A line of a run's record as it is made; `size` is the bytes that the library in use has
 * filled. */
typedef struct pacer_step {
    size_t size;
    int64_t step, steps;        /* updates made, of so many (minutes: as expected, 0: unknown) */
    int64_t tokens;             /* trained on so far */
    double loss, lr, grad_norm; /* loss and norm NaN: no token of the update counts */
    double tok_s;               /* tokens per second since the last line */
    double seconds_left;
} pacer_step;

/* Called every "log-every" steps, the first and the last. Not 0 ends the training after this
 * step, saved, as Ctrl-C ends `pacer train`. `step` is valid during the call. */
typedef int pacer_step_function(const pacer_step *step, void *user);

typedef struct pacer_result pacer_result;

/* `pacer train`: trains into a run directory, or goes on where an earlier call with the same
 * options stopped. on_step may be NULL. *result, to pacer_result_free, is also given with
 * PACER_STOPPED and PACER_CHECK; result itself may be NULL. Several ranks are processes that
 * mpirun or srun has started; each makes this call, once, and on_step is called in the first.
 * The library starts none itself. When one of them fails in a way that the others do not know
 * of, all are ended. */
PACER_EXPORT int pacer_train(const pacer_options *options, pacer_step_function *on_step, void *user,
                             pacer_result **result);
PACER_EXPORT void pacer_result_free(pacer_result *result);

/* A validation loss as a training measures it (the options "eval-every" and "eval-batches"); `size`
 * as in pacer_step. */
typedef struct pacer_validation {
    size_t size;
    int64_t step, steps; /* updates made, of so many (minutes: as expected, 0: unknown) */
    double loss;         /* nats per token */
    double best;         /* lowest of the run so far, this one included */
} pacer_validation;

/* Called for each of them. Not 0 ends the training after this step, saved. `validation` is valid
 * during the call. */
typedef int pacer_validation_function(const pacer_validation *validation, void *user);

/* Whom trainings with these options tell of validation losses; NULL: nobody. Of several ranks, in
 * the first. */
PACER_EXPORT void pacer_options_on_validation(pacer_options *options,
                                              pacer_validation_function *function, void *user);

/* Numbers that a run has recorded step by step, from its directory, also while it is under way:
 * "val_loss", or "loss", "lr", "tok_s", ... (docs/reference/formats.md, metrics.jsonl). *count of
 * them by ascending steps, *steps and *values to pacer_free; steps without the number are left
 * out, so that none of them is no error. */
PACER_EXPORT int pacer_run_curve(const char *run, const char *name, int64_t **steps,
                                 double **values, size_t *count);

/* Asks the training, generation, evaluation, tokenizer training or preparation under way to end
 * as if its callback had: from any thread, or a signal handler. */
PACER_EXPORT void pacer_stop(void);

/* Of a training, its run directory; of prepared data, the folder; else "". */
PACER_EXPORT const char *pacer_result_directory(const pacer_result *result);

/* A number of the outcome by its name; NaN when there is none of that name. Of a training: those
 * of "summary" in run.json (docs/reference/formats.md): "steps", "tokens", "train_loss",
 * "val_loss", "tok_s", "wall_s", "peak_bytes", ... */
PACER_EXPORT double pacer_result_number(const pacer_result *result, const char *name);

/* --- tokenizers --- */

typedef struct pacer_tokenizer pacer_tokenizer;

/* A tokenizer.json, GPT-2's vocab.json with merges.txt beside it, a folder with either, or
 * "bytes". */
PACER_EXPORT int pacer_tokenizer_open(const char *path, pacer_tokenizer **out);
PACER_EXPORT void pacer_tokenizer_close(pacer_tokenizer *tokenizer);
PACER_EXPORT int64_t pacer_tokenizer_vocab(const pacer_tokenizer *tokenizer);

/* Text (size bytes of any content) to ids and back: exactly, unless the tokenizer rewrites texts
 * (docs/reference/formats.md). *ids and *text to pacer_free; *text has a zero byte behind its size
 * bytes. */
PACER_EXPORT int pacer_tokenize(pacer_tokenizer *tokenizer, const char *text, size_t size,
                                int32_t **ids, size_t *count);
PACER_EXPORT int pacer_detokenize(pacer_tokenizer *tokenizer, const int32_t *ids, size_t count,
                                  char **text, size_t *size);

/* `pacer tokenizer train`: learns a vocabulary from texts (files, folders, JSONL files,
 * "builtin:stories"; count of them) and writes the tokenizer.json that the option "out" names.
 * options: of "tokenizer train" ("vocab", "special", "pattern", ...). The result, which may be
 * NULL, has "vocab", "merges", "bytes" (of the texts), "pieces" that the pattern cut them into,
 * "different_pieces" and "dropped_pieces" (for memory). Ended early: PACER_STOPPED, and no
 * file. */
PACER_EXPORT int pacer_tokenizer_train(const pacer_options *options, const char *const *texts,
                                       size_t count, pacer_result **result);

/* --- data --- */

/* `pacer data prepare`: texts, as above, to shards of tokens in the folder that the option "out"
 * names, for the option "data" of a training. options: of "data prepare" ("tokenizer",
 * "val-fraction", ...). The result, which may be NULL, has "vocab", "train_tokens",
 * "train_documents", "train_bytes" (of text), "train_shards", and the same with "val_". Ended
 * early: PACER_STOPPED, and the folder is as before. */
PACER_EXPORT int pacer_prepare(const pacer_options *options, const char *const *texts, size_t count,
                               pacer_result **result);

/* --- models --- */

typedef struct pacer_model pacer_model;

/* A run directory (its newest checkpoint), a checkpoint folder, or a Hugging Face folder with a
 * GPT-2 or Llama model. options: of "generate" or "eval" (device, dtype, threads, tokenizer), or
 * NULL. Copies what it needs of them. */
PACER_EXPORT int pacer_model_open(const char *path, const pacer_options *options,
                                  pacer_model **out);
PACER_EXPORT void pacer_model_close(pacer_model *model);

/* "parameters", "vocab", "context", "layers", "d-model", "heads", "kv-heads", "ffn", and "step",
 * the updates it was trained for; NaN when it is not known. */
PACER_EXPORT double pacer_model_number(const pacer_model *model, const char *name);

/* The model's own, which lives as long as the model and is not closed; NULL when it has none. */
PACER_EXPORT pacer_tokenizer *pacer_model_tokenizer(pacer_model *model);

/* One text token by token: begins anew with count >= 1 tokens, goes on with one, and gives the
 * logits of the token that follows: *count of them, valid until the next call with this model. */
PACER_EXPORT int pacer_model_begin(pacer_model *model, const int32_t *tokens, size_t count);
PACER_EXPORT int pacer_model_append(pacer_model *model, int32_t token);
PACER_EXPORT int pacer_model_logits(pacer_model *model, const float **logits, size_t *count);

/* Batches: the logits of `batch` texts of `seq` tokens each. tokens: batch x seq, at most a context
 * each; logits: batch x seq x vocab, the caller's, in which row t of a text is of the token that
 * follows its tokens 0 to t. A batch that does not fit in memory goes through the model in
 * parts. What pacer_model_begin began goes on as before. */
PACER_EXPORT int pacer_model_forward(pacer_model *model, const int32_t *tokens, size_t batch,
                                     size_t seq, float *logits);

/* A piece of text number `sample`, in whole characters; not 0 ends it all. Not terminated by a
 * zero byte. */
typedef int pacer_text_function(const char *text, size_t size, int64_t sample, void *user);

/* `pacer generate`: goes on from a prompt of `size` bytes (NULL: the option "prompt", as text).
 * options: of "generate", or NULL; those of the machine were settled by pacer_model_open. The
 * result has "prompt_tokens", and as `pacer generate --json` "tokens", "tokens_per_s",
 * "prompt_s" and "generate_s". result and on_text may be NULL. Ended early: PACER_STOPPED, with
 * a result. */
PACER_EXPORT int pacer_generate(pacer_model *model, const pacer_options *options,
                                const char *prompt, size_t size, pacer_text_function *on_text,
                                void *user, pacer_result **result);

/* `pacer eval`: how well the model predicts texts (files, folders, JSONL files; count of them),
 * or with none the data that the options, of "eval" or NULL, or the model's own run name. The
 * result's names are those of `pacer eval --json`: "loss" (nats per token), "perplexity",
 * "bits_per_byte", "tokens", "bytes", "seconds", of texts "documents", and of data
 * "mean_of_batches", the figure that a training would record. Ended early by pacer_stop:
 * PACER_STOPPED, with a result once there is one. */
PACER_EXPORT int pacer_evaluate(pacer_model *model, const pacer_options *options,
                                const char *const *texts, size_t count, pacer_result **result);

/* --- exchange with Hugging Face --- */

/* `pacer import`: a Hugging Face folder with a GPT-2 or Llama model as a run directory with one
 * checkpoint. options: of "import", whose "out" is the run directory. */
PACER_EXPORT int pacer_import(const char *folder, const pacer_options *options);

/* `pacer export`: a run's model (or what else pacer_model_open takes) as a Hugging Face folder,
 * or with "format" "gguf" as a file for llama.cpp. options: of "export" ("out", "format", "dtype",
 * "shard-bytes", "type"). */
PACER_EXPORT int pacer_export(const char *model, const pacer_options *options);

#ifdef __cplusplus
}
#endif

#endif
