/* Everything that the checks compare is computed from the configuration, the lines and the files
 * of the ranks; the verdicts that the run itself stored come last, to be compared with what was
 * found now. */
#include "metrics/recheck.h"

#include "base/io.h"
#include "base/json.h"
#include "metrics/recheck_files.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the checks need that run.json does not hold itself. */
static void settle_input(RunFile *run, const CheckLines *lines)
{
    CheckInput *in = &run->input;
    Summary *s = &run->summary;
    in->first_loss = lines->first_loss;
    if (s->steps.known && lines->per_step.known) {
        in->timed_tokens =
            value_of((s->steps.number - (double)in->steps_before) * lines->per_step.number);
    }
    Value before = lines->session_tokens;
    if (before.known && fabs(before.number) <= JSON_WHOLE_MAX) {
        in->tokens_before = (int64_t)before.number;
    } else {
        s->tokens =
            (Value){0}; /* what earlier sessions did is not known: nothing to compare with */
    }
}

static int read_verdict(JsonPlace place, const cJSON *item, CheckVerdict *verdict)
{
    char text[8];
    int code = json_read_text(place, item, "verdict", text, sizeof text);
    for (int i = CHECK_PASS; code == 0 && i <= CHECK_FAIL; i++) {
        if (strcmp(text, check_verdict_name((CheckVerdict)i)) == 0) {
            *verdict = (CheckVerdict)i;
            return 0;
        }
    }
    return code != 0 ? code : json_wrong(place, "verdict", "pass, warn or fail");
}

/* Adds "tokens was pass, is fail" to the subject. */
static void describe(char subject[CHECK_SUBJECT_SIZE], const char *name, CheckVerdict stored,
                     const Check *now)
{
    size_t used = strlen(subject);
    snprintf(subject + used, CHECK_SUBJECT_SIZE - used, "%s%s was %s, %s%s", used > 0 ? "; " : "",
             name, check_verdict_name(stored), now != NULL ? "is " : "cannot be repeated",
             now != NULL ? check_verdict_name(now->verdict) : "");
}

#define STORED "stored"

/* A verdict that was better than what the same record gives now was not made from this record. */
static int compare_stored(const char *path, const cJSON *stored, Checks *checks)
{
    if (stored == NULL || cJSON_GetArraySize(stored) == 0) {
        return 0;
    }
    char subject[CHECK_SUBJECT_SIZE] = "";
    CheckVerdict verdict = CHECK_PASS;
    double total = 0, agree = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, stored)
    {
        JsonPlace place = {path, "summary.checks"};
        char name[32];
        CheckVerdict then = CHECK_FAIL;
        int code = json_read_text(place, item, "name", name, sizeof name);
        code = code != 0 ? code : read_verdict(place, item, &then);
        if (code != 0) {
            return code;
        }
        if (strcmp(name, STORED) == 0) {
            continue; /* this very comparison, made when the run ended */
        }
        const Check *now = checks_find(checks, name);
        total++;
        if (now != NULL && now->verdict == then) {
            agree++;
            continue;
        }
        bool worse = now != NULL && now->verdict == CHECK_FAIL;
        verdict = worse || verdict == CHECK_FAIL ? CHECK_FAIL : CHECK_WARN;
        describe(subject, name, then, now);
    }
    checks_add(checks, STORED, verdict, total, agree,
               "verdicts in run.json that its numbers give again; else it was changed, or is wrong",
               subject);
    return 0;
}

/* Leaves out files of ranks that the last session did not have and that say themselves that they
 * were of another: pacer 0.1 kept those of an earlier session with more ranks. */
static size_t own_ranks(const CheckRank *ranks, size_t count, int64_t of)
{
    while (count > 0 && ranks[count - 1].rank >= of && ranks[count - 1].ranks != of) {
        count--;
    }
    return count;
}

int recheck_dir(const char *dir, Checks *checks)
{
    *checks = (Checks){0};
    RunFile run;
    CheckRank *ranks = NULL;
    size_t count = 0;
    int code = run_file_read(dir, &run);
    if (code != 0) {
        return code;
    }
    code = rank_files_read(dir, &ranks, &count);
    if (run.input.ranks == 0) {
        run.input.ranks = count > 0 ? ranks[0].ranks : 1;
    }
    if (run.input.ranks > 1) { /* the phases of the summary are the first rank's */
        bool known = count > 0 && ranks[0].rank == 0 && ranks[0].wall_s.known;
        run.phases.wall_s = known ? ranks[0].wall_s.number : NAN;
    }
    Value per_step = {run.per_step.known, run.per_step.number * (double)run.input.ranks};
    CheckLines lines;
    check_lines_begin(&lines, run.starts, run.sessions, per_step);
    code = code != 0 ? code : line_file_read(dir, &lines);
    if (code == 0) {
        settle_input(&run, &lines);
        checks_run(&run.summary, &run.input, checks);
        check_lines_end(&lines, &run.summary, &run.input, checks);
        if (run.has_summary && run.status != RUN_RUNNING) { /* else of the session before */
            checks_ranks(&run.summary, &run.input, ranks, own_ranks(ranks, count, run.input.ranks),
                         checks);
        }
        char *path = io_join(dir, "run.json");
        code = compare_stored(path, run.stored, checks);
        free(path);
    }
    if (code != 0) {
        *checks = (Checks){0};
    }
    free(ranks);
    run_file_free(&run);
    return code;
}
