#include "audit/audit.h"

#include "base/err.h"
#include "base/escape.h"
#include "base/mem.h"
#include "base/show.h"

#include <stdlib.h>
#include <string.h>

int audit_file(const char *path, const Names *names, Audit *audit)
{
    Document document;
    *audit = (Audit){.facts = 0};
    int code = document_read(path, &document);
    if (code != 0) {
        return code;
    }
    Evidence evidence;
    evidence_read(&evidence, &document, names);
    audit->cut = evidence.cut || document.cut;
    audit->facts = evidence.fact_count;
    evidence.peak = limits_peak(&evidence);
    audit->findings.evidence = &evidence;
    if (audit->facts > 0) {
        rules_run(&evidence, &audit->findings);
        rules_limits(&evidence, &audit->findings);
        rules_scaling(&evidence, &audit->findings);
        rules_sweep(&evidence, &audit->findings);
        rules_columns(&evidence, &audit->findings);
    }
    rules_grid(&evidence, &audit->findings);
    rules_text(&evidence, &audit->findings);
    rules_quotes(&evidence, &audit->findings);
    if (audit->facts == 0 && audit->findings.compared == 0) {
        char list[1024];
        code = err_set(ERR_INPUT,
                       "%s: no quantity of a training run recognised in its columns and words; "
                       "looked for %s. --map 'their name=quantity' tells what a name means",
                       path, quantity_list(list));
    }
    audit->findings.evidence = NULL;
    evidence_free(&evidence);
    document_free(&document);
    return code;
}

void audit_free(Audit *audit)
{
    free(audit->findings.items);
    *audit = (Audit){.facts = 0};
}

int audit_count(const Audit *audit, FindingKind kind)
{
    int count = 0;
    for (int i = 0; i < audit->findings.count; i++) {
        count += audit->findings.items[i].kind == kind;
    }
    return count;
}

static int by_line(const void *left, const void *right)
{
    const Finding *a = *(const Finding *const *)left, *b = *(const Finding *const *)right;
    return a->line != b->line ? a->line - b->line : (a > b) - (a < b);
}

/* Everything of one kind: rule after rule, each in order of lines. */
static void print_kind(const Findings *findings, FindingKind kind, const char *path, FILE *file)
{
    static const char *const heads[] = {"note", "warning", "disagrees"};
    size_t size = (size_t)findings->count + 1;
    bool *printed = mem_zalloc(size, sizeof *printed);
    const Finding **same = mem_zalloc(size, sizeof *same);
    for (int i = 0; i < findings->count; i++) {
        const char *rule = findings->items[i].rule;
        int count = 0;
        for (int k = i; k < findings->count; k++) {
            const Finding *finding = &findings->items[k];
            if (!printed[k] && finding->kind == kind && strcmp(finding->rule, rule) == 0) {
                printed[k] = true;
                same[count++] = finding;
            }
        }
        qsort(same, (size_t)count, sizeof *same, by_line);
        for (int k = 0; k < count; k++) {
            if (k == 0) {
                fprintf(file, "%s: %s\n", heads[kind], rule);
            }
            escape_printf(file, "  %s:%d: %s\n", path, same[k]->line, same[k]->text);
        }
    }
    free(same);
    free(printed);
}

void audit_print(const Audit *audit, const char *path, FILE *file)
{
    print_kind(&audit->findings, FINDING_DISAGREES, path, file);
    print_kind(&audit->findings, FINDING_WARNING, path, file);
    print_kind(&audit->findings, FINDING_NOTE, path, file);
    int disagree = audit_count(audit, FINDING_DISAGREES);
    int warnings = audit_count(audit, FINDING_WARNING);
    if (audit->findings.more > 0) {
        fprintf(file, "%d further findings are not listed\n", audit->findings.more);
    }
    if (audit->cut) {
        escape_printf(file, "%s: longer than the audit reads; only its beginning was looked at\n",
                      path);
    }
    if (audit->findings.compared == 0 && audit->findings.count == 0) {
        escape_printf(file,
                      "%s: %d number%s recognised, none of them compared: this says nothing about "
                      "the page\n",
                      path, audit->facts, show_plural(audit->facts));
        return;
    }
    escape_printf(file,
                  "%s: %d disagree%s, %d warning%s, %ld comparison%s, %d number%s recognised\n",
                  path, disagree, disagree == 1 ? "s" : "", warnings, show_plural(warnings),
                  audit->findings.compared, show_plural(audit->findings.compared), audit->facts,
                  show_plural(audit->facts));
}
