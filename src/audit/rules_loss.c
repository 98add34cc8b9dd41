/* Losses: where a fresh model starts, and comparisons that tune one side only. */
#include "audit/findings.h"
#include "audit/scan.h"

#include <math.h>
#include <stdio.h>

typedef struct {
    const char *word; /* at the start of a word of the document */
    double vocab;
} Family;

static const Family families[] = {{" ttt", 32000},      {" gpt2 ", 50257},   {" gpt 2 ", 50257},
                                  {" llama 3", 128256}, {" llama3", 128256}, {" llama", 32000},
                                  {" nanogpt ", 50257}, {" qwen", 151936},   {" mistral", 32000}};

static const Family *family_of(const Evidence *evidence)
{
    for (size_t k = 0; k < sizeof families / sizeof families[0]; k++) {
        for (int i = 0; i < evidence->document->count; i++) {
            const Line *line = &evidence->document->lines[i];
            if (line->kind != LINE_BLANK && scan_has(line->text, families[k].word)) {
                return &families[k];
            }
        }
    }
    return NULL;
}

static bool has_word(const Evidence *evidence, const char *words)
{
    for (int i = 0; i < evidence->document->count; i++) {
        const Line *line = &evidence->document->lines[i];
        if (line->kind != LINE_BLANK && scan_has(line->text, words)) {
            return true;
        }
    }
    return false;
}

/* The loss of the first step of a run: said so, or of step 0 or 1 of its log. The mean over
 * ranks. */
static const Fact *first_loss(const Evidence *evidence, int run, double *value)
{
    const Fact *first = NULL;
    double sum = 0;
    int count = 0;
    for (int i = evidence_first(evidence, run, Q_FIRST_LOSS);
         evidence_is(evidence, i, run, Q_FIRST_LOSS); i++) {
        first = first == NULL ? &evidence->facts[i] : first;
        sum += evidence->facts[i].number.value;
        count++;
    }
    if (first != NULL) {
        *value = sum / count;
        return first;
    }
    int step = evidence_first(evidence, run, Q_STEP);
    bool starts =
        evidence_is(evidence, step, run, Q_STEP) && evidence->facts[step].number.value <= 1;
    static const Quantity losses[] = {Q_LOSS, Q_TRAIN_LOSS};
    for (int k = 0; k < 2; k++) {
        int i = evidence_first(evidence, run, losses[k]);
        if (!evidence_is(evidence, i, run, losses[k])) {
            continue;
        }
        const Fact *fact = &evidence->facts[i];
        if ((starts && fact->point == evidence->facts[step].point) ||
            (fact->step && fact->moment >= 0 && fact->moment <= 1)) {
            *value = fact->number.value;
            return fact;
        }
    }
    return NULL;
}

static void check_first_loss(const Evidence *evidence, int run, Findings *findings)
{
    double value;
    const Fact *loss = first_loss(evidence, run, &value);
    if (loss == NULL) {
        return;
    }
    const Fact *stated = evidence_find(evidence, run, Q_VOCAB, true);
    const Family *family = stated == NULL ? family_of(evidence) : NULL;
    double vocab = stated != NULL ? stated->number.value : family != NULL ? family->vocab : 0;
    double expected = vocab > 1 ? log(vocab) : 0;
    bool loaded = has_word(evidence, " pretrained ") || has_word(evidence, " fine tuning ") ||
                  has_word(evidence, " finetuning ") || has_word(evidence, " resumed ");
    bool far = expected > 0 ? !(value > 0.85 * expected && value < 1.5 * expected) : value < 3;
    findings->compared++;
    if (far) {
        char against[100];
        if (expected > 0) {
            snprintf(against, sizeof against, "ln(%.10g) = %.4g expected (%s)", vocab, expected,
                     stated != NULL ? "the vocabulary stated" : "the family's usual vocabulary");
        } else {
            snprintf(against, sizeof against, "no vocabulary is stated");
        }
        bool sure = !loaded && expected > 0 && (stated != NULL || value < 0.5 * expected);
        finding_about(findings, sure ? FINDING_DISAGREES : FINDING_WARNING,
                      "a fresh model's first loss is about ln(vocabulary)", loss->line, run,
                      "the first loss is %.4g, a guess among %.3g tokens; %s", value, exp(value),
                      against);
    }
}

/* Batches compared at one learning rate: the rate is tuned for at most one of them. */
static void check_one_rate(const Evidence *evidence, Findings *findings)
{
    double rate = evidence->runs[0].identity.values[Q_LR], least = INFINITY, most = 0;
    int runs = 0, line = 0;
    for (int run = 1; run < evidence->run_count; run++) {
        const double *own = evidence->runs[run].identity.values;
        double batch = evidence_batch(evidence, run);
        bool judged = evidence_find(evidence, run, Q_VAL_LOSS, false) != NULL ||
                      evidence_find(evidence, run, Q_FINAL_VAL_LOSS, false) != NULL ||
                      evidence_find(evidence, run, Q_BEST_VAL_LOSS, false) != NULL;
        if (batch > 0 && judged) {
            bool other = own[Q_LR] > 0 && rate > 0 && own[Q_LR] != rate;
            rate = other ? -1 : own[Q_LR] > 0 ? own[Q_LR] : rate;
            least = fmin(least, batch);
            most = fmax(most, batch);
            line = line == 0 ? evidence->runs[run].line : line;
            runs++;
        }
    }
    if (runs >= 3 && most >= 4 * least && rate > 0) {
        finding_add(findings, FINDING_WARNING,
                    "batches are compared at one learning rate: part of the difference is that the "
                    "rate is tuned for at most one of them",
                    line, 0, "learning rate %.4g for all batches from %.6g to %.6g", rate, least,
                    most);
    }
}

void rules_loss(const Evidence *evidence, Findings *findings)
{
    for (int run = 0; run < evidence->run_count; run++) {
        check_first_loss(evidence, run, findings);
    }
    check_one_rate(evidence, findings);
}
