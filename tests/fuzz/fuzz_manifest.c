/* manifest.json of a dataset. What is accepted is written, and read again to the same. */
#include "fuzz/fuzz.h"

#include "base/assert.h"
#include "base/err.h"
#include "data/manifest.h"

#include <string.h>

static void expect_same(const Manifest *a, const Manifest *b)
{
    PACER_ASSERT(strcmp(a->tokenizer, b->tokenizer) == 0 && a->vocab == b->vocab &&
                     a->tokenizer_hash == b->tokenizer_hash && a->shard_count == b->shard_count,
                 "%s becomes %s, or a number changes", a->tokenizer, b->tokenizer);
    for (int i = 0; i < a->shard_count; i++) {
        const ShardInfo *x = &a->shards[i].info, *y = &b->shards[i].info;
        PACER_ASSERT(strcmp(x->file, y->file) == 0 && x->tokens == y->tokens &&
                         x->documents == y->documents && x->text_bytes == y->text_bytes &&
                         x->hash == y->hash && a->shards[i].validation == b->shards[i].validation,
                     "shard %d changes", i);
        const ManifestShard *found = manifest_find(a, x->file);
        PACER_ASSERT(found == &a->shards[i], "shard %d is not found by its name", i);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Manifest manifest;
    fuzz_forget();
    int code = manifest_parse(&manifest, "manifest.json", (const char *)data, size);
    fuzz_expect(code);
    if (code != 0) {
        PACER_ASSERT(manifest.shards == NULL && manifest.tokenizer == NULL, "left half filled");
        return 0;
    }
    Manifest again;
    code = manifest_write(&manifest, fuzz_folder());
    PACER_ASSERT(code == 0, "cannot be written: %s", err_message());
    code = manifest_read(&again, fuzz_folder());
    PACER_ASSERT(code == 0, "is refused once written: %s", err_message());
    expect_same(&manifest, &again);
    manifest_free(&again);
    manifest_free(&manifest);
    return 0;
}
