/* `pacer plan`: what a training would take; with --link also how fast more ranks than there are
 * here would be. */
#include "analyse/collectives.h"
#include "analyse/predict_measure.h"
#include "base/err.h"
#include "base/log.h"
#include "base/signals.h"
#include "cli/commands.h"
#include "cli/plan.h"
#include "cli/ranks.h"

#include <unistd.h>

static bool wants_prediction(const Config *cfg)
{
    return cfg->link != CONFIG_LINK_NONE || cfg->link_us >= 0 || cfg->link_gbs > 0;
}

static int check_prediction(const Config *cfg)
{
    if (cfg->ranks == 1) {
        return err_set(ERR_INPUT, "--link: give --ranks, the most ranks to predict");
    }
    if (cfg->link == CONFIG_LINK_NONE && (cfg->link_us < 0 || cfg->link_gbs < 0)) {
        return err_set(ERR_INPUT,
                       "a link needs --link-us and --link-gbs, or a name: --link ib400, say");
    }
    if (cfg->per_node > 1 && predict_link(cfg->node_link) == NULL) {
        return err_set(ERR_INPUT, "--node-link needs the name of a link that has numbers, such as "
                                  "nvlink or pcie");
    }
    return 0;
}

/* The only one of its ranks unless they were started to measure the link between them. */
static int join(const Config *cfg, Comm **comm)
{
    if (cfg->link != CONFIG_LINK_MEASURED || !comm_is_launched()) {
        return 0;
    }
    int code = comm_open(
        (CommOptions){.timeout_s = cfg->comm_timeout, .shared_gpus = cfg->oversubscribe}, comm);
    if (code == 0 && (comm_ranks(*comm) < 2 || comm_ranks(*comm) > cfg->ranks)) {
        code = err_set(ERR_INPUT,
                       "--link measured: between %d ranks started; start 2 or more, at "
                       "most the %lld of --ranks",
                       comm_ranks(*comm), (long long)cfg->ranks);
    }
    return code;
}

static void print_link(PredictLink link, const char *between)
{
    printf("  assumed   %s: %s, %.3g us a message, %.4g GB/s %s\n", between, link.name,
           link.latency_s * 1e6, link.bytes_per_s * 1e-9,
           link.per_node ? "for a node's ranks together" : "for each rank");
}

static void print_assumptions(const PredictModel *model, int64_t together)
{
    const PredictNetwork *network = &model->network;
    bool nodes = network->per_node > 1;
    print_link(network->link, nodes ? "between nodes" : "between ranks");
    if (nodes) {
        printf("  assumed   %d ranks to a node\n", network->per_node);
        print_link(network->node_link, "in a node");
    }
    printf("  assumed   all-reduce by ring or tree, the faster; reduce-scatter and all-gather by "
           "ring\n");
    printf("  assumed   ranks are equally fast, data is there in time\n");
    printf("  assumed   from zero1 on each rank updates only its part of the parameters, so that "
           "efficiency may pass 100 %%\n");
    if (together == 0) {
        printf("  assumed   communication has no core of its own: it gets on when the computation "
               "has ended\n");
    } else if (together < INT64_MAX) {
        printf(
            "  assumed   up to %lld rank%s on a machine, communication slows nothing; with more it "
            "has no core of its own: it gets on when the computation has ended\n",
            (long long)together, together == 1 ? "" : "s");
    } else {
        printf("  assumed   communication beside the computation slows neither\n");
    }
}

static void print_measured(const PredictModel *model, PredictMeasured measured, int64_t layers)
{
    const PredictTimes *t = &model->times;
    printf("  measured  one rank's step here, median of %lld\n", (long long)measured.repeats);
    if (measured.layers < layers) {
        printf("  measured  %d of %lld layers, which fit one rank here\n", measured.layers,
               (long long)layers);
        printf("  assumed   the other layers take as long as these; times below are of all\n");
    }
    printf("  measured  before the backward pass %.3f ms, backward pass %.3f ms, update %.3f ms",
           t->before_s * 1e3, t->backward_s * 1e3, t->update_s * 1e3);
    if (t->cast_s > 0) {
        printf(", gradients to bf16 and back %.3f ms", 2 * t->cast_s * 1e3);
    }
    if (t->micro_s > 0) {
        printf("; earlier micro-step %.3f ms", t->micro_s * 1e3);
    }
    putchar('\n');
}

static void print_row(const char *strategy, Prediction p)
{
    printf("  predicted %-8s %6d %6lld %12.3f %14.0f %12.3f %12.3f %9.1f %%\n", strategy, p.ranks,
           (long long)p.accum, p.step_s * 1e3, p.tokens_per_s, p.exposed_s * 1e3, p.hidden_s * 1e3,
           100 * p.efficiency);
}

