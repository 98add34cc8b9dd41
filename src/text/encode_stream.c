/* Threads take parts of a round (rounds.h) and append ids to lists of their own; then the parts go
 * to the sink in the order of the text. */
#include "text/encode_stream.h"

#include "base/mem.h"

#include <stdlib.h>

#define PART_BYTES ((size_t)1 << 18)
#define PARTS_PER_THREAD 4
#define LEAST_ROUND ((size_t)1 << 21)
#define LONGEST_UNCUT ((size_t)1 << 26)

static size_t find_cut(void *context, const uint8_t *text, size_t size)
{
    const EncodeStream *stream = context;
    return encoder_cut(stream->workers[0].encoder, text, size);
}

static void encode_part(void *context, int thread, const uint8_t *text, TextPart *part)
{
    const EncodeStream *stream = context;
    EncodeWorker *worker = &stream->workers[thread];
    part->thread = thread;
    part->first = worker->ids.count;
    encoder_run_part(worker->encoder, text, part->end - part->start, part->begins, &worker->ids);
    part->count = worker->ids.count - part->first;
}

static int hand_over(void *context, const TextPart *parts, size_t count)
{
    EncodeStream *stream = context;
    int code = 0;
    for (size_t i = 0; code == 0 && i < count; i++) {
        const TextPart *part = &parts[i];
        const uint32_t *ids = stream->workers[part->thread].ids.ids;
        code = stream->sink(stream->context, part->tag, ids != NULL ? ids + part->first : NULL,
                            part->count, part->end - part->start, part->ends);
    }
    for (int i = 0; i < stream->threads; i++) {
        stream->workers[i].ids.count = 0;
    }
    return code;
}

EncodeStream *encode_stream_open(const Tokenizer *tokenizer, int threads, EncodeSink sink,
                                 void *context)
{
    EncodeStream *stream = mem_zalloc(1, sizeof *stream);
    stream->sink = sink;
    stream->context = context;
    stream->threads = threads;
    stream->workers = mem_zalloc((size_t)threads, sizeof *stream->workers);
    for (int i = 0; i < threads; i++) {
        stream->workers[i].encoder = encoder_open(tokenizer);
    }
    size_t round = (size_t)threads * PARTS_PER_THREAD * PART_BYTES;
    stream->rounds =
        rounds_open((RoundOptions){.threads = threads,
                                   .round_bytes = round > LEAST_ROUND ? round : LEAST_ROUND,
                                   .part_bytes = PART_BYTES,
                                   .most_bytes = LONGEST_UNCUT,
                                   .cut = find_cut,
                                   .work = encode_part,
                                   .finish = hand_over,
                                   .context = stream});
    return stream;
}

void encode_stream_close(EncodeStream *stream)
{
    if (stream != NULL) {
        for (int i = 0; i < stream->threads; i++) {
            encoder_close(stream->workers[i].encoder);
            token_list_free(&stream->workers[i].ids);
        }
        rounds_close(stream->rounds);
        free(stream->workers);
        free(stream);
    }
}

uint64_t encode_stream_invalid(const EncodeStream *stream)
{
    uint64_t invalid = 0;
    for (int i = 0; i < stream->threads; i++) {
        invalid += encoder_invalid(stream->workers[i].encoder);
    }
    return invalid;
}
