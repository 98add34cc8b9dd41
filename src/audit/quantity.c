/* The table of names. A name with "!" before it is a common word and counts only for a number that
 * carries a unit of its kind ("Epoch | 268 s" is a time, "Epoch 3" is not). */
#include "audit/quantity.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/mem.h"
#include "config/config.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { KIND_COUNT, KIND_TIME, KIND_BYTES, KIND_RATE, KIND_SHARE, KIND_RATIO } Kind;

typedef struct {
    const char *name;
    Kind kind;
    const char *aliases;
} Row;

static const Row rows[Q_COUNT] = {
    [Q_NONE] = {"none", KIND_COUNT, ""},
    [Q_BATCH] = {"batch", KIND_COUNT, "batch size|batchsize|batch|bs|mini batch|minibatch|b"},
    [Q_LOCAL_BATCH] = {"local-batch", KIND_COUNT,
                       "local batch size|local batch|local bs|micro batch size|micro batch|"
                       "microbatch|mbs|per device batch size|per device train batch size|"
                       "batch size per device|batch size per gpu|batch per gpu|per gpu batch size|"
                       "batch per device|batch per rank|device batch size"},
    [Q_GLOBAL_BATCH] = {"global-batch", KIND_COUNT,
                        "global batch size|global batch|global bs|gbs|effective batch size|"
                        "effective batch|total batch size|total batch"},
    [Q_ACCUM] = {"accum", KIND_COUNT,
                 "accumulation steps|gradient accumulation steps|grad accum steps|accum steps|"
                 "gradient accumulation|grad accum|accumulation|accum|ga steps"},
    [Q_SEQ] = {"seq", KIND_COUNT,
               "sequence length|seq length|seq len|seqlen|max seq length|max seq len|"
               "context length|context size|block size|context window|context|token sequences|"
               "token sequence|tokens per sequence|seq|ctx"},
    [Q_RANKS] = {"ranks", KIND_COUNT,
                 "world size|num gpus|number of gpus|gpu count|n gpus|gpus|gpu|ranks|num ranks|"
                 "number of ranks|devices|num devices|workers|processes|n gpu|g"},
    [Q_LR] = {"lr", KIND_COUNT, "learning rate|max learning rate|peak learning rate|max lr|lr"},
    [Q_RANK] = {"rank", KIND_COUNT, "rank|local rank|gpu id|gpu index|device id"},
    [Q_STEP] = {"step", KIND_COUNT, "step|iter|iteration|global step|update"},
    [Q_PARAMETERS] = {"parameters", KIND_COUNT,
                      "parameters|params|model parameters|parameter count|num params|"
                      "number of parameters|model size|parameter"},
    [Q_VOCAB] = {"vocab", KIND_COUNT, "vocabulary size|vocab size|vocabulary|vocab|n vocab"},
    [Q_STEPS] = {"steps", KIND_COUNT,
                 "steps|total steps|training steps|train steps|num steps|max steps|"
                 "gradient updates|parameter updates|optimizer steps|optimizer updates|updates|"
                 "iterations|iters|total iterations|number of steps|number of updates"},
    [Q_STEPS_PER_EPOCH] = {"steps-per-epoch", KIND_COUNT,
                           "steps per epoch|steps per ep|updates per epoch|iterations per epoch|"
                           "batches per epoch"},
    [Q_EPOCHS] = {"epochs", KIND_COUNT, "epochs|num epochs|number of epochs"},
    [Q_WARMUP] = {"warmup", KIND_COUNT,
                  "warmup steps|steps warmup|warm up steps|warmup|steps of warmup"},
    [Q_TOKENS] = {"tokens", KIND_COUNT,
                  "total tokens|training tokens|tokens processed|tokens trained|token budget|"
                  "tokens seen|tokens|train tokens|number of tokens"},
    [Q_TOKENS_PER_STEP] = {"tokens-per-step", KIND_COUNT,
                           "tokens per step|tokens per update|tokens per batch|tok per step|"
                           "tokens per iteration|tokens per iter|total batch tokens"},
    [Q_SAMPLES_PER_EPOCH] = {"samples-per-epoch", KIND_COUNT,
                             "samples per epoch|samples per ep|sequences per epoch|"
                             "examples per epoch"},
    [Q_TOKENS_PER_SECOND] = {"tok-s", KIND_RATE,
                             "tok per s|tok per sec|tokens per s|tokens per sec|"
                             "tokens per second|throughput|toks per s|tok s|tps|tokens sec|"
                             "total throughput|tokens s|!performance|tok per second"},
    [Q_SPEEDUP] = {"speedup", KIND_RATIO,
                   "speedup|speed up|scaling factor|speedup factor|acceleration"},
    [Q_EFFICIENCY] = {"efficiency", KIND_SHARE,
                      "scaling efficiency|parallel efficiency|efficiency|weak scaling efficiency|"
                      "strong scaling efficiency"},
    [Q_MFU] = {"mfu", KIND_SHARE, "mfu|model flops utilization|model flop utilization|hfu"},
    [Q_TOTAL_TIME] = {"total-time", KIND_TIME,
                      "total time|wall time|wall clock time|wall clock|total wall time|wall|"
                      "execution time|exec time|total exec time|total execution time|"
                      "script execution time|elapsed time|elapsed|runtime|total runtime|run time|"
                      "!duration|!took|!total"},
    [Q_WORKER_TIME] = {"worker-time", KIND_TIME,
                       "!train worker|!worker|worker time|train worker time"},
    [Q_EPOCH_TIME] = {"epoch-time", KIND_TIME,
                      "epoch time|time per epoch|total epoch time|s per ep|s per epoch|"
                      "sec per epoch|seconds per epoch|!epoch|!per epoch|time epoch"},
    [Q_TRAIN_TIME] = {"train-time", KIND_TIME,
                      "training time|train time|!training|!train|time to train"},
    [Q_VALIDATION_TIME] = {"validation-time", KIND_TIME,
                           "validation time|val time|eval time|evaluation time|!validation|!val|"
                           "!evaluation"},
    [Q_STEP_TIME] = {"step-time", KIND_TIME,
                     "step time|time per step|s per step|ms per step|seconds per step|"
                     "sec per step|time per iteration|iteration time|iter time|s per it|"
                     "ms per it|ms per iter|s per iter|!per step|!per iteration|!per update|"
                     "update time|batch time|!step"},
    [Q_COMPUTE_TIME] = {"compute-time", KIND_TIME,
                        "compute time|computation time|training compute time|!compute|"
                        "!computation|compute sec|compute s"},
    [Q_FORWARD_TIME] = {"forward-time", KIND_TIME,
                        "forward time|forward pass time|fwd time|!forward pass|!forward|!fwd|"
                        "!per forward pass"},
    [Q_BACKWARD_TIME] = {"backward-time", KIND_TIME,
                         "backward time|backward pass time|bwd time|!backward pass|!backward|"
                         "!bwd|!per backward pass"},
    [Q_LOSS_TIME] = {"loss-time", KIND_TIME,
                     "loss time|loss computation time|!loss computation|!loss comp|!loss|"
                     "!criterion"},
    [Q_OPTIMIZER_TIME] = {"optimizer-time", KIND_TIME,
                          "optimizer time|optimizer step time|update time|!optimizer step|"
                          "!optimizer|!optim"},
    [Q_DATA_TIME] = {"data-time", KIND_TIME,
                     "data loading time|data time|loading time|!data loading|!dataloader|"
                     "!data load|!loading"},
    [Q_MOVE_TIME] = {"move-time", KIND_TIME,
                     "data movement time|movement time|transfer time|copy time|!data movement|"
                     "!host to device|!h2d|!data transfer"},
    [Q_COMMUNICATION_TIME] = {"communication-time", KIND_TIME,
                              "communication time|comm time|training communication time|"
                              "allreduce time|all reduce time|!communication|!comm|!allreduce|"
                              "!all reduce|!sync|sync time"},
    [Q_LOSS] = {"loss", KIND_COUNT, "loss|average loss|avg loss|mean loss"},
    [Q_FIRST_LOSS] = {"first-loss", KIND_COUNT,
                      "initial loss|first loss|starting loss|loss at step 0|step 0 loss|"
                      "initial loss values|initial train loss|initial training loss|start loss"},
    [Q_TRAIN_LOSS] = {"train-loss", KIND_COUNT,
                      "train loss|training loss|final train loss|final training loss"},
    [Q_VAL_LOSS] = {"val-loss", KIND_COUNT,
                    "val loss|validation loss|eval loss|test loss|evaluation loss|valid loss"},
    [Q_FINAL_VAL_LOSS] = {"final-val-loss", KIND_COUNT,
                          "final val loss|final validation loss|last val loss"},
    [Q_BEST_VAL_LOSS] = {"best-val-loss", KIND_COUNT,
                         "best val loss|best validation loss|min val loss|lowest val loss|"
                         "lowest validation loss|minimum validation loss"},
    [Q_MEMORY] = {"memory", KIND_BYTES,
                  "peak memory|memory usage|gpu memory used|memory allocated|allocated memory|"
                  "max memory|peak gpu memory|peak gpu|peak mem|mem|memory|memory per gpu|"
                  "!allocated|!peak|vram|memory used"},
    [Q_DEVICE_MEMORY] = {"device-memory", KIND_BYTES,
                         "device memory|gpu capacity|total capacity|memory capacity|capacity|"
                         "total gpu memory|total memory|!gpu with|!gpu|!gpu with memory|"
                         "!card|!h100|!a100|!hbm3|!hbm2e|!hbm2"},
    [Q_PARAMETER_BYTES] = {"parameter-bytes", KIND_BYTES,
                           "parameter memory|!model parameters|!parameters|!params|!weights|"
                           "!model weights|weight memory|!parameter"},
    [Q_GRADIENT_BYTES] = {"gradient-bytes", KIND_BYTES,
                          "gradient memory|!gradients|!grads|!gradient"},
    [Q_OPTIMIZER_BYTES] = {"optimizer-bytes", KIND_BYTES,
                           "optimizer memory|!optimizer states|!optimizer state|!optimizer|"
                           "!adam states|!adam state|!optimizer states adam|!adam|!adamw|"
                           "!optim states"},
};

