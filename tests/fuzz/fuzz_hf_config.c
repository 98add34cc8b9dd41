/* A Hugging Face folder: config.json and the index of its files, in one input: the index follows
 * a line with ---. What is accepted is a model that pacer can lay out, and describes the same
 * model when it is written again. */
#include "fuzz/fuzz.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/io.h"
#include "exchange/hf_config.h"
#include "exchange/weight_folder.h"

#include <stdlib.h>
#include <string.h>

#define SEPARATOR "\n---\n"

static char *written(const ModelSpec *spec)
{
    cJSON *tree;
    HfConfigExtra extra = {0, 0, DT_F32};
    int code = hf_config(spec, extra, &tree);
    PACER_ASSERT(code == 0, "cannot be written: %s", err_message());
    char *text = json_print(tree);
    cJSON_Delete(tree);
    return text;
}

static void check_again(const ModelSpec *spec)
{
    ModelSpec again;
    char *first = written(spec);
    int code = hf_config_parse(first, strlen(first), "config.json", &again);
    PACER_ASSERT(code == 0 && spec_check(&again) == 0, "cannot be read again: %s", err_message());
    char *second = written(&again);
    PACER_ASSERT(strcmp(first, second) == 0, "another model: %s, %s", first, second);
    free(first);
    free(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *separator = size > 0 ? memmem(data, size, SEPARATOR, strlen(SEPARATOR)) : NULL;
    size_t length = separator != NULL ? (size_t)(separator - (const char *)data) : size;
    ModelSpec spec;
    fuzz_forget();
    int code = hf_config_parse((const char *)data, length, "config.json", &spec);
    fuzz_expect(code);
    if (code == 0) {
        check_again(&spec);
    }
    if (separator != NULL) {
        const uint8_t *index = data + length + strlen(SEPARATOR);
        fuzz_file("config.json", data, length);
        fuzz_file("model.safetensors.index.json", index, size - length - strlen(SEPARATOR));
        /* "{}" and no tensors: an index can be right about it only by listing nothing */
        fuzz_file("part.safetensors", "\2\0\0\0\0\0\0\0{}", 10);
        WeightFolder *folder;
        fuzz_forget();
        code = weight_folder_open(fuzz_folder(), &folder);
        fuzz_expect(code);
        PACER_ASSERT((code == 0) == (folder != NULL), "left half open");
        weight_folder_close(folder);
    }
    return 0;
}
