#include "record/machine.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "cpu/sgemm.h"
#include "record/ceilings.h"

#include <ctype.h>
#include <math.h>
#include <omp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* The value of the first line "key : value" at the start of a file, without surrounding blanks;
 * false: none. */
static bool find_line(const char *path, const char *key, char *value, size_t size)
{
    char text[4096], *rest = text;
    io_read_start(path, text, sizeof text);
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        char *colon = strchr(line, ':');
        if (colon != NULL && strncmp(line, key, strlen(key)) == 0) {
            const char *from = colon + 1 + strspn(colon + 1, " \t");
            size_t length = strlen(from);
            while (length > 0 && isspace((unsigned char)from[length - 1])) {
                length--;
            }
            snprintf(value, size, "%.*s", (int)length, from);
            return length > 0;
        }
    }
    return false;
}

/* The numbers at the start of a file of the control group; "max" is no number. Returns how many. */
static int read_limits(const char *path, double *first, double *second)
{
    char text[128];
    io_read_start(path, text, sizeof text);
    return sscanf(text, "%lf %lf", first, second);
}

void machine_describe(Machine *machine, const char *simd)
{
    cpu_set_t set;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    *machine = (Machine){.cores = online > 0 ? (int)online : 1};
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        machine->cores = CPU_COUNT(&set);
    }
    struct utsname names;
    if (uname(&names) == 0) {
        snprintf(machine->host, sizeof machine->host, "%s", names.nodename);
        snprintf(machine->kernel, sizeof machine->kernel, "%s %s", names.sysname, names.release);
        snprintf(machine->cpu, sizeof machine->cpu, "%s", names.machine);
    }
    char text[128];
    if (find_line("/proc/cpuinfo", "model name", text, sizeof text)) {
        snprintf(machine->cpu, sizeof machine->cpu, "%s", text);
    }
    if (find_line("/proc/meminfo", "MemTotal", text, sizeof text)) {
        machine->memory_bytes = value_of(1024.0 * strtod(text, NULL));
    }
    double first, second;
    if (read_limits("/sys/fs/cgroup/memory.max", &first, &second) >= 1) {
        machine->memory_limit = value_of(first);
    }
    if (read_limits("/sys/fs/cgroup/cpu.max", &first, &second) == 2 && second > 0) {
        machine->cpu_quota = value_of(first / second);
    }
#ifdef __clang__
    snprintf(machine->compiler, sizeof machine->compiler, "%s", __VERSION__);
#else
    snprintf(machine->compiler, sizeof machine->compiler, "gcc %s", __VERSION__);
#endif
    sgemm_library(machine->blas, sizeof machine->blas);
    snprintf(machine->simd, sizeof machine->simd, "%s", simd != NULL ? simd : "");
}

#define COPY_BYTES (EFFORT_BYTES / 2) /* of a block, which is beyond the caches */

/* As many as may be taken for a block, by halves. */
static size_t copy_bytes(Effort effort)
{
    size_t bytes = COPY_BYTES, available = mem_available();
    size_t most = available > 0 && available / 4 < effort.bytes ? available / 4 : effort.bytes;
    while (2 * bytes > most && bytes > (size_t)8 << 20) {
        bytes /= 2;
    }
    return bytes;
}

void machine_measure(Machine *machine, int threads, DType dtype, Effort effort)
{
    machine->threads = threads;
    effort.seconds /= 2;
    double sgemm = machine_sgemm_rate(threads, dtype, effort);
    double copy = machine_copy_rate(threads, effort);
    machine->sgemm_gflops = value_finite(sgemm);
    machine->copy_gbs = value_finite(copy);
    machine->copy_block = copy_bytes(effort);
}

#define MEASURED_NOW "measured now"

/* The two rates of a run: where they are in machine, and how they are stored. */
typedef struct {
    Value *value; /* in units of 1e9; a stored one is not */
    char *source; /* [64] */
    const char *unit;
    double stated; /* by the maker; 0: not known */
    char name[CEILING_NAME_SIZE];
} Rate;

enum { RATES = 2 };

