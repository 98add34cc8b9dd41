#pragma once
/* Text that grows. */
#include <stddef.h>

typedef struct {
    char *text; /* NUL-terminated; NULL in a zeroed page */
    size_t size, capacity;
} Page;

void page_put(Page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));
void page_put_bytes(Page *page, const void *bytes, size_t count);

/* The text, "" of a zeroed page; the caller frees it in place of the page. */
char *page_end(Page *page);
void page_free(Page *page);
