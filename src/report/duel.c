#include "report/duel.h"

#include "base/err.h"
#include "base/mem.h"
#include "report/findings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool duel_is(const Results *results)
{
    return cJSON_IsObject(json_get(results->json, "duel"));
}

/* --- from runs to pairs --- */

bool duel_diverged(RunState state, const char *message)
{
    static const char *const begins[] = {"the loss became ", "the gradient norm became "};
    bool known = false;
    for (int i = 0; i < 2; i++) {
        known = known || strncmp(message, begins[i], strlen(begins[i])) == 0;
    }
    return state == RUN_FAILED && known;
}

static const Result *find_run(const Results *results, int configuration, int repeat)
{
    const Result *run = results_first(results, configuration);
    while (run != NULL && run->repeat != repeat) {
        run = results_next(results, configuration, run);
    }
    return run;
}

/* False: the run has no outcome (yet). */
static bool outcome(const Result *run, double *loss, bool *diverged)
{
    const char *message = run != NULL ? json_text_or(run->run, "message", run->reason) : "";
    if (run == NULL || (run->state != RUN_DONE && !duel_diverged(run->state, message))) {
        return false;
    }
    *loss = json_number(run->run, "summary.val_loss");
    *diverged = run->state != RUN_DONE || !isfinite(*loss);
    *loss = *diverged ? log(result_setting_number(run, "vocab")) : *loss;
    return isfinite(*loss);
}

static int read_plan(const Results *results, SequentialTest *test)
{
    const cJSON *plan = json_get(results->json, "duel");
    double error = json_number(plan, "error"), margin = json_number(plan, "margin");
    int64_t least, most;
    bool sound = json_whole(json_get(plan, "min_pairs"), SEQUENTIAL_MOST, &least) &&
                 json_whole(json_get(plan, "max_pairs"), SEQUENTIAL_MOST, &most) && error > 0 &&
                 error < 1 && margin >= 0 && least >= 2 && least <= most &&
                 results->configurations == 2;
    if (!sound) {
        return err_set(ERR_INPUT, "%s: experiment.json: \"duel\" is damaged, or not pacer's",
                       results->dir);
    }
    *test = sequential_test(error, margin, (int)least, (int)most);
    return 0;
}

static bool have_same_budget(const Results *results)
{
    static const char *const budgets[] = {"tokens", "epochs", "flops", "minutes"};
    const Result *a = results_first(results, 0), *b = results_first(results, 1);
    bool same = false;
    for (int i = 0; i < 4 && a != NULL && b != NULL; i++) {
        double of_a = result_setting_number(a, budgets[i]);
        same = same || (of_a > 0 && of_a == result_setting_number(b, budgets[i]));
    }
    return same;
}

int duel_judge(const Results *results, Duel *duel)
{
    *duel = (Duel){0};
    int code = read_plan(results, &duel->test);
    if (code != 0) {
        return code;
    }
    double differences[SEQUENTIAL_MOST];
    for (bool whole = true; whole && duel->count < duel->test.most;) {
        DuelPair *pair = &duel->pairs[duel->count];
        for (int side = 0; side < 2 && whole; side++) {
            whole = outcome(find_run(results, side, duel->count), &pair->loss[side],
                            &pair->diverged[side]);
        }
        if (whole) {
            differences[duel->count++] = pair->loss[1] - pair->loss[0];
        }
    }
    duel->look = sequential_run(&duel->test, differences, duel->count);
    duel->same_budget = have_same_budget(results);
    for (int side = 0; side < 2; side++) {
        const Result *run = results_first(results, side);
        for (int i = 0; i < duel->look.count; i++) {
            duel->diverged[side] += duel->pairs[i].diverged[side];
        }
        duel->labels[side] = run != NULL ? run->varying : "";
        duel->tokens[side] = NAN;
        for (; run != NULL; run = results_next(results, side, run)) {
            double tokens = json_number(run->run, "summary.tokens");
            duel->tokens[side] = run->state == RUN_DONE ? tokens : duel->tokens[side];
        }
    }
    return 0;
}

/* --- in words --- */

static const char *duel_word(const Duel *duel)
{
    static const char *const words[] = {[SEQUENTIAL_OPEN] = "open",
                                        [SEQUENTIAL_LOWER] = "better",
                                        [SEQUENTIAL_HIGHER] = "worse",
                                        [SEQUENTIAL_NEGLIGIBLE] = "none",
                                        [SEQUENTIAL_UNDECIDED] = "undecided"};
    return words[duel->look.verdict];
}

char *duel_sentence(const Duel *duel)
{
    const SequentialLook *look = &duel->look;
    double sure = 100 * (1 - duel->test.error);
    char *signed_interval = mem_format("B - A is %+.4f nats, %g %% interval %+.4f to %+.4f",
                                       look->mean, sure, look->low, look->high);
    char *text = NULL;
    switch (look->verdict) {
    case SEQUENTIAL_LOWER:
    case SEQUENTIAL_HIGHER: {
        bool better = look->verdict == SEQUENTIAL_LOWER;
        text = mem_format("B is %s than A by %.4f nats (%g %% interval %.4f to %.4f, %d pairs)",
                          better ? "better" : "worse", fabs(look->mean), sure,
                          better ? -look->high : look->low, better ? -look->low : look->high,
                          look->count);
        break;
    }
    case SEQUENTIAL_NEGLIGIBLE:
        text = mem_format("No difference that matters: %s, within %g either way (%d pairs)",
                          signed_interval, duel->test.margin, look->count);
        break;
    case SEQUENTIAL_UNDECIDED:
        text = mem_format("Undecided after %d pairs: %s", look->count, signed_interval);
        break;
    case SEQUENTIAL_OPEN:
        text = look->count < duel->test.least
                   ? mem_format("No verdict yet: %d of at least %d pairs", look->count,
                                duel->test.least)
                   : mem_format("No verdict yet after %d pairs: %s", look->count, signed_interval);
        break;
    }
    free(signed_interval);
    return text;
}

