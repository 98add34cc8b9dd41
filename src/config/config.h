#pragma once
/* The options of every command. One table (table.c) gives each option its name, type, default,
 * limits, help and commands; the command line, YAML files, help, the printout, the JSON of run.json
 * and the run id all come from it. Code reads the plain fields of Config.
 *
 *     Config cfg;
 *     config_init(&cfg, COMMAND_TRAIN);
 *     int code = config_parse(&cfg, argc, argv);
 *     ... cfg.batch ...
 *     config_free(&cfg);
 *
 * Functions returning int give 0 or an ErrCode whose message names the option, or FILE:LINE. */
#include "base/choices.h"
#include "model/fields.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct cJSON;

/* X(name, words): every command that takes options. */
#define PACER_COMMANDS(X)                   \
    X(TRAIN, "train")                       \
    X(PLAN, "plan")                         \
    X(MODELS, "models")                     \
    X(TOKENIZER_TRAIN, "tokenizer train")   \
    X(TOKENIZER_ENCODE, "tokenizer encode") \
    X(TOKENIZER_DECODE, "tokenizer decode") \
    X(TOKENIZER_INFO, "tokenizer info")     \
    X(DATA_PREPARE, "data prepare")         \
    X(DATA_INFO, "data info")               \
    X(DATA_STORIES, "data stories")         \
    X(BENCH_STEP, "bench step")             \
    X(BENCH_OPS, "bench ops")               \
    X(BENCH_ATTENTION, "bench attention")   \
    X(BENCH_MACHINE, "bench machine")       \
    X(BENCH_COMM, "bench comm")             \
    X(PROFILE, "profile")                   \
    X(CHECK, "check")                       \
    X(SWEEP, "sweep")                       \
    X(DUEL, "duel")                         \
    X(REPORT, "report")                     \
    X(WATCH, "watch")                       \
    X(SERVE, "serve")                       \
    X(GENERATE, "generate")                 \
    X(EVAL, "eval")                         \
    X(EXPORT, "export")                     \
    X(IMPORT, "import")                     \
    X(COMPLETION, "completion")             \
    X(DEMO, "demo")

typedef enum {
#define X(name, words) COMMAND_##name,
    PACER_COMMANDS(X)
#undef X
        COMMAND_COUNT
} Command;

const char *command_words(Command command); /* "data prepare" */

/* Values of the fields that hold a choice, in the order of the choices in table.c. */
enum { CONFIG_DTYPE_AUTO, CONFIG_DTYPE_F32, CONFIG_DTYPE_BF16, CONFIG_DTYPE_FP8 };
enum {
    CONFIG_ATTENTION_AUTO,
    CONFIG_ATTENTION_NAIVE,
    CONFIG_ATTENTION_FLASH,
    CONFIG_ATTENTION_LIBRARY
};
enum { CONFIG_PARAMETRIZATION_STANDARD, CONFIG_PARAMETRIZATION_MUP };
enum { CONFIG_COMM_DTYPE_F32, CONFIG_COMM_DTYPE_BF16 };
enum { CONFIG_STATE_DTYPE_F32, CONFIG_STATE_DTYPE_BF16 };
enum {
    CONFIG_LINK_NONE,
    CONFIG_LINK_NVLINK,
    CONFIG_LINK_PCIE,
    CONFIG_LINK_IB400,
    CONFIG_LINK_ETH100,
    CONFIG_LINK_ETH10,
    CONFIG_LINK_MEASURED
};
enum { /* the first three of texts, the others of exports */
       CONFIG_FORMAT_AUTO,
       CONFIG_FORMAT_TEXT,
       CONFIG_FORMAT_JSONL,
       CONFIG_FORMAT_HF,
       CONFIG_FORMAT_CSV,
       CONFIG_FORMAT_TENSORBOARD,
       CONFIG_FORMAT_GGUF
};
enum { CONFIG_TIES_IDS, CONFIG_TIES_LEXICOGRAPHIC };
enum { CONFIG_UNIT_DOCUMENT, CONFIG_UNIT_LINE };
enum { CONFIG_IDS_TEXT, CONFIG_IDS_UINT16, CONFIG_IDS_UINT32 };
enum { CONFIG_SPLIT_VAL, CONFIG_SPLIT_TRAIN };
enum { CONFIG_DOCUMENTS_JOINED, CONFIG_DOCUMENTS_SEPARATE };

