#include "data/text_source.h"

#include "base/signals.h"
#include "data/builtin.h"

uint64_t text_source_seed(const Config *cfg)
{
    return config_is_set(cfg, "seed") ? (uint64_t)cfg->seed : STORIES_SEED;
}

SourceOptions text_source_options(const Config *cfg, int argc, char **argv)
{
    static const SourceFormat formats[] = {[CONFIG_FORMAT_AUTO] = SOURCE_AUTO,
                                           [CONFIG_FORMAT_TEXT] = SOURCE_TEXT,
                                           [CONFIG_FORMAT_JSONL] = SOURCE_JSONL};
    return (SourceOptions){.inputs = (const char *const *)argv,
                           .input_count = argc,
                           .format = formats[cfg->format],
                           .field = cfg->field,
                           .skip_bad = cfg->skip_bad,
                           .stories_seed = text_source_seed(cfg),
                           .interrupted = signals_pending};
}

int text_source_open(const Config *cfg, int argc, char **argv, TextSource **out)
{
    return source_open(text_source_options(cfg, argc, argv), out);
}
