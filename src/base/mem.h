#pragma once
/* Checked host memory for small things (tables, strings, buffers of known size): running out ends
 * the program with a message. Large blocks come from mem_try_aligned, where failure is an
 * answer. */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

void *mem_alloc(size_t bytes);               /* uninitialised; never NULL */
void *mem_zalloc(size_t count, size_t size); /* zeroed; count x size checked for overflow */
void *mem_realloc(void *old, size_t count, size_t size);

/* A list of `count` items that has room for one more: its memory grows by half when *capacity is
 * used up. */
void *mem_grow(void *list, size_t count, size_t *capacity, size_t size);

/* The same of a list that keeps no capacity: its memory doubles at powers of two. */
void *mem_double(void *list, size_t count, size_t size);

char *mem_strdup(const char *text);
char *mem_format(const char *format, ...) __attribute__((format(printf, 1, 2))); /* caller frees */
char *mem_vformat(const char *format, va_list args);

void mem_free_list(char **texts, size_t count); /* each, and the list */

/* Puts a copy of the text, which may be the old value, in place of it. */
void mem_set_text(char **value, const char *text);

/* What another library allocated: never NULL behind this. bytes is for the message. */
void *mem_checked(void *pointer, size_t bytes);

/* From now on cJSON allocates as mem_alloc does, so that no tree lacks a part silently. Its
 * allocator is one for the whole process: for pacer's own program alone, never for a program
 * that uses the library. */
void mem_claim_json(void);

/* 64-byte aligned; NULL when the system has no more. Free with free(). */
void *mem_try_aligned(size_t bytes);

/* The same for what may be gigabytes: 256-byte aligned, and of huge pages where it is large enough.
 * The pages are not there before they are written, which several threads do faster than one. */
void *mem_try_large(size_t bytes);

/* Bytes of physical memory this process could still use (MemAvailable, lowered by a cgroup limit);
 * 0 when the system does not say. */
size_t mem_available(void);

/* Resident size of this process now, in bytes; 0 when the system does not say. */
size_t mem_resident(void);

/* Largest resident size of this process so far, in bytes; 0 when the system does not say. */
size_t mem_peak_resident(void);
