#include "audit/findings.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void finding_add(Findings *findings, FindingKind kind, const char *rule, int line, int run,
                 const char *format, ...)
{
    if (findings->count == FINDINGS_MAX) {
        findings->more++;
        return;
    }
    if ((findings->count & (findings->count - 1)) == 0) { /* a power of two: full */
        size_t capacity = findings->count > 0 ? 2 * (size_t)findings->count : 1;
        findings->items = mem_realloc(findings->items, capacity, sizeof *findings->items);
    }
    Finding *finding = &findings->items[findings->count++];
    *finding = (Finding){.kind = kind, .rule = rule, .line = line, .run = run};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(finding->text, sizeof finding->text, format, arguments);
    va_end(arguments);
}

bool finding_said(const Findings *findings, const char *rule, int run)
{
    for (int i = 0; i < findings->count; i++) {
        if (findings->items[i].run == run && strcmp(findings->items[i].rule, rule) == 0) {
            return true;
        }
    }
    return false;
}

const char *finding_run(const Evidence *evidence, int run, char text[FINDING_RUN_SIZE])
{
    evidence_run_text(evidence, run, text);
    if (text[0] != '\0') {
        strcat(text, ": ");
    }
    return text;
}
