#include "study/peer.h"

#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/signals.h"
#include "devices/devices.h"
#include "record/names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- the tools --- */

const char *peer_python(void)
{
    const char *named = getenv("PACER_PYTHON");
    return named != NULL && named[0] != '\0' ? named : "python3";
}

char *peer_script(void)
{
    static const char *const places[] = {"../share/pacer/peer", "../tools/peer", NULL};
    char *found = io_find_from(io_program_folder(), places, "torch_train.py");
    return found != NULL ? found : mem_strdup("");
}

/* In the child: the interpreter with its output in `out`, or nothing. */
static void become_probe(const char *python, const char *script, int out)
{
    signals_restore();
    int nowhere = open("/dev/null", O_RDWR);
    if (nowhere >= 0) {
        dup2(nowhere, STDIN_FILENO);
        dup2(nowhere, STDERR_FILENO);
    }
    dup2(out, STDOUT_FILENO);
    execlp(python, python, script, "--probe", (char *)NULL);
    _exit(127);
}

/* The first line that the interpreter prints about what it has; false when there is none. */
static bool ask(const char *script, char *line, size_t size, int *status)
{
    int ends[2];
    *status = -1;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return false;
    }
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        become_probe(peer_python(), script, ends[1]);
    }
    close(ends[1]);
    FILE *answer = fdopen(ends[0], "r");
    bool got = pid > 0 && answer != NULL && fgets(line, (int)size, answer) != NULL;
    if (answer != NULL) {
        fclose(answer);
    } else {
        close(ends[0]);
    }
    while (pid > 0 && waitpid(pid, status, 0) < 0 && errno == EINTR) {}
    return got;
}

void peer_tools_find(PeerTools *tools)
{
    *tools = (PeerTools){0};
    char line[256] = "", *script = peer_script();
    int status = 0;
    if (script[0] == '\0') {
        snprintf(tools->why, sizeof tools->why, "torch_train.py does not lie beside the program");
    } else if (!ask(script, line, sizeof line, &status) ||
               sscanf(line, "torch %31s gpus %d", tools->version, &tools->gpus) != 2) {
        bool missing = WIFEXITED(status) && WEXITSTATUS(status) == 127;
        tools->version[0] = '\0';
        snprintf(tools->why, sizeof tools->why,
                 missing ? "%.200s cannot be started" : "%.200s cannot import torch",
                 peer_python());
    }
    free(script);
}

/* --- which runs --- */

/* Whether the model is made of what tools/peer has: no parts of Qwen 3 and Gemma. */
static bool has_peer_parts(const ModelSpec *s)
{
    return !s->qk_norm && !s->post_norm && s->window == 0 && s->score_scale == 0 &&
           s->score_cap == 0 && s->embed_scale == 0 && s->logit_cap == 0;
}

/* Why the peer has no run beside this one; NULL: it has. */
static const char *reason_against(const ExperimentRun *run, const PeerTools *tools)
{
    const Config *cfg = &run->cfg;
    return run->obstacle != NULL                         ? "pacer itself cannot run them here"
           : run->plan.spec.mixer == MIXER_TTT           ? "it is given no TTT layers to train"
           : !has_peer_parts(&run->plan.spec)            ? "it has no such models"
           : cfg->init[0] != '\0' || cfg->branch_at > 0  ? "it does not go on from given weights"
           : cfg->device == DEVICE_REF                   ? "it knows no device ref"
           : cfg->dtype == CONFIG_DTYPE_FP8              ? "it has no fp8 of its own"
           : cfg->documents == CONFIG_DOCUMENTS_SEPARATE ? "it joins documents"
           : cfg->optimizer != OPTIMIZER_ADAMW           ? "it trains with AdamW"
           : cfg->state_dtype != CONFIG_STATE_DTYPE_F32  ? "it keeps its state in f32"
           : cfg->grad_dtype != CONFIG_STATE_DTYPE_F32   ? "it keeps gradients in f32"
           : cfg->parametrization == CONFIG_PARAMETRIZATION_MUP ? "it has no mup"
           : cfg->minutes > 0                                   ? "it does not train by the clock"
           : cfg->batch_ramp[0] != '\0'                         ? "its updates are of one size"
           : device_of((DeviceId)cfg->device)->count != NULL && cfg->ranks > tools->gpus
               ? "they have more ranks than it finds GPUs"
               : NULL;
}

/* Options that tell pacer's ways of doing a thing apart and have no counterpart there. */
static const char *const without_meaning[] = {
    "ddp",        "comm-dtype", "bucket-mb",    "graph",       "ttt-keep",     "memory-limit",
    "ttt",        "mini-batch", "ttt-lr",       "resume",      "comm-timeout", "oversubscribe",
    "save-every", "keep",       "verify-every", "tensorboard", "save-minutes", "noise-scale",
    "batch-ramp", "ramp-lr",    "shard-group",  "offload"};

/* Attention that keeps the probabilities, or the library's one call for what does not. */
static void map_attention(ExperimentRun *run)
{
    if (run->cfg.attention != CONFIG_ATTENTION_NAIVE) {
        config_derive(&run->cfg, "attention", CONFIG_ATTENTION_FLASH);
    }
    for (int i = 0; i < run->settings.count; i++) {
        Setting *setting = &run->settings.items[i];
        if (strcmp(setting->option, "attention") == 0) {
            free(setting->value);
            setting->value = config_value_text(&run->cfg, config_find("attention"));
        }
    }
}

