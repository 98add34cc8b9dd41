/* `pacer eval`: a trained model on prepared tokens or on texts. */
#include "api/evaluate.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/signals.h"
#include "cli/commands.h"
#include "cli/eval_report.h"
#include "cli/ranks.h"

#include <string.h>

typedef struct {
    Config *cfg;
    Comm *comm; /* NULL: one rank */
    LoadedModel model;
    EvalReport report;
} Eval;

static bool is_leader(const Eval *e)
{
    return e->comm == NULL || comm_rank(e->comm) == 0;
}

static bool prints_table(const Eval *e)
{
    return is_leader(e) && strcmp(e->cfg->json, "-") != 0;
}

static int take_document(void *user, const EvalDocument *document)
{
    Eval *e = user;
    if (e->cfg->documents && prints_table(e)) {
        log_live("%s", "");
        if (document->number == 1) {
            eval_report_head();
        }
        eval_report_row(document);
    }
    eval_report_add(&e->report, document);
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
        eval_report_print(r);
    }
    int written = is_leader(e) && e->cfg->json[0] != '\0' ? eval_report_json(r, e->cfg->json) : 0;
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
    if (count > 0 && e->cfg->documents && e->cfg->json[0] != '\0') {
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
    eval_report_free(&e->report);
    loaded_close(&e->model);
    return code;
}

int cmd_eval(Config *cfg, int argc, char **argv)
{
    Eval e = {.cfg = cfg, .report = {.model = &e.model, .ranks = 1}};
    int code = evaluation_check(cfg, argc - 1, argv + 1);
    code = code != 0 ? code : ranks_enter(cfg, NULL, &e.comm);
    if (code == 0) {
        signals_install();
        e.report.ranks = e.comm != NULL ? comm_ranks(e.comm) : 1;
        code = evaluate(&e, argv[0], argc - 1, argv + 1);
    }
    return ranks_leave(e.comm, code);
}
