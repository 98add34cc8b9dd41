#include "api/internal.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/signals.h"
#include "cli/commands.h"
#include "cli/fit.h"
#include "cli/ranks.h"
#include "cli/screen.h"
#include "train/setup.h"

#include <stdio.h>
#include <stdlib.h>

int cmd_train(Config *cfg)
{
    Comm *comm;
    char **taken = NULL;
    signals_install();
    int code = cfg->fit ? fit_take(cfg, &taken) : 0;
    if (code != 0) {
        return code;
    }
    char *board = api_board(cfg);
    code = ranks_enter(cfg, board, taken, &comm);
    free(board);
    words_free(taken);
    code = code != 0 ? code : run_resolve(cfg);
    if (code == 0 && !cfg->quiet && ranks_lead(comm)) {
        config_print_resolved(cfg, screen_text_width(), stdout);
    }
    code = code != 0 ? code : api_train(cfg, comm, NULL, NULL);
    if (code == 0 && ranks_lead(comm)) {
        char *folder = cfg->out[0] != '\0' ? io_parent(cfg->out) : mem_strdup("runs");
        serve_offer(folder);
        free(folder);
    }
    return ranks_leave(comm, code);
}
