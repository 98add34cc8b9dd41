#pragma once
/* Two small growing containers that the compiler of story content needs: a list of items of one
 * size, and a set of names numbered in the order of their arrival. */
#include <stddef.h>
#include <stdint.h>

typedef struct {
    void *data;
    uint32_t count, capacity;
} StoryArray;

/* Appends count items of size bytes each. */
void story_array_push(StoryArray *array, const void *items, uint32_t count, size_t size);

typedef struct {
    char **name;
    uint32_t count, capacity;
    uint32_t *bucket; /* 1 + number, open addressing */
    uint32_t buckets;
} StoryNames;

/* The number of the name, which need not end with a NUL; UINT32_MAX when it is not there. */
uint32_t story_names_find(const StoryNames *names, const char *name, size_t length);

/* The number of the name, added if it is new. */
uint32_t story_names_add(StoryNames *names, const char *name, size_t length);

/* Frees the index and hands the strings to the caller (story_strings_free). */
char **story_names_release(StoryNames *names);
void story_strings_free(char **strings, uint32_t count);
