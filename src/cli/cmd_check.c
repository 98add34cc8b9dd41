/* pacer check: a run directory is checked from its records, a file is audited. The worst of all
 * paths decides the exit status. */
#include "audit/audit.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/io.h"
#include "base/log.h"
#include "cli/commands.h"
#include "record/checks.h"

#include <stdio.h>
#include <stdlib.h>

static int check_run(const char *dir, bool *failed)
{
    Checks checks = {.count = 0};
    int code = recheck_dir(dir, &checks);
    if (code != 0) {
        return code;
    }
    for (int i = 0; i < checks.count; i++) {
        char text[CHECK_LINE_SIZE];
        escape_printf(stdout, "%s: %s\n", dir, check_line(&checks.items[i], text));
    }
    CheckVerdict worst = checks_worst(&checks);
    escape_printf(stdout, "%s: %d checks, the worst: %s\n", dir, checks.count,
                  check_verdict_name(worst));
    *failed |= worst == CHECK_FAIL;
    return 0;
}

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
        code = io_is_folder(cfg->argv[i]) ? check_run(cfg->argv[i], &failed)
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
