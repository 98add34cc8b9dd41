#pragma once
/* Byte-pair encoding. A tokenizer is a list of byte strings with an id each, the merges that build
 * them in order of rank, a pattern that cuts text into pre-tokens, and added tokens that are
 * found in the text before anything else (<|endoftext|> and the like). Merges start from bytes
 * (byte-level BPE), or from characters, where those without a token become the tokens of their
 * bytes (byte_fallback) or the unknown token. Read-only once made: threads share it. */
#include "text/normalize.h"
#include "text/pair_table.h"
#include "text/pretok.h"
#include "text/splits.h"
#include "text/word_table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOKENIZER_BYTES "bytes" /* every byte a token, id 256 ends a document */
#define TOKENIZER_END "<|endoftext|>"
#define TOKENIZER_MAX_VOCAB 10000000u
#define TOKENIZER_MAX_TOKEN_BYTES 65535u

typedef struct {
    uint32_t left, right, result; /* ids */
} Merge;

typedef struct {
    uint32_t id;
    bool special;
    bool normalized;                  /* found after those that are not, in normalized text */
    bool apart;                       /* made by tokenizer_add_added: not part of the vocabulary */
    bool single_word, lstrip, rstrip; /* no word may touch it; takes white space around it */
} AddedToken;

/* How the texts of tokens follow from their bytes, and the text of many from theirs. */
typedef struct {
    char *from, *to; /* what becomes what in a token */
    bool first_only; /* in the first token of a text */
} DecodeStep;

typedef struct {
    DecodeStep *steps;
    size_t count;
    bool first_differs;       /* a step is for the first token only */
    bool byte_fallback;       /* <0x0A> is the byte */
    uint32_t strip, stripped; /* how many of which character are left out at a text's beginning */
} Decoder;

void decoder_add(Decoder *decoder, const char *from, const char *to, bool first_only);
void decoder_free(Decoder *decoder); /* no-op on a zeroed one */

/* The parts of a tokenizer.json that it is written with again. */
enum { PART_NORMALIZER, PART_PRE_TOKENIZER, PART_DECODER, TOKENIZER_PARTS };
extern const char *const tokenizer_part_names[TOKENIZER_PARTS];

/* Parts of a tokenizer.json that do not concern the ids of a text, and that pacer does not apply:
 * it neither cuts nor pads texts, nor puts tokens around them. They are kept for what it writes. */
enum { UNUSED_TRUNCATION, UNUSED_PADDING, UNUSED_POST_PROCESSOR, TOKENIZER_UNUSED };
extern const char *const tokenizer_unused_names[TOKENIZER_UNUSED];

typedef struct {
    const uint8_t *bytes; /* in the table of ids */
    uint32_t size;        /* 0: no token */
} Token;

/* Read by anybody once it is finished, written by the functions below alone. */
typedef struct Tokenizer {
    uint32_t vocab; /* one more than the largest id; ids between may be without a token */
    uint64_t hash;  /* XXH3 of everything that decides ids */
    Merge *merges;  /* in order of rank */
    size_t merge_count;
    AddedToken *added; /* ascending ids */
    size_t added_count;
    uint32_t byte_ids[256]; /* UINT32_MAX: none, which only happens with `characters` */
    Pretok *pretok;         /* NULL: `splits` cut text into pre-tokens */
    Splits splits;
    Normalizer normalizer;
    bool ignore_merges;
    bool characters; /* merges start from characters; else from bytes */
    bool byte_fallback, fuse_unknown;
    uint32_t unknown;                     /* UINT32_MAX: none */
    Decoder decoder;                      /* with `characters` */
    PairTable joints;                     /* with `characters`: 1 for two that a merge may join */
    uint8_t ascii_joints[128][128];       /* the same for two that are ASCII */
    bool has_joints;                      /* false: any may be joined */
    char *parts[TOKENIZER_PARTS];         /* as JSON; NULL: that of plain byte-level BPE */
    char *unused[TOKENIZER_UNUSED];       /* as JSON; NULL: null */
    bool unused_matter[TOKENIZER_UNUSED]; /* Hugging Face would make other tokens with it */

    Token *tokens; /* by id; in the vocabulary's own spelling where merges start from characters */
    Token *texts;  /* what they are in a text; NULL: the same */
    uint8_t *text_bytes;
    size_t token_capacity;
    size_t all_bytes;           /* of all tokens */
    WordTable *ids, *added_ids; /* 1 + the id of these bytes, of all tokens and of added ones */
    size_t merge_capacity;      /* until it is finished, a merge given again is no merge in its old
                                   place: its result is UINT32_MAX */
    PairTable merge_of;         /* one more than the rank << 32, and the result */
    bool finished;
} Tokenizer;

