#include "audit/findings.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void add(Findings *findings, Finding finding, const char *format, va_list arguments)
{
    if (findings->count == FINDINGS_MAX) {
        findings->more++;
        return;
    }
    findings->items = mem_double(findings->items, (size_t)findings->count, sizeof *findings->items);
    size_t used = strlen(finding.text);
    vsnprintf(finding.text + used, sizeof finding.text - used, format, arguments);
    findings->items[findings->count++] = finding;
}

void finding_add(Findings *findings, FindingKind kind, const char *rule, int line,
                 const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add(findings, (Finding){.kind = kind, .rule = rule, .line = line, .record = -1}, format,
        arguments);
    va_end(arguments);
}

void finding_about(Findings *findings, FindingKind kind, const char *rule, int line, int record,
                   const char *format, ...)
{
    Finding finding = {.kind = kind, .rule = rule, .line = line, .record = record};
    evidence_text(findings->evidence, record, finding.text);
    if (finding.text[0] != '\0') {
        strcat(finding.text, ": ");
    }
    va_list arguments;
    va_start(arguments, format);
    add(findings, finding, format, arguments);
    va_end(arguments);
}

bool finding_said(const Findings *findings, int line)
{
    for (int i = 0; i < findings->count; i++) {
        if (findings->items[i].line == line && findings->items[i].kind == FINDING_DISAGREES) {
            return true;
        }
    }
    return false;
}
