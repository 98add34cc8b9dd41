/* A foreign results file: the first byte decides whether it is called Markdown or CSV. */
#include "fuzz/fuzz.h"

#include "audit/audit.h"
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool csv = size > 0 && data[0] == 'C';
    const char *path = fuzz_file(csv ? "results.csv" : "results.md", data, size);
    Audit audit;
    fuzz_forget();
    int code = audit_file(path, &(Names){NULL, 0}, &audit);
    fuzz_expect(code);
    PACER_ASSERT(code == 0 || audit.findings.count == 0, "%d findings", audit.findings.count);
    for (int i = 0; i < audit.findings.count; i++) {
        PACER_ASSERT(audit.findings.items[i].line > 0, "line %d", audit.findings.items[i].line);
    }
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    audit_print(&audit, "results", file);
    fclose(file);
    PACER_ASSERT(length > 0, "nothing printed");
    free(text);
    audit_free(&audit);
    return 0;
}
