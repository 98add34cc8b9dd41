#pragma once
/* The bytes of a tensor of a safetensors file, in memory that the caller frees. */
#include "base/assert.h"
#include "base/err.h"
#include "base/mem.h"
#include "tensor/safetensors.h"

static inline void *safe_values(const SafeTensor *tensor)
{
    void *values = mem_alloc(tensor->bytes + 1);
    PACER_ASSERT(safetensors_read(tensor, 0, values, tensor->bytes) == 0, "%s: %s", tensor->name,
                 err_message());
    return values;
}
