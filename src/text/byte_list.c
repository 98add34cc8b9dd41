#include "text/byte_list.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

uint8_t *byte_list_extend(ByteList *list, size_t size)
{
    if (list->bytes == NULL || list->size + size > list->capacity) {
        list->capacity = (list->size + size) * 3 / 2 + 256;
        list->bytes = mem_realloc(list->bytes, list->capacity, 1);
    }
    list->size += size;
    return list->bytes + list->size - size;
}

void byte_list_add(ByteList *list, const void *bytes, size_t size)
{
    if (size > 0) {
        memcpy(byte_list_extend(list, size), bytes, size);
    }
}

void byte_list_add_character(ByteList *list, uint32_t character)
{
    uint8_t bytes[4];
    byte_list_add(list, bytes, (size_t)utf8_encode(character, bytes));
}

void byte_list_free(ByteList *list)
{
    free(list->bytes);
    *list = (ByteList){0};
}
