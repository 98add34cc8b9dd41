#include "base/err.h"
#include "base/log.h"
#include "cli/commands.h"
#include "exchange/hf_export.h"
#include "report/report.h"
#include "train/model_source.h"

static int export_model(const Config *cfg, const char *path)
{
    ModelSource source;
    int code = model_source_open(&source, path);
    if (code != 0) {
        return code;
    }
    HfModel model = {source.weights, &source.spec, model_source_tokenizer(&source),
                     source.step > 0};
    HfExport options = {cfg->dtype == CONFIG_DTYPE_BF16 ? DT_BF16 : DT_F32, cfg->shard_bytes};
    code = hf_export(&model, options, cfg->out);
    if (code == 0) {
        log_info("%s: the model of %s for Hugging Face", cfg->out, source.path);
    }
    model_source_close(&source);
    return code;
}

int cmd_export(Config *cfg)
{
    switch (cfg->format) {
    case CONFIG_FORMAT_CSV:
        return export_csv(cfg->argv[0], cfg->out);
    case CONFIG_FORMAT_TENSORBOARD:
        return export_events(cfg->argv[0], cfg->out);
    default: /* config_check lets nothing else through */
        return export_model(cfg, cfg->argv[0]);
    }
}

int cmd_import(Config *cfg)
{
    return import_model(cfg->argv[0], cfg->out);
}
