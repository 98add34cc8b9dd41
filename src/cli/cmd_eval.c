/* `pacer eval`: a trained model on prepared tokens or on texts; what it found as a table and as
 * JSON. */
#include "api/evaluate.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/output.h"
#include "base/show.h"
#include "base/signals.h"
#include "cli/commands.h"
#include "cli/ranks.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static EvalTotals totals_of(const EvalDocument *document)
{
    return (EvalTotals){
        .tokens = document->tokens, .bytes = document->bytes, .nats = document->nats};
}

static double document_loss(const EvalDocument *document)
{
    EvalTotals totals = totals_of(document);
    return eval_loss(&totals);
}

static double document_bits(const EvalDocument *document)
{
    EvalTotals totals = totals_of(document);
    return eval_bits_per_byte(&totals);
}

/* --- documents --- */

/* --each: the head of their table, and a row. */
static void print_head(void)
{
    printf("%8s %10s %10s %9s %9s  %s\n", "document", "tokens", "bytes", "loss", "bits/byte",
           "where");
}

static void print_row(const EvalDocument *d)
{
    escape_printf(stdout, "%8" PRIu64 " %10" PRIu64 " %10" PRIu64 " %9.4f %9.4f  %s:%" PRIu64 "\n",
                  d->number, d->tokens, d->bytes, document_loss(d), document_bits(d), d->file,
                  d->line);
}

static cJSON *document_json(const EvalDocument *d)
{
    cJSON *object = json_object();
    json_put_whole(object, "document", (int64_t)d->number);
    json_put_text(object, "file", d->file);
    json_put_whole(object, "line", (int64_t)d->line);
    json_put_whole(object, "tokens", (int64_t)d->tokens);
    json_put_whole(object, "bytes", (int64_t)d->bytes);
    json_put_number(object, "nats", d->nats);
    json_put_number(object, "loss", document_loss(d));
    json_put_number(object, "bits_per_byte", document_bits(d));
    return object;
}

static void keep_named(EvalNamed *named, const EvalDocument *document)
{
    free(named->name);
    named->name = mem_format("%s:%" PRIu64, document->file, document->line);
    named->document = *document;
    named->document.file = named->name;
}

/* Counts the document for best and worst, and keeps it where --json wants it. */
static void report_add(EvalReport *r, const EvalDocument *document)
{
    double loss = document_loss(document);
    if (r->best.name == NULL || loss < document_loss(&r->best.document)) {
        keep_named(&r->best, document);
    }
    if (r->worst.name == NULL || loss > document_loss(&r->worst.document)) {
        keep_named(&r->worst, document);
    }
    if (r->each != NULL) {
        json_append(r->each, document_json(document));
    }
}

static void report_free(EvalReport *r)
{
    free(r->best.name);
    free(r->worst.name);
    cJSON_Delete(r->each);
    r->best.name = r->worst.name = NULL;
    r->each = NULL;
}

/* --- the table --- */

static void print_model(const EvalReport *r)
{
    const LoadedModel *m = r->model;
    escape_printf(stdout, "%-14s %s", "model", m->path);
    if (m->step >= 0) {
        printf(", step %" PRId64, m->step);
    }
    printf(", on %s in %s", backend_title(m->backend), dtype_name(m->weights.dtype));
    if (r->ranks > 1) {
        printf(", %d ranks", r->ranks);
    }
    putchar('\n');
}

static void print_count(const char *name, uint64_t count)
{
    char text[SHOW_COUNT_SIZE];
    printf("%-14s %15s\n", name, show_count(count, true, text));
}

static void print_named(const char *what, const EvalNamed *named)
{
    escape_printf(stdout, "%-14s %15.6f  document %" PRIu64 ", %s\n", what,
                  document_loss(&named->document), named->document.number, named->name);
}

static void report_print(const EvalReport *r)
{
    const EvalTotals *t = &r->totals;
    print_model(r);
    if (r->data != NULL) {
        escape_printf(stdout, "%-14s %s, %s, sequences of %" PRId64 " tokens\n", "data", r->data,
                      r->split, r->seq);
        print_count("sequences", t->windows);
    } else {
        printf("%-14s documents, in windows of at most %" PRId64 " tokens\n", "text", r->seq);
        print_count("documents", r->documents);
    }
    print_count("tokens", t->tokens);
    if (r->no_bytes == NULL) {
        print_count("bytes", t->bytes);
    }
    printf("%-14s %15.6f  nats per token\n", "loss", eval_loss(t));
    printf("%-14s %15.6g\n", "perplexity", exp(eval_loss(t)));
    if (r->no_bytes == NULL) {
        printf("%-14s %15.6f\n", "bits per byte", eval_bits_per_byte(t));
    } else {
        escape_printf(stdout, "%-14s %15s  %s\n", "bits per byte", "-", r->no_bytes);
    }
    if (r->documents > 1) {
        print_named("best", &r->best);
        print_named("worst", &r->worst);
    }
    printf("%-14s %15.0f  tokens per second, %.1f s\n", "speed", (double)t->tokens / r->seconds,
           r->seconds);
    if (!r->complete) {
        printf("incomplete: stopped before the end; these are the figures of what was reached\n");
    }
}

