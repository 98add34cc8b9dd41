/* Models from and for Hugging Face. */
#include "api/internal.h"
#include "base/err.h"
#include "train/model_source.h"

int pacer_import(const char *folder, const pacer_options *options)
{
    Config cfg;
    int code = api_begin(options, COMMAND_IMPORT, NULL, &cfg);
    return api_end(&cfg, code != 0 ? code : import_model(folder, cfg.out));
}

int pacer_export(const char *model, const pacer_options *options)
{
    Config cfg;
    int code = api_begin(options, COMMAND_EXPORT, NULL, &cfg);
    if (code == 0 && (cfg.format == CONFIG_FORMAT_CSV || cfg.format == CONFIG_FORMAT_TENSORBOARD)) {
        code = err_set(ERR_INPUT, "pacer_export is for models, whose format is hf; `pacer export` "
                                  "writes records as csv or tensorboard");
    }
    return api_end(&cfg, code != 0 ? code : export_model(&cfg, model));
}
