/* Values of single options: lines of `name value`. What is accepted has a text that is accepted
 * too, with the same value. */
#include "fuzz/config_check.h"
#include "fuzz/fuzz.h"

#include "base/assert.h"
#include "base/err.h"
#include "config/config.h"

#include <stdlib.h>
#include <string.h>

static void set_again(Config *cfg, const char *name)
{
    char *text = config_value_text(cfg, config_find(name));
    int code = config_set(cfg, name, text);
    PACER_ASSERT(code == 0, "%s: its own text %s is refused: %s", name, text, err_message());
    char *again = config_value_text(cfg, config_find(name));
    PACER_ASSERT(strcmp(text, again) == 0, "%s: %s becomes %s", name, text, again);
    free(text);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *lines = fuzz_text(data, size), *rest = lines, *line;
    Config cfg;
    config_init(&cfg, (Command)(size % COMMAND_COUNT));
    while ((line = strsep(&rest, "\n")) != NULL) {
        char *value = line, *name = strsep(&value, " ");
        fuzz_forget();
        int code = config_set(&cfg, name, value != NULL ? value : "");
        fuzz_expect(code);
        if (code == 0) {
            set_again(&cfg, name);
        }
    }
    int code = config_check(&cfg);
    fuzz_expect(code);
    if (code == 0) {
        fuzz_config_again(&cfg);
    }
    config_free(&cfg);
    free(lines);
    return 0;
}
