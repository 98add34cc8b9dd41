/* What cannot be, whatever else is said: memory above the device's, more work per second than the
 * device can do, a fresh model that knows the answer, messages to nobody. */
#include "audit/findings.h"
#include "audit/scan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SLACK 0.08 /* GB and GiB are confused: 1.0737 */
#define MFU_LOW 0.01

/* --- memory --- */

/* The size of the device in the record, or in the text of the sections around it; NULL: none, or
 * several. Exercises elsewhere in a document are about other devices. */
static const Fact *device_of(const Evidence *evidence, int record)
{
    const Fact *found = NULL;
    int said = 0; /* how often, in all the document */
    for (int i = 0; i < evidence->fact_count; i++) {
        said += evidence->facts[i].quantity == Q_DEVICE_MEMORY;
    }
    for (int i = 0; i < evidence->fact_count; i++) {
        const Fact *fact = &evidence->facts[i];
        if (fact->quantity != Q_DEVICE_MEMORY) {
            continue;
        }
        const Record *of = &evidence->records[fact->record];
        int section = of->kind == RECORD_SECTION ? fact->record : of->around;
        const Line *heading = &evidence->document->lines[evidence->records[section].line - 1];
        static const char about[] = " hardware | setup | environment | system ";
        bool single =
            evidence->single[Q_DEVICE_MEMORY] >= 0 &&
            (said >= 3 || ((of->kind == RECORD_SECTION || scan_has_any(heading->text, about)) &&
                           evidence->sections <= SECTIONS_MAX));
        bool near = single || fact->record == record;
        for (int at = record; at >= 0 && !near; at = evidence->records[at].around) {
            near = at == section;
        }
        if (near && found != NULL && !number_agrees(found->number, fact->number, SLACK)) {
            return NULL;
        }
        found = near && found == NULL ? fact : found;
    }
    return found;
}

/* How many other rows of the fact's column hold what the device can. */
static int rows_within(const Evidence *evidence, const Fact *fact, const Fact *device)
{
    int rows = 0;
    for (int i = 0; i < evidence->fact_count; i++) {
        const Fact *other = &evidence->facts[i];
        rows += other->quantity == fact->quantity && other->column == fact->column &&
                evidence->records[other->record].table == evidence->records[fact->record].table &&
                other->number.value <= device->number.high;
    }
    return evidence->records[fact->record].table > 0 ? rows : 0;
}

static void check_memory(const Evidence *evidence, const Fact *fact, Findings *findings)
{
    bool prose = evidence->records[fact->record].kind == RECORD_LINE && fact->moment < 0;
    const Fact *device = prose ? NULL : device_of(evidence, fact->record);
    bool used = fact->quantity == Q_MEMORY || (fact->marks & MARK_PEAK);
    if (device == NULL || fact->number.unit != UNIT_BYTES || (fact->marks & MARK_TOTAL) ||
        fact->number.open || (!used && rows_within(evidence, fact, device) < 3)) {
        return; /* "memory" of a column that the device holds in other rows is its own */
    }
    findings->compared++;
    if (fact->number.low > (1 + SLACK) * device->number.high) {
        finding_add(findings, FINDING_DISAGREES,
                    "memory allocated is at most what the device has; more is in system memory",
                    fact->line, "%.4g GiB allocated on a device of %.4g GiB (line %d)",
                    fact->number.value / 1073741824.0, device->number.value / 1073741824.0,
                    device->line);
    }
}

/* --- work --- */

static void check_mfu(const Evidence *evidence, const Fact *fact, Findings *findings)
{
    const Record *record = &evidence->records[fact->record];
    if (fact->moment >= 0 || record->point || record->kind == RECORD_LINE || fact->number.range) {
        return; /* a log writes -100 % before it has measured */
    }
    double share = number_share(fact->number).value;
    findings->compared++;
    if (!(share >= 0 && share <= 1)) {
        finding_about(findings, FINDING_DISAGREES, "MFU is between 0 and 100 %", fact->line,
                      fact->record, "%.4g %% is stated", 100 * share);
    }
}

typedef struct {
    const char *name;
    double peak; /* dense bf16 or fp16 FLOP/s, as the vendor states it; NAN: not kept here */
} Gpu;

static const Gpu gpus[] = {
    {" h100 ", 989e12},  {" h200 ", 989e12},  {" b200 ", 2250e12}, {" a100 ", 312e12},
    {" v100 ", 125e12},  {" l40s ", 362e12},  {" 4090 ", 165e12},  {" 3090 ", 71e12},
    {" a10g ", 70e12},   {" t4 ", 65e12},     {" l4 ", 121e12},    {" a6000 ", 155e12},
    {" h100s ", 989e12}, {" a100s ", 312e12}, {" h800 ", 989e12},  {" a800 ", 312e12},
    {" b300 ", NAN},     {" gb200 ", NAN},    {" gb300 ", NAN},    {" mi300x ", NAN},
    {" mi250x ", NAN},   {" tpu ", NAN},      {" gb10 ", NAN},     {" 5090 ", NAN},
    {" a10 ", NAN},      {" p100 ", NAN},     {" l20 ", NAN}};