static void list_rates(Machine *machine, const Backend *backend, DType dtype, Rate rates[RATES])
{
    bool device = backend->matmul_rate != NULL;
    rates[0] =
        (Rate){.value = device ? &machine->device_matmul_gflops : &machine->sgemm_gflops,
               .source = machine->ceiling_source,
               .unit = "FLOP/s",
               .stated = backend->stated_rate != NULL ? backend->stated_rate(backend, dtype) : 0};
    rates[1] = (Rate){.value = device ? &machine->device_copy_gbs : &machine->copy_gbs,
                      .source = machine->copy_source,
                      .unit = "B/s"};
    ceilings_names(backend, dtype, rates[0].name, rates[1].name);
    if (!device && machine->copy_block < COPY_BYTES) { /* a ceiling of its own: copy_2_8MiB */
        size_t used = strlen(rates[1].name);
        snprintf(rates[1].name + used, CEILING_NAME_SIZE - used, "_%zuMiB",
                 machine->copy_block >> 20);
    }
}

/* What is stored of a rate; missing when there is nothing, or more than the maker states. */
static Value stored_rate(const CeilingKey *key, const Rate *rate, char date[CLOCK_STAMP_SIZE])
{
    double value, most = rate->stated > 0 ? CEILINGS_OVER_STATED * rate->stated : INFINITY;
    return ceilings_find(key, rate->name, &value, date) && value <= most ? value_of(value * 1e-9)
                                                                         : (Value){0};
}

static void take_stored(Rate *rate, Value stored, const char *date)
{
    *rate->value = stored;
    snprintf(rate->source, 64, "measured at %.40s", date[0] != '\0' ? date : "another time");
}

static void raise_to_stored(Machine *machine, const Backend *backend, DType dtype)
{
    CeilingKey key;
    Rate rates[RATES];
    char date[CLOCK_STAMP_SIZE];
    ceilings_key(&key, machine, backend);
    list_rates(machine, backend, dtype, rates);
    for (int i = 0; i < RATES; i++) {
        Rate *rate = &rates[i];
        Value stored = stored_rate(&key, rate, date);
        snprintf(rate->source, 64, "%s", rate->value->known ? MEASURED_NOW : "");
        if (rate->value->known && stored.known && stored.number > rate->value->number) {
            take_stored(rate, stored, date);
        }
    }
}

bool machine_recall_device(Machine *machine, const Backend *backend, DType dtype, Effort effort)
{
    CeilingKey key;
    Rate rates[RATES];
    Value stored[RATES];
    char date[RATES][CLOCK_STAMP_SIZE];
    machine->copy_block = copy_bytes(effort);
    ceilings_key(&key, machine, backend);
    list_rates(machine, backend, dtype, rates);
    for (int i = 0; i < RATES; i++) {
        stored[i] = stored_rate(&key, &rates[i], date[i]);
        if (!stored[i].known) {
            return false;
        }
    }
    for (int i = 0; i < RATES; i++) {
        take_stored(&rates[i], stored[i], date[i]);
    }
    if (backend->matmul_rate != NULL) {
        snprintf(machine->device, sizeof machine->device, "%s", backend->device);
    } else {
        machine->threads = backend->threads;
    }
    return true;
}

void machine_remember_device(Machine *machine, const Backend *backend, DType dtype)
{
    Ceilings measured = {.count = 0};
    Rate rates[RATES];
    clock_stamp(measured.date);
    ceilings_key(&measured.key, machine, backend);
    list_rates(machine, backend, dtype, rates);
    for (int i = 0; i < RATES; i++) {
        if (rates[i].value->known && strcmp(rates[i].source, MEASURED_NOW) == 0) {
            int before = measured.count;
            ceilings_add(&measured, rates[i].name, rates[i].unit, 1e9 * rates[i].value->number,
                         "in passing, by a run");
            if (measured.count > before) { /* what is no positive number is left out */
                measured.items[before].stated = rates[i].stated;
            }
        }
    }
    if (measured.count > 0 && ceilings_store(&measured) != 0) {
        log_debug("the machine's ceilings are not kept: %s", err_message());
    }
}

