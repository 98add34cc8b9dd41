/* The work of `pacer eval` and pacer_evaluate: from options to an evaluator and what it is
 * given. */
#include "api/evaluate.h"

#include "api/internal.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/signals.h"
#include "data/dataset.h"
#include "data/source.h"
#include "train/setup.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int evaluation_check(const Config *cfg, int count, char **inputs)
{
    static const char *const of_data[] = {"data", "split", "batches"};
    static const char *const of_texts[] = {"each", "format", "field", "skip-bad"};
    for (size_t i = 0; count > 0 && i < sizeof of_data / sizeof of_data[0]; i++) {
        if (config_is_set(cfg, of_data[i])) {
            return err_set(ERR_INPUT, "--%s does not go with texts: give --data or texts, not both",
                           of_data[i]);
        }
    }
    for (size_t i = 0; count == 0 && i < sizeof of_texts / sizeof of_texts[0]; i++) {
        if (config_is_set(cfg, of_texts[i])) {
            return err_set(ERR_INPUT,
                           "--%s is for texts, and none is given: --data knows tokens only",
                           of_texts[i]);
        }
    }
    for (int i = 0; cfg->ranks > 1 && i < count; i++) {
        if (strcmp(inputs[i], "-") == 0) {
            return err_set(ERR_INPUT, "-: only one of several ranks has a standard input; give "
                                      "a file, or leave --ranks out");
        }
    }
    return 0;
}

/* --- the model and its memory --- */

/* Tokens of a window: as asked, or as in training. */
static int choose_seq(Evaluation *e, int64_t *seq)
{
    ModelSpec *spec = &e->model->model.spec;
    *seq = e->cfg->seq > 0 ? e->cfg->seq : e->model->config.seq;
    *seq = *seq > 0 ? *seq : spec_seq(spec);
    if (*seq > spec->context && spec->mixer == MIXER_TTT) {
        spec->context = *seq; /* nothing in the model depends on it */
    }
    return *seq <= spec->context
               ? 0
               : err_set(ERR_INPUT,
                         "--seq %" PRId64 " is longer than the model's context, %" PRId64, *seq,
                         spec->context);
}

/* The option as it is given here, or else as it was in training. */
static const Config *documents_of(const Evaluation *e)
{
    return config_is_set(e->cfg, "documents") ? e->cfg : &e->model->config;
}

/* The token that ends documents, or NULL for the tokenizer's own. */
static const char *end_of(const Evaluation *e)
{
    const char *end = config_is_set(e->cfg, "end") ? e->cfg->end : e->model->config.end;
    return end[0] != '\0' ? end : NULL;
}

static int open_evaluator(Evaluation *e)
{
    const Config *cfg = e->cfg;
    bool given = config_is_set(cfg, "batch");
    size_t limit = (size_t)cfg->memory_limit;
    /* The weights are there already: part of the process, or of the device's memory. */
    size_t held = e->model->backend->device == NULL ? run_program(e->model->backend)
                                                    : tensor_bytes(e->model->weights);
    EvaluatorSetup setup = {.model = &e->model->model,
                            .backend = e->model->backend,
                            .comm = e->comm,
                            .batch = given ? cfg->batch : e->model->config.batch,
                            .fit = !given,
                            .separate = documents_of(e)->documents == CONFIG_DOCUMENTS_SEPARATE,
                            .interrupted = signals_pending};
    if (limit > 0) {
        setup.memory = limit > held ? limit - held : 1;
    }
    int code = choose_seq(e, &setup.seq);
    if (code == 0 && setup.separate && setup.model->spec.mixer == MIXER_TTT) {
        code = err_set(ERR_INPUT, "--documents separate: the model has TTT layers, which learn "
                                  "along a sequence whatever documents are in it; leave it out");
    }
    code = code != 0 ? code : evaluator_open(&e->evaluator, &setup);
    e->report->batch = e->evaluator.setup.batch;
    e->report->seq = setup.seq;
    return code;
}

/* --- prepared tokens --- */

/* Bytes of each token by the tokenizer that made the data, or else the model's; NULL when there
 * is none. */
static uint32_t *token_sizes(Evaluation *e, const Dataset *dataset)
{
    int64_t vocab = e->model->model.spec.vocab;
    Tokenizer *own = NULL;
    const Tokenizer *tokenizer = e->model->tokenizer;
    if (tokenizer != NULL && dataset->tokenizer_hash != 0 &&
        tokenizer->hash != dataset->tokenizer_hash) {
        log_warn("%s was made with another tokenizer than the model's", dataset->source);
    }
    if (dataset_tokenizer(dataset, &own) == 0) {
        tokenizer = own;
    }
    if (tokenizer == NULL) {
        e->report->no_bytes = "neither the data nor the model has a tokenizer; give --tokenizer";
        return NULL;
    }
    uint32_t end;
    if (tokenizer_end(tokenizer, end_of(e), &end) != 0) {
        end = UINT32_MAX; /* all tokens are text */
    }
    uint32_t *sizes = eval_token_sizes(tokenizer, end, vocab);
    tokenizer_free(own);
    return sizes;
}

