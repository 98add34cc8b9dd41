#include "cli/commands.h"
#include "train/loop.h"

int cmd_train(Config *cfg, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    if (!cfg->quiet) {
        config_print_resolved(cfg, stdout);
    }
    return train_run(cfg, NULL);
}
