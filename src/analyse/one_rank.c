#include "analyse/one_rank.h"

int one_rank_open(OneRank *one, const Run *run)
{
    const TrainerSetup *setup = &run->setup;
    int code = trainer_open(&one->trainer, setup, run->backend, &run->plan);
    if (code != 0) {
        return code;
    }
    uint64_t seed = (uint64_t)run->cfg->seed;
    trainer_init_params(&one->trainer, seed);
    code =
        loader_init(&one->loader, &run->data.train, setup->seq, (uint64_t)setup->spec.vocab, seed);
    PrefetchOptions options = {.batch = setup->batch, .ranks = 1};
    return code != 0 ? code : prefetch_open(&one->prefetch, &one->loader, options);
}

void one_rank_close(OneRank *one)
{
    prefetch_close(one->prefetch);
    trainer_close(&one->trainer);
    *one = (OneRank){0};
}
