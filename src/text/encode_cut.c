#include "text/encode_cut.h"

#include "base/utf8.h"
#include "text/pretok_scan.h"
#include "text/unicode.h"

#define LOOK_BACK ((size_t)64 << 10)

/* A sign that begins pieces parts them whatever the steps behind it do. */
static bool has_sign(const Tokenizer *t)
{
    const SplitStep *sign = splits_metaspace(&t->splits);
    return sign != NULL && sign->parts;
}

/* Whether merges alone decide, in text that is one piece or cut by the sign alone. */
static bool has_joints(const Tokenizer *t)
{
    return t->has_joints && !t->ignore_merges &&
           (t->splits.count == 0 || (t->splits.count == 1 && splits_metaspace(&t->splits) != NULL));
}

static CutRule rule_of(const Tokenizer *t)
{
    if (!normalizer_is_local(&t->normalizer)) {
        return CUT_NOWHERE;
    }
    if (t->characters) {
        return has_sign(t) || has_joints(t) ? CUT_JOINTS : CUT_NOWHERE;
    }
    bool words = t->pretok != NULL ? pretok_parts_words(t->pretok) : splits_part_words(&t->splits);
    return words ? CUT_WORDS : CUT_NOWHERE;
}

void encode_cut_open(EncodeCut *cut, const Tokenizer *tokenizer)
{
    const Tokenizer *t = tokenizer;
    cut->tokenizer = t;
    cut->composes = normalizer_composes(&t->normalizer);
    cut->local = t->normalizer.count > 0 || splits_rewrite_starts(&t->splits) ||
                 (t->characters && t->splits.count == 0);
    for (size_t i = 0; i < t->added_count; i++) {
        const AddedToken *added = &t->added[i];
        cut->local = cut->local || added->single_word || added->lstrip || added->rstrip;
    }
    cut->rule = rule_of(t);
}

void encode_cut_close(EncodeCut *cut)
{
    normalize_room_free(&cut->room);
}

void encode_cut_add(EncodeCut *cut, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        cut->inside[bytes[i]] = true;
    }
    if (size > 0) {
        cut->ends[bytes[size - 1]] = true;
        cut->wide_ends = cut->wide_ends || bytes[size - 1] >= 0x80;
    }
}

/* A character as it is and as the normalizer leaves its last or first one; false when an added
 * token may touch it on the side of the cut. */
typedef struct {
    uint32_t raw, normal;
} Side;

static bool take_side(EncodeCut *cut, const uint8_t *text, size_t size, bool left, Side *side)
{
    int length;
    side->raw = utf8_decode(text, size, &length);
    size_t count = (size_t)length;
    if (count != size || (left ? cut->ends[text[size - 1]] : cut->inside[text[0]])) {
        return false;
    }
    text = normalizer_run(&cut->tokenizer->normalizer, &cut->room, text, &count, false);
    if (count == 0 || (left ? cut->ends[text[count - 1]] : cut->inside[text[0]])) {
        return false;
    }
    size_t at = left ? count - 1 : 0;
    while (left && at > 0 && (text[at] & 0xc0) == 0x80) {
        at--;
    }
    side->normal = utf8_decode(text + at, count - at, &length);
    return true;
}

/* In front of the cut is no white space, which a token further on might take. */
static bool holds(const EncodeCut *cut, Side left, Side right)
{
    const Tokenizer *t = cut->tokenizer;
    if (unicode_class(left.raw) == CHAR_SPACE || unicode_class(left.normal) == CHAR_SPACE) {
        return false;
    }
    if (cut->rule == CUT_WORDS) {
        return scan_parts(left.raw, right.raw) && scan_parts(left.normal, right.normal);
    }
    const SplitStep *sign = splits_metaspace(&t->splits);
    uint32_t next = sign != NULL && right.normal == ' ' ? sign->sign : right.normal;
    if (has_sign(t) && next == sign->sign) {
        return true;
    }
    return has_joints(t) && pair_table_get(&t->joints, pair_of(left.normal, next)) == 0;
}

/* Normal forms join marks and parts of syllables with what is before them. So the right character
 * must be no mark and what follows it ASCII, and the left one too, unless it is enough that it
 * stays a letter. */
static bool is_composed_apart(const EncodeCut *cut, const uint8_t *text, size_t size, size_t start,
                              size_t at, size_t end)
{
    int length;
    bool wide = text[start] >= 0x80;
    return end < size && text[end] < 0x80 &&
           unicode_kind(utf8_decode(text + at, end - at, &length)) != CHAR_MARK &&
           (!wide || (cut->rule == CUT_WORDS && !cut->wide_ends));
}

size_t encode_cut_find(EncodeCut *cut, const uint8_t *text, size_t size)
{
    size_t lowest = size > LOOK_BACK ? size - LOOK_BACK : 1;
    for (size_t at = size; cut->rule != CUT_NOWHERE && at-- > lowest;) {
        int length = utf8_length(text + at, size - at);
        if (length == 0 || cut->inside[text[at]]) {
            continue;
        }
        size_t start = at - 1, end = at + (size_t)length;
        while (start > 0 && at - start < 4 && (text[start] & 0xc0) == 0x80) {
            start--;
        }
        Side left, right;
        if (utf8_length(text + start, at - start) == (int)(at - start) &&
            (!cut->composes || is_composed_apart(cut, text, size, start, at, end)) &&
            take_side(cut, text + start, at - start, true, &left) &&
            take_side(cut, text + at, (size_t)length, false, &right) && holds(cut, left, right)) {
            return at;
        }
    }
    return 0;
}
