/* A YAML file of options. */
#include "fuzz/config_check.h"
#include "fuzz/fuzz.h"

#include "config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file("run.yaml", data, size);
    Config cfg;
    config_init(&cfg, COMMAND_TRAIN);
    fuzz_forget();
    int code = config_load_yaml(&cfg, path);
    fuzz_expect(code);
    if (code == 0) {
        code = config_check(&cfg);
        fuzz_expect(code);
    }
    if (code == 0) {
        fuzz_config_again(&cfg);
    }
    config_free(&cfg);
    return 0;
}
