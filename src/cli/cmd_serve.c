/* pacer serve: pages of all runs and experiments below some folders, in a browser. */
#include "base/err.h"
#include "base/escape.h"
#include "base/log.h"
#include "base/signals.h"
#include "cli/commands.h"
#include "serve/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Until a signal asks for an end. */
static int wait_for_end(void)
{
    int ends[2];
    if (pipe(ends) != 0) {
        return err_set(ERR_FAILED, "no pipe to wait at");
    }
    while (signals_pending() == 0) {
        signals_wait_readable(ends[0]); /* nobody writes */
    }
    close(ends[0]);
    close(ends[1]);
    return 0;
}

void serve_offer(const char *folder)
{
    if (server_is_built() && log_is_terminal()) {
        char *word = escape_shell_path(folder);
        log_info("in a browser: pacer serve %s", word);
        free(word);
    }
}

int cmd_serve(Config *cfg)
{
    signals_install();
    ServeOptions options = {
        .folders = cfg->argv, .count = cfg->argc, .port = (int)cfg->port, .listen = cfg->listen};
    Server *server;
    int code = server_start(&options, &server);
    if (code != 0) {
        return code;
    }
    printf("%s\n", server_address(server));
    fflush(stdout);
    log_info("open this address in a browser; Ctrl-C ends the pages, not the runs");
    if (cfg->listen[0] != '\0') {
        log_info("whoever has the whole address can read; it goes over the network unencrypted");
    }
    code = wait_for_end();
    server_stop(server);
    return code;
}
