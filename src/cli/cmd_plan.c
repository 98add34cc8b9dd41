#include "cli/commands.h"
#include "train/setup.h"

int cmd_plan(Config *cfg, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    Run run;
    int code = run_resolve(cfg);
    code = code != 0 ? code : run_open(&run, cfg, NULL, DATA_OPTIONAL);
    if (code != 0) {
        return code;
    }
    code = run_check_fits(&run);
    if (code == 0) {
        run_print_plan(&run, stdout);
        size_t limit = run_memory_limit(&run);
        if (limit > 0) {
            printf("Fits in %.1f MiB; the largest batch that does is %lld\n",
                   (double)limit / (1024.0 * 1024.0),
                   (long long)trainer_largest_batch(&run.setup, run.backend, limit));
        }
    }
    run_close(&run);
    return code;
}
