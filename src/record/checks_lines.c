/* The lines of metrics.jsonl, one after the other. Within a session tokens grow by the same
 * amount with each step. Of the last session that amount is known from the configuration; of an
 * earlier one, whose batch may have been another, its first line tells it and the others must
 * follow. */
#include "record/checks.h"

#include <math.h>
#include <stdio.h>

void check_lines_begin(CheckLines *lines, const double *starts, size_t sessions, Value per_step)
{
    *lines = (CheckLines){.starts = starts, .sessions = sessions, .per_step = per_step};
    lines->anchored = true; /* a run begins with no tokens at step 0 */
    if (sessions == 0) {
        lines->slope = per_step;
        lines->session_tokens = value_of(0);
    }
}

void check_lines_ramp(CheckLines *lines, const CheckRamp *ramp, size_t rows)
{
    lines->ramp = ramp;
    lines->ramp_rows = rows;
    if (rows > 0) {
        lines->session_tokens = value_of(ramp[0].tokens);
    }
}

double check_ramp_tokens(const CheckRamp *ramp, size_t rows, double step)
{
    size_t at = rows - 1;
    while (at > 0 && ramp[at].step > step) {
        at--;
    }
    return ramp[at].tokens + (step - ramp[at].step) * ramp[at].per_step;
}

/* Goes on to the session that the step belongs to, with the tokens that it began with if they
 * follow. */
static void enter_session(CheckLines *lines, double step)
{
    while (lines->session < lines->sessions && lines->starts[lines->session] < step) {
        double start = lines->starts[lines->session++];
        lines->anchored = lines->anchored && lines->slope.known && !lines->ramp_before;
        if (lines->anchored) {
            lines->anchor_tokens += lines->slope.number * (start - lines->anchor_step);
            lines->anchor_step = start;
        }
        bool last = lines->session == lines->sessions;
        lines->slope = last ? lines->per_step : (Value){0};
        if (last) {
            lines->session_from = start;
            lines->session_s = 0;
            lines->session_tokens = lines->ramp_rows > 0 ? value_of(lines->ramp[0].tokens)
                                    : lines->anchored    ? value_of(lines->anchor_tokens)
                                                         : (Value){0};
        }
    }
}

/* Keeps the first one at fault, else the latest. */
static void note(CheckFinding *finding, bool good, long line, double expected, double found)
{
    if (finding->line == 0) {
        *finding = (CheckFinding){true, good ? 0 : line, expected, found};
    }
}

static bool in_last_session(const CheckLines *lines)
{
    return lines->session == lines->sessions;
}

static void take_tokens(CheckLines *lines, double step, double tokens, long number)
{
    if (!lines->anchored) {
        lines->anchored = true;
        lines->anchor_step = step;
        lines->anchor_tokens = tokens;
        if (in_last_session(lines) && lines->slope.known) {
            double since = step - lines->starts[lines->sessions - 1];
            lines->session_tokens = value_of(tokens - since * lines->slope.number);
        }
        return;
    }
    double steps = step - lines->anchor_step;
    if (!lines->slope.known && steps > 0) {
        lines->slope = value_of(floor((tokens - lines->anchor_tokens) / steps));
    }
    if (lines->slope.known) {
        double expected = lines->anchor_tokens + lines->slope.number * steps;
        bool good = tokens == expected && lines->slope.number > 0;
        note(&lines->tokens, good, number, expected, tokens);
    }
}

/* The same by the ramp; returns the mean tokens of a step since the line before. */
static Value take_ramp(CheckLines *lines, double step, double tokens, long number)
{
    double expected = check_ramp_tokens(lines->ramp, lines->ramp_rows, step);
    double before = check_ramp_tokens(lines->ramp, lines->ramp_rows, lines->session_from);
    note(&lines->tokens, tokens == expected, number, expected, tokens);
    return (Value){step > lines->session_from, (expected - before) / (step - lines->session_from)};
}

/* Training lines rise by themselves, evaluations too, and none falls behind a line before it. */
static void take_step(CheckLines *lines, double step, bool training, long number)
{
    Value *own = training ? &lines->last_step : &lines->last_eval;
    double before = own->known ? own->number : training ? 0 : -1;
    bool good = step > before && (!lines->latest.known || step >= lines->latest.number);
    double least = lines->latest.known ? fmax(before, lines->latest.number) : before;
    note(&lines->steps, good, number, good ? step : least, step);
    *own = lines->latest = value_of(step);
}

