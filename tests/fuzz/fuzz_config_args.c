/* The command line: every line is an argument. */
#include "fuzz/config_check.h"
#include "fuzz/fuzz.h"

#include "base/assert.h"
#include "base/log.h"
#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ARGUMENTS 64

/* The resolved printout of a Config, which is thrown away. */
static void print(const Config *cfg)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    config_print_resolved(cfg, 100, file);
    fclose(file);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    log_setup(LOG_ERROR, 0, 1);
    char *lines = fuzz_text(data, size), *remaining = lines, *line;
    char *arguments[MAX_ARGUMENTS];
    int count = 0;
    while (count < MAX_ARGUMENTS && (line = strsep(&remaining, "\n")) != NULL) {
        if (strncmp(line, "--config", 8) != 0) { /* which would read any file there is */
            arguments[count++] = line;
        }
    }
    Config cfg;
    config_init(&cfg, (Command)(size % COMMAND_COUNT));
    fuzz_forget();
    int code = config_parse(&cfg, count, arguments);
    fuzz_expect(code);
    PACER_ASSERT(cfg.argc >= 0 && cfg.argc <= count, "%d of %d arguments", cfg.argc, count);
    if (code == 0 && !cfg.help) {
        fuzz_config_again(&cfg);
        print(&cfg);
    }
    config_free(&cfg);
    free(lines);
    return 0;
}
