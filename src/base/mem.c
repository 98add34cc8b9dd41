#include "base/mem.h"

#include "base/err.h"
#include "base/io.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define HUGE_PAGE ((size_t)2 << 20)

void *mem_checked(void *pointer, size_t bytes)
{
    if (pointer == NULL) {
        /* Nothing on this way allocates, and no destructor runs beside threads that are still at
         * work. */
        char text[96];
        int length = snprintf(text, sizeof text,
                              "pacer: error: out of memory asking for %zu bytes\n", bytes);
        ssize_t written = write(STDERR_FILENO, text, (size_t)length);
        (void)written;
        _exit(-ERR_MEMORY);
    }
    return pointer;
}

void *mem_alloc(size_t bytes)
{
    return mem_checked(malloc(bytes > 0 ? bytes : 1), bytes);
}

void *mem_zalloc(size_t count, size_t size)
{
    return mem_checked(calloc(count > 0 ? count : 1, size > 0 ? size : 1), size);
}

void *mem_realloc(void *old, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        mem_checked(NULL, SIZE_MAX);
    }
    return mem_checked(realloc(old, bytes > 0 ? bytes : 1), bytes);
}

void mem_claim_json(void)
{
    cJSON_InitHooks(&(cJSON_Hooks){mem_alloc, free});
}

void *mem_grow(void *list, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity) {
        return list;
    }
    *capacity = count + count / 2 + 16;
    return mem_realloc(list, *capacity, size);
}

void *mem_double(void *list, size_t count, size_t size)
{
    bool full = (count & (count - 1)) == 0;
    return full ? mem_realloc(list, count > 0 ? 2 * count : 1, size) : list;
}

char *mem_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    return memcpy(mem_alloc(bytes), text, bytes);
}

void mem_set_text(char **value, const char *text)
{
    char *copy = mem_strdup(text);
    free(*value);
    *value = copy;
}

void mem_free_list(char **texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(texts[i]);
    }
    free(texts);
}

char *mem_vformat(const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    char *text = mem_alloc((size_t)(length < 0 ? 0 : length) + 1);
    text[0] = '\0';
    vsnprintf(text, (size_t)(length < 0 ? 0 : length) + 1, format, again);
    va_end(again);
    return text;
}

char *mem_format(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = mem_vformat(format, args);
    va_end(args);
    return text;
}

/* align: a power of two. */
static void *try_block(size_t bytes, size_t align)
{
    size_t rounded = (bytes + align - 1) & ~(align - 1);
    if (rounded < bytes) {
        return NULL;
    }
    return aligned_alloc(align, rounded > 0 ? rounded : align);
}

void *mem_try_aligned(size_t bytes)
{
    return try_block(bytes, 64);
}

void *mem_try_large(size_t bytes)
{
    if (bytes < HUGE_PAGE) {
        return try_block(bytes, 256);
    }
    void *block = try_block(bytes, HUGE_PAGE);
    if (block != NULL) {
        madvise(block, bytes, MADV_HUGEPAGE); /* advice: small pages do as well */
    }
    return block;
}

/* The number in a one-value file of the system, or 0. */
static size_t read_number(const char *path)
{
    char text[64];
    uintmax_t value;
    io_read_start(path, text, sizeof text);
    return sscanf(text, "%" SCNuMAX, &value) == 1 ? (size_t)value : 0;
}

size_t mem_available(void)
{
    char text[1024];
    size_t kib, available = 0;
    io_read_start("/proc/meminfo", text, sizeof text);
    const char *line = strstr(text, "MemAvailable:");
    if (line != NULL && sscanf(line, "MemAvailable: %zu kB", &kib) == 1) {
        available = kib * 1024;
    }
    size_t limit = read_number("/sys/fs/cgroup/memory.max");
    size_t used = read_number("/sys/fs/cgroup/memory.current");
    if (limit > used && (available == 0 || limit - used < available)) {
        available = limit - used;
    }
    return available;
}

size_t mem_resident(void)
{
    char text[128];
    size_t pages;
    io_read_start("/proc/self/statm", text, sizeof text);
    return sscanf(text, "%*s %zu", &pages) == 1 ? pages * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

size_t mem_peak_resident(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (size_t)usage.ru_maxrss * 1024 : 0;
}