char *duel_caution(const Duel *duel)
{
    Page text = {0};
    for (int side = 0; side < 2; side++) {
        if (duel->diverged[side] > 0) {
            page_put(&text,
                     "%s%c diverged in %d of %d runs; each counts with the loss of a model that "
                     "knows nothing, ln(vocabulary)",
                     text.size > 0 ? ". " : "", "AB"[side], duel -> diverged[side],
                     duel -> look.count);
        }
    }
    if (!duel->same_budget && isfinite(duel->tokens[0]) && isfinite(duel->tokens[1]) &&
        duel->tokens[0] != duel->tokens[1]) {
        page_put(&text, "%sThe budgets differ: A trains on %.0f tokens, B on %.0f",
                 text.size > 0 ? ". " : "", duel->tokens[0], duel->tokens[1]);
    }
    return text.text;
}

/* --- as data --- */

static cJSON *side_json(const Results *results, const Duel *duel, int side)
{
    cJSON *object = json_object(), *losses = json_array();
    char path[16];
    snprintf(path, sizeof path, "duel.%c", "ab"[side]);
    json_put_text(object, "given", json_text(results->json, path));
    json_put_text(object, "label", duel->labels[side]);
    for (int i = 0; i < duel->count; i++) {
        const DuelPair *pair = &duel->pairs[i];
        json_append(losses, pair->diverged[side] ? cJSON_CreateNull()
                                                 : cJSON_CreateNumber(pair->loss[side]));
    }
    json_put_item(object, "val_losses", losses);
    json_put_whole(object, "diverged", duel->diverged[side]);
    json_put_or_null(object, "tokens", value_finite(duel->tokens[side]));
    return object;
}

cJSON *duel_json(const Results *results, const Duel *duel)
{
    cJSON *tree = json_object();
    char *text = duel_sentence(duel), *caution = duel_caution(duel);
    json_put_whole(tree, "format", 1);
    json_put_text(tree, "verdict", duel_word(duel));
    json_put_text(tree, "text", text);
    json_put_text(tree, "caution", caution);
    json_put_whole(tree, "pairs", duel->look.count);
    json_put_or_null(tree, "difference", value_finite(duel->look.mean));
    json_put_or_null(tree, "low", value_finite(duel->look.low));
    json_put_or_null(tree, "high", value_finite(duel->look.high));
    json_put_or_null(tree, "p", value_finite(duel->look.p));
    json_put_or_null(tree, "tail", value_finite(duel->test.tail));
    json_put_number(tree, "error", duel->test.error);
    json_put_number(tree, "margin", duel->test.margin);
    json_put_whole(tree, "min_pairs", duel->test.least);
    json_put_whole(tree, "max_pairs", duel->test.most);
    json_put_item(tree, "a", side_json(results, duel, 0));
    json_put_item(tree, "b", side_json(results, duel, 1));
    json_put_text(tree, "dir", results->dir);
    free(text);
    free(caution);
    return tree;
}

void duel_table(const Duel *duel, Table *table)
{
    table_begin(table, mem_strdup("Pairs of the duel"),
                "#Pair|#A|#B|#B - A|#B - A so far|#low|#high");
    double differences[SEQUENTIAL_MOST];
    for (int i = 0; i < duel->count; i++) {
        const DuelPair *pair = &duel->pairs[i];
        differences[i] = pair->loss[1] - pair->loss[0];
        SequentialLook look = sequential_look(&duel->test, differences, i + 1);
        table_add_cell(table, mem_format("%d", i + 1));
        for (int side = 0; side < 2; side++) {
            table_add_cell(table, pair->diverged[side] ? mem_strdup("diverged")
                                                       : mem_format("%.4f", pair->loss[side]));
        }
        table_add_cell(table, mem_format("%+.4f", differences[i]));
        table_add_cell(table, mem_format("%+.4f", look.mean));
        table_add_cell(table, isnan(look.low) ? mem_strdup("-") : mem_format("%+.4f", look.low));
        table_add_cell(table, isnan(look.high) ? mem_strdup("-") : mem_format("%+.4f", look.high));
    }
    for (int side = 0; side < 2; side++) {
        table_add_note(table, mem_format("%c: %s", "AB"[side], duel -> labels[side]));
    }
    table_add_note(table,
                   mem_format("Validation losses in nats; intervals that hold at all looks "
                              "together but for one duel in %.3g (each look: Student's t with a "
                              "two-sided tail of %.3g). Smallest difference that matters: %g.",
                              1 / duel->test.error, duel->test.tail, duel->test.margin));
    char *caution = duel_caution(duel);
    if (caution != NULL) {
        table_add_note(table, caution);
    }
}

void rule_duel(const Results *results, Findings *findings)
{
    Duel duel;
    if (!duel_is(results) || duel_judge(results, &duel) != 0) {
        return;
    }
    char *text = duel_sentence(&duel), *caution = duel_caution(&duel);
    Finding *finding = findings_add(findings, FINDING_RESULT, RANK_ANSWER);
    page_put(&finding->text, "%s.", text);
    page_put(&finding->evidence, "A: %s; B: %s", duel.labels[0], duel.labels[1]);
    if (caution != NULL) {
        page_put(&findings_add(findings, FINDING_CAUTION, 0)->text, "%s.", caution);
    }
    free(text);
    free(caution);
}
