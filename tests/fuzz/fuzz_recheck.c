/* The record of a run that is checked again. The input is run.json, a rank's file or the lines,
 * told by what it begins with; the other two files are sound and stay. */
#include "fuzz/fuzz.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/io.h"
#include "record/checks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"run.json", "ranks/0.json", "metrics.jsonl"};

static const char *const sound[] = {
    "{\"schema\": 1, \"status\": \"done\", \"config\": {\"batch\": 1, \"accum\": 1, \"seq\": 16, "
    "\"vocab\": 257}, \"resumed\": [{\"step\": 1}], \"memory_plan\": [{\"kind\": \"parameters\", "
    "\"bytes\": 9}], \"summary\": {\"steps\": 2, \"tokens\": 32, \"wall_s\": 1, \"planned_bytes\": "
    "9, "
    "\"phases\": {\"init\": {\"total_s\": 1, \"exclusive_s\": 1, \"count\": 1}}, \"checks\": "
    "[{\"name\": \"tokens\", \"verdict\": \"pass\"}]}}",
    "{\"schema\": 1, \"rank\": 0, \"ranks\": 1, \"host\": \"a\", \"device\": \"cpu\"}",
    "{\"step\":1,\"tokens\":16,\"loss\":5.5}\n{\"step\":2,\"tokens\":32,\"loss\":5.4}\n",
};

static int kind_of(const uint8_t *data, size_t size)
{
    size_t head = size < 64 ? size : 64;
    return memmem(data, head, "\"rank\"", 6) != NULL   ? 1
           : memmem(data, head, "\"step\"", 6) != NULL ? 2
                                                       : 0;
}

/* A verdict of pass rests on two numbers, and what failed is in the status. */
static void judge(const Checks *checks)
{
    for (int i = 0; i < checks->count; i++) {
        const Check *check = &checks->items[i];
        bool numbers = isfinite(check->expected) && isfinite(check->found);
        PACER_ASSERT(check->verdict != CHECK_PASS || numbers, "%s passes without numbers",
                     check->name);
    }
    int status = checks_status(checks);
    PACER_ASSERT((status == ERR_CHECK) == (checks_worst(checks) == CHECK_FAIL), "status %d",
                 status);
    cJSON_Delete(checks_json(checks));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *ranks = io_join(fuzz_folder(), "ranks");
    PACER_ASSERT(io_make_folders(ranks) == 0, "%s", err_message());
    free(ranks);
    int kind = kind_of(data, size);
    for (int i = 0; i < 3; i++) {
        fuzz_file(names[i], i == kind ? (const void *)data : sound[i],
                  i == kind ? size : strlen(sound[i]));
    }
    Checks checks;
    fuzz_forget();
    int code = recheck_dir(fuzz_folder(), &checks);
    fuzz_expect(code);
    PACER_ASSERT(code == 0 || checks.count == 0, "%d checks of a refused record", checks.count);
    judge(&checks);
    return 0;
}
