#include "train/model_source.h"

#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "exchange/fresh_folder.h"
#include "exchange/gguf.h"
#include "exchange/hf_export.h"
#include "train/checkpoint.h"
#include "train/setup.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* RUN of RUN/ckpt/step-N, also behind the link RUN/ckpt/latest; NULL: the checkpoint lies
 * elsewhere. */
static char *run_of(const char *checkpoint)
{
    char *whole = realpath(checkpoint, NULL), *run = NULL;
    if (whole == NULL && errno == ENOMEM) {
        mem_checked(NULL, strlen(checkpoint));
    }
    char *name = whole != NULL ? strrchr(whole, '/') : NULL;
    if (name != NULL && name - whole > 5 && memcmp(name - 5, "/ckpt", 5) == 0) {
        run = mem_strdup(whole);
        run[name - 5 - whole] = '\0';
    }
    free(whole);
    return run;
}

/* Options, dimensions and step of a checkpoint of pacer's own. */
static int open_checkpoint(ModelSource *source, bool check_weights)
{
    char *state_path = io_join(source->path, "state.json");
    char *weights = io_join(source->path, WEIGHT_FILE);
    StateFile file = {0};
    config_init(&source->config, COMMAND_TRAIN);
    int code = weight_folder_open(source->path, &source->weights);
    code = code != 0 ? code : state_read(source->path, &file);
    code = code != 0 ? code : config_from_json(&source->config, file.config, state_path);
    if (code == 0) {
        code = setup_spec(&source->config, weight_folder_vocab(source->weights), &source->spec);
        code = code != 0 ? err_wrap(code, "%s", state_path) : 0;
    }
    code = code != 0 ? code : state_compare(source->path, &file, &source->spec);
    if (code == 0 && check_weights) {
        code = checkpoint_check_file(weights, file.digests.model);
    }
    source->step = file.state.step;
    state_free(&file);
    free(weights);
    free(state_path);
    return code;
}

static int open_source(ModelSource *source, const char *path, bool check_weights)
{
    *source = (ModelSource){.step = -1};
    /* A Hugging Face folder has config.json, which neither a run nor a checkpoint has. */
    bool foreign = io_has(path, "config.json") && !io_has(path, "state.json") &&
                   !io_has(path, "ckpt/latest") && !io_has(path, "run.json");
    int code = 0;
    if (!io_is_folder(path)) {
        code = err_set(ERR_INPUT,
                       "%s: is no folder; give a run directory, a checkpoint in it, or a Hugging "
                       "Face folder",
                       path);
    } else if (foreign) {
        source->path = mem_strdup(path);
        code = weight_folder_open(path, &source->weights);
        if (code == 0) {
            source->spec = *weight_folder_spec(source->weights);
            config_init(&source->config, COMMAND_TRAIN);
            code = setup_options(&source->spec, &source->config);
            code = code != 0 ? code : config_check(&source->config);
        }
    } else {
        code = checkpoint_find(path, &source->path);
        if (code != 0) {
            code = err_set(ERR_INPUT,
                           "%s: is neither a run directory, nor a checkpoint, nor a Hugging Face "
                           "folder (config.json)",
                           path);
        } else if (source->path == NULL) {
            code = err_set(ERR_INPUT,
                           "%s: the run has no checkpoint yet: wait for its end, where one is "
                           "written, or train with --save-every N",
                           path);
        } else {
            source->run = run_of(source->path);
            code = open_checkpoint(source, check_weights);
        }
    }
    if (code != 0) {
        model_source_close(source);
    }
    return code;
}

int model_source_open(ModelSource *source, const char *path)
{
    return open_source(source, path, true);
}

int model_source_describe(ModelSource *source, const char *path)
{
    return open_source(source, path, false);
}

void model_source_close(ModelSource *source)
{
    weight_folder_close(source->weights);
    config_free(&source->config);
    free(source->path);
    free(source->run);
    *source = (ModelSource){0};
}

const char *model_source_tokenizer(const ModelSource *source)
{
    return source->run != NULL ? source->run : source->path;
}

HfTextTokens model_source_text_tokens(const ModelSource *source, const Tokenizer *tokenizer)
{
    return hf_text_tokens(model_source_tokenizer(source), source->step > 0, tokenizer);
}

int model_source_rows(const ModelSource *source, const ParamTable *table, ModelRowTake *take,
                      void *user)
{
    int64_t longest = 0;
    for (int r = 0; r < table->count; r++) {
        longest = table->rows[r].count > longest ? table->rows[r].count : longest;
    }
    float *values = mem_try_aligned((size_t)longest * sizeof *values);
    int code = values != NULL
                   ? 0
                   : err_set(ERR_MEMORY, "%s: no memory to read its weights through", source->path);
    for (int r = 0; code == 0 && r < table->count; r++) {
        code = weight_folder_read(source->weights, table, r, false, values);
        if (code == 0) {
            take(user, &table->rows[r], values);
        }
    }
    free(values);
    return code;
}