/* Where a value came from. DERIVED values were set by config_check from other options. */
typedef enum {
    ORIGIN_DEFAULT,
    ORIGIN_DERIVED,
    ORIGIN_RECORD,  /* config_from_json */
    ORIGIN_PROGRAM, /* config_set */
    ORIGIN_FILE,
    ORIGIN_COMMAND_LINE,
} OriginKind;

typedef struct {
    OriginKind kind;
    int line; /* of the config file, from 1; ORIGIN_FILE only */
} Origin;

#define CONFIG_MAX_OPTIONS 192

typedef struct Config {
    Command command;

    /* model */
    char *model;
    SpecOverrides fields; /* 0, or "preset", leaves a field as the preset has it */
    int64_t dial;         /* size of the model as one number; 0: the preset's */
    bool ttt_keep;

    /* data */
    char *data;    /* folder or files of shards, or builtin:NAME; "": none */
    int documents; /* CONFIG_DOCUMENTS_* */
    char *end;     /* token behind documents; "": the tokenizer's own */

    /* batch and length of the run */
    int64_t batch;        /* sequences per rank per micro-step */
    int64_t accum;        /* micro-steps per update; final after config_check */
    int64_t global_batch; /* sequences per update; 0: not given */
    int64_t seq;          /* tokens per sequence; 0: spec_seq's */
    char *batch_ramp;     /* "": none; config/batch_ramp.h */
    int ramp_lr;          /* RampRule */
    int64_t steps;        /* after config_check exactly one of config_lengths is not 0 */
    int64_t tokens;       /* (train and plan) */
    double epochs;
    double flops;   /* of all ranks */
    double minutes; /* of updates, evaluations and checkpoints */
    int64_t seed;

    /* optimizer */
    double lr;
    double min_lr;  /* -1: auto, see config_min_lr */
    int64_t warmup; /* -1: auto, see config_warmup */
    int schedule;   /* ScheduleKind */
    double wsd_decay;
    int optimizer; /* OptimizerId */
    double weight_decay, beta1, beta2, eps;
    double momentum; /* -1: auto, see config_momentum */
    int64_t muon_steps;
    int state_dtype;     /* CONFIG_STATE_DTYPE_* */
    int grad_dtype;      /* the same */
    int parametrization; /* CONFIG_PARAMETRIZATION_* */
    int64_t mup_base, mup_base_ffn, mup_base_head_dim;
    double clip; /* 0: off */
    bool noise_scale;

    /* machine */
    int device;           /* DeviceId */
    int dtype;            /* CONFIG_DTYPE_* */
    int attention;        /* CONFIG_ATTENTION_* */
    int recompute;        /* Keep */
    int offload;          /* OffloadKind */
    bool graph;           /* replay recorded steps where the device can */
    int64_t threads;      /* 0: all cores */
    int64_t memory_limit; /* bytes; 0: what the machine has */
    bool fit;             /* settings are to be found, unless they are given */
    char *fit_also;       /* names of options, separated by commas */

    /* ranks */
    int64_t ranks;
    int ddp;             /* DdpKind */
    int64_t shard_group; /* ranks that share one set of parts; 0: all */
    int64_t bucket_mb;   /* of gradients that are sent at a time */
    int comm_dtype;      /* CONFIG_COMM_DTYPE_* */
    bool oversubscribe;  /* ranks may share a GPU */
    double comm_timeout; /* seconds; 0: for ever */
    int64_t min_ranks;   /* with which they go on */
    int64_t restarts;    /* of ranks that were started here */
    int64_t verify_every;

    /* prediction for ranks that are not here (plan) */
    int link;                 /* CONFIG_LINK_*: between nodes, or between all ranks */
    int node_link;            /* between ranks of a node */
    int64_t per_node;         /* ranks of a node */
    double link_us, link_gbs; /* in place of the link's own; -1: not given */

    /* records */
    char *out;         /* "": made from the model and the run id */
    char *resume;      /* "auto", "never", or a run directory */
    int64_t branch_at; /* update of the checkpoint that resume goes on from; 0: the newest */
    char *init;        /* what to take the first weights from; "": from the seed */
    bool tensorboard;
    int64_t log_every;
    int64_t eval_every, eval_batches; /* eval_every 0: never */
    int64_t sample_every;             /* 0: never */
    int save;                         /* SaveKind */
    int64_t save_every;               /* 0: not by steps */
    double save_minutes;              /* 0: not by time */
    int64_t keep;                     /* checkpoints; 0: all */

    /* text */
    int format;  /* CONFIG_FORMAT_* */
    char *field; /* of a JSON line that holds the text */
    char *chat_template;
    bool skip_bad;
    int64_t bytes; /* of stories */

    /* tokenizer */
    char *tokenizer; /* "bytes", or a file or folder */
    char *special;   /* lines */
    char *pattern;   /* a name (PRETOK_LISTED) or a regular expression */
    int ties, unit;  /* CONFIG_TIES_*, CONFIG_UNIT_* */
    int64_t min_frequency;
    int ids; /* CONFIG_IDS_* */
    bool skip_special;

    /* data prepare */
    double val_fraction;
    int64_t shard_tokens;

    /* bench */
    int64_t jobs;
    int64_t repeats;         /* timed */
    int64_t warm;            /* before them, untimed */
    int64_t document_tokens; /* bench attention: of each document; 0: a sequence is one */
    bool verify;             /* the timed step beside a trusted one */
    char *json; /* bench machine: where its numbers go; "": nowhere, "-": standard output */

    /* generate */
    char *prompt; /* "-": standard input */
    int64_t max_tokens, samples, top_k;
    double temperature, top_p;
    char *stop; /* lines */
    bool stream, cache;

    /* eval */
    int split;       /* CONFIG_SPLIT_* */
    int64_t batches; /* 0: all */
    bool each;       /* document by itself */

    /* export */
    int type; /* GGUF_* of base/choices.h */
    int64_t shard_bytes;

    /* watch */
    double every; /* seconds */
    bool once;

    /* Serving */
    int64_t port;
    char *listen; /* "": loopback alone */

    /* plan */
    bool recommend;
    double hours;          /* 0: no limit */
    char *noise_from;      /* run whose noise scale limits the batch; "": none */
    double expected_tok_s; /* 0: nothing was predicted */

    /* check */
    char *map; /* lines of "their name=quantity" */

    /* sweep */
    bool smoke, dry_run;

    /* duel */
    double error, margin;
    int64_t min_pairs, max_pairs;

    /* general */
    char *config; /* "": none */
    bool quiet, verbose, help;

    /* arguments that are no options; the caller's */
    int argc;
    char **argv;

    Origin origin[CONFIG_MAX_OPTIONS]; /* by index in the table */
} Config;

