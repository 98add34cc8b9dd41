/* `pacer train --fit`: the same command once more, as a child that does no more than search. It is
 * started anew, so that it has as much in memory before its plans as the training will have. It
 * answers with its exit code, and then with a line for each option, or with the message of its
 * failure. */
#include "base/err.h"
#include "base/escape.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/page.h"
#include "base/show.h"
#include "base/signals.h"
#include "cli/fit.h"
#include "cli/ranks.h"
#include "train/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1024.0 * 1024.0)
#define REPLY "PACER_FIT_REPLY" /* in the child's environment: where the answer goes */

/* --- in the child --- */

/* The checkpoint that the run goes on from; NULL: it begins. Without --out the folder is that of
 * the options as they are before the search, so that the same command finds it again. */
static int find_checkpoint(const Config *cfg, FILE *reply, char **checkpoint)
{
    char id[CONFIG_ID_SIZE];
    config_run_id(cfg, id);
    char *dir =
        cfg->out[0] != '\0' ? mem_strdup(cfg->out) : mem_format("runs/%s-%.8s", cfg->model, id);
    bool here = strcmp(cfg->resume, "auto") == 0;
    int code = 0;
    *checkpoint = NULL;
    if (here) {
        code = checkpoint_newest(dir, checkpoint);
    } else if (!here && strcmp(cfg->resume, "never") != 0) {
        code = checkpoint_find(cfg->resume, checkpoint);
    }
    if (code == 0 && cfg->out[0] == '\0') {
        fprintf(reply, "out %s\n", dir);
    }
    free(dir);
    return code;
}

static void answer_whole(const cJSON *config, const char *name, FILE *reply)
{
    double value = json_number(config, name);
    if (value >= 1) {
        fprintf(reply, "%s %.0f\n", name, value);
    }
}

/* What the checkpoint's run had of what is open. */
static int keep_settings(const Config *cfg, const char *checkpoint, FILE *reply)
{
    StateFile file;
    int code = state_read(checkpoint, &file);
    if (code != 0) {
        return code;
    }
    for (const Option *option = config_options(); option->name != NULL; option++) {
        const char *value = config_fits(cfg, option) ? json_text(file.config, option->name) : NULL;
        if (value != NULL) {
            fprintf(reply, "%s %s\n", option->name, value);
        }
    }
    if (config_fits_batch(cfg)) {
        answer_whole(file.config, "batch", reply);
        if (cfg->global_batch == 0) {
            answer_whole(file.config, "accum", reply);
        }
    }
    state_free(&file);
    if (!cfg->quiet) {
        escape_printf(stdout, "--fit: as the run has it that goes on from %s\n", checkpoint);
    }
    return 0;
}

static void answer(const Config *cfg, const FitFound *found, FILE *reply)
{
    const FitSpace *space = &found->space;
    const FitCandidate *c = &found->fit.items[found->fit.best];
    if (space->split) {
        fprintf(reply, "batch %lld\n", (long long)c->batch);
    }
    if (space->split && cfg->global_batch == 0) {
        fprintf(reply, "accum %lld\n", (long long)fit_accum(space, c));
    }
    for (int i = 0; i < space->axis_count; i++) {
        fprintf(reply, "%s %s\n", space->axes[i].option->name, fit_value_name(found, c, i));
    }
    if (!cfg->quiet) {
        char *settings = fit_settings_text(found, c), rate[SHOW_COUNT_SIZE];
        double tokens = fit_rate(found, c);
        escape_printf(stdout,
                      "--fit takes %s: %.1f MiB planned, %s tok/s predicted, the fastest of %d "
                      "settings (pacer plan --fit shows them)\n",
                      settings, (double)c->bytes / MIB, show_count((uint64_t)tokens, true, rate),
                      found->fit.count);
        free(settings);
    }
}

static int search(Config *cfg, FILE *reply)
{
    char *checkpoint = NULL;
    int code = run_resolve(cfg);
    code = code != 0 ? code : find_checkpoint(cfg, reply, &checkpoint);
    if (code == 0 && checkpoint != NULL) {
        code = keep_settings(cfg, checkpoint, reply);
    } else if (code == 0) {
        FitFound found;
        code = fit_find(cfg, (int)cfg->ranks, &found);
        if (code == 0) {
            fit_warn_if_busy(&found);
            code = found.fit.best >= 0 ? 0 : fit_refuse(cfg, &found);
        }
        if (code == 0) {
            answer(cfg, &found, reply);
        }
        fit_found_free(&found);
    }
    free(checkpoint);
    return code;
}

/* Its whole life. It has nothing to finish, and ends at once when an end is asked for: a step may
 * take minutes. */
static void be_child(Config *cfg, int end)
{
    signals_restore();
    char *text = NULL;
    size_t size = 0;
    FILE *reply = open_memstream(&text, &size), *out = fdopen(end, "wb");
    mem_checked(reply != NULL && out != NULL ? reply : NULL, size);
    int code = search(cfg, reply);
    fclose(reply);
    fprintf(out, "%d\n%s", code, code == 0 ? text : err_message());
    fclose(out);
    free(text);
    config_free(cfg);
    fflush(NULL);
    _exit(0);
}

