#include "cli/commands.h"
#include "train/loop.h"
#include "train/setup.h"

int cmd_train(Config *cfg, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    int code = run_resolve(cfg);
    if (code != 0) {
        return code;
    }
    if (!cfg->quiet) {
        config_print_resolved(cfg, stdout);
    }
    return train_run(cfg, NULL);
}