int check_lines_take(void *context, const cJSON *line, const char *where, long number)
{
    CheckLines *lines = context;
    JsonReader reader = {.path = where, .inside = ""};
    Value at = json_read_count(&reader, line, "step");
    if (!at.known) {
        json_wrong(&reader, "step", "a whole number");
    }
    Value tokens = json_read_count(&reader, line, "tokens"); /* missing: an evaluation's line */
    Value loss = json_read_number(&reader, line, "loss");
    Value tok_s = json_read_number(&reader, line, "tok_s");
    Value ms = json_read_number(&reader, line, "ms");
    Value val_loss = json_read_number(&reader, line, "val_loss");
    if (reader.code != 0) {
        return reader.code;
    }
    double step = at.number;
    take_step(lines, step, tokens.known, number);
    enter_session(lines, step);
    if (!tokens.known) {
        if (val_loss.known) {
            lines->last_val = val_loss;
            if (!(lines->best_val.known && lines->best_val.number <= val_loss.number)) {
                lines->best_val = val_loss;
            }
        }
        return 0;
    }
    Value per_step = {0}; /* mean since the line before */
    if (lines->ramp_rows == 0 && (in_last_session(lines) || !lines->ramp_before)) {
        take_tokens(lines, step, tokens.number, number);
        per_step = lines->slope;
    } else if (lines->ramp_rows > 0 && in_last_session(lines)) {
        per_step = take_ramp(lines, step, tokens.number, number);
    }
    if (ms.known && tok_s.known && per_step.known) {
        double expected = per_step.number, found = 1e-3 * ms.number * tok_s.number;
        bool good =
            ms.number >= 0 && fabs(found - expected) <= CHECK_LINE_RATE_SLACK * fabs(expected);
        note(&lines->rate, good, number, expected, found);
    }
    lines->last_loss = loss;
    if (step == 1) {
        lines->first_loss = loss;
    }
    if (in_last_session(lines)) {
        lines->session_s += 1e-3 * (ms.known ? ms.number : NAN) * (step - lines->session_from);
        lines->session_from = step;
    }
    return 0;
}

static void add_finding(Checks *checks, const char *name, const CheckFinding *finding)
{
    char subject[CHECK_SUBJECT_SIZE] = "";
    if (finding->line > 0) {
        snprintf(subject, sizeof subject, "metrics.jsonl:%ld", finding->line);
    }
    if (finding->seen) {
        checks_add(checks, name, finding->line == 0, finding->expected, finding->found, subject);
    }
}

static void compare(const CheckLines *lines, const Summary *s, const CheckInput *in, Checks *checks)
{
    bool has_last = lines->last_step.known && s->steps.known;
    bool at_end = has_last && lines->last_step.number == s->steps.number;
    if (!has_last && in->complete && s->steps.known && s->steps.number > 0) {
        checks_add(checks, "last_line", false, s->steps.number, 0, "metrics.jsonl has none");
    }
    if (has_last) {
        bool good = in->complete ? at_end : lines->last_step.number <= s->steps.number;
        checks_add(checks, "last_line", good, s->steps.number, lines->last_step.number, NULL);
    }
    if (at_end && s->train_s.known && in_last_session(lines) && !isnan(lines->session_s)) {
        double expected = s->train_s.number, found = lines->session_s;
        double slack = CHECK_THROUGHPUT_SLACK * expected;
        bool good = in->ranks == 1 ? fabs(found - expected) <= slack : found <= expected + slack;
        checks_add(checks, "line_time", good, expected, found, NULL);
    }
    if (at_end) {
        checks_agree(checks, "train_loss", lines->last_loss, s->train_loss, CHECK_ROUNDING);
    }
    checks_agree(checks, "val_loss", lines->last_val, s->val_loss, CHECK_ROUNDING);
    /* A run that went on from another one's checkpoint has that one's best as well. */
    if (s->best_val_loss.known && lines->best_val.known) {
        double best = lines->best_val.number, found = s->best_val_loss.number;
        double slack = CHECK_ROUNDING * fabs(best);
        bool good = found <= best + slack && (!lines->first_loss.known || found >= best - slack);
        checks_add(checks, "best_val_loss", good, best, found, NULL);
    }
}

void check_lines_end(CheckLines *lines, const Summary *summary, const CheckInput *input,
                     Checks *checks)
{
    add_finding(checks, "line_steps", &lines->steps);
    add_finding(checks, "line_tokens", &lines->tokens);
    add_finding(checks, "line_rate", &lines->rate);
    compare(lines, summary, input, checks);
}