/* Micro-steps of each of `ranks` ranks; 0: the global batch does not divide. */
static int64_t accum_of(const Config *cfg, int64_t ranks)
{
    if (cfg->global_batch == 0) {
        return cfg->accum;
    }
    int64_t together = cfg->batch * ranks;
    return cfg->global_batch % together == 0 ? cfg->global_batch / together : 0;
}

/* Ranks on one machine that leave communication a core: on the processor, by computing threads. */
static int64_t ranks_with_room(const Run *run)
{
    const Backend *backend = run->backend;
    return backend->device != NULL ? INT64_MAX
                                   : (sysconf(_SC_NPROCESSORS_ONLN) - 1) / backend->threads;
}

/* How many of n ranks are on one machine. A link that was measured and stored is one between ranks
 * of this machine, unless it is taken for one between nodes. */
static int64_t ranks_together(const Config *cfg, const Comm *comm, int64_t n)
{
    bool here = cfg->link == CONFIG_LINK_MEASURED && cfg->per_node == 1;
    int64_t most = comm != NULL ? comm_local_ranks(comm) : here ? n : cfg->per_node;
    return n < most ? n : most;
}

static Prediction predict(const Run *run, const Comm *comm, PredictModel *model, int ranks,
                          int64_t accum)
{
    const Config *cfg = run->cfg;
    model->contention = ranks_together(cfg, comm, ranks) > ranks_with_room(run) ? 1 : 0;
    return predict_step(model, ranks, accum, accum_of(cfg, 1));
}

/* Leaves in *best, unless NULL, the prediction of the fastest strategy at --ranks. */
static void print_prediction(const Run *run, const Comm *comm, PredictModel *model,
                             PredictedRanks *best)
{
    const Config *cfg = run->cfg;
    int ranks = (int)cfg->ranks;
    printf("  %-9s %-8s %6s %6s %12s %14s %12s %12s %11s\n", "predicted", "ddp", "ranks", "accum",
           "step ms", "tok/s", "exposed ms", "hidden ms", "efficiency");
    for (int n = 1; n < ranks; n *= 2) {
        if (accum_of(cfg, n) > 0) {
            print_row(ddp_kind_name(model->ddp.kind),
                      predict(run, comm, model, n, accum_of(cfg, n)));
        }
    }
    DdpKind chosen = model->ddp.kind;
    print_row(ddp_kind_name(chosen), predict(run, comm, model, ranks, cfg->accum));
    printf("Predicted, not measured: %d ranks with each strategy\n", ranks);
    for (int kind = DDP_NAIVE; kind < DDP_COUNT; kind++) {
        model->ddp.kind = (DdpKind)kind;
        Prediction p = predict(run, comm, model, ranks, cfg->accum);
        print_row(ddp_kind_name((DdpKind)kind), p);
        if (best != NULL && p.tokens_per_s > best->prediction.tokens_per_s) {
            *best = (PredictedRanks){(DdpKind)kind, p};
        }
    }
    model->ddp.kind = chosen;
}

static int find_link(const Run *run, MeasuredLink *measured)
{
    return link_find(measured, run->backend)
               ? 0
               : err_set(ERR_INPUT, "--link measured: nothing was measured here; `pacer bench comm "
                                    "--ranks 2` measures and stores it");
}

int plan_check_link(const Run *run, const Comm *comm)
{
    MeasuredLink link;
    bool stored = run->cfg->link == CONFIG_LINK_MEASURED && comm == NULL;
    return stored ? find_link(run, &link) : 0;
}

/* The named link, or the measured one, with what the user knows better. */
static int settle_link(const Run *run, Comm *comm, PredictNetwork *network, MeasuredLink *measured)
{
    const Config *cfg = run->cfg;
    *network = (PredictNetwork){.link = {.name = "given"}, .per_node = (int)cfg->per_node};
    if (cfg->link == CONFIG_LINK_MEASURED) {
        int code =
            comm != NULL ? link_measure(comm, run->backend, measured) : find_link(run, measured);
        if (code != 0) {
            return code;
        }
        network->link = measured->link;
    } else if (cfg->link != CONFIG_LINK_NONE) {
        network->link = *predict_link(cfg->link);
    }
    if (cfg->per_node > 1) {
        network->node_link = *predict_link(cfg->node_link);
    }
    if (cfg->link_us >= 0) {
        network->link.latency_s = cfg->link_us * 1e-6;
    }
    if (cfg->link_gbs > 0) {
        network->link.bytes_per_s = cfg->link_gbs * 1e9;
    }
    return 0;
}

