/* Rules between options, and the values that follow from them.
 *
 * Where two options answer the same question (config_lengths; accum or global-batch), the
 * one from the stronger source stands and the other goes back to its default: the command line
 * beats the file, both beat a record. Two answers from the same source are an error. */
#include "config/config.h"
#include "config/internal.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/mem.h"
#include "config/batch_ramp.h"

#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_STEPS 1000
#define AUTO_WARMUP_PART 20 /* warmup auto: one step in 20 */
#define AUTO_MIN_LR_PART 10
#define AUTO_MOMENTUM 0.9
#define AUTO_MUON_MOMENTUM 0.95
#define INIT_LR 1e-4

static bool is_zero(const Config *cfg, const Option *option)
{
    const void *field = option_field_const(cfg, option);
    return option->type == OPTION_REAL ? *(const double *)field == 0 : *(const int64_t *)field == 0;
}

static OriginKind kind_of(const Config *cfg, const Option *option)
{
    return cfg->origin[option_index(option)].kind;
}

/* Records and programs pass on every option, also those that say nothing (0). */
static bool answers(const Config *cfg, const Option *option)
{
    return origin_is_given(kind_of(cfg, option)) && !is_zero(cfg, option);
}

/* Notes that the option's value follows from others. */
static void mark_derived(Config *cfg, const char *name)
{
    cfg->origin[option_index(config_find(name))] = (Origin){ORIGIN_DERIVED, 0};
}

/* Leaves at most one of the named options given, or fails. */
static int settle(Config *cfg, const char *const *names, int count, const char *all)
{
    OriginKind strongest = ORIGIN_DEFAULT;
    const Option *winner = NULL;
    for (int i = 0; i < count; i++) {
        const Option *option = config_find(names[i]);
        if (answers(cfg, option) && kind_of(cfg, option) > strongest) {
            strongest = kind_of(cfg, option);
            winner = option;
        }
    }
    for (int i = 0; i < count && winner != NULL; i++) {
        const Option *option = config_find(names[i]);
        if (option == winner) {
            continue;
        }
        if (answers(cfg, option) && kind_of(cfg, option) == strongest) {
            char place[CONFIG_ORIGIN_SIZE];
            return option_error(cfg, option->name, " and %s (%s) are both given; give one of %s",
                                winner->name, config_origin(cfg, winner->name, place), all);
        }
        option_reset(cfg, option);
    }
    return 0;
}

const char *const config_lengths[] = {"steps", "tokens", "epochs", "flops", "minutes", NULL};

static int check_length(Config *cfg)
{
    if (!option_taken_by(config_find("steps"), cfg->command)) {
        return 0;
    }
    int code = settle(cfg, config_lengths, 5, "steps, tokens, epochs, flops and minutes");
    if (code != 0) {
        return code;
    }
    if (cfg->steps == 0 && cfg->tokens == 0 && cfg->epochs == 0 && cfg->flops == 0 &&
        cfg->minutes == 0) {
        cfg->steps = DEFAULT_STEPS;
        mark_derived(cfg, "steps");
    }
    if (cfg->steps > 0 && cfg->warmup > cfg->steps) {
        return option_error(cfg, "warmup",
                            " %" PRId64 ": longer than the whole run of %" PRId64 " steps",
                            cfg->warmup, cfg->steps);
    }
    return 0;
}

