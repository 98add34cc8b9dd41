/* state.json of a checkpoint, as it is and with its digest made right, because the digest would
 * hide everything behind it. */
#include "fuzz/fuzz.h"

#include "base/assert.h"
#include "base/io.h"
#include "base/mem.h"
#include "model/spec.h"
#include "train/checkpoint.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void try_file(void)
{
    StateFile file;
    fuzz_forget();
    int code = state_read(fuzz_folder(), &file);
    TrainState state = file.state;
    code = code != 0 ? code : state_compare(fuzz_folder(), &file, spec_find("gpt2-124m"));
    state_free(&file);
    fuzz_expect(code);
    PACER_ASSERT(code != 0 || (state.step >= 0 && state.tokens >= 0 && state.seq >= 0),
                 "accepted: step %" PRId64 ", tokens %" PRId64 ", seq %" PRId64, state.step,
                 state.tokens, state.seq);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_file("state.json", data, size);
    try_file();
    cJSON *whole = cJSON_ParseWithLength((const char *)data, size);
    const cJSON *state = cJSON_GetObjectItemCaseSensitive(whole, "state");
    char *text = state != NULL ? cJSON_PrintUnformatted(state) : NULL;
    if (text != NULL) {
        char *right = mem_format("{\"state\":%s,\"digest\":\"%016" PRIx64 "\"}", text,
                                 io_hash(text, strlen(text)));
        fuzz_file("state.json", right, strlen(right));
        try_file();
        free(right);
    }
    cJSON_free(text);
    cJSON_Delete(whole);
    return 0;
}