static int evaluate_split(Evaluation *e, Dataset *dataset)
{
    if (e->evaluator.setup.separate) {
        int found = dataset_separate(dataset, end_of(e), e->model->tokenizer);
        if (found != 0) {
            return err_wrap(found, "--documents separate");
        }
        e->evaluator.setup.end = dataset->train.end;
    }
    const Split *split =
        e->cfg->split == CONFIG_SPLIT_TRAIN ? &dataset->train : &dataset->validation;
    Loader loader;
    uint64_t vocab = (uint64_t)e->model->model.spec.vocab;
    int code = loader_init_sequential(&loader, split, e->report->seq, vocab);
    if (code != 0) {
        return err_wrap(code, "--data %s", dataset->source);
    }
    e->report->split = split->name;
    uint32_t *sizes = token_sizes(e, dataset);
    uint64_t batches = (uint64_t)e->cfg->batches, batch = (uint64_t)e->report->batch;
    uint64_t all = loader.windows;
    uint64_t count = batches == 0 || batches > all / batch ? all : batches * batch;
    code = evaluate_data(&e->evaluator, &loader, count, sizes);
    free(sizes);
    int told =
        code == 0 ? evaluator_mean(&e->evaluator, &e->report->mean, &e->report->has_mean) : 0;
    return code != 0 ? code : told;
}

static int evaluate_dataset(Evaluation *e)
{
    const Config *cfg = e->cfg;
    Dataset dataset;
    DatasetOptions options = {.vocab = (uint64_t)e->model->model.spec.vocab,
                              .seed = (uint64_t)e->model->config.seed};
    e->report->data = cfg->data[0] != '\0' ? cfg->data : e->model->config.data;
    if (e->report->data[0] == '\0') {
        return err_set(ERR_INPUT, "nothing to evaluate on: give --data DATA, or texts");
    }
    int code = dataset_open(&dataset, e->report->data, options);
    if (code == 0) {
        code = evaluate_split(e, &dataset);
        dataset_close(&dataset);
    }
    return code;
}

/* --- texts --- */

static int evaluate_texts(Evaluation *e, int count, char **inputs)
{
    const Config *cfg = e->cfg;
    const Tokenizer *tokenizer = e->model->tokenizer;
    if (tokenizer == NULL) {
        return err_set(ERR_INPUT,
                       "%s has no tokenizer, which texts need: give the one it was trained with as "
                       "--tokenizer, or tokens as --data",
                       e->model->path);
    }
    EvalText text = {.tokenizer = tokenizer,
                     .threads = e->model->backend->threads > 0 ? e->model->backend->threads : 1,
                     .document = e->document,
                     .user = e->user};
    e->report->inputs = inputs;
    e->report->input_count = count;
    SourceOptions options = text_source_options(cfg, count, inputs);
    if (e->comm != NULL && comm_ranks(e->comm) > 1) {
        options.interrupted = NULL; /* ranks find out together */
    }
    int code = tokenizer_end(tokenizer, end_of(e), &text.end);
    e->evaluator.setup.end = (int32_t)text.end;
    /* Others' models may have a token for it; of pacer's it is the end, which an option names. */
    bool own = e->model->step > 0 || e->model->first < 0;
    text.begin = own ? text.end : (uint32_t)e->model->first;
    code = code != 0 ? code : source_open(options, &text.source);
    if (code == 0) {
        code = evaluate_text(&e->evaluator, &text, &e->report->documents);
        source_close(text.source);
    }
    return code;
}

/* --- all of it --- */

int evaluation_run(Evaluation *e, int count, char **inputs)
{
    EvalReport *r = e->report;
    int code = open_evaluator(e);
    if (code == 0) {
        code = count > 0 ? evaluate_texts(e, count, inputs) : evaluate_dataset(e);
        bool stopped = code == ERR_INTERRUPTED || code == ERR_TERMINATED;
        r->totals = e->evaluator.totals;
        r->complete = !stopped;
        r->seconds = clock_seconds() - e->evaluator.progress.started;
        if ((code == 0 || stopped) && r->totals.tokens == 0) {
            code = err_set(stopped ? code : ERR_INPUT, stopped
                                                           ? "stopped before anything was evaluated"
                                                           : "there was nothing to predict");
        }
        if (r->no_bytes == NULL && r->totals.bytes == 0) {
            r->no_bytes = "no token has text";
        }
    }
    evaluator_close(&e->evaluator);
    return code;
}

/* --- as a function of the library --- */

static pacer_result *result_of(const EvalReport *r, bool texts)
{
    double loss = eval_loss(&r->totals);
    cJSON *numbers = json_object();
    json_put_number(numbers, "loss", loss);
    json_put_number(numbers, "perplexity", exp(loss));
    if (r->totals.bytes > 0) {
        json_put_number(numbers, "bits_per_byte", eval_bits_per_byte(&r->totals));
        json_put_whole(numbers, "bytes", (int64_t)r->totals.bytes);
    }
    if (r->has_mean) {
        json_put_number(numbers, "mean_of_batches", r->mean);
    }
    if (texts) {
        json_put_whole(numbers, "documents", (int64_t)r->documents);
    }
    json_put_whole(numbers, "tokens", (int64_t)r->totals.tokens);
    json_put_number(numbers, "seconds", r->seconds);
    return result_new(NULL, numbers);
}

int pacer_evaluate(pacer_model *model, const pacer_options *options, const char *const *texts,
                   size_t count, pacer_result **result)
{
    Config cfg;
    char **inputs = (char **)texts;
    int code = api_begin(options, COMMAND_EVAL, result, &cfg);
    if (code == 0 && cfg.ranks > 1) {
        code = err_set(ERR_INPUT, "ranks %lld: pacer_evaluate is for one; `pacer eval` is for more",
                       (long long)cfg.ranks);
    }
    code = code != 0 ? code : evaluation_check(&cfg, (int)count, inputs);
    if (code == 0) {
        EvalReport report = {.model = &model->loaded, .ranks = 1};
        Evaluation evaluation = {.cfg = &cfg, .model = &model->loaded, .report = &report};
        code = evaluation_run(&evaluation, (int)count, inputs);
        if (report.totals.tokens > 0 && (code == 0 || !report.complete)) {
            *result = result_of(&report, count > 0);
        }
    }
    return api_end(&cfg, code);
}