/* --- the first weights of a run --- */

/* Whether two models have the same parameters and compute the same with them. The context counts
 * only where positions are parameters. */
static int compare(const char *path, const ModelSpec *theirs, const ModelSpec *own)
{
    if (theirs->names != own->names) {
        return err_set(ERR_INPUT,
                       "--init %s: has a model of the kind of %s, this run of %s: give --model %s",
                       path, theirs->name, own->name, theirs->name);
    }
    for (const SpecField *field = spec_fields; field->name != NULL; field++) {
        double there = spec_value(theirs, field), here = spec_value(own, field);
        bool counts =
            field->option && (strcmp(field->name, "context") != 0 || own->learned_positions);
        if (counts && spec_has(own, field) && there != here) {
            char then[SPEC_TEXT_SIZE], now[SPEC_TEXT_SIZE];
            spec_text(field, there, then);
            return err_set(ERR_INPUT, "--init %s: its %s is %s, this run's is %s: give --%s %s",
                           path, field->name, then, spec_text(field, here, now), field->name, then);
        }
    }
    return 0;
}

/* --model and --dial may ask for another model than --init's, which would not be taken: the first
 * field in which they do, of those that no option gives. The context counts only where positions
 * are parameters. */
static int compare_asked(const Config *cfg, const ModelSpec *model)
{
    bool other = config_is_set(cfg, "model") && strcmp(cfg->model, model->name) != 0;
    SpecOverrides asked = cfg->fields;
    asked.head_dim = asked.head_dim != 0 || other ? asked.head_dim : model->head_dim;
    spec_dial(cfg->model, cfg->dial, &asked);
    ModelSpec preset;
    if (other && spec_resolve(cfg->model, &asked, model->vocab, &preset) != 0) {
        return 0; /* of no model: setup_spec says so */
    }
    for (const SpecField *field = spec_fields; field->name != NULL; field++) {
        bool counts = field->option && spec_has(model, field) && !config_is_set(cfg, field->name) &&
                      (strcmp(field->name, "context") != 0 || model->learned_positions);
        double there = spec_value(model, field);
        double dial = counts ? spec_override(&asked, field) : NAN;
        double here = counts && other ? spec_value(&preset, field) : dial;
        if (!isnan(here) && here != there) {
            char then[SPEC_TEXT_SIZE], now[SPEC_TEXT_SIZE], name[64];
            snprintf(name, sizeof name, "--dial %lld", (long long)cfg->dial);
            if (isnan(dial)) {
                snprintf(name, sizeof name, "--model %.50s", cfg->model);
            }
            return err_set(ERR_INPUT, "--init %s: its %s is %s, %s makes it %s: leave %.*s out",
                           cfg->init, field->name, spec_text(field, there, then), name,
                           spec_text(field, here, now), (int)strcspn(name, " "), name);
        }
    }
    return 0;
}

int initial_dimensions(Config *cfg)
{
    ModelSource source;
    int code = model_source_describe(&source, cfg->init);
    if (code != 0) {
        return io_is_folder(cfg->init) ? err_wrap(code, "--init") : 0;
    }
    const ModelSpec *given = config_is_set(cfg, "model") ? spec_find(cfg->model) : NULL;
    if (given != NULL && given->names != source.spec.names) {
        model_source_close(&source);
        return 0; /* of another kind: initial_weights says so */
    }
    if (!config_is_set(cfg, "model")) {
        config_settle(cfg, "model", source.spec.name);
    }
    code = compare_asked(cfg, &source.spec);
    for (const SpecField *field = spec_fields; code == 0 && field->name != NULL; field++) {
        char text[SPEC_TEXT_SIZE];
        if (field->option && spec_has(&source.spec, field) && !config_is_set(cfg, field->name)) {
            config_settle(cfg, field->name,
                          spec_text(field, spec_value(&source.spec, field), text));
        }
    }
    model_source_close(&source);
    return code;
}

static void write_row(void *trainer, const Param *row, float *values)
{
    trainer_write_state(trainer, STATE_PARAMS, row->offset, row->count, values);
}

int initial_weights(Trainer *t, const char *path)
{
    ModelSource source;
    int code = model_source_open(&source, path);
    if (code != 0) {
        return err_wrap(code, "--init");
    }
    code = compare(path, &source.spec, &t->setup.spec);
    if (code == 0) {
        code = weight_folder_check(source.weights, &t->setup.spec, &t->model.params);
        code = code != 0 ? err_wrap(code, "--init")
                         : model_source_rows(&source, &t->model.params, write_row, t);
    }
    if (code == 0) {
        log_info("Starting from the weights of %s", source.path);
    }
    model_source_close(&source);
    return code;
}

