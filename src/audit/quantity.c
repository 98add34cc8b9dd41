/* The table of names. A name with "!" before it is a common word and counts only for a number that
 * carries a unit of its kind ("Epoch | 268 s" is a time, "Epoch 3" is not). */
#include "audit/quantity.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/mem.h"
#include "config/config.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum {
    KIND_COUNT,
    KIND_TIME,
    KIND_BYTES,
    KIND_RATE,
    KIND_SHARE,
    KIND_RATIO,
    KIND_SAMPLES,
    KIND_FLOP,
    KIND_GPU_TIME,
    KIND_MONEY,
} Kind;

typedef struct {
    const char *name;
    Kind kind;
    const char *aliases;
} Row;

static const Row rows[Q_COUNT] = {
    [Q_NONE] = {"none", KIND_COUNT, ""},
    [Q_BATCH] = {"batch", KIND_COUNT, "batch size|batchsize|batch|bs|mini batch|minibatch"},
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
                 "gradient accumulation|grad accum|accumulation|accum|ga steps|ga"},
    [Q_SEQ] = {"seq", KIND_COUNT,
               "sequence length|seq length|seq len|seqlen|max seq length|max seq len|max length|"
               "context length|context size|block size|context window|context|token sequences|"
               "token sequence|tokens per sequence|seq|ctx|sequence len|max sequence length"},
    [Q_RANKS] = {"ranks", KIND_COUNT,
                 "world size|num gpus|number of gpus|gpu count|n gpus|gpus|gpu|ranks|num ranks|"
                 "number of ranks|devices|num devices|n gpu|gpu num|chips|num chips|npus|tpus"},
    [Q_LR] = {"lr", KIND_COUNT, "learning rate|max learning rate|peak learning rate|max lr|lr"},
    [Q_RANK] = {"rank", KIND_COUNT, "rank|local rank|gpu id|gpu index|device id"},
    [Q_STEP] = {"step", KIND_COUNT, "step|iter|iteration|global step|update"},
    [Q_PARAMETERS] = {"parameters", KIND_COUNT,
                      "parameters|params|model parameters|parameter count|num params|"
                      "number of parameters|parameter|total parameters|param count"},
    [Q_VOCAB] = {"vocab", KIND_COUNT, "vocabulary size|vocab size|vocabulary|vocab|n vocab"},
    [Q_STEPS] = {"steps", KIND_COUNT,
                 "steps|total steps|training steps|train steps|num steps|max steps|"
                 "gradient updates|parameter updates|optimizer steps|optimizer updates|updates|"
                 "iterations|total iterations|number of steps|number of updates"},
    [Q_STEPS_PER_EPOCH] = {"steps-per-epoch", KIND_COUNT,
                           "steps per epoch|steps per ep|updates per epoch|iterations per epoch|"
                           "batches per epoch"},
    [Q_EPOCHS] = {"epochs", KIND_COUNT, "epochs|num epochs|number of epochs"},
    [Q_WARMUP] = {"warmup", KIND_COUNT,
                  "warmup steps|steps warmup|warm up steps|warmup|steps of warmup"},
    [Q_TOKENS] = {"tokens", KIND_COUNT,
                  "total tokens|training tokens|tokens processed|tokens trained|token budget|"
                  "tokens seen|tokens|train tokens|number of tokens|planned tokens"},
    [Q_TOKENS_PER_STEP] = {"tokens-per-step", KIND_COUNT,
                           "tokens per step|tokens per update|tokens per batch|tok per step|"
                           "tokens per iteration|tokens per iter|total batch tokens|"
                           "tokens per optimizer step|"
                           "batch size tokens|global batch tokens|batch size in tokens|"
                           "effective batch tokens"},
    [Q_SAMPLES_PER_EPOCH] = {"samples-per-epoch", KIND_COUNT,
                             "samples per epoch|samples per ep|sequences per epoch|"
                             "examples per epoch"},
    [Q_SAMPLES] = {"samples", KIND_COUNT,
                   "training samples|train samples|training examples|train examples"},
    [Q_TOKENS_PER_SECOND] =
        {"tok-s", KIND_RATE,
         "tok per s|tok per sec|tokens per s|tokens per sec|"
         "tokens per second|!throughput|toks per s|"
         "tok per second|token per s|tok sec|!performance|!speed|!training speed|!total|!sum|"
         "!global throughput"},
    [Q_SAMPLES_PER_SECOND] = {"samples-s", KIND_SAMPLES,
                              "samples per s|samples per sec|samples per second|"
                              "sequences per s|sequences per sec|sequences per second|"
                              "seq per s|seqs per s|throughput|performance"},
    [Q_FLOP_PER_SECOND] = {"flop-s", KIND_FLOP,
                           "!tflops|!tflop per s|!model tflop|!model tflops|!model flops|!tflop|"
                           "!throughput|!performance|!flops|!achieved flops"},
    [Q_SPEEDUP] = {"speedup", KIND_RATIO,
                   "speedup|speed up|scaling factor|speedup factor|acceleration|relative speedup|"
                   "speedup over baseline|speedup vs baseline|speedup over the baseline"},
    [Q_EFFICIENCY] = {"efficiency", KIND_SHARE,
                      "scaling efficiency|parallel efficiency|efficiency|weak scaling efficiency|"
                      "strong scaling efficiency"},
    [Q_MFU] = {"mfu", KIND_SHARE, "mfu|model flops utilization|model flop utilization"},
    [Q_GPU_TIME] = {"gpu-time", KIND_GPU_TIME,
                    "!gpu hours|!gpu h|!gpu time|!compute|!a100 hours|!h100 hours|!cost|!gpu days|"
                    "!training time|!time|!training compute"},
    [Q_TOTAL_TIME] = {"total-time", KIND_TIME,
                      "total time|wall time|wall clock time|wall clock|total wall time|wall|"
                      "execution time|exec time|total exec time|total execution time|"
                      "script execution time|elapsed time|elapsed|runtime|total runtime|run time|"
                      "!duration|!took|!time|!hours|!minutes"},
    [Q_WORKER_TIME] = {"worker-time", KIND_TIME,
                       "!train worker|!worker|worker time|train worker time"},
    [Q_EPOCH_TIME] = {"epoch-time", KIND_TIME,
                      "epoch time|time per epoch|total epoch time|s per ep|s per epoch|"
                      "sec per epoch|seconds per epoch|!epoch|!per epoch|!time per epoch"},
    [Q_TRAIN_TIME] = {"train-time", KIND_TIME,
                      "training time|train time|!training|!train|time to train|"
                      "total training time|total train time"},
    [Q_VALIDATION_TIME] = {"validation-time", KIND_TIME,
                           "validation time|val time|eval time|evaluation time|!validation|!val|"
                           "!evaluation"},
    [Q_STEP_TIME] =
        {"step-time", KIND_TIME,
         "step time|time per step|s per step|ms per step|seconds per step|"
         "sec per step|time per iteration|iteration time|iter time|s per it|time per iter|"
         "elapsed time per iteration|elapsed time per iteration ms|"
         "ms per it|ms per iter|s per iter|!per step|!per iteration|!per update|!dt|"
         "update time|batch time|time per global step|global step time|!step"},
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
    [Q_LOSS] = {"loss", KIND_COUNT, "loss|average loss|avg loss|mean loss|loss medio"},
    [Q_PERPLEXITY] = {"perplexity", KIND_COUNT, "perplexity|ppl|perplexidade|perplejidad"},
    [Q_FIRST_LOSS] = {"first-loss", KIND_COUNT,
                      "initial loss|first loss|starting loss|loss at step 0|step 0 loss|"
                      "initial loss values|initial train loss|initial training loss|start loss"},
    [Q_TRAIN_LOSS] = {"train-loss", KIND_COUNT,
                      "train loss|training loss|final train loss|final training loss"},
    [Q_VAL_LOSS] = {"val-loss", KIND_COUNT,
                    "val loss|validation loss|eval loss|evaluation loss|valid loss"},
    [Q_FINAL_VAL_LOSS] = {"final-val-loss", KIND_COUNT,
                          "final val loss|final validation loss|last val loss|val loss final|"
                          "validation loss final"},
    [Q_BEST_VAL_LOSS] = {"best-val-loss", KIND_COUNT,
                         "best val loss|best validation loss|min val loss|lowest val loss|"
                         "lowest validation loss|minimum validation loss|val loss best|"
                         "validation loss best"},
    [Q_VAL_PERPLEXITY] = {"val-perplexity", KIND_COUNT,
                          "val perplexity|validation perplexity|val ppl|validation ppl|"
                          "eval perplexity|eval ppl|valid ppl"},
    [Q_COST] = {"cost", KIND_MONEY, "!cost|!total cost|!price|!training cost|!total"},
    [Q_PRICE] = {"price-per-gpu-hour", KIND_MONEY,
                 "!price per gpu hour|!cost per gpu hour|!per gpu hour|!price per hour per gpu|"
                 "!gpu hour price|!per gpu h|!rate per gpu hour"},
    [Q_SOME_MEMORY] = {"some-memory", KIND_BYTES, "gpu memory|mem|memory|memory per gpu|vram"},
    [Q_MEMORY] = {"memory", KIND_BYTES,
                  "memory usage|gpu memory used|memory allocated|allocated memory|"
                  "gpu memory usage|!peak gpu|!allocated|!peak|memory used|!gpu peak|"
                  "!allocated by pytorch|!is allocated by pytorch"},
    [Q_DEVICE_MEMORY] = {"device-memory", KIND_BYTES,
                         "device memory|gpu capacity|total capacity|memory capacity|capacity|"
                         "total gpu memory|!gpu|!gpu with|!has a total capacity|"
                         "!card with"},
    [Q_PARAMETER_BYTES] = {"parameter-bytes", KIND_BYTES,
                           "parameter memory|!model parameters|!parameters|!params|!weights|"
                           "!model weights|weight memory|!parameter"},
    [Q_GRADIENT_BYTES] = {"gradient-bytes", KIND_BYTES,
                          "gradient memory|!gradients|!grads|!gradient"},
    [Q_OPTIMIZER_BYTES] = {"optimizer-bytes", KIND_BYTES,
                           "optimizer memory|!optimizer states|!optimizer state|!optimizer|"
                           "!adam states|!adam state|!optimizer states adam|!adam|!adamw|"
                           "!optimizer state adamw|!optimizer state adam|!optim states|"
                           "!optimizer states adamw"},
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

