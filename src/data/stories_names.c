#include "data/stories_names.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

void story_array_push(StoryArray *array, const void *items, uint32_t count, size_t size)
{
    if (array->count + count > array->capacity) {
        array->capacity = 2 * (array->count + count) + 16;
        array->data = mem_realloc(array->data, array->capacity, size);
    }
    if (count > 0) {
        memcpy((char *)array->data + array->count * size, items, count * size);
    }
    array->count += count;
}

/* The bucket that holds the name, or the empty one where it belongs. FNV-1a hash. */
static uint32_t *bucket_of(const StoryNames *names, const char *name, size_t length)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ (unsigned char)name[i]) * 16777619u;
    }
    for (uint32_t i = hash;; i++) {
        uint32_t *bucket = &names->bucket[i & (names->buckets - 1)];
        if (*bucket == 0) {
            return bucket;
        }
        const char *other = names->name[*bucket - 1];
        if (strncmp(other, name, length) == 0 && other[length] == '\0') {
            return bucket;
        }
    }
}

uint32_t story_names_find(const StoryNames *names, const char *name, size_t length)
{
    return names->buckets == 0 ? UINT32_MAX : *bucket_of(names, name, length) - 1;
}

static void grow_buckets(StoryNames *names)
{
    names->buckets = names->buckets == 0 ? 32 : 4 * names->buckets;
    free(names->bucket);
    names->bucket = mem_zalloc(names->buckets, sizeof *names->bucket);
    for (uint32_t i = 0; i < names->count; i++) {
        *bucket_of(names, names->name[i], strlen(names->name[i])) = i + 1;
    }
}

uint32_t story_names_add(StoryNames *names, const char *name, size_t length)
{
    uint32_t found = story_names_find(names, name, length);
    if (found != UINT32_MAX) {
        return found;
    }
    if (2 * (names->count + 1) > names->buckets) {
        grow_buckets(names);
    }
    if (names->count == names->capacity) {
        names->capacity = 2 * names->capacity + 16;
        names->name = mem_realloc(names->name, names->capacity, sizeof *names->name);
    }
    char *copy = mem_alloc(length + 1);
    memcpy(copy, name, length);
    copy[length] = '\0';
    *bucket_of(names, name, length) = names->count + 1;
    names->name[names->count] = copy;
    return names->count++;
}

char **story_names_release(StoryNames *names)
{
    char **strings = names->name;
    free(names->bucket);
    *names = (StoryNames){0};
    return strings;
}

void story_strings_free(char **strings, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        free(strings[i]);
    }
    free(strings);
}