double limits_peak(const Evidence *evidence)
{
    double peak = 0;
    for (size_t k = 0; k < sizeof gpus / sizeof gpus[0]; k++) {
        if (evidence_has_any(evidence, gpus[k].name)) {
            if (isnan(gpus[k].peak) || (peak > 0 && peak != gpus[k].peak)) {
                return 0;
            }
            peak = gpus[k].peak;
        }
    }
    return peak;
}

/* Sections where a token does not cost 6 FLOP per parameter, or where the peak is another: by
 * their own words, or by headings around them. */
static bool has_other_work(const Evidence *evidence, int record)
{
    static const char words[] =
        " inference | generation | generate | decode | decoding | lora | qlora | moe | experts |"
        " fp8 | mxfp8 | int8 | nvfp4 | cpu | cpus | cores | mixture | frozen | latency |"
        " fine tuning | adapter ";
    const Record *at = &evidence->records[record];
    at = at->kind == RECORD_SECTION ? at : &evidence->records[at->around];
    for (int i = at->line - 1; i < evidence->document->count; i++) {
        const Line *line = &evidence->document->lines[i];
        if (i >= at->line && line->kind == LINE_HEADING) {
            break;
        }
        if (line->kind != LINE_BLANK && scan_has_any(line->text, words)) {
            return true;
        }
    }
    for (; at->around >= 0; at = &evidence->records[at->around]) {
        const Line *line = &evidence->document->lines[evidence->records[at->around].line - 1];
        if (line->kind == LINE_HEADING && scan_has_any(line->text, words)) {
            return true;
        }
    }
    return false;
}

/* 6 FLOP per parameter and token, against the peak that the vendor states. */
static void check_work(const Evidence *evidence, const Fact *rate, bool *idle, Findings *findings)
{
    const Fact *parameters = evidence_known(evidence, rate->record, Q_PARAMETERS);
    const Fact *known = evidence_known(evidence, rate->record, Q_RANKS);
    bool each = (rate->marks & MARK_PER_RANK) != 0;
    if (parameters == NULL || parameters->number.value < 1e5 || (known == NULL && !each) ||
        has_other_work(evidence, rate->record)) {
        return;
    }
    double ranks = each ? 1 : fmax(1, known->number.value);
    double mfu = 6 * parameters->number.value * rate->number.value / (ranks * evidence->peak);
    findings->compared++;
    bool above = mfu > 1, below = mfu < MFU_LOW && !*idle;
    *idle |= below; /* once */
    if (above || below) {
        finding_about(findings, above ? FINDING_DISAGREES : FINDING_WARNING,
                      above ? "6 FLOP x parameters x tokens per second is at most the device's peak"
                            : "the device is idle most of the time: waiting, launch overhead or "
                              "data, not arithmetic (a guess)",
                      rate->line, rate->record,
                      "%.6g tok/s of %.4g parameters are %.*g %% of the peak of %.4g GPU%s",
                      rate->number.value, parameters->number.value, above ? 4 : 2, 100 * mfu, ranks,
                      ranks > 1 ? "s" : "");
    }
}

/* --- the first loss --- */

typedef struct {
    const char *word; /* at the start of a word of the document */
    double vocab;
} Family;

static const Family families[] = {{" ttt", 32000},      {" gpt2 ", 50257},   {" gpt 2 ", 50257},
                                  {" llama 3", 128256}, {" llama3", 128256}, {" llama", 32000},
                                  {" nanogpt ", 50257}, {" qwen", 151936},   {" mistral", 32000}};

/* The family that a line "Model: ..." names, if all of them name one; NULL. */
static const Family *family_of(const Evidence *evidence)
{
    const Family *found = NULL;
    for (int i = 0; i < evidence->document->count; i++) {
        const Line *line = &evidence->document->lines[i];
        if (line->kind != LINE_TEXT || strncasecmp(line->text, "model:", 6) != 0) {
            continue;
        }
        for (size_t k = 0; k < sizeof families / sizeof families[0]; k++) {
            if (scan_has_any(line->text, families[k].word)) {
                if (found != NULL && found->vocab != families[k].vocab) {
                    return NULL;
                }
                found = &families[k];
                break;
            }
        }
    }
    return found;
}