bool next_word(const char **list, const char **word, size_t *length)
{
    *word = *list;
    *length = (size_t)(strchrnul(*list, '|') - *list);
    bool there = **list != '\0';
    *list += *length + ((*list)[*length] == '|');
    return there;
}

static bool unit_fits(Kind kind, Unit unit, bool needs_unit)
{
    static const Kind kinds[] = {
        [UNIT_SECONDS] = KIND_TIME,           [UNIT_BYTES] = KIND_BYTES,
        [UNIT_PERCENT] = KIND_SHARE,          [UNIT_TIMES] = KIND_RATIO,
        [UNIT_TOKENS_PER_SECOND] = KIND_RATE, [UNIT_SAMPLES_PER_SECOND] = KIND_SAMPLES,
        [UNIT_GPU_SECONDS] = KIND_GPU_TIME,   [UNIT_FLOP_PER_SECOND] = KIND_FLOP,
        [UNIT_DOLLARS] = KIND_MONEY};
    if (unit == UNIT_NONE || unit == UNIT_OTHER) {
        return unit == UNIT_NONE && !needs_unit && kind != KIND_BYTES;
    }
    return kind == kinds[unit] || (unit == UNIT_PERCENT && kind == KIND_RATIO); /* "25 % faster" */
}

bool quantity_fits(Quantity quantity, Unit unit)
{
    return unit_fits(rows[quantity].kind, unit, false);
}