/* --batch-ramp in place of accum and global-batch. Sets accum to that of the first update. */
static int check_ramp(Config *cfg)
{
    const Option *ramp = config_find("batch-ramp"), *accum = config_find("accum");
    if (cfg->recommend) {
        return option_error(cfg, ramp->name,
                            ": recommend looks for one batch; leave one of the two out");
    }
    static const char *const others[] = {"accum", "global-batch", "minutes"};
    for (int i = 0; i < 3; i++) {
        const Option *other = config_find(others[i]);
        /* A program passes on every option, also an accum that followed from others. */
        bool against =
            kind_of(cfg, other) > ORIGIN_PROGRAM && kind_of(cfg, other) >= kind_of(cfg, ramp);
        if (answers(cfg, other) && (i == 2 || against)) {
            return option_error(cfg, ramp->name, " and %s are both given; %s", others[i],
                                i < 2 ? "the ramp says how large updates are: leave one out"
                                      : "where a share of the time begins is not known before: "
                                        "give steps, tokens, epochs or flops");
        }
        if (i < 2) {
            option_reset(cfg, other);
        }
    }
    BatchRampMark marks[BATCH_RAMP_MOST];
    int count;
    if (batch_ramp_parse(cfg->batch_ramp, marks, &count) != 0) {
        char *why = mem_strdup(err_message());
        int code = option_error(cfg, ramp->name, ": %s", why);
        free(why);
        return code;
    }
    int64_t together = cfg->batch * cfg->ranks; /* sequences of one micro-step */
    for (int i = 0; i < count; i++) {
        int64_t sequences = marks[i].sequences;
        if (sequences % together != 0 || (double)(sequences / together) > accum->max) {
            return option_error(cfg, ramp->name,
                                ": %" PRId64 " is not a multiple of batch %" PRId64
                                " x ranks %" PRId64 " (sequences per micro-step), or above %.0f "
                                "times that; change one of them",
                                sequences, cfg->batch, cfg->ranks, accum->max);
        }
    }
    cfg->accum = marks[0].sequences / together;
    mark_derived(cfg, "accum");
    return 0;
}

static int check_batch(Config *cfg)
{
    static const char *const names[] = {"accum", "global-batch"};
    const Option *accum = config_find("accum"), *global_batch = config_find("global-batch");
    if (cfg->batch_ramp[0] != '\0') {
        return check_ramp(cfg);
    }
    if (!option_taken_by(global_batch, cfg->command) || cfg->recommend) {
        return 0; /* or the batch is still to be found */
    }
    OriginKind kind = kind_of(cfg, accum);
    bool passed_on = kind == kind_of(cfg, global_batch) && kind <= ORIGIN_PROGRAM;
    int64_t together = cfg->batch * cfg->ranks; /* sequences of one micro-step */
    if (passed_on && cfg->global_batch != 0 && together * cfg->accum == cfg->global_batch) {
        return 0;
    }
    int code = settle(cfg, names, 2, "accum and global-batch");
    bool open = cfg->fit && !config_is_set(cfg, "batch");
    if (code != 0 || cfg->global_batch == 0 || open) {
        return code;
    }
    if (cfg->global_batch % together != 0) {
        return option_error(cfg, global_batch->name,
                            " %" PRId64 ": not a multiple of batch %" PRId64 " x ranks %" PRId64
                            " (sequences per micro-step); change one of them",
                            cfg->global_batch, cfg->batch, cfg->ranks);
    }
    cfg->accum = cfg->global_batch / together;
    if ((double)cfg->accum > accum->max) {
        return option_error(cfg, global_batch->name,
                            " %" PRId64 ": needs accum %" PRId64 " at batch %" PRId64
                            ", above its limit; raise batch",
                            cfg->global_batch, cfg->accum, cfg->batch);
    }
    mark_derived(cfg, "accum");
    return 0;
}

/* The option serves texts and exports, which come in different forms. */
static int check_format(const Config *cfg)
{
    bool given = config_is_set(cfg, "format") && cfg->format != CONFIG_FORMAT_AUTO;
    bool of_text = cfg->format == CONFIG_FORMAT_TEXT || cfg->format == CONFIG_FORMAT_JSONL;
    bool export = cfg->command == COMMAND_EXPORT;
    if (!given || of_text != export) {
        return 0;
    }
    return option_error(cfg, "format", " %s: %s", config_find("format")->choices[cfg->format],
                        export ? "an export is hf, gguf, csv or tensorboard"
                               : "texts are read as text or jsonl");
}

/* Whether an update has two gradients to compare: of micro-steps, ranks or sequences. */
static int check_noise(const Config *cfg)
{
    if (!cfg->noise_scale || cfg->recommend || cfg->fit ||
        cfg->batch * cfg->accum * cfg->ranks > 1 || cfg->batch_ramp[0] != '\0') {
        return 0;
    }
    return option_error(cfg, "noise-scale",
                        ": an update of one sequence has one gradient alone, which does not tell "
                        "its noise; give batch 2 at least");
}

