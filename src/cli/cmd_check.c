/* pacer check: a run directory, or all runs in a folder, are checked from their records, a file is
 * audited. The worst of all paths decides the exit status. */
#include "audit/audit.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/show.h"
#include "cli/commands.h"
#include "record/checks.h"
#include "record/reader.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define DEPTH_MOST 8 /* of folders below the one that was named */

/* --- runs of pacer --- */

typedef struct {
    char **dirs;
    size_t count, capacity;
} Runs;

/* The runs in a folder and below it. A run ends the way down; an experiment has its runs below. */
static void find_runs(Runs *runs, const char *dir, int depth)
{
    bool run = io_has(dir, RECORD_RUN);
    if (run) {
        runs->dirs = mem_grow(runs->dirs, runs->count, &runs->capacity, sizeof *runs->dirs);
        runs->dirs[runs->count++] = mem_strdup(dir);
    }
    struct dirent **entries = NULL;
    int count = depth < DEPTH_MOST && (!run || io_has(dir, RECORD_EXPERIMENT))
                    ? scandir(dir, &entries, NULL, alphasort)
                    : 0;
    for (int i = 0; i < count; i++) {
        char *below = io_join(dir, entries[i]->d_name);
        struct stat info;
        if (entries[i]->d_name[0] != '.' && lstat(below, &info) == 0 && S_ISDIR(info.st_mode)) {
            find_runs(runs, below, depth + 1);
        }
        free(below);
        free(entries[i]);
    }
    free(entries);
}

/* `all`: also the checks that passed. */
static int check_run(const char *dir, bool all, bool *failed)
{
    Checks checks = {.count = 0};
    int code = recheck_dir(dir, &checks);
    if (code != 0) {
        return code;
    }
    for (int i = 0; i < checks.count; i++) {
        char text[CHECK_LINE_SIZE];
        if (all || checks.items[i].verdict != CHECK_PASS) {
            escape_printf(stdout, "%s: %s\n", dir, check_line(&checks.items[i], text));
        }
    }
    if (checks.count == 0) {
        escape_printf(stdout, "%s: nothing to check, its record has no numbers of a training\n",
                      dir);
        return 0;
    }
    CheckVerdict worst = checks_worst(&checks);
    escape_printf(stdout, "%s: %d check%s, the worst: %s\n", dir, checks.count,
                  show_plural(checks.count), check_verdict_name(worst));
    *failed |= worst == CHECK_FAIL;
    return 0;
}

/* Of several runs those are told in full that have something to tell. */
static int check_folder(const char *dir, bool *failed)
{
    Runs runs = {0};
    find_runs(&runs, dir, 0);
    int code = runs.count > 0
                   ? 0
                   : err_set(ERR_INPUT,
                             "%s: no run in it or below it (a folder with " RECORD_RUN
                             "); give a run directory, a folder of some, or a file to audit",
                             dir);
    size_t unreadable = 0;
    for (size_t i = 0; i < runs.count; i++) {
        int problem = check_run(runs.dirs[i], runs.count == 1, failed);
        code = code != 0 ? code : problem;
        unreadable += problem != 0;
        if (problem != 0 && runs.count > 1) {
            log_error("%s", err_message());
        }
        free(runs.dirs[i]);
    }
    free(runs.dirs);
    return unreadable > 0 && runs.count > 1
               ? err_set(code, "%s: %zu of %zu runs not checked", dir, unreadable, runs.count)
               : code;
}

/* --- files of anyone --- */

static int check_file(const char *path, const Names *names, bool *failed)
{
    Audit audit;
    int code = audit_file(path, names, &audit);
    if (code == 0) {
        audit_print(&audit, path, stdout);
        *failed |= audit_count(&audit, FINDING_DISAGREES) > 0;
    }
    audit_free(&audit);
    return code;
}

int cmd_check(Config *cfg)
{
    NameMapping *mappings;
    int count, unreadable = 0;
    int code = names_parse(cfg->map, &mappings, &count);
    if (code != 0) {
        return code;
    }
    Names names = {mappings, count};
    bool failed = false;
    for (int i = 0; i < cfg->argc; i++) {
        code = io_is_folder(cfg->argv[i]) ? check_folder(cfg->argv[i], &failed)
                                          : check_file(cfg->argv[i], &names, &failed);
        if (code != 0) {
            unreadable++;
            if (cfg->argc > 1) { /* the others are looked at all the same */
                log_error("%s", err_message());
            }
        }
    }
    free(mappings);
    if (unreadable > 0) {
        return cfg->argc == 1
                   ? code
                   : err_set(ERR_INPUT, "%d of %d paths not checked", unreadable, cfg->argc);
    }
    return failed ? err_set(ERR_CHECK, "something does not agree; see above") : 0;
}