const char *quantity_name(Quantity quantity)
{
    PACER_ASSERT(quantity >= 0 && quantity < Q_COUNT, "quantity %d", (int)quantity);
    return rows[quantity].name;
}

bool quantity_is_setting(Quantity quantity)
{
    return quantity > Q_NONE && quantity <= Q_LAST_SETTING;
}

bool quantity_is_time(Quantity quantity)
{
    return rows[quantity].kind == KIND_TIME;
}

void phrase_make(const char *text, size_t size, char phrase[PHRASE_SIZE])
{
    size_t used = 0;
    phrase[used++] = ' ';
    for (size_t i = 0; i < size && text[i] != '\0' && used < PHRASE_SIZE - 6; i++) {
        unsigned char c = (unsigned char)text[i];
        bool blank = phrase[used - 1] == ' ';
        if (isalnum(c)) {
            phrase[used++] = (char)tolower(c);
        } else if (c == '/') {
            used -= blank;
            memcpy(phrase + used, " per ", 5);
            used += 5;
        } else if (!blank) {
            phrase[used++] = ' ';
        }
    }
    if (phrase[used - 1] != ' ') {
        phrase[used++] = ' ';
    }
    phrase[used] = '\0';
}

static bool unit_fits(Kind kind, Unit unit, bool needs_unit)
{
    switch (unit) {
    case UNIT_NONE:
        return !needs_unit;
    case UNIT_SECONDS:
        return kind == KIND_TIME;
    case UNIT_BYTES:
        return kind == KIND_BYTES;
    case UNIT_PERCENT:
        return kind == KIND_SHARE;
    case UNIT_TIMES:
        return kind == KIND_RATIO;
    case UNIT_TOKENS_PER_SECOND:
        return kind == KIND_RATE;
    }
    return false;
}