/* The quantity with this name, `size` characters without blanks around them. */
static Quantity named(const Names *names, const char *name, size_t size, Unit unit)
{
    for (int i = 0; i < names->count; i++) {
        const char *phrase = names->mappings[i].phrase;
        if (strlen(phrase) == size + 2 && memcmp(phrase + 1, name, size) == 0) {
            return names->mappings[i].quantity;
        }
    }
    for (int q = 1; q < Q_COUNT; q++) {
        const char *aliases = rows[q].aliases, *alias;
        for (size_t length; next_word(&aliases, &alias, &length);) {
            bool needs_unit = alias[0] == '!';
            if (length - needs_unit == size && memcmp(alias + needs_unit, name, size) == 0 &&
                unit_fits(rows[q].kind, unit, needs_unit)) {
                return (Quantity)q;
            }
        }
    }
    return Q_NONE;
}

/* Words beside a name that do not make it another, those of a mark behind each other. */
static const struct {
    const char *words;
    unsigned mark;
} idle[] = {
    {" per gpu | per device | per rank | per chip | gpu ", MARK_PER_RANK},
    {" average | avg | mean | median ", MARK_MEAN},
    {" peak | max | maximum ", MARK_PEAK},
    {" total | overall | combined | aggregate ", MARK_TOTAL},
    {" training | train | measured | actual | achieved | observed | approximately | approx | the | "
     "of | per experiment | per run | num | number | h100 | a100 | h200 | v100 | bf16 | fp16 | "
     "fp32 | tf32 | fp8 | mixed precision | amp | used | final | our ",
     0},
};