typedef enum {
    OPTION_BOOL,   /* bool */
    OPTION_INT,    /* int64_t */
    OPTION_BYTES,  /* int64_t; its text may end in B */
    OPTION_REAL,   /* double */
    OPTION_CHOICE, /* int */
    OPTION_TEXT,   /* char *, owned by the Config, never NULL */
} OptionType;

enum {
    OPTION_RESULT = 1u << 0,   /* decides what is computed */
    OPTION_ROUNDING = 1u << 1, /* decides how: last bits, speed, memory */
    OPTION_AUTO = 1u << 2,     /* the word auto stands for -1, below the limits */
    OPTION_UNSET = 1u << 3,    /* 0 means that it is not given, and is not itself a value to give */
    OPTION_NO_FILE = 1u << 4,  /* refused in a YAML file */
    OPTION_NO_RECORD = 1u << 5, /* about this call only: in no printout or JSON */
    OPTION_LIST = 1u << 6, /* OPTION_TEXT: may be given several times, each value becoming a line */
    OPTION_LATER =
        1u << 7, /* came after run ids were given out: at its default it is not in them */
    OPTION_BREAKS = 1u << 8,    /* OPTION_TEXT: may have line breaks and tabs */
    OPTION_NONE = 1u << 9,      /* the word none stands for -1, below the limits */
    OPTION_FIT = 1u << 10,      /* a choice that --fit searches: all values compute the same */
    OPTION_FIT_ALSO = 1u << 11, /* one that it searches when --fit-also names it; with OPTION_FIT:
                                 * whose last value rounds otherwise, and is searched then */
};

/* What happens when a run goes on from its checkpoint with another value of the option. */
typedef enum {
    RESUME_REFUSED = 1, /* it would be another training */
    RESUME_RECORDED,    /* it goes on so, which is said and recorded in the run's legs */
    RESUME_FREE,        /* nothing: it does not change what is computed or measured */
    RESUME_NO_RUN,      /* train does not take it */
} OptionResume;

