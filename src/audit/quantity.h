#pragma once
/* What numbers of a training report are called. Names are compared as phrases: lower-case words
 * with single blanks between and around them, "/" read as "per", all other punctuation dropped.
 * A name that is not known as a whole is no name: where in doubt, the audit is silent. */
#include "audit/number.h"

typedef enum {
    Q_NONE,
    /* what identifies a run */
    Q_BATCH,        /* sequences; whether of one rank or of all is not said */
    Q_LOCAL_BATCH,  /* of one rank and micro-step */
    Q_GLOBAL_BATCH, /* of all ranks and micro-steps */
    Q_ACCUM,
    Q_SEQ,
    Q_RANKS,
    Q_LR,
    Q_LAST_SETTING = Q_LR,
    /* which part of a run */
    Q_RANK,
    Q_STEP,
    /* counts */
    Q_PARAMETERS,
    Q_VOCAB,
    Q_STEPS,
    Q_STEPS_PER_EPOCH,
    Q_EPOCHS,
    Q_WARMUP,
    Q_TOKENS,
    Q_TOKENS_PER_STEP,
    Q_SAMPLES_PER_EPOCH,
    Q_SAMPLES, /* of the training set */
    /* speed */
    Q_TOKENS_PER_SECOND,
    Q_SAMPLES_PER_SECOND,
    Q_FLOP_PER_SECOND,
    Q_SPEEDUP,
    Q_EFFICIENCY,
    Q_MFU,
    /* time, outer before inner */
    Q_GPU_TIME, /* of all GPUs together */
    Q_TOTAL_TIME,
    Q_WORKER_TIME,
    Q_EPOCH_TIME,
    Q_TRAIN_TIME,
    Q_VALIDATION_TIME,
    Q_STEP_TIME,
    Q_COMPUTE_TIME,
    Q_FORWARD_TIME,
    Q_BACKWARD_TIME,
    Q_LOSS_TIME,
    Q_OPTIMIZER_TIME,
    Q_DATA_TIME,
    Q_MOVE_TIME,
    Q_COMMUNICATION_TIME,
    /* loss */
    Q_LOSS,
    Q_PERPLEXITY,
    Q_FIRST_LOSS,
    Q_TRAIN_LOSS,
    Q_VAL_LOSS,
    Q_FINAL_VAL_LOSS,
    Q_BEST_VAL_LOSS,
    Q_VAL_PERPLEXITY,
    /* money */
    Q_COST,
    Q_PRICE, /* of a GPU hour */
    /* bytes */
    Q_SOME_MEMORY, /* used or had */
    Q_MEMORY,
    Q_DEVICE_MEMORY,
    Q_PARAMETER_BYTES,
    Q_GRADIENT_BYTES,
    Q_OPTIMIZER_BYTES,
    Q_COUNT
} Quantity;

/* Phrases are cut to this; a name longer than that is no name. */
#define PHRASE_SIZE 256

typedef struct {
    char phrase[PHRASE_SIZE];
    Quantity quantity;
} NameMapping;

typedef struct {
    const NameMapping *mappings; /* from --map; they win */
    int count;
} Names;

/* Lines of "their name=quantity". ERR_INPUT names the bad one and lists the quantities. Caller
 * frees *mappings. */
int names_parse(const char *lines, NameMapping **mappings, int *count);

const char *quantity_name(Quantity quantity); /* as --map takes it, and as findings say it */
bool quantity_is_setting(Quantity quantity);
bool quantity_is_time(Quantity quantity);

/* " batch size " from "**Batch-Size**"; at most PHRASE_SIZE - 1 characters. */
void phrase_make(const char *text, size_t size, char phrase[PHRASE_SIZE]);

/* The next of the words between bars; false: there is none. *list moves behind it. */
bool next_word(const char **list, const char **word, size_t *length);

/* Where the first of the phrases " a | b " that is there stands in the phrase; NULL. */
char *phrase_find(const char *phrase, const char *words, size_t *length);

/* Whether a word is one of "a|b|c"; whether all words of a text are. Case does not matter. */
bool word_is_one_of(const char *word, size_t size, const char *list);
bool words_are_among(const char *text, size_t size, const char *list);

/* What words around a name say of its number. */
enum {
    MARK_MEAN = 1,     /* average, median */
    MARK_PEAK = 2,     /* the largest */
    MARK_PER_RANK = 4, /* per GPU */
    MARK_TOTAL = 8,    /* of all ranks */
};

/* The quantity that a phrase is the name of, the whole of it: words that say how it was measured
 * are taken off and come back as marks, and one word too many makes it Q_NONE, as do words of
 * what was not measured (target, expected, baseline). */
Quantity quantity_match(const Names *names, const char *phrase, Unit unit, unsigned *marks);

/* The quantity whose name the phrase begins with, the longest; *length is of that name, with the
 * blanks around it. */
Quantity quantity_begins(const Names *names, const char *phrase, Unit unit, size_t *length);

/* Whether only marks are left in the phrase, or nothing. */
bool phrase_is_idle(const char *phrase, unsigned *marks);

/* Whether the quantity can have numbers of that unit. */
bool quantity_fits(Quantity quantity, Unit unit);

/* All names, one per line, for the message that nothing was recognised. */
const char *quantity_list(char text[1024]);
