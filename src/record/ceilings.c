#include "record/ceilings.h"

#include "base/assert.h"
#include "base/cache.h"
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/signals.h"
#include "record/watch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- names and keys --- */

DType ceilings_dtype(const Backend *backend, DType dtype)
{
    return dtype == DT_BF16 && backend->low_ops != NULL ? DT_BF16 : DT_F32;
}

void ceilings_names(const Backend *backend, DType dtype, char product[CEILING_NAME_SIZE],
                    char copy[CEILING_NAME_SIZE])
{
    if (backend->matmul_rate != NULL) {
        snprintf(product, CEILING_NAME_SIZE, "matmul_%s", dtype_name(dtype));
        snprintf(copy, CEILING_NAME_SIZE, "copy");
    } else {
        snprintf(product, CEILING_NAME_SIZE, "%s_%d",
                 ceilings_dtype(backend, dtype) == DT_BF16 ? "bf16" : "sgemm", backend->threads);
        snprintf(copy, CEILING_NAME_SIZE, "copy_%d", backend->threads);
    }
}

void ceilings_key(CeilingKey *key, const Machine *machine, const Backend *backend)
{
    *key = (CeilingKey){.host = ""};
    snprintf(key->host, sizeof key->host, "%s", machine->host);
    if (backend->matmul_rate != NULL) {
        snprintf(key->device, sizeof key->device, "%s", backend->device);
        if (backend->versions != NULL) {
            backend->versions(backend, key->library, sizeof key->library);
        }
        return;
    }
    int used =
        snprintf(key->device, sizeof key->device, "%s, %d cores", machine->cpu, machine->cores);
    if (machine->cpu_quota.known) {
        snprintf(key->device + used, sizeof key->device - (size_t)used, ", %g of them allowed",
                 machine->cpu_quota.number);
    }
    snprintf(key->library, sizeof key->library, "%s", machine->blas);
}

/* --- measuring --- */

void ceilings_add(Ceilings *c, const char *name, const char *unit, double value, const char *how)
{
    if (!(value > 0) || !isfinite(value)) {
        return; /* there was no memory for it */
    }
    PACER_ASSERT(c->count < CEILINGS_MAX, "%d ceilings", c->count);
    Ceiling *item = &c->items[c->count++];
    *item = (Ceiling){.unit = unit, .how = how, .value = value, .best = value};
    item->is_time = strcmp(unit, "s") == 0;
    snprintf(item->name, sizeof item->name, "%s", name);
    memcpy(item->date, c->date, sizeof item->date);
}

/* The products come last, so that the second reading of the sensors is of a GPU that has just
 * worked. */
static int measure_device(Ceilings *c, Backend *backend, Sensors *sensors)
{
    log_live("measuring launches and copies between host and device");
    DeviceLink link = backend->measure_link(backend);
    ceilings_add(c, "launch", "s", link.launch_s, "empty kernels one behind the other, each");
    ceilings_add(c, "launch_wait", "s", link.launch_wait_s,
                 "one empty kernel, launched and waited for");
    ceilings_add(c, "launch_graph", "s", link.graph_launch_s,
                 "empty kernels of a recorded graph, each");
    ceilings_add(c, "to_device", "B/s", link.to_device, "128 MiB from pinned memory");
    ceilings_add(c, "to_host", "B/s", link.to_host, "128 MiB to pinned memory");
    log_live("measuring copies in the device's memory");
    ceilings_add(c, "copy", "B/s", backend->copy_rate(backend), "1 GiB, bytes read plus written");
    const DType dtypes[] = {DT_F32, DT_BF16, DT_E4M3};
    for (int i = 0; i < 3 && signals_check() == 0; i++) {
        char name[CEILING_NAME_SIZE], copy[CEILING_NAME_SIZE];
        ceilings_names(backend, dtypes[i], name, copy);
        log_live("measuring matrix products in %s", dtype_name(dtypes[i]));
        int before = c->count;
        ceilings_add(c, name, "FLOP/s", backend->matmul_rate(backend, dtypes[i]),
                     "8192 x 8192 x 8192");
        if (c->count > before && backend->stated_rate != NULL) {
            c->items[before].stated = backend->stated_rate(backend, dtypes[i]);
        }
    }
    double started = clock_seconds();
    c->after = sensors_read(sensors);
    c->reading_s = clock_seconds() - started;
    return signals_check();
}

