#include "base/signals.h"

#include "base/err.h"

#include <signal.h>
#include <stdbool.h>
#include <string.h>

static volatile sig_atomic_t pending;
static bool claimed;

static void on_signal(int number)
{
    pending = number;
    /* The next one of either kind takes the default way out. */
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
}

void signals_claim(void)
{
    claimed = true;
}

void signals_request(void)
{
    pending = SIGINT;
}

void signals_install(void)
{
    pending = 0;
    if (!claimed) {
        return;
    }
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    /* A reader that goes away (pacer train | head) must not lose the run. */
    signal(SIGPIPE, SIG_IGN);
    /* A file that meets a size limit is an error of that write, like a full disk. */
    signal(SIGXFSZ, SIG_IGN);
}

int signals_pending(void)
{
    return pending == SIGINT ? ERR_INTERRUPTED : (pending == SIGTERM ? ERR_TERMINATED : 0);
}