/* Words of numbers that nobody measured in this run. */
static const char supposed[] =
    " target | expected | theoretical | ideal | estimated | projected | predicted | baseline |"
    " reference | previous | paper | reported | required | planned | limit | default ";

char *phrase_find(const char *phrase, const char *words, size_t *length)
{
    char *at = NULL;
    for (const char *word; at == NULL && next_word(&words, &word, length);) {
        at = memmem(phrase, strlen(phrase), word, *length);
    }
    return at;
}

bool word_is_one_of(const char *word, size_t size, const char *list)
{
    const char *one;
    for (size_t length; next_word(&list, &one, &length);) {
        if (length == size && strncasecmp(word, one, size) == 0) {
            return true;
        }
    }
    return false;
}

bool words_are_among(const char *text, size_t size, const char *list)
{
    const char *end = text + size;
    while (text < end) {
        const char *from = text++;
        while (isalpha((unsigned char)*from) && text < end && isalnum((unsigned char)*text)) {
            text++;
        }
        if (isalpha((unsigned char)*from) && !word_is_one_of(from, (size_t)(text - from), list)) {
            return false;
        }
    }
    return true;
}

/* Takes one idle expression off the phrase, in place; false: there is none. */
static bool strip_one(char *phrase, unsigned *marks)
{
    for (size_t i = 0; i < sizeof idle / sizeof idle[0]; i++) {
        size_t length;
        char *at = phrase_find(phrase, idle[i].words, &length);
        if (at != NULL) {
            memmove(at, at + length - 1, strlen(at + length - 1) + 1);
            *marks |= idle[i].mark;
            return true;
        }
    }
    return false;
}

Quantity quantity_match(const Names *names, const char *phrase, Unit unit, unsigned *marks)
{
    char rest[PHRASE_SIZE];
    *marks = 0;
    memcpy(rest, phrase, strlen(phrase) + 1);
    Quantity exact = strlen(rest) < 3 ? Q_NONE : named(names, rest + 1, strlen(rest) - 2, unit);
    if (exact != Q_NONE) {
        return exact;
    }
    size_t length;
    bool made_up = phrase_find(phrase, supposed, &length) != NULL;
    for (;;) {
        length = strlen(rest);
        if (length < 3 || made_up) {
            return Q_NONE;
        }
        Quantity found = named(names, rest + 1, length - 2, unit);
        if (found != Q_NONE) {
            return found;
        }
        if (!strip_one(rest, marks)) {
            return Q_NONE;
        }
    }
}

Quantity quantity_begins(const Names *names, const char *phrase, Unit unit, size_t *length)
{
    for (size_t end = strlen(phrase); end >= 3; end--) {
        if (phrase[end - 1] == ' ') {
            Quantity found = named(names, phrase + 1, end - 2, unit);
            if (found != Q_NONE) {
                *length = end;
                return found;
            }
        }
    }
    return Q_NONE;
}

bool phrase_is_idle(const char *phrase, unsigned *marks)
{
    char rest[PHRASE_SIZE];
    memcpy(rest, phrase, strlen(phrase) + 1);
    while (strip_one(rest, marks)) {}
    return strlen(rest) < 3;
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
    char *given = mem_format("%.*s", (int)(length - before - 1), equals + 1);
    const char *nearest = config_nearest(given, all);
    char list[1024];
    int code = err_set(ERR_INPUT, "--map: no quantity '%.40s'; %s%s%sthere are: %s", given,
                       nearest != NULL ? "did you mean " : "", nearest != NULL ? nearest : "",
                       nearest != NULL ? "? " : "", quantity_list(list));
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
