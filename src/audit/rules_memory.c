/* Bytes, and work per second against what the device can do. */
#include "audit/findings.h"
#include "audit/scan.h"

#include <math.h>

#define SLACK 0.08 /* GB and GiB are confused: 1.0737 */
#define MFU_LOW 0.01

/* The document's idea of its device: the stated size that most statements agree with. */
static const Fact *device_memory(const Evidence *evidence)
{
    const Fact *best = NULL;
    int most = 0, seen = 0;
    for (int i = 0; i < evidence->fact_count && seen < 100; i++) {
        const Fact *fact = &evidence->facts[i];
        if (fact->quantity != Q_DEVICE_MEMORY) {
            continue;
        }
        seen++;
        int votes = 0;
        for (int k = 0; k < evidence->fact_count; k++) {
            votes += evidence->facts[k].quantity == Q_DEVICE_MEMORY &&
                     number_agrees(evidence->facts[k].number, fact->number, SLACK);
        }
        bool finer = best != NULL && votes == most &&
                     fact->number.high - fact->number.low < best->number.high - best->number.low;
        if (votes > most || finer) {
            most = votes;
            best = fact;
        }
    }
    return best;
}

static void check_spill(const Evidence *evidence, Findings *findings)
{
    const Fact *device = device_memory(evidence);
    for (int i = 0; i < evidence->fact_count && device != NULL; i++) {
        const Fact *fact = &evidence->facts[i];
        if (fact->quantity == Q_MEMORY && fact->number.unit == UNIT_BYTES && fact->run >= 0) {
            findings->compared++;
            if (fact->number.low > (1 + SLACK) * device->number.high) {
                finding_add(findings, FINDING_DISAGREES,
                            "memory allocated is at most what the device has; more is in system "
                            "memory",
                            fact->line, FINDING_RUN_OF_MEMORY,
                            "%.4g GiB allocated on a device of %.4g GiB (line %d)",
                            fact->number.value / 1073741824.0, device->number.value / 1073741824.0,
                            device->line);
            }
        }
    }
}

static void check_optimizer(const Evidence *evidence, int run, Findings *findings)
{
    /* Two moments of the weights' type; in fewer bits; of f32 beside 2-byte weights; with a
     * copy. */
    static const double factors[] = {2, 1, 0.5, 4, 6};
    const Fact *state = evidence_find(evidence, run, Q_OPTIMIZER_BYTES, false);
    const Fact *weights = evidence_find(evidence, run, Q_PARAMETER_BYTES, true);
    const Fact *count = evidence_find(evidence, run, Q_PARAMETERS, true);
    Number bytes = weights != NULL ? weights->number : number_exact(0);
    if (weights == NULL && count != NULL) {
        bytes = number_multiply(count->number, number_exact(4));
    }
    if (state == NULL || !(bytes.value > 0)) {
        return;
    }
    bool good = false;
    bool wide = weights == NULL || (count != NULL && bytes.value > 3.5 * count->number.value);
    for (int i = 0; i < (wide ? 3 : 5); i++) {
        good |=
            number_agrees(number_multiply(bytes, number_exact(factors[i])), state->number, 0.05);
    }
    findings->compared++;
    if (!good) {
        finding_about(findings, FINDING_DISAGREES, "Adam keeps two numbers per parameter",
                      state->line, run,
                      "optimizer state %.4g MB is stated; 2 x %.4g MB of parameters (line %d) = "
                      "%.4g MB",
                      state->number.value / 1e6, bytes.value / 1e6,
                      weights != NULL ? weights->line : count->line, 2 * bytes.value / 1e6);
    }
}

typedef struct {
    const char *name;
    double peak; /* dense bf16 or fp16 FLOP/s, as the vendor states it */
} Gpu;

static const Gpu gpus[] = {{" h100 ", 989e12},  {" h200 ", 989e12}, {" b200 ", 2250e12},
                           {" a100 ", 312e12},  {" v100 ", 125e12}, {" l40s ", 362e12},
                           {" 4090 ", 165e12},  {" 3090 ", 71e12},  {" a10g ", 70e12},
                           {" t4 ", 65e12},     {" l4 ", 121e12},   {" a6000 ", 155e12},
                           {" h100s ", 989e12}, {" a100s ", 312e12}};

