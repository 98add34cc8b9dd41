/* `pacer bench machine`: the ceilings of the device, measured now and at best; what its sensors
 * say; and with a model, how fast each of its matrix products runs beside the best of all. */
#include "analyse/products.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/output.h"
#include "base/signals.h"
#include "cli/commands.h"
#include "devices/devices.h"
#include "record/ceilings.h"
#include "train/setup.h"

#include <stdlib.h>
#include <string.h>

#define CEILING_SECONDS 3.0 /* on a processor */
#define PRODUCT_SECONDS 6.0

typedef struct {
    Run run; /* of the model; without one only its backend is there */
    bool model;
    Machine machine;
    Sensors *sensors;
    Ceilings ceilings;
    ModelProducts products;
    double best; /* FLOP/s of a product in the model's dtype: ceiling, or one of the model's own */
} Bench;

/* --- the table --- */

/* FLOP/s, in words and as a divisor, for numbers around `size`. */
static const char *rate_unit(double size, double *divisor)
{
    *divisor = size >= 1e12 ? 1e12 : 1e9;
    return size >= 1e12 ? "TFLOP/s" : "GFLOP/s";
}

/* A value in the unit that people use for it. */
static void print_value(const Ceiling *item, double value)
{
    if (item->is_time) {
        printf(" %10.2f us     ", value * 1e6);
    } else if (strcmp(item->unit, "B/s") == 0) {
        printf(" %10.2f GB/s   ", value * 1e-9);
    } else {
        double divisor;
        const char *unit = rate_unit(item->best, &divisor);
        printf(" %10.1f %s", value / divisor, unit);
    }
}

static void print_ceilings(const Bench *b)
{
    const Ceilings *c = &b->ceilings;
    printf("%s, %s, on %s\n", c->key.device, c->key.library, c->key.host);
    printf("%-12s %10s %7s %10s %7s %10s %7s %7s  %s\n", "ceiling", "now", "", "best", "", "stated",
           "", "share", "how");
    for (int i = 0; i < c->count; i++) {
        const Ceiling *item = &c->items[i];
        printf("%-12s", item->name);
        print_value(item, item->value);
        print_value(item, item->best);
        if (item->stated > 0) {
            print_value(item, item->stated);
            printf(" %5.1f %%", 100 * item->value / item->stated);
        } else {
            printf(" %10s %7s %7s", "-", "", "");
        }
        printf("  %s", item->how);
        if (strcmp(item->date, c->date) != 0) {
            printf("; best of %.10s", item->date);
        }
        putchar('\n');
    }
}

static void print_reading(const char *when, const GpuReading *r)
{
    char reasons[128];
    printf("%-12s %.0f MHz, memory %.0f MHz, %.0f of %.0f W, %.0f C, %.1f of %.1f GiB in use", when,
           r->sm_mhz, r->memory_mhz, r->power_w, r->power_limit_w, r->temperature_c,
           r->used_bytes / 1073741824, r->total_bytes / 1073741824);
    if (r->throttle != 0) {
        printf(", held down by: %s", sensors_throttle_text(r->throttle, reasons, sizeof reasons));
    }
    if (r->other_processes > 0) {
        printf(", %d other process%s", r->other_processes, r->other_processes == 1 ? "" : "es");
    }
    putchar('\n');
}

static void print_sensors(const Bench *b)
{
    const Ceilings *c = &b->ceilings;
    if (b->run.backend->device == NULL) {
        return;
    }
    if (!c->after.known) {
        puts("sensors: not known (the driver's libnvidia-ml.so.1 does not answer)");
        return;
    }
    print_reading("before", &c->before);
    print_reading("after", &c->after);
    printf("%-12s %.2f ms for one reading of the sensors\n", "", 1e3 * c->reading_s);
}

static void print_products(const Bench *b)
{
    const TrainerSetup *s = &b->run.setup;
    if (!b->model) {
        return;
    }
    double divisor;
    const char *unit = rate_unit(b->best, &divisor);
    printf("\nproducts of %s, batch %lld x seq %lld, %s, share of %.1f %s\n", s->spec.name,
           (long long)s->batch, (long long)s->seq, dtype_name(s->dtype), b->best / divisor, unit);
    printf("%-28s %9s %8s %8s %6s %10s %9s %7s\n", "op", "rows", "inputs", "outputs", "calls", "ms",
           unit, "share");
    for (int i = 0; i < b->products.count; i++) {
        const ModelProduct *p = &b->products.items[i];
        printf("%-28s %9lld %8lld %8lld %6lld ", op_name(p->op), (long long)p->rows,
               (long long)p->inputs, (long long)p->outputs, (long long)p->calls);
        if (p->too_large) {
            puts("does not fit in memory");
            continue;
        }
        double rate = p->flops / p->seconds;
        printf("%10.3f %9.1f %6.1f%%\n", p->seconds * 1e3, rate / divisor, 100 * rate / b->best);
    }
    if (b->products.left_out > 0) {
        printf("and %d calls of other shapes, left out\n", b->products.left_out);
    }
}

