#pragma once
/* Safetensors files put together by hand, right or wrong. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Length, header and data as one exactly sized block; caller frees. */
static inline uint8_t *assemble(const char *header, const void *data, size_t data_size,
                                size_t *size)
{
    size_t length = strlen(header);
    *size = 8 + length + data_size;
    uint8_t *bytes = malloc(*size);
    for (int i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)((uint64_t)length >> (8 * i));
    }
    memcpy(bytes + 8, header, length);
    if (data_size > 0) {
        memcpy(bytes + 8 + length, data, data_size);
    }
    return bytes;
}