static void drop_meaningless(ExperimentRun *run)
{
    for (size_t i = 0; i < sizeof without_meaning / sizeof without_meaning[0]; i++) {
        const char *option = without_meaning[i];
        if (config_is_set(&run->cfg, option)) {
            config_set(&run->cfg, option, config_find(option)->initial);
        }
        setting_remove(&run->settings, option);
    }
}

/* "PyTorch: attention flash, ranks 1": of what varies, that which is left. */
static char *label_of(const Recipe *recipe, const ExperimentRun *run)
{
    SettingList shown = {0};
    for (int i = 0; i < recipe->axis_count; i++) {
        for (int k = 0; k < recipe->axes[i].count; k++) {
            const Setting *s =
                setting_find(&run->settings, recipe_axis_option(&recipe->axes[i], k));
            if (s != NULL) {
                setting_add(&shown, s->option, s->value, s->line);
            }
        }
    }
    char *settings = setting_label(&shown);
    char *label =
        mem_format("%s%s%s", peer_title(run->peer), shown.count > 0 ? ": " : "", settings);
    free(settings);
    setting_free(&shown);
    return label;
}

static ExperimentRun run_of_peer(const Recipe *recipe, const ExperimentRun *own, const char *peer)
{
    ExperimentRun run = {.peer = peer,
                         .plan = own->plan,
                         .repeat = own->repeat,
                         .combination = own->combination,
                         .factor = own->factor,
                         .reason = mem_strdup("")};
    run.plan.bytes = run.plan.seconds = (Value){0}; /* pacer's alone */
    config_copy(&run.cfg, &own->cfg);
    setting_add_all(&run.settings, &own->settings);
    drop_meaningless(&run);
    map_attention(&run);
    run.label = label_of(recipe, &run);
    return run;
}

/* Says what is missing, and keeps it for the record. */
static void note(Experiment *e, char *text)
{
    log_info("%s", text);
    free(e->peer_note);
    e->peer_note = text;
}

/* One more run per peer behind the runs of each repeat, which keep their order. */
static void interleave(Experiment *e, const PeerTools *tools)
{
    const Recipe *recipe = &e->recipe;
    int peers = __builtin_popcount(recipe->peers), count = 0, number = e->configurations;
    ExperimentRun *runs = mem_zalloc((size_t)e->count * (size_t)(1 + peers), sizeof *runs);
    for (int from = 0, to; from < e->count; from = to) {
        for (to = from; to < e->count && e->runs[to].repeat == e->runs[from].repeat; to++) {
            runs[count++] = e->runs[to];
        }
        for (int i = from; i < to; i++) {
            int before = number + e->runs[i].configuration * peers;
            for (int p = 0; peer_name(p) != NULL; p++) {
                if ((recipe->peers & 1u << p) && reason_against(&e->runs[i], tools) == NULL) {
                    runs[count] = run_of_peer(recipe, &e->runs[i], peer_name(p));
                    runs[count++].configuration = before++;
                }
            }
        }
    }
    free(e->runs);
    e->runs = runs;
    e->count = count;
    e->configurations = number * (1 + peers);
}

void peers_add(Experiment *e, const PeerTools *tools)
{
    if (tools->version[0] == '\0') {
        note(e, mem_format("PyTorch was not there (%s): no rows of its own", tools->why));
        return;
    }
    snprintf(e->peer_version, sizeof e->peer_version, "%s", tools->version);
    int left_out = 0;
    const char *why = NULL;
    for (int i = 0; i < e->configurations; i++) {
        const char *against = reason_against(&e->runs[i], tools);
        left_out += against != NULL;
        why = why == NULL ? against : why;
    }
    if (left_out > 0) {
        note(e, mem_format("PyTorch has no rows for %d of %d configurations: %s", left_out,
                           e->configurations, why));
    }
    interleave(e, tools);
}

/* --- what a run is told --- */

int peer_tell(const Experiment *experiment, const ExperimentRun *run, char **path)
{
    const Config *cfg = &run->cfg;
    cJSON *tree = json_object();
    char *out = experiment_run_path(experiment, run, "");
    json_put_text(tree, "peer", run->peer);
    json_put_text(tree, "id", run->id);
    json_put_text(tree, "out", out);
    json_put_whole(tree, "steps", run->plan.steps);
    json_put_whole(tree, "seq", run->plan.seq);
    json_put_whole(tree, "warmup", config_warmup(cfg, run->plan.steps));
    json_put_number(tree, "min_lr", config_min_lr(cfg));
    json_put_item(tree, "model", spec_json(&run->plan.spec));
    cJSON *config = config_to_json(cfg);
    for (size_t i = 0; i < sizeof without_meaning / sizeof without_meaning[0]; i++) {
        cJSON_DeleteItemFromObjectCaseSensitive(config, without_meaning[i]);
    }
    json_put_item(tree, "config", config);
    *path = experiment_run_path(experiment, run, ".peer.json");
    int code = json_save(*path, tree);
    if (code != 0) {
        free(*path);
        *path = NULL;
    }
    free(out);
    cJSON_Delete(tree);
    return code;
}