/* Ranks are in groups of this many. */
static int check_shards(const Config *cfg)
{
    int64_t group = cfg->shard_group;
    if (group == 0) {
        return 0;
    }
    if (cfg->ddp < DDP_ZERO1) {
        return option_error(cfg, "shard-group",
                            ": --ddp %s keeps nothing in parts; give zero1, "
                            "zero2 or zero3",
                            config_find("ddp")->choices[cfg->ddp]);
    }
    if (group == 1) {
        return option_error(cfg, "shard-group",
                            " 1: one rank has no part; give 2 or more, or --ddp overlap");
    }
    if (cfg->ranks % group != 0) {
        return option_error(cfg, "shard-group",
                            " %" PRId64 ": does not divide ranks %" PRId64
                            "; give a number that does, or 0 for all ranks",
                            group, cfg->ranks);
    }
    return 0;
}

/* A branch is as long as can be said before. */
static int check_branch(const Config *cfg)
{
    if (cfg->branch_at == 0) {
        return 0;
    }
    if (cfg->batch_ramp[0] != '\0' || cfg->minutes > 0) {
        return option_error(cfg, "branch-at",
                            " and %s exclude each other: its place is counted from the start",
                            cfg->minutes > 0 ? "minutes" : "batch-ramp");
    }
    return 0;
}

/* The next of the words in *list, into a text that starts at *word; its length. 0: none is left. */
static size_t next_word(const char **list, const char **word)
{
    *word = *list + strspn(*list, ", ");
    size_t length = strcspn(*word, ", ");
    *list = *word + length;
    return length;
}

static bool is_word(const char *name, const char *word, size_t length)
{
    return strlen(name) == length && strncmp(name, word, length) == 0;
}

bool config_fit_names(const Config *cfg, const Option *option)
{
    const char *list = cfg->fit_also, *word;
    bool named = false;
    for (size_t length; (length = next_word(&list, &word)) > 0;) {
        named = named || is_word(option->name, word, length);
    }
    return named && (option->flags & OPTION_FIT_ALSO) != 0;
}

bool config_fits(const Config *cfg, const Option *option)
{
    bool may = (option->flags & OPTION_FIT) != 0 || config_fit_names(cfg, option);
    return may && !config_is_set(cfg, option->name);
}

bool config_fit_rounds(const Option *option, int value)
{
    bool also = (option->flags & OPTION_FIT_ALSO) != 0;
    return also && ((option->flags & OPTION_FIT) == 0 || option->choices[value + 1] == NULL);
}

bool config_fits_value(const Config *cfg, const Option *option, int value)
{
    return config_fits(cfg, option) &&
           (!config_fit_rounds(option, value) || config_fit_names(cfg, option));
}

bool config_fits_batch(const Config *cfg)
{
    return cfg->batch_ramp[0] == '\0' && !config_is_set(cfg, "batch") &&
           !config_is_set(cfg, "accum");
}

bool config_fit_is_open(const Config *cfg)
{
    bool open = config_fits_batch(cfg);
    for (const Option *option = config_options(); option->name != NULL; option++) {
        open = open || config_fits(cfg, option);
    }
    return cfg->fit && open;
}

/* --fit-also names what --fit may set, and goes with it. */
static int check_fit(const Config *cfg)
{
    const char *list = cfg->fit_also, *word;
    if (list[0] != '\0' && !cfg->fit) {
        return option_error(cfg, "fit-also", " goes with fit, which looks for settings");
    }
    if (cfg->command == COMMAND_PLAN && cfg->json[0] != '\0' && !cfg->fit) {
        return option_error(cfg, "json", " is written with fit alone; other plans are text");
    }
    if (cfg->fit && cfg->recommend) {
        return option_error(cfg, "fit",
                            " keeps the update as it is, and recommend looks for another: leave "
                            "one out");
    }
    for (size_t length; (length = next_word(&list, &word)) > 0;) {
        char names[128] = "", quoted[VALUE_QUOTE_SIZE];
        size_t used = 0;
        bool known = false;
        for (const Option *option = config_options(); option->name != NULL; option++) {
            bool may = (option->flags & (OPTION_FIT | OPTION_FIT_ALSO)) != 0;
            known = known || (may && is_word(option->name, word, length));
            if ((option->flags & OPTION_FIT_ALSO) != 0 && used < sizeof names) {
                used += (size_t)snprintf(names + used, sizeof names - used, "%s%s",
                                         used > 0 ? ", " : "", option->name);
            }
        }
        if (!known) {
            char *own = mem_format("%.*s", (int)length, word);
            int code = option_error(cfg, "fit-also", " %s: that it cannot set; it can %s",
                                    value_quote(own, quoted), names);
            free(own);
            return code;
        }
    }
    return 0;
}

