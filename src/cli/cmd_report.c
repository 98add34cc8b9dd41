/* pacer report: pages from the records of a run or of an experiment; of two, what differs. */
#include "base/err.h"
#include "base/escape.h"
#include "base/io.h"
#include "cli/commands.h"
#include "report/compare.h"
#include "report/experiment_report.h"
#include "report/run_report.h"

#include <stdio.h>
#include <stdlib.h>

static bool has_file(const char *dir, const char *name)
{
    char *path = io_join(dir, name);
    bool exists = io_exists(path);
    free(path);
    return exists;
}

int cmd_report(Config *cfg, int argc, char **argv)
{
    if (argc == 2) {
        return compare_report(argv[0], argv[1], stdout);
    }
    const char *dir = argv[0], *out = cfg->out[0] != '\0' ? cfg->out : dir;
    int code;
    if (has_file(dir, "experiment.json")) {
        code = experiment_report_into(dir, out);
    } else if (has_file(dir, "run.json")) {
        code = run_report(dir, out);
    } else {
        return err_set(ERR_INPUT,
                       "%s: neither a run (run.json) nor an experiment (experiment.json)", dir);
    }
    if (code == 0) {
        escape_printf(stdout, "%s/report.md\n", out);
        escape_printf(stdout, "%s/report.html\n", out);
    }
    return code;
}
