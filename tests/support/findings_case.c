#include "support/findings_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

void findings_case_start(FindingsCase *one, const char *more)
{
    *one = (FindingsCase){0};
    planted_begin(&one->experiment, more);
}

void findings_case_conclude(FindingsCase *one)
{
    planted_read(&one->experiment, &one->results);
    findings_make(&one->results, &one->findings);
}

void findings_case_end(FindingsCase *one)
{
    findings_free(&one->findings);
    results_free(&one->results);
    planted_end(&one->experiment);
}

const Finding *find_finding(const FindingsCase *one, const char *words)
{
    for (int i = 0; i < one->findings.count; i++) {
        if (strstr(one->findings.items[i].text.text, words) != NULL) {
            return &one->findings.items[i];
        }
    }
    return NULL;
}

void expect_finding(const FindingsCase *one, FindingKind kind, const char *words,
                    const char *evidence)
{
    const Finding *finding = find_finding(one, words);
    if (finding == NULL) {
        for (int i = 0; i < one->findings.count; i++) {
            print_message("found: %s [%s]\n", one->findings.items[i].text.text,
                          one->findings.items[i].evidence.text);
        }
        fail_msg("not found: %s", words);
    }
    assert_int_equal(finding->kind, kind);
    if (strstr(finding->evidence.text, evidence) == NULL) {
        fail_msg("\"%s\" has the evidence \"%s\" without \"%s\"", words, finding->evidence.text,
                 evidence);
    }
}

void expect_no_finding(const FindingsCase *one, const char *words)
{
    const Finding *finding = find_finding(one, words);
    if (finding != NULL) {
        fail_msg("found, but not so: %s", finding->text.text);
    }
}
