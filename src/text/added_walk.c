#include "text/added_walk.h"

#include "text/unicode.h"

#include <utf8proc.h>

/* \w of Rust's regular expressions: Alphabetic, marks, decimal digits, connectors, joiners.
 * Letters, marks and numbers are those of unicode.h; of the last those that are neither decimal
 * nor letters (No) are out. */
static bool is_word(uint32_t character)
{
    CharKind kind = unicode_kind(character);
    utf8proc_category_t category = utf8proc_category((int32_t)character);
    if ((kind & CHAR_CLASS_BITS) == CHAR_LETTER || kind == CHAR_MARK ||
        category == UTF8PROC_CATEGORY_PC) {
        return true;
    }
    if (kind == CHAR_NUMBER) {
        return category != UTF8PROC_CATEGORY_NO;
    }
    bool circled = (character >= 0x24b6 && character <= 0x24e9) ||
                   (character >= 0x1f130 && character <= 0x1f149) ||
                   (character >= 0x1f150 && character <= 0x1f169) ||
                   (character >= 0x1f170 && character <= 0x1f189);
    return circled || character == 0x200c || character == 0x200d;
}

/* Start of the character that ends at `end` > 0. */
static size_t before(const uint8_t *text, size_t end)
{
    size_t start = end - 1;
    while (start > 0 && end - start < 4 && (text[start] & 0xc0) == 0x80) {
        start--;
    }
    return utf8_length(text + start, end - start) == (int)(end - start) ? start : end - 1;
}

static uint32_t character_at(const uint8_t *text, size_t at, size_t size, int *length)
{
    return utf8_decode(text + at, size - at, length);
}

static size_t skip_spaces(const uint8_t *text, size_t at, size_t size)
{
    int length;
    while (at < size && unicode_class(character_at(text, at, size, &length)) == CHAR_SPACE) {
        at += (size_t)length;
    }
    return at;
}

static size_t skip_spaces_back(const uint8_t *text, size_t end, size_t first)
{
    int length;
    while (end > first) {
        size_t start = before(text, end);
        if (unicode_class(character_at(text, start, end, &length)) != CHAR_SPACE) {
            break;
        }
        end = start;
    }
    return end;
}

static bool stands_alone(const uint8_t *text, size_t size, size_t start, size_t end)
{
    int length;
    return (start == 0 || !is_word(character_at(text, before(text, start), start, &length))) &&
           (end == size || !is_word(character_at(text, end, size, &length)));
}

AddedWalk added_walk_begin(const Tokenizer *tokenizer, const StringFinder *finder,
                           const uint8_t *text, size_t size)
{
    return (AddedWalk){.tokenizer = tokenizer, .finder = finder, .text = text, .size = size};
}

/* Looks for the next token behind `searched`. */
static void find_token(AddedWalk *w)
{
    while (!w->found && w->searched < w->size) {
        size_t size;
        uint64_t id = 0;
        size_t start =
            string_finder_find(w->finder, w->text, w->searched, w->size, w->size, &size, &id);
        size_t end = start + size;
        w->searched = end;
        if (size == 0) {
            return;
        }
        const AddedToken *added = tokenizer_added_of(w->tokenizer, (uint32_t)id);
        if (added->single_word && !stands_alone(w->text, w->size, start, end)) {
            continue;
        }
        if (added->lstrip) {
            start = start > w->at ? skip_spaces_back(w->text, start, w->at) : w->at;
        }
        if (added->rstrip) {
            end = skip_spaces(w->text, end, w->size);
        }
        w->found = start != end; /* else one with `rstrip` has taken all of it */
        w->token = (Span){start, end, true, (uint32_t)id};
    }
}

bool added_walk_next(AddedWalk *w, Span *span)
{
    find_token(w);
    if (w->found && w->at >= w->token.start) {
        *span = w->token;
        w->found = false;
    } else if (w->at < w->size) {
        *span = (Span){w->at, w->found ? w->token.start : w->size, false, 0};
    } else {
        return false;
    }
    w->at = span->end;
    return true;
}
