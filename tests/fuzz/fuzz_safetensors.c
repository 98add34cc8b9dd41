/* Safetensors files. What is opened has tensors that lie in the file, tile it, and are found. */
#include "fuzz/fuzz.h"

#include "base/assert.h"
#include "base/err.h"
#include "tensor/safetensors.h"

#include <string.h>

/* Touches every byte, so that a sanitizer sees one that is not there. */
static unsigned sum_of(const SafeTensor *tensor)
{
    unsigned sum = 0;
    for (size_t i = 0; i < tensor->bytes; i++) {
        sum += tensor->data[i];
    }
    return sum;
}

static size_t check_tensor(const SafeFile *file, const SafeTensor *tensor)
{
    PACER_ASSERT(safetensors_find(file, tensor->name) == tensor, "%s is not found", tensor->name);
    PACER_ASSERT(tensor->rank >= 0 && tensor->rank <= TENSOR_MAX_RANK, "rank %d", tensor->rank);
    Tensor want = {.dtype = tensor->dtype, .rank = tensor->rank};
    memcpy(want.dim, tensor->dim, sizeof want.dim);
    const SafeTensor *found = NULL;
    fuzz_forget();
    int code = safetensors_require(file, tensor->name, want, &found);
    fuzz_expect(code);
    PACER_ASSERT((code == 0) == tensor->supported, "%s: %s", tensor->name, err_message());
    PACER_ASSERT(code != 0 || found == tensor, "%s has two places", tensor->name);
    want.dim[0]++;
    want.rank = want.rank > 0 ? want.rank : 1;
    fuzz_forget();
    code = safetensors_require(file, tensor->name, want, &found);
    fuzz_expect(code);
    PACER_ASSERT(code != 0, "%s passes for another shape", tensor->name);
    volatile unsigned sum = sum_of(tensor);
    (void)sum;
    return tensor->bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    SafeFile file;
    fuzz_forget();
    int code = safetensors_open_bytes("model.safetensors", data, size, &file);
    fuzz_expect(code);
    if (code != 0) {
        PACER_ASSERT(file.path == NULL && file.tensors == NULL, "left half open");
        return 0;
    }
    size_t bytes = 0;
    for (int i = 0; i < file.count; i++) {
        bytes += check_tensor(&file, &file.tensors[i]);
    }
    PACER_ASSERT(bytes <= size - 8, "%zu bytes of tensors in %zu", bytes, size);
    const char *format = safetensors_metadata(&file, "format");
    PACER_ASSERT(format == NULL || strlen(format) <= size, "metadata longer than the file");
    safetensors_close(&file);
    return 0;
}