/* What help says of an option in some commands. */
typedef struct {
    unsigned commands; /* bits as in Option; 0 ends a list */
    const char *help;
    const char *initial; /* default that help shows there; "": none, NULL: the option's */
} OptionHelp;

typedef struct Option {
    const char *name; /* as in --name, in YAML and in JSON */
    OptionType type;
    size_t offset;              /* of the field in Config */
    const char *initial;        /* the default, as a user would write it */
    double min, max;            /* numbers, both included */
    const char *const *choices; /* OPTION_CHOICE: names of values 0, 1, ..., then NULL */
    const char *metavar;        /* OPTION_TEXT: what stands behind --name in help */
    const char *group;
    unsigned commands; /* bit 1 << Command for each command that takes it */
    OptionResume resume;
    unsigned flags; /* OPTION_RESULT, ... */
    const char *help;
    const OptionHelp *elsewhere; /* in place of help in these commands; NULL: nowhere */
    unsigned required;           /* bits of the commands that cannot do without */
} Option;

/* The table, in the order of help and printouts; a row without a name ends it. */
const Option *config_options(void);
const Option *config_find(const char *name); /* NULL if there is none */

/* Whether the value says that the option is not given. option may be NULL. */
bool config_is_unset(const Option *option, const char *value);

void config_init(Config *cfg, Command command);   /* every option at its default */
void config_free(Config *cfg);                    /* a no-op on a zeroed Config */
void config_copy(Config *to, const Config *from); /* `to` is not initialised before */

/* Reads the arguments behind the command's words, then the file that --config names (the command
 * line wins), then runs config_check. Arguments that are no options move to the front of argv.
 * With --help or -h anywhere only cfg->help is set. */
int config_parse(Config *cfg, int argc, char **argv);

/* Sets options from a flat YAML mapping. Those set on the command line keep their value, but the
 * file's is checked too. */
int config_load_yaml(Config *cfg, const char *path);

/* The same from one line: "lr: 2e-3, warmup: 10". Messages name the line itself. */
int config_load_line(Config *cfg, const char *options);

/* Sets one option from text, as the command line would. config_check afterwards. */
int config_set(Config *cfg, const char *name, const char *text);
int config_set_whole(Config *cfg, const char *name, int64_t value);

/* The value of one option as text that config_set reads back; caller frees *text. ERR_INPUT as
 * config_set for an option that the command does not take. */
int config_get(const Config *cfg, const char *name, char **text);

/* 0, or ERR_INPUT naming the first option that the command cannot do without and nobody gave. */
int config_check_required(const Config *cfg);

/* config_set for text that stands in line `line` of the file `path`, which messages, also those
 * of a later config_check, then name. All calls for one Config give the same path. */
int config_set_at(Config *cfg, const char *name, const char *text, const char *path, int line);

/* Sets every option that `from` was given and that to->command takes, with its origin: how a
 * command that runs another one passes on what it was told. config_check afterwards. */
void config_inherit(Config *to, const Config *from);

/* What one option alone cannot know: one of config_lengths (steps 1000 when none is given);
 * global-batch and batch-ramp set accum; a device that this build lacks. May be called again after
 * changes. */
int config_check(Config *cfg);

/* Gives a choice the value that was found out for it (auto settled), with origin DERIVED. */
void config_derive(Config *cfg, const char *name, int choice);

/* config_set with origin DERIVED: what an option left open turned out to be. */
void config_settle(Config *cfg, const char *name, const char *text);

/* Whether the user, a file, a record or config_set gave it. The name must exist. */
bool config_is_set(const Config *cfg, const char *name);

/* "default", "command line", "run.yaml:12", ... into text. The name must exist. */
#define CONFIG_ORIGIN_SIZE 512
const char *config_origin(const Config *cfg, const char *name, char text[CONFIG_ORIGIN_SIZE]);

/* What --fit may set of cfg: a choice that is not given and that its row, or --fit-also, lets it
 * set, and which of its values; the split of an update, unless a part of that is given. Whether
 * anything is left. */
bool config_fits(const Config *cfg, const Option *option);
bool config_fits_value(const Config *cfg, const Option *option, int value);
bool config_fit_names(const Config *cfg, const Option *option); /* --fit-also does */
bool config_fits_batch(const Config *cfg);
bool config_fit_is_open(const Config *cfg);

