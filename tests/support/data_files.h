#pragma once
/* Files for tests of data: a fresh folder, and token files whose token is its position. */
#include "data/dataset.h"

#include <stddef.h>
#include <stdint.h>

/* A new folder under $TMPDIR or /tmp; data_files_remove deletes and frees it. */
char *data_files_folder(void);
void data_files_remove(char *folder);

void data_files_write(const char *path, const void *data, size_t size);
uint8_t *data_files_read(const char *path, size_t *size); /* all of it; caller frees */

/* A pacer shard of tokens first, first + 1, ..., below vocab; returns its path, which the caller
 * frees. */
char *data_files_shard(const char *folder, const char *stem, uint64_t first, uint64_t count,
                       uint64_t vocab);

/* The same with a mask: of the tokens, those for which data_files_counts is false are left out. */
char *data_files_masked(const char *folder, const char *stem, uint64_t first, uint64_t count,
                        uint64_t vocab);
bool data_files_counts(uint64_t token);

/* An llm.c file of the same tokens; token_bytes 2 or 4. */
void data_files_llmc(const char *path, uint32_t first, uint32_t count, int token_bytes);

/* Headerless uint16 tokens. */
void data_files_raw(const char *path, uint32_t first, uint32_t count);

/* A split of pacer shards of these sizes, whose token is its position in the stream. */
typedef struct {
    char *folder;
    Split split;
} Positions;

/* masked: of shards that data_files_masked makes, every other one. */
void masked_positions_open(Positions *positions, const uint64_t *sizes, int count, uint64_t vocab);
void positions_open(Positions *positions, const uint64_t *sizes, int count, uint64_t vocab);
void positions_close(Positions *positions);

/* One to four random changes to bytes, a function of round: other bits, another byte, a piece
 * cut out or doubled. bytes has room for capacity; returns the new size. */
size_t data_files_mutate(uint8_t *bytes, size_t size, size_t capacity, uint64_t round);