/* Whether the document's models may have learned before their first step here. */
static bool starts_from_weights(const Evidence *evidence)
{
    return evidence_has_any(
        evidence,
        " pretrained | pre trained | fine tuning | finetuning | fine tune | finetune | fine tuned |"
        " finetuned | resumed | resume | checkpoint | checkpoints | continual | continued | lora |"
        " sft | distillation | warm start ");
}

static bool is_first_loss(const Evidence *evidence, const Fact *fact)
{
    const Fact *step = evidence_own(evidence, fact->record, Q_STEP);
    bool loss = fact->quantity == Q_LOSS || fact->quantity == Q_TRAIN_LOSS;
    bool first = (fact->step && fact->moment >= 0 && fact->moment <= 1) ||
                 (evidence->records[fact->record].point && step != NULL && step->number.value <= 1);
    return fact->quantity == Q_FIRST_LOSS || (loss && first);
}

/* The vocabulary of a model that the document prints, "(lm_head): Linear(..., out_features=N"; 0:
 * it prints none. */
static double printed_vocab(const Evidence *evidence)
{
    for (int i = 0; i < evidence->document->count; i++) {
        const Line *line = &evidence->document->lines[i];
        const char *head =
            line->kind == LINE_TEXT ? strstr(line->text, "(lm_head): Linear(") : NULL;
        const char *out = head != NULL ? strstr(head, "out_features=") : NULL;
        if (out != NULL) {
            return strtod(out + strlen("out_features="), NULL);
        }
    }
    return 0;
}

static void check_first_loss(const Evidence *evidence, const Fact *fact, Findings *findings)
{
    const Fact *stated = evidence_known(evidence, fact->record, Q_VOCAB);
    const Family *family = stated == NULL ? family_of(evidence) : NULL;
    double printed = stated == NULL ? printed_vocab(evidence) : 0;
    double vocab = stated != NULL   ? stated->number.value
                   : printed > 0    ? printed
                   : family != NULL ? family->vocab
                                    : 0;
    double expected = vocab > 1 ? log(vocab) : 0, value = fact->number.value;
    /* The mean over the ranks that state it. */
    double sum = 0;
    int count = 0;
    const Record *record = &evidence->records[fact->record];
    for (int i = record->first; i < record->first + record->count && fact->rank >= 0; i++) {
        if (evidence->facts[i].quantity == fact->quantity && evidence->facts[i].rank >= 0) {
            sum += evidence->facts[i].number.value;
            count++;
        }
    }
    value = count > 0 ? sum / count : value;
    if (!(expected > 0)) {
        return;
    }
    findings->compared++;
    bool far = !(value > 0.85 * expected && value < 1.5 * expected);
    if (far && (stated != NULL || printed > 0 || value < 0.5 * expected)) {
        finding_about(findings, FINDING_DISAGREES,
                      "a fresh model's first loss is about ln(vocabulary)", fact->line,
                      fact->record,
                      "the first loss is %.4g, a guess among %.3g tokens; ln(%.10g) = %.4g "
                      "expected (%s)",
                      value, exp(value), vocab, expected,
                      stated != NULL || printed > 0 ? "the vocabulary stated"
                                                    : "the family's usual vocabulary");
    }
}

/* --- messages to nobody --- */

static void check_lone_communication(const Evidence *evidence, const Fact *fact, Findings *findings)
{
    if (evidence_value(evidence, fact->record, Q_RANKS) == 1) {
        findings->compared++;
        if (fact->number.low > 0) {
            finding_about(findings, FINDING_DISAGREES,
                          "one rank has nobody to communicate with: the timer holds something else",
                          fact->line, fact->record, "%.6g s of communication; 0 expected",
                          fact->number.value);
        }
    }
}

void rules_limits(const Evidence *evidence, Findings *findings)
{
    bool fresh = !starts_from_weights(evidence);
    int first_record = -1;
    bool idle = false;
    for (int i = 0; i < evidence->fact_count; i++) {
        const Fact *fact = &evidence->facts[i];
        if (evidence->records[fact->record].supposed || fact->call) {
            continue;
        }
        if (fact->quantity == Q_MEMORY || fact->quantity == Q_SOME_MEMORY) {
            check_memory(evidence, fact, findings);
        } else if (fact->quantity == Q_MFU) {
            check_mfu(evidence, fact, findings);
        } else if (fact->quantity == Q_TOKENS_PER_SECOND && evidence->peak > 0 && fact->rank < 0) {
            check_work(evidence, fact, &idle, findings);
        } else if (fact->quantity == Q_COMMUNICATION_TIME && fact->rank < 0) {
            check_lone_communication(evidence, fact, findings);
        } else if (fresh && first_record != fact->record && is_first_loss(evidence, fact)) {
            first_record = fact->record; /* once, for all its ranks */
            check_first_loss(evidence, fact, findings);
        }
    }
}