/* A tokenizer is put together with these, then finished once. */
Tokenizer *tokenizer_new(void);
/* `bytes` under `id`. ERR_INPUT when the id or the byte string is taken, or a limit is passed. */
int tokenizer_add_token(Tokenizer *tokenizer, uint32_t id, const uint8_t *bytes, size_t size);
/* In order of rank; the tokens exist, and result is left's bytes followed by right's. ERR_INPUT
 * else. */
int tokenizer_add_merge(Tokenizer *tokenizer, uint32_t left, uint32_t right);
/* The token exists under this id, or is made with these bytes (which a token that is not added may
 * have too; tokenizer_find then gives that one). */
int tokenizer_add_added(Tokenizer *tokenizer, AddedToken added, const uint8_t *bytes, size_t size);
int tokenizer_set_pattern(Tokenizer *tokenizer, const char *pattern); /* pretok_open */
/* Checks that every byte has a token (ERR_INPUT naming the first that has none), or that there is
 * another way for characters without one; builds the lookup tables and the hash. */
int tokenizer_finish(Tokenizer *tokenizer);
void tokenizer_free(Tokenizer *tokenizer); /* NULL is fine */

/* TOKENIZER_BYTES; or a tokenizer.json; or a vocab.json with merges.txt beside it; or a folder that
 * holds one of these. ERR_INPUT naming the file and the part that is wrong or not supported; a
 * warning where one of the unused parts would change what Hugging Face makes of a text. */
int tokenizer_open(const char *source, Tokenizer **out);
int tokenizer_open_copy(const char *source, Tokenizer **out); /* one that pacer wrote: no warning */

/* Hugging Face's tokenizer.json, from memory (`path` is what messages name), and into what `path`
 * names (output.h). */
int tokenizer_parse_json(const char *text, size_t size, const char *path, Tokenizer **out);
int tokenizer_write_json(const Tokenizer *tokenizer, const char *path);
/* ERR_INPUT when a file is there that tokenizer_write_json did not make, or no folder to write
 * in. */
int tokenizer_check_target(const char *path);

/* GPT-2's pair of files, from memory. */
int tokenizer_parse_gpt2(const char *vocab, size_t vocab_size, const char *vocab_path,
                         const char *merges, size_t merges_size, const char *merges_path,
                         Tokenizer **out);

/* The text of a token that is not the first one (decode.h); NULL when the id has none. */
const uint8_t *tokenizer_bytes(const Tokenizer *tokenizer, uint32_t id, size_t *size);
/* The id of these bytes; false when no token has them. One that is not added comes first. */
bool tokenizer_find(const Tokenizer *tokenizer, const uint8_t *bytes, size_t size, uint32_t *id);
const AddedToken *tokenizer_added_of(const Tokenizer *tokenizer, uint32_t id); /* NULL: not added */
bool tokenizer_find_added(const Tokenizer *tokenizer, const uint8_t *bytes, size_t size,
                          uint32_t *id); /* among the added tokens alone */

/* The merge of two neighbours: its rank and result; false when there is none. */
bool tokenizer_merge_of(const Tokenizer *tokenizer, uint32_t left, uint32_t right, uint32_t *rank,
                        uint32_t *result);

/* The token that ends documents: the added token `name`; or with NULL the first there is of
 * <|endoftext|>, <|end_of_text|>, </s>, <eos>. ERR_INPUT saying what to do when there is none. */
int tokenizer_end(const Tokenizer *tokenizer, const char *name, uint32_t *id);

/* The alphabet of tokenizer.json: every byte as a printable character (GPT-2's table). */
uint32_t byte_character(uint8_t byte);
bool character_byte(uint32_t character, uint8_t *byte); /* false: not of the alphabet */

/* Text in the byte alphabet to bytes; `out` has room for `length`. False when a character is not of
 * the alphabet. */
bool alphabet_to_bytes(const char *text, size_t length, uint8_t *out, size_t *size);

bool token_is_byte(const uint8_t *bytes, size_t size, uint8_t *byte); /* <0x0A> */

/* A token's bytes for a message: as text, with what does not print escaped, and cut when long. */
#define TOKEN_SHOWN_SIZE 80
typedef struct {
    char text[TOKEN_SHOWN_SIZE];
} ShownToken;
ShownToken token_shown(const void *bytes, size_t size);
