/* Unicode's normal forms come from utf8proc: the decomposition of a character, the order of marks
 * and the composition. ASCII is the same in all of them, and no character that is ASCII joins the
 * one before it, so only the stretches of other characters go through it, each with the ASCII
 * character before it. */
#include "text/normalize.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define MOST_DECOMPOSED 32     /* characters that one becomes: at most 18 (U+FDFA) */
#define DOTTED_CAPITAL_I 0x130 /* the one character whose small form is two */
#define COMBINING_DOT 0x307

void normalizer_add(Normalizer *normalizer, NormalizeKind kind, const char *from, const char *to)
{
    normalizer->steps =
        mem_realloc(normalizer->steps, normalizer->count + 1, sizeof *normalizer->steps);
    normalizer->steps[normalizer->count++] = (NormalizeStep){
        kind, from != NULL ? mem_strdup(from) : NULL, to != NULL ? mem_strdup(to) : NULL};
}

void normalizer_free(Normalizer *normalizer)
{
    for (size_t i = 0; i < normalizer->count; i++) {
        free(normalizer->steps[i].from);
        free(normalizer->steps[i].to);
    }
    free(normalizer->steps);
    *normalizer = (Normalizer){0};
}

void normalize_room_free(NormalizeRoom *room)
{
    byte_list_free(&room->lists[0]);
    byte_list_free(&room->lists[1]);
    free(room->characters);
    *room = (NormalizeRoom){0};
}

/* ---- Normal forms ---- */

typedef struct {
    int32_t character;
    int combining;
    size_t at;
} Mark;

static int by_class(const void *a, const void *b)
{
    const Mark *x = a, *y = b;
    return x->combining != y->combining ? x->combining - y->combining
                                        : (x->at > y->at) - (x->at < y->at);
}

/* Puts a run of marks into the order of their classes; those of one class stay in theirs. */
static void order_marks(int32_t *characters, size_t count)
{
    Mark few[32], *marks = count > 32 ? mem_alloc(count * sizeof *marks) : few;
    for (size_t i = 0; i < count; i++) {
        marks[i] = (Mark){characters[i], utf8proc_get_property(characters[i])->combining_class, i};
    }
    qsort(marks, count, sizeof *marks, by_class);
    for (size_t i = 0; i < count; i++) {
        characters[i] = marks[i].character;
    }
    if (marks != few) {
        free(marks);
    }
}

static void order_all(int32_t *characters, size_t count)
{
    for (size_t at = 0, end; at < count; at = end + 1) {
        for (end = at;
             end < count && utf8proc_get_property(characters[end])->combining_class > 0;) {
            end++;
        }
        if (end - at > 1) {
            order_marks(characters + at, end - at);
        }
    }
}

static void decompose(NormalizeRoom *room, uint32_t character, bool compatible)
{
    if (room->count + MOST_DECOMPOSED > room->capacity) {
        room->capacity = 2 * room->capacity + 8 * MOST_DECOMPOSED;
        room->characters = mem_realloc(room->characters, room->capacity, sizeof *room->characters);
    }
    int boundary = 0;
    utf8proc_ssize_t count =
        utf8proc_decompose_char((int32_t)character, room->characters + room->count, MOST_DECOMPOSED,
                                UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0), &boundary);
    if (count <= 0 || count > MOST_DECOMPOSED) { /* a character that utf8proc does not know */
        room->characters[room->count] = (int32_t)character;
        count = 1;
    }
    room->count += (size_t)count;
}