void machine_measure_device(Machine *machine, Backend *backend, DType dtype, Effort effort)
{
    if (backend->matmul_rate == NULL) {
        machine_measure(machine, backend->threads, ceilings_dtype(backend, dtype), effort);
        raise_to_stored(machine, backend, dtype);
        return;
    }
    double matmul = backend->matmul_rate(backend, dtype), copy = backend->copy_rate(backend);
    snprintf(machine->device, sizeof machine->device, "%s", backend->device);
    machine->device_matmul_gflops = matmul > 0 ? value_of(matmul * 1e-9) : (Value){0};
    machine->device_copy_gbs = copy > 0 ? value_of(copy * 1e-9) : (Value){0};
    raise_to_stored(machine, backend, dtype);
}

Value machine_ceiling(const Machine *machine)
{
    return machine->device[0] != '\0' ? machine->device_matmul_gflops : machine->sgemm_gflops;
}

static const char *given(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

cJSON *machine_json(const Machine *machine)
{
    cJSON *object = json_object();
    json_put_text(object, "host", machine->host);
    json_put_text(object, "cpu", machine->cpu);
    json_put_whole(object, "cores", machine->cores);
    json_put(object, "cpu_quota", machine->cpu_quota);
    json_put_or_null(object, "memory_bytes", machine->memory_bytes);
    json_put(object, "memory_limit_bytes", machine->memory_limit);
    json_put_text(object, "kernel", machine->kernel);
    json_put_text(object, "compiler", machine->compiler);
    json_put_text(object, "blas", machine->blas);
    json_put_text(object, "simd", given(machine->simd));
    json_put_or_null(object, "ceiling_threads",
                     machine->threads > 0 ? value_of(machine->threads) : (Value){0});
    json_put_or_null(object, "sgemm_gflops", machine->sgemm_gflops);
    json_put_or_null(object, "copy_gbs", machine->copy_gbs);
    json_put_text(object, "device", given(machine->device));
    json_put(object, "device_matmul_gflops", machine->device_matmul_gflops);
    json_put(object, "device_copy_gbs", machine->device_copy_gbs);
    json_put_text(object, "ceiling_source", given(machine->ceiling_source));
    json_put_text(object, "copy_source", given(machine->copy_source));
    return object;
}

/* Small whole numbers, so that every partial sum of the product is exact in f32, in any order. */
static int element(int64_t row, int64_t column)
{
    return (int)((row * 7 + column * 3 + row * column) % 5) - 2;
}

static bool product_is_right(const float *c, int64_t n)
{
    for (int64_t probe = 0; probe < 16; probe++) {
        int64_t row = (probe * 397 + 11) % n, column = (probe * 883 + 5) % n, sum = 0;
        for (int64_t k = 0; k < n; k++) {
            sum += element(row, k) * element(k, column);
        }
        if (c[row * n + column] != (float)sum) {
            return false;
        }
    }
    return true;
}

#define PRODUCT_RUNS 4 /* at least; the first is not counted */

/* Room for products of n x n matrices, of which a and b may be bf16. */
static SgemmProbe probe_of(int threads, DType dtype, int64_t n)
{
    size_t space = product_space(threads, dtype);
    SgemmProbe probe = {threads, dtype, n, mem_try_aligned((size_t)(3 * n * n) * sizeof(float)),
                        space > 0 ? mem_try_aligned(space) : NULL};
    if (space > 0 && probe.space == NULL) {
        machine_probe_close(&probe);
    }
    return probe;
}

static void fill_element(SgemmProbe *probe, float *matrix, int64_t i)
{
    float value = (float)element(i / probe->n, i % probe->n);
    if (probe->dtype == DT_BF16) {
        ((uint16_t *)matrix)[i] = bf16_from_f32(value);
    } else {
        matrix[i] = value;
    }
}

/* a and b of n x n; c is NaN. */
static void fill_probe(SgemmProbe *probe)
{
    int64_t count = probe->n * probe->n;
    for (int64_t i = 0; i < count; i++) {
        fill_element(probe, probe->block, i);
        fill_element(probe, probe->block + count, i);
        probe->block[2 * count + i] = NAN;
    }
}

static const float *multiply(SgemmProbe *probe)
{
    int64_t count = probe->n * probe->n;
    float *a = probe->block, *b = a + count, *c = b + count;
    product_square(probe->threads, probe->dtype, probe->space, probe->n, a, b, c);
    return c;
}

/* Best rate of n x n products within the budget; NaN when the product is wrong. */
static double best_product(SgemmProbe *probe, double seconds)
{
    fill_probe(probe);
    const float *c = NULL;
    double best = INFINITY, spent = 0;
    for (int run = 0; run < PRODUCT_RUNS || spent < seconds; run++) {
        double start = clock_seconds();
        c = multiply(probe);
        double took = clock_seconds() - start;
        if (run > 0) { /* the first one wakes the threads and touches the library's buffers */
            best = took < best ? took : best;
            spent += took;
        }
    }
    double n = (double)probe->n;
    return product_is_right(c, probe->n) ? 2e-9 * (n * n * n) / best : NAN;
}

/* The smallest are short enough to pass between two processes that share the cores. */
#define SMALLEST_PRODUCT ((int64_t)512)
#define PRODUCT_SIZES 3

/* How many of the sizes, each twice the one before it, the bytes hold: three matrices each. */
static int product_sizes(size_t bytes)
{
    int sizes = 1;
    while (sizes < PRODUCT_SIZES && 12 * (SMALLEST_PRODUCT * SMALLEST_PRODUCT << 2 * sizes) <=
                                        (int64_t)(bytes < EFFORT_BYTES ? bytes : EFFORT_BYTES)) {
        sizes++;
    }
    return sizes;
}

double machine_sgemm_rate(int threads, DType dtype, Effort effort)
{
    PACER_ASSERT(threads > 0, "%d threads", threads);
    int sizes = product_sizes(effort.bytes);
    SgemmProbe probe = probe_of(threads, dtype, SMALLEST_PRODUCT << (sizes - 1));
    if (probe.block == NULL) {
        return NAN;
    }
    double best = 0;
    for (int i = 0; i < sizes && !isnan(best); i++) {
        int64_t n = SMALLEST_PRODUCT << i;
        /* On few threads the largest take longer than the budget and are hardly faster. */
        if (i == PRODUCT_SIZES - 1 &&
            PRODUCT_RUNS * 2e-9 * (double)(n * n * n) / best > effort.seconds) {
            break;
        }
        probe.n = n;
        double rate = best_product(&probe, effort.seconds / sizes);
        best = rate <= best ? best : rate; /* NaN stays */
    }
    machine_probe_close(&probe);
    return best;
}

bool machine_probe_open(SgemmProbe *probe, int threads, DType dtype, size_t bytes)
{
    *probe = probe_of(threads, dtype, SMALLEST_PRODUCT << (product_sizes(bytes) - 1));
    if (probe->block != NULL) {
        fill_probe(probe);
    }
    return probe->block != NULL;
}

double machine_probe_sample(SgemmProbe *probe)
{
    double start = clock_seconds(), n = (double)probe->n;
    multiply(probe);
    return 2e-9 * (n * n * n) / (clock_seconds() - start);
}

void machine_probe_close(SgemmProbe *probe)
{
    free(probe->block);
    free(probe->space);
    *probe = (SgemmProbe){0};
}

double machine_copy_rate(int threads, Effort effort)
{
    PACER_ASSERT(threads > 0, "%d threads", threads);
    size_t bytes = copy_bytes(effort);
    char *from = mem_try_aligned(bytes), *to = mem_try_aligned(bytes);
    double best = INFINITY, spent = 0;
    bool right = from != NULL && to != NULL;
    for (int run = 0; right && (run < 4 || spent < effort.seconds); run++) {
        double start = clock_seconds();
#pragma omp parallel num_threads(threads)
        {
            size_t slices = (size_t)omp_get_num_threads(), slice = (size_t)omp_get_thread_num();
            size_t begin = bytes / slices * slice;
            size_t end = slice + 1 == slices ? bytes : bytes / slices * (slice + 1);
            if (run == 0) { /* gives both blocks pages, near the thread that will use them */
                memset(from + begin, 0x5a, end - begin);
                memset(to + begin, 0, end - begin);
            } else {
                memcpy(to + begin, from + begin, end - begin);
            }
        }
        double took = clock_seconds() - start;
        if (run > 0) {
            best = took < best ? took : best;
            spent += took;
        }
    }
    right = right && to[0] == 0x5a && to[bytes - 1] == 0x5a;
    free(from);
    free(to);
    return right ? 2e-9 * (double)bytes / best : NAN;
}
