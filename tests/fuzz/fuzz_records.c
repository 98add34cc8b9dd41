/* The records of a run that is resumed: run.json, and metrics.jsonl cut behind a step. */
#include "fuzz/fuzz.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "record/record.h"

#include <stdlib.h>
#include <string.h>

#define STEP 10

static void try_object(const char *path)
{
    cJSON *tree;
    fuzz_forget();
    int code = json_load(path, &tree);
    fuzz_expect(code);
    PACER_ASSERT((code == 0) == (tree != NULL), "code %d with a tree or without", code);
    cJSON_Delete(tree);
}

/* Cut once, a file is accepted again and stays as it is. */
static void try_lines(void)
{
    fuzz_forget();
    int code = record_resume(fuzz_folder(), STEP);
    fuzz_expect(code);
    if (code == 0) {
        char *path = io_join(fuzz_folder(), "metrics.jsonl"), *once, *twice;
        size_t size, size_again;
        PACER_ASSERT(io_read_all(path, SIZE_MAX, &once, &size) == 0, "%s", err_message());
        code = record_resume(fuzz_folder(), STEP);
        PACER_ASSERT(code == 0, "refused once cut: %s", err_message());
        PACER_ASSERT(io_read_all(path, SIZE_MAX, &twice, &size_again) == 0, "%s", err_message());
        PACER_ASSERT(size == size_again && memcmp(once, twice, size) == 0, "changed again");
        free(once);
        free(twice);
        free(path);
    }
}

static void try_resume(void)
{
    Record *record;
    fuzz_forget();
    RecordInfo info = {.id = "0", .spec = spec_find("gpt2-124m"), .parameters = 1};
    int code = record_open(fuzz_folder(), &info, STEP, &record);
    fuzz_expect(code);
    record_close(record);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_object(fuzz_file("run.json", data, size));
    fuzz_file("metrics.jsonl", data, size);
    try_lines();
    try_resume();
    return 0;
}
