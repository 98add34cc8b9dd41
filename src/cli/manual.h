#pragma once
/* Manual pages, as text for man: from the same tables as --help. */
#include "config/config.h"

#include <stdio.h>

void manual_print_overview(FILE *file); /* pacer(1) */
void manual_print_command(Command command,
                          FILE *file); /* pacer-train(1), pacer-data-info(1), ... */

/* All of them, NAME.1 each, into a folder that exists. */
int manual_write_all(const char *folder);

/* The example that *line begins with, as it is typed, with pacer in front; moves *line behind
 * it. NULL at the end; caller frees. */
char *manual_next_example(const char **line);