/* --- JSON --- */

static cJSON *report_json(const EvalReport *r)
{
    const LoadedModel *m = r->model;
    const EvalTotals *t = &r->totals;
    cJSON *tree = json_object();
    json_put_text(tree, "model", m->path);
    json_put_text(tree, "run", m->run);
    if (m->step >= 0) {
        json_put_whole(tree, "step", m->step);
    }
    json_put_text(tree, "device", m->backend->device != NULL ? m->backend->device : "cpu");
    json_put_text(tree, "backend", m->backend->name);
    json_put_text(tree, "dtype", dtype_name(m->weights.dtype));
    json_put_whole(tree, "ranks", r->ranks);
    json_put_whole(tree, "batch", r->batch);
    json_put_whole(tree, "seq", r->seq);
    if (r->data != NULL) {
        json_put_text(tree, "data", r->data);
        json_put_text(tree, "split", r->split);
    } else {
        json_put_item(tree, "inputs",
                      cJSON_CreateStringArray((const char *const *)r->inputs, r->input_count));
        json_put_whole(tree, "documents", (int64_t)r->documents);
    }
    json_put_bool(tree, "complete", r->complete);
    json_put_whole(tree, "windows", (int64_t)t->windows);
    json_put_whole(tree, "tokens", (int64_t)t->tokens);
    if (r->no_bytes == NULL) {
        json_put_whole(tree, "bytes", (int64_t)t->bytes);
    }
    json_put_number(tree, "nats", t->nats);
    json_put_number(tree, "loss", eval_loss(t));
    json_put_number(tree, "perplexity", exp(eval_loss(t)));
    json_put(tree, "bits_per_byte", (Value){r->no_bytes == NULL, eval_bits_per_byte(t)});
    json_put(tree, "mean_of_batches", (Value){r->has_mean, r->mean});
    json_put_number(tree, "seconds", r->seconds);
    json_put_number(tree, "tokens_per_second", (double)t->tokens / r->seconds);
    if (r->documents > 0) {
        json_put_item(tree, "best", document_json(&r->best.document));
        json_put_item(tree, "worst", document_json(&r->worst.document));
    }
    if (r->each != NULL) {
        json_put_item(tree, "each", json_copy(r->each));
    }
    return tree;
}

/* --- the command --- */

typedef struct {
    Config *cfg;
    Comm *comm; /* NULL: one rank */
    LoadedModel model;
    EvalReport report;
} Eval;

static bool prints_table(const Eval *e)
{
    return ranks_lead(e->comm) && strcmp(e->cfg->json, "-") != 0;
}

static int take_document(void *user, const EvalDocument *document)
{
    Eval *e = user;
    if (e->cfg->each && prints_table(e)) {
        log_live("%s", "");
        if (document->number == 1) {
            print_head();
        }
        print_row(document);
    }
    report_add(&e->report, document);
    return 0;
}

static int conclude(Eval *e, int code)
{
    EvalReport *r = &e->report;
    bool stopped = code == ERR_INTERRUPTED || code == ERR_TERMINATED;
    if ((code != 0 && !stopped) || r->totals.tokens == 0) {
        return code;
    }
    log_live("%s", "");
    if (prints_table(e)) {
        report_print(r);
    }
    bool writes = ranks_lead(e->comm) && e->cfg->json[0] != '\0';
    int written = writes ? json_write(e->cfg->json, report_json(r)) : 0;
    if (stopped && written == 0) {
        return err_set(code, "stopped by a signal; the figures are incomplete");
    }
    return written;
}

static int evaluate(Eval *e, const char *model, int count, char **inputs)
{
    int code = evaluation_check(e->cfg, count, inputs);
    code = code != 0 ? code : loaded_open(&e->model, model, e->cfg, e->comm);
    code = comm_agree(e->comm, code);
    if (code != 0) {
        return code;
    }
    if (count > 0 && e->cfg->each && e->cfg->json[0] != '\0') {
        e->report.each = json_array();
    }
    Evaluation evaluation = {.cfg = e->cfg,
                             .comm = e->comm,
                             .model = &e->model,
                             .report = &e->report,
                             .document = take_document,
                             .user = e};
    code = conclude(e, evaluation_run(&evaluation, count, inputs));
    ranks_fail(e->comm, code);
    report_free(&e->report);
    loaded_close(&e->model);
    return code;
}

int cmd_eval(Config *cfg)
{
    Eval e = {.cfg = cfg, .report = {.model = &e.model, .ranks = 1}};
    int code = evaluation_check(cfg, cfg->argc - 1, cfg->argv + 1);
    code = code != 0 ? code : ranks_enter(cfg, NULL, NULL, &e.comm);
    if (code == 0) {
        signals_install();
        e.report.ranks = e.comm != NULL ? comm_ranks(e.comm) : 1;
        code = evaluate(&e, cfg->argv[0], cfg->argc - 1, cfg->argv + 1);
    }
    return ranks_leave(e.comm, code);
}
