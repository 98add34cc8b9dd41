#include "base/assert.h"
#include "base/mem.h"
#include "data/dataset.h"

#include <inttypes.h>

void split_add(Split *split, Shard shard)
{
    size_t count = (size_t)split->shard_count + 1;
    split->shards = mem_realloc(split->shards, count, sizeof *split->shards);
    split->starts = mem_realloc(split->starts, count, sizeof *split->starts);
    split->shards[split->shard_count] = shard;
    split->starts[split->shard_count] = split->tokens;
    split->shard_count++;
    split->tokens += shard.tokens;
    split->documents += shard.documents;
    split->text_bytes += shard.text_bytes;
}

/* Index of the last shard that starts at or before position. */
static int shard_at(const Split *split, uint64_t position)
{
    int low = 0, high = split->shard_count;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (split->starts[middle] <= position) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

const Shard *split_locate(const Split *split, uint64_t position, uint64_t *inside)
{
    PACER_ASSERT(position < split->tokens, "position %" PRIu64 " of %" PRIu64, position,
                 split->tokens);
    int index = shard_at(split, position);
    *inside = position - split->starts[index];
    return &split->shards[index];
}

int32_t split_read(const Split *split, uint64_t first, uint64_t count, int32_t *out)
{
    PACER_ASSERT(first <= split->tokens && count <= split->tokens - first,
                 "first %" PRIu64 " count %" PRIu64 " tokens %" PRIu64, first, count,
                 split->tokens);
    int32_t largest = 0;
    for (int index = shard_at(split, first); count > 0; index++) {
        const Shard *shard = &split->shards[index];
        uint64_t inside = first - split->starts[index];
        uint64_t part = shard->tokens - inside < count ? shard->tokens - inside : count;
        int32_t here = shard_read(shard, inside, part, out);
        largest = here > largest ? here : largest;
        first += part;
        count -= part;
        out += part;
    }
    return largest;
}

int split_check(const Split *split, uint64_t first, uint64_t count)
{
    int code = 0, last = shard_at(split, first + count - 1);
    for (int index = shard_at(split, first); code == 0 && index <= last; index++) {
        code = shard_check(&split->shards[index]);
    }
    return code;
}