/* What suits the preset, where the options leave it open. Weights that are trained already (--init)
 * are moved by a smaller rate. */
static void take_start(Config *cfg)
{
    const ModelStart *start = config_start(cfg->model);
    if (cfg->lr < 0) {
        cfg->lr = cfg->init[0] != '\0' ? INIT_LR : start->lr;
        mark_derived(cfg, "lr");
    }
    if (cfg->batch < 0) {
        cfg->batch = start->batch;
        mark_derived(cfg, "batch");
    }
}

int config_check(Config *cfg)
{
    for (const Option *option = config_options(); option->name != NULL; option++) {
        if (kind_of(cfg, option) == ORIGIN_DERIVED) {
            option_reset(cfg, option);
        }
    }
    take_start(cfg);
    if (cfg->quiet && cfg->verbose) {
        return option_error(cfg, "verbose", " and quiet exclude each other");
    }
    if (cfg->min_lr > cfg->lr) {
        return option_error(cfg, "min-lr", " %.15g: above lr %.15g, where the schedule starts",
                            cfg->min_lr, cfg->lr);
    }
    int code = check_format(cfg);
    code = code != 0 ? code : check_length(cfg);
    code = code != 0 ? code : check_batch(cfg);
    code = code != 0 ? code : check_noise(cfg);
    code = code != 0 ? code : check_shards(cfg);
    code = code != 0 ? code : check_fit(cfg);
    return code != 0 ? code : check_branch(cfg);
}

#define START(name, lr, batch, ...) {name, lr, batch},
const ModelStart *config_start(const char *model)
{
    static const ModelStart starts[] = {MODEL_PRESETS(START, START, START, START, START)};
    static const ModelStart unknown = {"", 3e-4, 8};
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        if (strcmp(starts[i].name, model) == 0) {
            return &starts[i];
        }
    }
    return &unknown; /* an error that is told elsewhere */
}
#undef START

double config_min_lr(const Config *cfg)
{
    return cfg->min_lr >= 0 ? cfg->min_lr : cfg->lr / AUTO_MIN_LR_PART;
}

double config_momentum(const Config *cfg)
{
    return cfg->momentum >= 0                 ? cfg->momentum
           : cfg->optimizer == OPTIMIZER_MUON ? AUTO_MUON_MOMENTUM
                                              : AUTO_MOMENTUM;
}

int64_t config_warmup(const Config *cfg, int64_t total_steps)
{
    return cfg->warmup >= 0 ? cfg->warmup : total_steps / AUTO_WARMUP_PART;
}

int config_threads(const Config *cfg)
{
    return cfg->threads > 0 ? (int)cfg->threads : omp_get_num_procs();
}

int64_t config_total_steps(const Config *cfg, int64_t tokens_per_update, int64_t tokens_per_epoch)
{
    PACER_ASSERT(tokens_per_update > 0 && tokens_per_epoch >= 0, "%" PRId64 ", %" PRId64,
                 tokens_per_update, tokens_per_epoch);
    if (cfg->tokens > 0) {
        return (cfg->tokens - 1) / tokens_per_update + 1;
    }
    if (cfg->epochs > 0) {
        double updates = cfg->epochs * (double)tokens_per_epoch / (double)tokens_per_update;
        double steps = floor(updates * (1 + 1e-12)); /* 0.29 x 100 is 28.999999999999996 */
        return steps < 1 ? 1 : steps < 1e15 ? (int64_t)steps : (int64_t)1e15;
    }
    return cfg->steps;
}