/* Where a name (without blanks around it) stands in the phrase, -1 if nowhere. The last place
 * wins. */
static long place_of(const char *phrase, const char *name, size_t length, PhrasePlace place)
{
    size_t all = strlen(phrase);
    if (length + 2 > all) {
        return -1;
    }
    for (size_t at = all - length - 1; at >= 1; at--) {
        bool whole = phrase[at - 1] == ' ' && phrase[at + length] == ' ';
        bool placed = place == PHRASE_ANYWHERE || (place == PHRASE_AT_START && at == 1) ||
                      (place == PHRASE_AT_END && at + length + 1 == all);
        if (whole && placed && memcmp(phrase + at, name, length) == 0) {
            return (long)at;
        }
    }
    return -1;
}

static int words_of(const char *name, size_t length)
{
    int words = 1;
    for (size_t i = 0; i < length; i++) {
        words += name[i] == ' ';
    }
    return words;
}

Quantity quantity_find(const Names *names, const char *phrase, Unit unit, PhrasePlace place,
                       int *words)
{
    Quantity best = Q_NONE;
    size_t best_length = 0;
    long best_at = -1;
    for (int i = 0; i < names->count; i++) {
        const NameMapping *mapping = &names->mappings[i];
        size_t length = strlen(mapping->phrase) - 2;
        if (length > best_length && place_of(phrase, mapping->phrase + 1, length, place) >= 0) {
            best = mapping->quantity;
            best_length = length;
            best_at = LONG_MAX;
            if (words != NULL) {
                *words = words_of(mapping->phrase + 1, length);
            }
        }
    }
    bool starts[256] = {false}; /* letters that words begin with: most names need no closer look */
    for (size_t i = 1; phrase[i] != '\0'; i++) {
        starts[(unsigned char)phrase[i]] |= phrase[i - 1] == ' ';
    }
    bool empty = phrase[0] == '\0' || phrase[1] == '\0';
    for (int q = 1; q < Q_COUNT && best_at != LONG_MAX && !empty; q++) {
        for (const char *alias = rows[q].aliases; *alias != '\0';) {
            size_t length = (size_t)(strchrnul(alias, '|') - alias);
            bool needs_unit = alias[0] == '!';
            const char *name = alias + needs_unit;
            size_t size = length - needs_unit;
            if (size >= best_length && starts[(unsigned char)name[0]] &&
                unit_fits(rows[q].kind, unit, needs_unit)) {
                long at = place_of(phrase, name, size, place);
                if (at >= 0 && (size > best_length || at > best_at)) {
                    best = (Quantity)q;
                    best_length = size;
                    best_at = at;
                    if (words != NULL) {
                        *words = words_of(name, size);
                    }
                }
            }
            alias += length + (alias[length] == '|');
        }
    }
    return best;
}