static int measure_processor(Ceilings *c, Backend *backend, double seconds)
{
    const int threads[] = {1, backend->threads};
    int kinds = backend->threads > 1 ? 2 : 1, code = 0, low = backend->low_ops != NULL ? 1 : 0;
    Effort effort = {seconds / 2 / kinds / (1 + low), EFFORT_BYTES};
    for (int i = 0; i < kinds * (1 + low) && code == 0; i++) {
        char name[CEILING_NAME_SIZE];
        int count = threads[i % kinds];
        bool in_bf16 = i >= kinds;
        log_live("measuring matrix products with %d thread%s", count, count == 1 ? "" : "s");
        snprintf(name, sizeof name, "%s_%d", in_bf16 ? "bf16" : "sgemm", count);
        ceilings_add(c, name, "FLOP/s",
                     1e9 * machine_sgemm_rate(count, in_bf16 ? DT_BF16 : DT_F32, effort),
                     in_bf16 ? "bf16, n = 512, 1024 and 2048, the best"
                             : "f32, n = 512, 1024 and 2048, the best");
        code = signals_check();
    }
    effort.seconds = seconds / 2 / kinds;
    for (int i = 0; i < kinds && code == 0; i++) {
        char name[CEILING_NAME_SIZE];
        log_live("measuring copies with %d thread%s", threads[i], threads[i] == 1 ? "" : "s");
        snprintf(name, sizeof name, "copy_%d", threads[i]);
        ceilings_add(c, name, "B/s", 1e9 * machine_copy_rate(threads[i], effort),
                     "bytes read plus written, the best");
        code = signals_check();
    }
    return code;
}

int ceilings_measure(Ceilings *out, const Machine *machine, Backend *backend, Sensors *sensors,
                     double seconds)
{
    *out = (Ceilings){.count = 0};
    clock_stamp(out->date);
    ceilings_key(&out->key, machine, backend);
    out->before = out->after = sensors_read(sensors);
    return backend->matmul_rate != NULL ? measure_device(out, backend, sensors)
                                        : measure_processor(out, backend, seconds);
}

const Ceiling *ceilings_get(const Ceilings *c, const char *name)
{
    for (int i = 0; i < c->count; i++) {
        if (strcmp(c->items[i].name, name) == 0) {
            return &c->items[i];
        }
    }
    return NULL;
}

/* --- the file --- */

char *ceilings_path(const char *what, const CeilingKey *key)
{
    if (!cache_in_use()) {
        return NULL;
    }
    char *name = mem_format("%s-%.40s-%.60s-%016llx.json", what, key->host, key->device,
                            (unsigned long long)io_hash(key, sizeof *key));
    char *path = cache_path(name);
    free(name);
    return path;
}

/* The file's tree; NULL when there is none that is whole and for this key. */
static cJSON *load(const char *path, const CeilingKey *key)
{
    cJSON *tree = NULL;
    if (path == NULL || !io_exists(path)) {
        return NULL;
    }
    if (json_load(path, &tree) != 0) {
        log_debug("%s; not used", err_message());
        return NULL;
    }
    const cJSON *machine = json_get(tree, "machine");
    if (strcmp(json_text_or(machine, "host", ""), key->host) != 0 ||
        strcmp(json_text_or(machine, "device", ""), key->device) != 0 ||
        strcmp(json_text_or(machine, "library", ""), key->library) != 0) {
        log_debug("%s is of another machine: not used", path);
        cJSON_Delete(tree);
        return NULL;
    }
    return tree;
}

/* It goes into messages and other files: "" where it has more than ASCII, or is no text. */
static void take_date(const cJSON *item, char date[CLOCK_STAMP_SIZE])
{
    snprintf(date, CLOCK_STAMP_SIZE, "%s", json_text_or(item, "date", ""));
    for (const char *at = date; *at != '\0'; at++) {
        if (*at < ' ' || *at > '~') {
            date[0] = '\0';
            return;
        }
    }
}

