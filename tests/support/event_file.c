#include "support/event_file.h"

#include "base/io.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t little(const uint8_t *at, int bytes)
{
    uint64_t value = 0;
    while (bytes-- > 0) {
        value = value << 8 | at[bytes];
    }
    return value;
}

/* Bit by bit, as the polynomial's definition has it. */
static uint32_t slow_crc(const uint8_t *data, size_t size)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < size; i++) {
        for (int bit = 0; bit < 8; bit++) {
            uint32_t out = (crc ^ (uint32_t)(data[i] >> bit)) & 1u;
            crc >>= 1;
            if (out) {
                crc ^= 0x82f63b78u;
            }
        }
    }
    return crc ^ 0xffffffffu;
}

static uint32_t slow_mask(uint32_t crc)
{
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

static uint64_t take_varint(Span *from)
{
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        assert_true(from->size > 0 && shift < 64);
        uint8_t byte = *from->data++;
        from->size--;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            return value;
        }
    }
}

static Span take_span(Span *from, size_t size)
{
    assert_true(size <= from->size);
    Span span = {from->data, size};
    from->data += size;
    from->size -= size;
    return span;
}

bool event_take_field(Span *from, Field *field)
{
    if (from->size == 0) {
        return false;
    }
    uint64_t key = take_varint(from);
    *field = (Field){.number = (int)(key >> 3), .wire = (int)(key & 7)};
    switch (field->wire) {
    case 0:
        field->value = take_varint(from);
        break;
    case 1:
        field->value = little(take_span(from, 8).data, 8);
        break;
    case 2:
        field->span = take_span(from, take_varint(from));
        break;
    case 5:
        field->value = little(take_span(from, 4).data, 4);
        break;
    default:
        fail_msg("wire type %d", field->wire);
    }
    return true;
}

Span event_inside(Span message, const int *path, int depth)
{
    for (int i = 0; i < depth; i++) {
        Span found = {0};
        for (Field field; found.data == NULL && event_take_field(&message, &field);) {
            if (field.number == path[i]) {
                found = field.span;
            }
        }
        message = found;
    }
    return message;
}
static void read_value(Span message, SeenValue *value)
{
    *value = (SeenValue){0};
    for (Field field; event_take_field(&message, &field);) {
        if (field.number == 1) {
            value->tag = field.span;
        } else if (field.number == 2) {
            assert_int_equal(field.wire, 5);
            uint32_t bits = (uint32_t)field.value;
            memcpy(&value->number, &bits, sizeof bits);
            value->simple = true;
        } else if (field.number == 8) {
            value->tensor = field.span;
        } else if (field.number == 9) {
            value->metadata = field.span;
        } else {
            fail_msg("field %d of a value", field.number);
        }
    }
}

static void read_event(Span message, SeenEvent *event)
{
    *event = (SeenEvent){0};
    for (Field field; event_take_field(&message, &field);) {
        if (field.number == 1) {
            assert_int_equal(field.wire, 1);
            memcpy(&event->time, &field.value, sizeof event->time);
        } else if (field.number == 2) {
            assert_int_equal(field.wire, 0);
            event->step = field.value;
        } else if (field.number == 3) {
            event->version = field.span;
        } else if (field.number == 7) {
            event->session = field.span;
        } else {
            assert_int_equal(field.number, 5);
            for (Field one; event_take_field(&field.span, &one);) {
                assert_int_equal(one.number, 1);
                assert_true(event->count < EVENT_MAX_VALUES);
                read_value(one.span, &event->values[event->count++]);
            }
        }
    }
}

bool event_text_is(Span span, const char *text)
{
    return span.size == strlen(text) && memcmp(span.data, text, span.size) == 0;
}

void event_file_read(const char *path, SeenFile *file)
{
    size_t size;
    assert_int_equal(io_read_all(path, (size_t)1 << 30, &file->bytes, &size), 0);
    const uint8_t *at = (const uint8_t *)file->bytes, *end = at + size;
    for (file->count = 0; at < end; file->count++) {
        assert_true(end - at >= 16 && file->count < EVENT_MAX_COUNT);
        uint64_t length = little(at, 8);
        assert_true(length <= (uint64_t)(end - at) - 16);
        assert_int_equal(little(at + 8, 4), slow_mask(slow_crc(at, 8)));
        assert_int_equal(little(at + 12 + length, 4), slow_mask(slow_crc(at + 12, length)));
        read_event((Span){at + 12, length}, &file->events[file->count]);
        at += 16 + length;
    }
    assert_true(file->count > 0);
    assert_true(event_text_is(file->events[0].version, "brain.Event:2"));
}

const SeenValue *event_value(const SeenEvent *event, const char *tag)
{
    for (int i = 0; i < event->count; i++) {
        if (event_text_is(event->values[i].tag, tag)) {
            return &event->values[i];
        }
    }
    fail_msg("step %d has no %s", (int)event->step, tag);
    return NULL;
}

int event_files_find(const char *dir, char **paths, int most)
{
    struct dirent **entries;
    int all = scandir(dir, &entries, NULL, alphasort), count = 0;
    for (int i = 0; i < all; i++) {
        if (strncmp(entries[i]->d_name, "events.out.tfevents.", 20) == 0) {
            assert_true(count < most);
            paths[count++] = io_join(dir, entries[i]->d_name);
        }
        free(entries[i]);
    }
    free(entries);
    return count;
}
