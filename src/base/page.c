#include "base/page.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

void page_put_bytes(Page *page, const void *bytes, size_t count)
{
    if (page->size + count + 1 > page->capacity) {
        page->capacity = 2 * (page->size + count + 1);
        page->text = mem_realloc(page->text, page->capacity, 1);
    }
    if (count > 0) { /* else there may be no bytes */
        memcpy(page->text + page->size, bytes, count);
    }
    page->size += count;
    page->text[page->size] = '\0';
}

void page_put(Page *page, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = mem_vformat(format, args);
    va_end(args);
    page_put_bytes(page, text, strlen(text));
    free(text);
}

char *page_end(Page *page)
{
    page_put_bytes(page, "", 0);
    return page->text;
}

void page_free(Page *page)
{
    free(page->text);
    *page = (Page){0};
}
