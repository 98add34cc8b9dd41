#pragma once
/* manifest.json of a prepared folder: which shards make the dataset, and what must be true of them.
 * It is written last, so a folder with a manifest is complete. "Datasets" in
 * docs/reference/formats.md. */
#include "data/shard.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MANIFEST_FILE "manifest.json"
#define MANIFEST_MAX_SHARDS 20000

typedef struct {
    ShardInfo info;
    bool validation;
} ManifestShard;

typedef struct {
    char *tokenizer;      /* its name */
    char *tokenizer_file; /* tokenizer.json beside the manifest; NULL: none (older folders) */
    uint64_t tokenizer_hash, vocab;
    ManifestShard *shards; /* in the order of the token stream */
    int shard_count;
} Manifest;

void manifest_init(Manifest *manifest, const char *tokenizer, uint64_t hash, uint64_t vocab);
void manifest_add(Manifest *manifest, bool validation, ShardInfo info); /* takes info.file */
void manifest_free(Manifest *manifest); /* no-op on a zeroed manifest */

/* Reads folder/manifest.json. ERR_INPUT naming the file and the entry when it is not one. */
int manifest_read(Manifest *manifest, const char *folder);

/* The same from memory; `path` is what messages name. */
int manifest_parse(Manifest *manifest, const char *path, const char *text, size_t size);

int manifest_write(const Manifest *manifest, const char *folder); /* atomic */

/* The shard of that file name, or NULL. */
const ManifestShard *manifest_find(const Manifest *manifest, const char *file);

/* Whether the dataset needs the file of that name: a shard or the tokenizer. */
bool manifest_lists(const Manifest *manifest, const char *file);