/* Ends a stretch: what was decomposed is put in order, composed if that is meant, and written. */
static void write_stretch(NormalizeRoom *room, bool composed, ByteList *out)
{
    order_all(room->characters, room->count);
    if (composed && room->count > 0) {
        room->count = (size_t)utf8proc_normalize_utf32(
            room->characters, (utf8proc_ssize_t)room->count, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    }
    for (size_t i = 0; i < room->count; i++) {
        byte_list_add_character(out, (uint32_t)room->characters[i]);
    }
    room->count = 0;
}

static void run_form(NormalizeKind kind, NormalizeRoom *room, const uint8_t *text, size_t size,
                     ByteList *out)
{
    bool composed = kind == NORMALIZE_NFC || kind == NORMALIZE_NFKC;
    bool compatible = kind == NORMALIZE_NFKC || kind == NORMALIZE_NFKD;
    for (size_t at = 0; at < size;) {
        size_t wide = at;
        while (wide < size && text[wide] < 0x80) {
            wide++;
        }
        size_t stretch = wide > at && wide < size ? wide - 1 : wide;
        byte_list_add(out, text + at, stretch - at);
        if (stretch < wide) {
            decompose(room, text[stretch], compatible);
        }
        for (at = wide; at < size && text[at] >= 0x80;) {
            int length = utf8_length(text + at, size - at);
            if (length == 0) {
                write_stretch(room, composed, out);
                byte_list_add(out, text + at, 1);
                at++;
                continue;
            }
            decompose(room, utf8_decode(text + at, size - at, &length), compatible);
            at += (size_t)length;
        }
        write_stretch(room, composed, out);
    }
}

/* ---- Other steps ---- */

static void run_lowercase(const uint8_t *text, size_t size, ByteList *out)
{
    for (size_t at = 0; at < size;) {
        int length = utf8_length(text + at, size - at);
        if (length <= 1) {
            uint8_t byte = text[at];
            byte = byte >= 'A' && byte <= 'Z' ? (uint8_t)(byte | 0x20) : byte;
            byte_list_add(out, &byte, 1);
            at++;
            continue;
        }
        uint32_t character = utf8_decode(text + at, size - at, &length);
        if (character == DOTTED_CAPITAL_I) {
            byte_list_add_character(out, 'i');
            byte_list_add_character(out, COMBINING_DOT);
        } else {
            byte_list_add_character(out, (uint32_t)utf8proc_tolower((int32_t)character));
        }
        at += (size_t)length;
    }
}

static void run_replace(const NormalizeStep *step, const uint8_t *text, size_t size, ByteList *out)
{
    size_t from = strlen(step->from), to = strlen(step->to);
    const uint8_t *end = text + size, *found;
    while ((found = memmem(text, (size_t)(end - text), step->from, from)) != NULL) {
        byte_list_add(out, text, (size_t)(found - text));
        byte_list_add(out, step->to, to);
        text = found + from;
    }
    byte_list_add(out, text, (size_t)(end - text));
}

/* ---- All of them ---- */

static void run_step(const NormalizeStep *step, NormalizeRoom *room, const uint8_t *text,
                     size_t size, bool opens, ByteList *out)
{
    switch (step->kind) {
    case NORMALIZE_LOWERCASE:
        run_lowercase(text, size, out);
        return;
    case NORMALIZE_REPLACE:
        run_replace(step, text, size, out);
        return;
    case NORMALIZE_PREPEND:
        byte_list_add(out, step->to, opens && size > 0 ? strlen(step->to) : 0);
        byte_list_add(out, text, size);
        return;
    default:
        run_form(step->kind, room, text, size, out);
        return;
    }
}

const uint8_t *normalizer_run(const Normalizer *normalizer, NormalizeRoom *room,
                              const uint8_t *text, size_t *size, bool opens)
{
    for (size_t i = 0; i < normalizer->count; i++) {
        ByteList *out = &room->lists[i % 2];
        out->size = 0;
        byte_list_extend(out, 0);
        run_step(&normalizer->steps[i], room, text, *size, opens, out);
        text = out->bytes;
        *size = out->size;
    }
    return text;
}

static bool has_kind(const Normalizer *normalizer, NormalizeKind first, NormalizeKind last)
{
    bool found = false;
    for (size_t i = 0; i < normalizer->count; i++) {
        found = found || (normalizer->steps[i].kind >= first && normalizer->steps[i].kind <= last);
    }
    return found;
}

bool normalizer_composes(const Normalizer *normalizer)
{
    return has_kind(normalizer, NORMALIZE_NFC, NORMALIZE_NFKD);
}

/* What Replace leaves may be part of a later form's characters, so forms come first. What is
 * prepended must be no part of what a later Replace looks for. */
bool normalizer_is_local(const Normalizer *normalizer)
{
    bool local = true, replaced = false;
    for (size_t i = 0; i < normalizer->count; i++) {
        const NormalizeStep *step = &normalizer->steps[i];
        if (step->kind == NORMALIZE_REPLACE) {
            size_t size = strlen(step->from);
            local = local && (size_t)utf8_length((const uint8_t *)step->from, size) == size;
        }
        local = local && !(replaced && step->kind <= NORMALIZE_NFKD);
        replaced = replaced || step->kind >= NORMALIZE_PREPEND;
    }
    return local;
}

bool normalizer_removes(const Normalizer *normalizer, const char *text)
{
    bool removed = false;
    for (size_t i = 0; i < normalizer->count; i++) {
        const NormalizeStep *step = &normalizer->steps[i];
        bool brings = step->to != NULL && strstr(step->to, text) != NULL;
        removed = step->kind == NORMALIZE_REPLACE
                      ? !brings && (removed || strcmp(step->from, text) == 0)
                      : removed && !brings && step->kind == NORMALIZE_PREPEND;
    }
    return removed;
}