int plan_predict(const Run *run, Comm *comm, PredictedRanks *best)
{
    const Config *cfg = run->cfg;
    const TrainerSetup *s = &run->setup;
    Backend *backend = run->backend;
    PredictModel model = {.ddp = s->ddp,
                          .wire = s->ddp.wire,
                          .weights = dtype_act(s->dtype),
                          .at_once = s->dtype == DT_E4M3, /* codes are made of all of them */
                          .tokens = s->batch * s->seq};
    PredictMeasured measured = {0};
    MeasuredLink link = {0};
    if (ranks_lead(comm)) {
        log_info("measuring one rank's step");
    }
    int code = settle_link(run, comm, &model.network, &link);
    if (code == 0) {
        code = predict_measure_step(run, comm, accum_of(cfg, 1), &model.times, &measured);
    }
    if (code == 0 && ranks_lead(comm)) {
        Model shape;
        model_init(&shape, &s->spec, s->dtype, backend->row_align > 0 ? backend->row_align : 1);
        model_keep_plain(&shape, s->plain_products);
        model.ddp.codes = trainer_sends_codes(s, backend);
        model.table = &shape.params;
        printf("Predicted, not measured: up to %lld ranks with --ddp %s, %s\n",
               (long long)cfg->ranks, ddp_kind_name(model.ddp.kind),
               cfg->global_batch > 0 ? "the global batch staying the same (strong scaling)"
                                     : "each with the same batch (weak scaling)");
        print_measured(&model, measured, s->spec.layers);
        if (cfg->link == CONFIG_LINK_MEASURED) {
            printf("  measured  link between %d ranks here at %s, fitted to all-reduces within "
                   "%.0f %%\n",
                   link.ranks, link.date, 100 * link.error);
        }
        int64_t room = ranks_with_room(run), together = ranks_together(cfg, comm, cfg->ranks);
        print_assumptions(&model, together <= room ? INT64_MAX : room);
        print_prediction(run, comm, &model, best);
        model_free(&shape);
    }
    predict_times_free(&model.times);
    return code;
}

static int plan(const Config *cfg, Comm *comm, bool predicting)
{
    Run run;
    int code = run_open(&run, cfg, comm, predicting ? DATA_REQUIRED : DATA_OPTIONAL);
    if (code != 0) {
        return code;
    }
    code = predicting ? plan_check_link(&run, comm) : 0;
    code = code == 0 ? run_check_fits(&run) : code;
    if (code == 0 && ranks_lead(comm)) {
        run_print_plan(&run, stdout);
        run_print_grades(&run, stdout);
        size_t limit = run_memory_limit(&run);
        if (limit < SIZE_MAX) {
            printf("Fits in %.1f MiB; the largest batch that does is %lld\n",
                   (double)limit / (1024.0 * 1024.0),
                   (long long)trainer_largest_batch(&run.setup, run.backend, run_room(&run)));
        }
    }
    code = code == 0 && predicting ? plan_predict(&run, comm, NULL) : code;
    run_close(&run);
    return code;
}

int cmd_plan(Config *cfg)
{
    Comm *comm = NULL;
    bool predicting = wants_prediction(cfg);
    if (config_is_set(cfg, "out") && !cfg->recommend) {
        log_warn("plan writes no files: --out has no effect");
    }
    int code = predicting ? check_prediction(cfg) : 0;
    if (code == 0 && cfg->recommend) {
        return plan_recommend(cfg, predicting);
    }
    if (code == 0 && cfg->fit) {
        return predicting
                   ? err_set(ERR_INPUT, "--fit predicts one rank's computation; leave --link "
                                        "out, and give it with what --fit prints")
                   : plan_fit(cfg);
    }
    if (code == 0 && cfg->hours > 0) {
        return err_set(ERR_INPUT, "--hours goes with --recommend, which finds out what they allow");
    }
    if (code == 0 && cfg->noise_from[0] != '\0') {
        return err_set(ERR_INPUT, "--noise-from goes with --recommend, which looks for a batch");
    }
    if (code == 0 && predicting) {
        signals_install();
        code = cfg->data[0] == '\0' ? config_set(cfg, "data", "builtin:random") : 0;
        code = code == 0 ? join(cfg, &comm) : code;
    }
    code = code == 0 ? run_resolve(cfg) : code;
    code = code == 0 ? plan(cfg, comm, predicting) : code;
    if (code != 0 && comm != NULL && comm_ranks(comm) > 1) {
        log_error("%s", err_message()); /* the other ranks may not know */
        comm_abort(comm, err_exit_status(code));
    }
    comm_close(comm);
    return code;
}