/* value and date of a name in the tree; false unless it is a positive number. */
static bool stored(const cJSON *tree, const char *name, double *value, char date[CLOCK_STAMP_SIZE])
{
    const cJSON *all = json_get(tree, "ceilings");
    const cJSON *item = json_get(all, name);
    *value = json_number(item, "value");
    if (!(*value > 0)) {
        return false;
    }
    take_date(item, date);
    return true;
}

bool ceilings_find(const CeilingKey *key, const char *name, double *value,
                   char date[CLOCK_STAMP_SIZE])
{
    char *path = ceilings_path("ceilings", key);
    cJSON *tree = load(path, key);
    bool found = stored(tree, name, value, date);
    cJSON_Delete(tree);
    free(path);
    return found;
}

static cJSON *key_json(const CeilingKey *key)
{
    cJSON *object = json_object();
    json_put_text(object, "host", key->host);
    json_put_text(object, "device", key->device);
    json_put_text(object, "library", key->library);
    return object;
}

static bool is_credible(const Ceiling *item, double value)
{
    return !(item->stated > 0) || value <= CEILINGS_OVER_STATED * item->stated;
}

/* Those measured now replace their rows in the tree; rows of other names stay. */
static void put_best(cJSON *tree, const Ceilings *c)
{
    cJSON *all = json_get(tree, "ceilings");
    if (!cJSON_IsObject(all)) {
        json_replace(tree, "ceilings", json_object());
        all = json_get(tree, "ceilings");
    }
    for (int i = 0; i < c->count; i++) {
        const Ceiling *item = &c->items[i];
        if (!is_credible(item, item->best)) {
            continue;
        }
        cJSON *row = json_object();
        json_put_number(row, "value", item->best);
        json_put_text(row, "unit", item->unit);
        json_put_text(row, "how", item->how);
        json_put_text(row, "date", item->date);
        json_replace(all, item->name, row);
    }
}

int ceilings_store(Ceilings *c)
{
    char *path = ceilings_path("ceilings", &c->key);
    if (path == NULL) {
        return 0;
    }
    cJSON *tree = load(path, &c->key);
    for (int i = 0; i < c->count; i++) {
        Ceiling *item = &c->items[i];
        double value;
        char date[CLOCK_STAMP_SIZE];
        if (stored(tree, item->name, &value, date) && is_credible(item, value) &&
            (item->is_time ? value < item->best : value > item->best)) {
            item->best = value;
            memcpy(item->date, date, sizeof date);
        }
    }
    if (tree == NULL) {
        tree = json_object();
        json_put_item(tree, "machine", key_json(&c->key));
    }
    put_best(tree, c);
    int code = cache_make_folder(path);
    code = code == 0 ? json_save(path, tree) : code;
    cJSON_Delete(tree);
    free(path);
    return code;
}

cJSON *ceilings_json(const Ceilings *c)
{
    cJSON *object = json_object(), *all = json_object();
    json_put_text(object, "date", c->date);
    json_put_item(object, "machine", key_json(&c->key));
    for (int i = 0; i < c->count; i++) {
        const Ceiling *item = &c->items[i];
        cJSON *row = json_object();
        json_put_number(row, "value", item->value);
        json_put_text(row, "unit", item->unit);
        json_put_text(row, "how", item->how);
        json_put_number(row, "best", item->best);
        json_put_text(row, "best_date", item->date);
        if (item->stated > 0) {
            json_put_number(row, "stated", item->stated);
            json_put_number(row, "share_of_stated", item->value / item->stated);
        }
        json_put_item(all, item->name, row);
    }
    json_put_item(object, "ceilings", all);
    if (c->after.known) {
        cJSON *sensors = json_object();
        json_put_item(sensors, "before", gpu_reading_json(&c->before));
        json_put_item(sensors, "after", gpu_reading_json(&c->after));
        json_put_number(sensors, "reading_s", c->reading_s);
        json_put_item(object, "sensors", sensors);
    }
    return object;
}
