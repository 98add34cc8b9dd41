#include "support/gguf_file.h"

#include "base/io.h"
#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct {
    const uint8_t *bytes;
    size_t size, at;
} Cursor;

static uint64_t take(Cursor *c, int bytes)
{
    uint64_t value = 0;
    assert_true(c->at + (size_t)bytes <= c->size);
    for (int i = 0; i < bytes; i++) {
        value |= (uint64_t)c->bytes[c->at++] << (8 * i);
    }
    return value;
}

static char *take_text(Cursor *c)
{
    uint64_t length = take(c, 8);
    assert_true(length <= c->size - c->at);
    char *text = mem_zalloc(length + 1, 1);
    memcpy(text, c->bytes + c->at, length);
    c->at += length;
    return text;
}

static void read_field(Cursor *c, Field *f)
{
    f->name = take_text(c);
    f->type = (int)take(c, 4);
    switch (f->type) {
    case 4:
    case 6:
        f->value = take(c, 4);
        break;
    case 7:
        f->value = take(c, 1);
        break;
    case 8:
        f->text = take_text(c);
        break;
    default:
        assert_int_equal(f->type, 9);
        f->element = (int)take(c, 4);
        f->count = take(c, 8);
        f->texts = mem_zalloc(f->count + 1, sizeof *f->texts);
        f->wholes = mem_zalloc(f->count + 1, sizeof *f->wholes);
        for (uint64_t i = 0; i < f->count; i++) {
            if (f->element == 8) {
                f->texts[i] = take_text(c);
            } else {
                assert_true(f->element == 5 || f->element == 6);
                f->wholes[i] = take(c, 4);
            }
        }
    }
}

Gguf *read_gguf(const char *path)
{
    Gguf *g = mem_zalloc(1, sizeof *g);
    assert_int_equal(io_read_all(path, 1 << 26, &g->bytes, &g->size), 0);
    Cursor c = {.bytes = (const uint8_t *)g->bytes, .size = g->size};
    assert_true(g->size > 24);
    assert_memory_equal(g->bytes, "GGUF", 4);
    c.at = 4;
    assert_int_equal(take(&c, 4), 3);
    g->tensor_count = (int)take(&c, 8);
    g->field_count = (int)take(&c, 8);
    assert_true(g->tensor_count <= 128 && g->field_count <= 64);
    for (int i = 0; i < g->field_count; i++) {
        read_field(&c, &g->fields[i]);
    }
    for (int i = 0; i < g->tensor_count; i++) {
        Listed *t = &g->tensors[i];
        t->name = take_text(&c);
        t->dims = (int)take(&c, 4);
        assert_true(t->dims == 1 || t->dims == 2);
        t->dim[1] = 1;
        for (int d = 0; d < t->dims; d++) {
            t->dim[d] = take(&c, 8);
        }
        t->type = (int)take(&c, 4);
        t->offset = take(&c, 8);
        assert_int_equal(t->offset % 32, 0);
    }
    g->data = (c.at + 31) / 32 * 32;
    return g;
}

void free_gguf(Gguf *g)
{
    for (int i = 0; i < g->field_count; i++) {
        Field *f = &g->fields[i];
        for (uint64_t k = 0; f->texts != NULL && k < f->count; k++) {
            free(f->texts[k]);
        }
        free(f->texts);
        free(f->wholes);
        free(f->text);
        free(f->name);
    }
    for (int i = 0; i < g->tensor_count; i++) {
        free(g->tensors[i].name);
    }
    free(g->bytes);
    free(g);
}

const Field *field_of(const Gguf *g, const char *name)
{
    for (int i = 0; i < g->field_count; i++) {
        if (strcmp(g->fields[i].name, name) == 0) {
            return &g->fields[i];
        }
    }
    return NULL;
}

const Listed *listed_of(const Gguf *g, const char *name)
{
    for (int i = 0; i < g->tensor_count; i++) {
        if (strcmp(g->tensors[i].name, name) == 0) {
            return &g->tensors[i];
        }
    }
    return NULL;
}