void initial_tokenizer_check(const char *path, const char *data, uint64_t tokenizer_hash)
{
    ModelSource source;
    if (tokenizer_hash == 0 || model_source_describe(&source, path) != 0) {
        return;
    }
    Tokenizer *tokenizer = NULL;
    const char *folder = model_source_tokenizer(&source);
    char *file = io_join(folder, "tokenizer.json");
    if (io_exists(file) && tokenizer_open_copy(file, &tokenizer) == 0 &&
        tokenizer->hash != tokenizer_hash) {
        log_warn(
            "--data %s was made with another tokenizer than that of --init %s: prepare it with "
            "--tokenizer %s",
            data, path, file);
    }
    tokenizer_free(tokenizer);
    free(file);
    model_source_close(&source);
}

/* --- a Hugging Face model as a run --- */

#define STEP_NAME "step-0"

static int write_checkpoint(const char *folder, const ModelSource *source, const ParamTable *table)
{
    WeightLayout layout = {.foreign = false, .dtype = DT_F32};
    CheckpointDigests digests = {0, 0};
    TrainState state = {.seed = (uint64_t)source->config.seed,
                        .seq = spec_seq(&source->spec),
                        .first_loss = NAN,
                        .best_val_loss = NAN};
    int code = io_make_folders(folder);
    code = code != 0 ? code
                     : weight_write(folder, source->weights, &source->spec, table, layout,
                                    &digests.model);
    if (code == 0) {
        cJSON *config = config_to_json(&source->config);
        code = state_write(folder, &state, &source->spec, config, digests);
        cJSON_Delete(config);
    }
    return code != 0 ? code : io_sync_folder(folder);
}

static int fill(const char *run, const ModelSource *source, const ParamTable *table)
{
    char *ckpt = io_join(run, "ckpt"), *step = io_join(ckpt, STEP_NAME);
    char *latest = io_join(ckpt, "latest");
    Tokenizer *tokenizer;
    int code = hf_bring_tokenizer(source->path, run, &tokenizer);
    tokenizer_free(tokenizer);
    code = code != 0 ? code : write_checkpoint(step, source, table);
    if (code == 0 && symlink(STEP_NAME, latest) != 0) {
        code = err_set(ERR_FAILED, "%s: cannot make the link: %s", latest, strerror(errno));
    }
    code = code != 0 ? code : io_sync_folder(ckpt);
    free(latest);
    free(step);
    free(ckpt);
    return code;
}

/* What the run would be trained with says where the weights came from. */
static int write_run(ModelSource *source, const char *out)
{
    FreshFolder folder;
    Model shapes;
    model_init(&shapes, &source->spec, DT_F32, 1);
    int code = weight_folder_check(source->weights, &source->spec, &shapes.params);
    code = code != 0 ? code : config_set(&source->config, "init", source->path);
    code = code != 0 ? code : config_check(&source->config);
    code = code != 0 ? code : fresh_folder_open(&folder, out);
    if (code == 0) {
        code = fill(folder.partial, source, &shapes.params);
        code = fresh_folder_end(&folder, code);
    }
    if (code == 0) {
        log_info("%s: %lld parameters, as --model %s", out, (long long)shapes.params.parameters,
                 source->spec.name);
    }
    model_free(&shapes);
    return code;
}

int import_model(const char *path, const char *out)
{
    ModelSource source;
    int code = model_source_open(&source, path);
    if (code != 0) {
        return code;
    }
    code = weight_folder_spec(source.weights) != NULL
               ? write_run(&source, out)
               : err_set(ERR_INPUT,
                         "%s: is a run of pacer's already; use it as it is, or with train --init",
                         path);
    model_source_close(&source);
    return code;
}

/* --- and back --- */

int export_model(const Config *cfg, const char *path)
{
    ModelSource source;
    bool gguf = cfg->format == CONFIG_FORMAT_GGUF;
    int code = dtype_refuse_fp8(cfg, "a file of weights");
    if (code == 0 && gguf && cfg->dtype != CONFIG_DTYPE_AUTO) {
        code = err_set(ERR_INPUT, "--dtype is of --format hf; --type is that of a GGUF file");
    }
    code = code != 0 ? code : model_source_open(&source, path);
    if (code != 0) {
        return code;
    }
    HfModel model = {source.weights, &source.spec, model_source_tokenizer(&source),
                     source.step > 0};
    HfExport options = {cfg->dtype == CONFIG_DTYPE_BF16 ? DT_BF16 : DT_F32, cfg->shard_bytes};
    code = gguf ? gguf_export(&model, (GgufType)cfg->type, cfg->out)
                : hf_export(&model, options, cfg->out);
    if (code == 0) {
        log_info("%s: the model of %s for %s", cfg->out, source.path,
                 gguf ? "llama.cpp" : "Hugging Face");
    }
    model_source_close(&source);
    return code;
}