const char *quantity_list(char text[1024])
{
    size_t used = 0;
    for (int q = 1; q < Q_COUNT; q++) {
        used += (size_t)snprintf(text + used, 1024 - used, "%s%s", q > 1 ? ", " : "", rows[q].name);
        PACER_ASSERT(used < 1024, "%zu characters", used);
    }
    return text;
}

static int parse_one(const char *line, size_t length, NameMapping *mapping)
{
    const char *equals = memrchr(line, '=', length);
    size_t before = equals != NULL ? (size_t)(equals - line) : length;
    phrase_make(line, before, mapping->phrase);
    if (equals == NULL || mapping->phrase[1] == '\0') {
        return err_set(ERR_INPUT, "--map '%.*s': must be 'their name=quantity'", (int)length, line);
    }
    const char *all[Q_COUNT];
    for (int q = 1; q < Q_COUNT; q++) {
        all[q - 1] = rows[q].name;
        if (strlen(rows[q].name) == length - before - 1 &&
            memcmp(rows[q].name, equals + 1, length - before - 1) == 0) {
            mapping->quantity = (Quantity)q;
            return 0;
        }
    }
    all[Q_COUNT - 1] = NULL;
    bool likely;
    char *given = mem_format("%.*s", (int)(length - before - 1), equals + 1);
    const char *nearest = config_nearest(given, all, &likely);
    char list[1024];
    int code = err_set(ERR_INPUT, "--map: no quantity '%.40s'; %s %s? There are: %s", given,
                       likely ? "did you mean" : "perhaps", nearest, quantity_list(list));
    free(given);
    return code;
}

int names_parse(const char *lines, NameMapping **mappings, int *count)
{
    *mappings = NULL;
    *count = 0;
    while (*lines != '\0') {
        size_t length = strcspn(lines, "\n");
        if (length > 0) {
            *mappings = mem_realloc(*mappings, (size_t)*count + 1, sizeof **mappings);
            int code = parse_one(lines, length, &(*mappings)[*count]);
            if (code != 0) {
                free(*mappings);
                *mappings = NULL;
                *count = 0;
                return code;
            }
            ++*count;
        }
        lines += length + (lines[length] == '\n');
    }
    return 0;
}
