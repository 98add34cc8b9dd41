#include "cli/commands.h"
#include "report/report.h"
#include "train/model_source.h"

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
