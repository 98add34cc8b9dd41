#pragma once
/* Bytes that grow. */
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint8_t *bytes;
    size_t size, capacity;
} ByteList;

/* Room for `size` more, which the caller fills in. */
uint8_t *byte_list_extend(ByteList *list, size_t size);
void byte_list_add(ByteList *list, const void *bytes, size_t size);
void byte_list_add_character(ByteList *list, uint32_t character); /* as UTF-8 */
void byte_list_free(ByteList *list);                              /* no-op on a zeroed list */