/* --- as JSON --- */

static int write_json(const Bench *b, const char *path)
{
    const TrainerSetup *s = &b->run.setup;
    cJSON *tree = ceilings_json(&b->ceilings);
    if (b->model) {
        cJSON *model = json_put_object(tree, "model");
        json_put_text(model, "name", s->spec.name);
        json_put_whole(model, "batch", s->batch);
        json_put_whole(model, "seq", s->seq);
        json_put_text(model, "dtype", dtype_name(s->dtype));
        json_put(model, "best_flops_s", b->best > 0 ? value_of(b->best) : (Value){0});
        json_put_item(model, "products", products_json(&b->products, b->best));
    }
    return json_write(path, tree);
}

/* --- the command --- */

static bool names_model(const Config *cfg)
{
    for (const Option *option = config_options(); option->name != NULL; option++) {
        bool shape = strcmp(option->group, "Model") == 0 || strcmp(option->name, "batch") == 0 ||
                     strcmp(option->name, "seq") == 0;
        if (shape && config_is_set(cfg, option->name)) {
            return true;
        }
    }
    return false;
}

static int open_bench(Bench *b, Config *cfg)
{
    int code = run_resolve(cfg);
    b->model = names_model(cfg);
    if (code == 0 && b->model) {
        /* Nothing of attention is run here, so none is to be chosen by timing. */
        config_derive(cfg, "attention", CONFIG_ATTENTION_NAIVE);
        free(cfg->data); /* not an option here; it gives a vocabulary to a preset without one */
        cfg->data = mem_strdup("builtin:random");
        code = run_open(&b->run, cfg, NULL, DATA_OPTIONAL);
    } else if (code == 0) {
        code = backend_open(cfg, NULL, &b->run.backend);
    }
    if (code != 0) {
        return code;
    }
    Backend *backend = b->run.backend;
    machine_describe(&b->machine, device_isa(backend));
    b->sensors = backend_sensors(backend);
    return 0;
}

static int measure_products(Bench *b)
{
    const TrainerSetup *s = &b->run.setup;
    Backend *backend = b->run.backend;
    products_of_model(&b->products, &s->spec, s->dtype, s->batch, s->seq, backend);
    int code = products_measure(&b->products, backend, s->dtype, PRODUCT_SECONDS);
    char product[CEILING_NAME_SIZE], copy[CEILING_NAME_SIZE];
    ceilings_names(backend, s->dtype, product, copy);
    const Ceiling *ceiling = ceilings_get(&b->ceilings, product);
    double own = products_best(&b->products);
    b->best = ceiling != NULL && ceiling->best > own ? ceiling->best : own;
    return code;
}

int cmd_bench_machine(Config *cfg)
{
    if (comm_is_launched()) {
        return err_set(ERR_INPUT, "bench machine measures one process; `pacer bench comm` measures "
                                  "what lies between ranks");
    }
    Bench *b = mem_zalloc(1, sizeof *b);
    signals_install();
    int code = open_bench(b, cfg);
    if (code == 0) {
        code = ceilings_measure(&b->ceilings, &b->machine, b->run.backend, b->sensors,
                                CEILING_SECONDS);
    }
    if (code == 0 && ceilings_store(&b->ceilings) != 0) {
        log_warn("%s; runs will not know these ceilings", err_message());
    }
    code = code == 0 && b->model ? measure_products(b) : code;
    log_live("%s", ""); /* off the screen, before lines on stdout */
    if (code == 0 && strcmp(cfg->json, "-") != 0) {
        print_ceilings(b);
        print_sensors(b);
        print_products(b);
    }
    if (code == 0 && cfg->json[0] != '\0') {
        code = write_json(b, cfg->json);
    }
    sensors_close(b->sensors);
    run_close(&b->run);
    free(b);
    return code;
}