/* The GPU that the document names, if it names one kind only. */
static const Gpu *gpu_of(const Evidence *evidence)
{
    const Gpu *found = NULL;
    const char *names[sizeof gpus / sizeof gpus[0]];
    for (size_t k = 0; k < sizeof gpus / sizeof gpus[0]; k++) {
        names[k] = gpus[k].name;
    }
    for (int i = 0; i < evidence->document->count; i++) {
        const Line *line = &evidence->document->lines[i];
        if (line->kind == LINE_BLANK ||
            !scan_has_any(line->text, names, sizeof gpus / sizeof gpus[0])) {
            continue;
        }
        for (size_t k = 0; k < sizeof gpus / sizeof gpus[0]; k++) {
            if (scan_has(line->text, gpus[k].name)) {
                if (found != NULL && found->peak != gpus[k].peak) {
                    return NULL;
                }
                found = found == NULL ? &gpus[k] : found;
            }
        }
    }
    return found;
}

static void check_stated_mfu(const Evidence *evidence, Findings *findings)
{
    for (int i = 0; i < evidence->fact_count; i++) {
        const Fact *fact = &evidence->facts[i];
        if (fact->quantity != Q_MFU || fact->run < 0) {
            continue;
        }
        findings->compared++;
        double share = fact->number.unit == UNIT_NONE && fact->number.value > 2
                           ? fact->number.value / 100
                           : fact->number.value;
        if (!(share >= 0 && share <= 1)) {
            finding_about(findings, FINDING_DISAGREES, "MFU is between 0 and 100 %", fact->line,
                          fact->run, "%.4g %% is stated", 100 * share);
        }
    }
}

/* The run's parameters, or the document's where it speaks of one model only; NULL. */
static const Fact *parameters_of(const Evidence *evidence, int run)
{
    const Fact *found = evidence_find(evidence, run, Q_PARAMETERS, true);
    for (int i = 0; i < evidence->fact_count && found != NULL; i++) {
        const Fact *fact = &evidence->facts[i];
        bool stated = fact->quantity == Q_PARAMETERS && (!fact->prose || fact->number.counted);
        bool of_document = run == 0 || found->run != run;
        if (stated && of_document && !number_agrees(fact->number, found->number, 0.05)) {
            found = NULL;
        }
    }
    return found;
}

/* 6 FLOP per parameter and token, against the peak that the vendor states. */
static void check_work(const Evidence *evidence, const Gpu *gpu, int run, Findings *findings)
{
    const Fact *rate = evidence_find(evidence, run, Q_TOKENS_PER_SECOND, false);
    const Fact *parameters = parameters_of(evidence, run);
    double ranks = fmax(1, evidence_setting(evidence, run, Q_RANKS));
    if (rate == NULL || (run == 0 && rate->prose) || parameters == NULL || gpu == NULL ||
        parameters->number.value < 1e5) {
        return;
    }
    findings->compared++;
    double mfu = 6 * parameters->number.value * rate->number.value / (ranks * gpu->peak);
    if (mfu > 1) {
        finding_about(findings, FINDING_DISAGREES,
                      "6 FLOP x parameters x tokens per second is at most the device's peak",
                      rate->line, run,
                      "%.6g tok/s of %.4g parameters are %.4g %% of the peak of %.4g"
                      " x%sranks",
                      rate->number.value, parameters->number.value, 100 * mfu, ranks, gpu->name);
    } else if (mfu < MFU_LOW) {
        finding_about(findings, FINDING_WARNING,
                      "the device is idle most of the time: waiting, launch overhead or data, not "
                      "arithmetic (a guess)",
                      rate->line, run,
                      "%.6g tok/s of %.4g parameters on %.4g x%sare %.2g %% of their peak",
                      rate->number.value, parameters->number.value, ranks, gpu->name, 100 * mfu);
    }
}

void rules_memory(const Evidence *evidence, Findings *findings)
{
    const Gpu *gpu = gpu_of(evidence);
    check_spill(evidence, findings);
    check_stated_mfu(evidence, findings);
    for (int run = 0; run < evidence->run_count; run++) {
        check_optimizer(evidence, run, findings);
        check_work(evidence, gpu, run, findings);
    }
}
