/* pacer report: pages from the records of a run or of an experiment; of two, what differs. */
#include "base/escape.h"
#include "cli/commands.h"
#include "report/report.h"

#include <stdio.h>

int cmd_report(Config *cfg)
{
    if (cfg->argc == 2) {
        return compare_report(cfg->argv[0], cfg->argv[1], stdout);
    }
    const char *dir = cfg->argv[0], *out = cfg->out[0] != '\0' ? cfg->out : dir;
    bool experiment;
    int code = results_kind(dir, &experiment);
    if (code == 0) {
        code = experiment ? experiment_report(dir, out) : run_report(dir, out);
    }
    if (code == 0) {
        escape_printf(stdout, "%s/report.md\n", out);
        escape_printf(stdout, "%s/report.html\n", out);
    }
    return code;
}