/* Whether this value of an option that --fit may set rounds otherwise than others. */
bool config_fit_rounds(const Option *option, int value);

/* Names of the options that say how long a run is, of which one is given; then NULL. */
extern const char *const config_lengths[];

/* Values that follow from options; total_steps > 0. */
/* What a run of a preset starts with: the learning rate and batch that `auto` stands for. */
typedef struct {
    const char *name;
    double lr;
    int64_t batch;
} ModelStart;
const ModelStart *config_start(const char *model);

double config_min_lr(const Config *cfg);                       /* auto: lr / 10 */
double config_momentum(const Config *cfg);                     /* auto: 0.9, of Muon 0.95 */
int64_t config_warmup(const Config *cfg, int64_t total_steps); /* auto: 5 %, rounded down */

int config_threads(const Config *cfg); /* 0: all cores this process may use */

/* Updates that the run makes, when one takes tokens_per_update (batch x accum x seq x ranks):
 * steps; or tokens, rounded up to a whole update; or epochs of tokens_per_epoch, rounded down,
 * at least 1. */
int64_t config_total_steps(const Config *cfg, int64_t tokens_per_update, int64_t tokens_per_epoch);

/* "64M", "512MiB", "1000" as the options read it, 1 to 1e15. ERR_INPUT gives the reason. */
int config_parse_bytes(const char *text, int64_t *bytes);
int config_parse_count(const char *text, int64_t *count); /* without the units of bytes */

/* The option's value as text that config_set reads back to the same value; caller frees. */
char *config_value_text(const Config *cfg, const Option *option);

/* Text for people is printed in lines of at most `width` columns, where its words allow that. */

/* Options of cfg->command: a row with its origin for each that is not at its default; the defaults
 * that say something as one paragraph. */
void config_print_resolved(const Config *cfg, int width, FILE *file);

/* The options part of `pacer COMMAND --help`. */
void config_print_help(Command command, int width, FILE *file);

/* What the option is for in this command. */
const char *config_help(const Option *option, Command command);

/* What help says beside a name: " N", " f32|bf16" or "" for a switch; and "(default 8; 1 to
 * 1M)". Caller frees. */
char *config_label(const Option *option); /* "--lr", "--[no-]graph" */
char *config_metavar(const Option *option);
char *config_limits(const Option *option, Command command);

void config_print_paragraph(const char *text, int width, FILE *file);

/* A label with text beside it from column `indent` on, and `tail`, which is kept together, behind
 * that; the text begins below a label that is too long, and where the lines are narrow. */
void config_print_entry(const char *label, int indent, const char *text, const char *tail,
                        int width, FILE *file);

/* {"batch": 8, ...}: every recorded option of cfg->command. Caller deletes it. */
struct cJSON *config_to_json(const Config *cfg);

/* ["data", "lr", ...]: the recorded options that somebody gave. Caller deletes it. */
struct cJSON *config_given_json(const Config *cfg);

/* The way back, as strict as a YAML file; an option that the object lacks keeps its value. `where`
 * (a path) starts the messages. Runs config_check. */
int config_from_json(Config *cfg, const struct cJSON *object, const char *where);

/* An option that a record has with another value; both as text that config_set reads. */
typedef struct {
    const Option *option;
    char *from, *to;
} ConfigChange;

/* The recorded options of cfg->command whose value in `record` (config_to_json of an earlier call)
 * is neither that of cfg nor that of `settled`, cfg with everything settled that it leaves open,
 * in the order of the table. What the record lacks is of another version: an OPTION_LATER was at
 * its default, others are passed over, as is what only the record knows. Caller frees with
 * config_changes_free, also after a failure. */
int config_changes(const Config *cfg, const Config *settled, const struct cJSON *record,
                   const char *where, ConfigChange **changes, size_t *count);
void config_changes_free(ConfigChange *changes, size_t count);

/* Hex XXH3 of the OPTION_RESULT and OPTION_ROUNDING values, each as text. */
#define CONFIG_ID_SIZE 17
void config_run_id(const Config *cfg, char id[CONFIG_ID_SIZE]);

/* The entry of names (NULL-terminated) that text was probably meant to be, ignoring case; NULL when
 * none is near. */
const char *config_nearest(const char *text, const char *const *names);
