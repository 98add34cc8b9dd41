#include "base/log.h"
#include "cli/commands.h"
#include "report/report.h"
#include "train/model_source.h"

static int told(int code, const Config *cfg, const char *form)
{
    if (code == 0) {
        log_info("%s: the records of %s %s", cfg->out, cfg->argv[0], form);
    }
    return code;
}

int cmd_export(Config *cfg)
{
    switch (cfg->format) {
    case CONFIG_FORMAT_CSV:
        return told(export_csv(cfg->argv[0], cfg->out), cfg, "as CSV files");
    case CONFIG_FORMAT_TENSORBOARD:
        return told(export_events(cfg->argv[0], cfg->out), cfg, "for TensorBoard");
    default: /* config_check lets nothing else through */
        return export_model(cfg, cfg->argv[0]);
    }
}

int cmd_import(Config *cfg)
{
    return import_model(cfg->argv[0], cfg->out);
}
