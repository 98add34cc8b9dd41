#pragma once
/* What the parts of the library share, and what pacer's own commands call of it: the work of a
 * function of pacer.h, with a Config that is parsed and ranks that are joined already. */
#include "comm/comm.h"
#include "config/config.h"
#include "train/loop.h"

#include <pacer.h>

struct pacer_options {
    Config config;
};

/* First in every function that does work: without a word from the host program the library is
 * silent. */
void api_enter(void);

/* The options checked as a command line would be, in a Config of the caller's (config_free, also
 * on failure). NULL stands for the defaults. ERR_INPUT when they are of another command, or lack
 * one it cannot do without. */
int api_config(const pacer_options *options, Command command, Config *out);

/* CommOptions.board of a training; caller frees. */
char *api_board(const Config *cfg);

/* pacer_train. comm may be NULL: one rank. *out may be NULL when code is not 0; out itself may
 * be NULL. */
int api_train(Config *cfg, Comm *comm, const TrainWatcher *watcher, pacer_result **out);