/* --- in the parent --- */

/* All that the child says; the caller frees it. NULL: an end was asked for. */
static char *read_reply(int from)
{
    Page page = {0};
    char part[4096];
    for (;;) {
        signals_wait_readable(from);
        if (signals_pending() != 0) {
            page_free(&page);
            return NULL;
        }
        ssize_t more = read(from, part, sizeof part);
        if (more == 0 || (more < 0 && errno != EINTR)) {
            return page_end(&page);
        }
        page_put_bytes(&page, part, more > 0 ? (size_t)more : 0);
    }
}

static int take(Config *cfg, const char *name, const char *value, char ***words, size_t *count)
{
    words_add(words, count, mem_format("--%s=%s", name, value));
    return config_set(cfg, name, value);
}

/* Options that the reply names, also as words; those that it leaves open stay as they are. */
static int apply(Config *cfg, char *lines, char ***taken)
{
    size_t count = 0;
    int code = 0;
    char **words = mem_zalloc(1, sizeof *words), *rest = NULL;
    for (char *line = strtok_r(lines, "\n", &rest); code == 0 && line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char *value = strchr(line, ' ');
        if (value == NULL) {
            continue;
        }
        *value++ = '\0';
        code = take(cfg, line, value, &words, &count);
    }
    for (const Option *option = config_options(); code == 0 && option->name != NULL; option++) {
        if (config_fits(cfg, option)) {
            char *value = config_value_text(cfg, option);
            code = take(cfg, option->name, value, &words, &count);
            free(value);
        }
    }
    code = code != 0 ? code : config_check(cfg);
    if (code != 0) {
        words_free(words);
        return code;
    }
    *taken = words;
    return 0;
}

/* status: how the child ended. */
static int take_reply(Config *cfg, int status, char *reply, char ***taken)
{
    char *lines;
    long code = strtol(reply, &lines, 10);
    if (*lines != '\n' && WIFSIGNALED(status)) {
        int number = WTERMSIG(status);
        return err_set(ERR_FAILED, "--fit: the search was ended by signal %d (%s)%s", number,
                       strsignal(number),
                       number == SIGKILL ? "; the system does so where memory runs out: give "
                                           "--memory-limit"
                                         : "");
    }
    if (*lines != '\n') {
        return err_set(ERR_FAILED, "--fit: the search ended without an answer, with status %d",
                       WEXITSTATUS(status));
    }
    return code == 0 ? apply(cfg, lines + 1, taken) : err_set((ErrCode)code, "%s", lines + 1);
}

/* Between fork and exec. */
static void become_child(char **words, int end)
{
    fcntl(end, F_SETFD, 0); /* is the only one that stays open */
    signals_restore();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    execv("/proc/self/exe", words);
    _exit(127);
}

/* Its end of the pipe is closed here, whatever comes of it. An errno, or 0. */
static int start_child(char **words, int end, pid_t *pid)
{
    char text[16];
    snprintf(text, sizeof text, "%d", end);
    fflush(NULL);
    *pid = setenv(REPLY, text, 1) == 0 ? fork() : -1;
    if (*pid == 0) {
        become_child(words, end);
    }
    int cause = *pid < 0 ? errno : 0;
    unsetenv(REPLY);
    close(end);
    return cause;
}

int fit_take(Config *cfg, char ***taken)
{
    int ends[2];
    const char *reply_to = getenv(REPLY);
    *taken = NULL;
    if (reply_to != NULL) {
        be_child(cfg, (int)strtol(reply_to, NULL, 10));
    }
    if (!config_fit_is_open(cfg)) {
        return 0;
    }
    if (comm_is_launched()) {
        return err_set(ERR_INPUT, "--fit looks for settings before ranks start: let pacer start "
                                  "them (train --ranks N), or give what `pacer plan --fit` prints");
    }
    int code = words_check(cfg);
    if (code != 0) {
        return code;
    }
    char **words = words_of_process(NULL);
    if (words == NULL) {
        return err_set(ERR_FAILED,
                       "--fit: /proc/self/cmdline cannot be read; give what `pacer plan "
                       "--fit` prints");
    }
    pid_t pid = -1;
    int begun = pipe2(ends, O_CLOEXEC) == 0 ? start_child(words, ends[1], &pid) : errno;
    words_free(words);
    if (begun != 0) {
        return err_set(ERR_FAILED, "no process for --fit: %s", strerror(begun));
    }
    char *reply = read_reply(ends[0]);
    close(ends[0]);
    if (reply == NULL) {
        kill(pid, SIGTERM);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    code = reply != NULL ? take_reply(cfg, status, reply, taken) : signals_check();
    free(reply);
    return code;
}
