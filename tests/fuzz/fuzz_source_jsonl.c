/* A JSONL file as a source of documents. */
#include "fuzz/fuzz.h"
#include "fuzz/source_check.h"

#include "base/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    log_setup(LOG_ERROR, 0, 1);
    const char *path = fuzz_file("input.jsonl", data, size);
    fuzz_source(path, CONFIG_FORMAT_AUTO, false);
    fuzz_source(path, CONFIG_FORMAT_JSONL, true);
    return 0;
}
