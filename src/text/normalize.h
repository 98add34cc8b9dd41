#pragma once
/* Text rewritten before it is cut into pieces, as the normalizer of a tokenizer.json says. Bytes
 * that are not UTF-8 stay as they are, and nothing is joined across them. */
#include "text/byte_list.h"

#include <stdbool.h>

typedef enum {
    NORMALIZE_NFC,
    NORMALIZE_NFD,
    NORMALIZE_NFKC,
    NORMALIZE_NFKD,
    NORMALIZE_LOWERCASE, /* each character by itself */
    NORMALIZE_PREPEND,   /* `to` before a text that is not empty */
    NORMALIZE_REPLACE,   /* every `from` by `to` */
} NormalizeKind;

typedef struct {
    NormalizeKind kind;
    char *from, *to; /* `from` is not empty */
} NormalizeStep;

typedef struct {
    NormalizeStep *steps;
    size_t count;
} Normalizer;

void normalizer_add(Normalizer *normalizer, NormalizeKind kind, const char *from, const char *to);
void normalizer_free(Normalizer *normalizer); /* no-op on a zeroed one */

/* What one thread needs; zeroed at first. */
typedef struct {
    ByteList lists[2];
    int32_t *characters; /* of a stretch to compose */
    size_t count, capacity;
} NormalizeRoom;
void normalize_room_free(NormalizeRoom *room);

/* The text after all steps: itself, or in the room until the next call. `opens`: the text begins
 * here, and does not go on from what came before; else nothing is prepended. */
const uint8_t *normalizer_run(const Normalizer *normalizer, NormalizeRoom *room,
                              const uint8_t *text, size_t *size, bool opens);

bool normalizer_composes(const Normalizer *normalizer); /* has NFC or its like */
/* Whether all else it does looks at one character at a time. */
bool normalizer_is_local(const Normalizer *normalizer);
/* True when no text has `text` in it any more. */
bool normalizer_removes(const Normalizer *normalizer, const char *text);
