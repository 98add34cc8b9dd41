/* What is stored of a machine's ceilings: whatever it is, a run finds a number and a date that it
 * can print, or nothing, and stores its own over it. */
#include "fuzz/fuzz.h"

#include "base/assert.h"
#include "base/io.h"
#include "base/mem.h"
#include "record/ceilings.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const CeilingKey key = {"host", "A Device / 80 GB", "library 1"};

static Ceilings measured(void)
{
    Ceilings c = {.key = key, .count = 2};
    c.items[0] = (Ceiling){.name = "copy", .unit = "B/s", .how = "so", .value = 100, .best = 100};
    c.items[1] = (Ceiling){
        .name = "launch", .unit = "s", .how = "so", .value = 1, .best = 1, .is_time = true};
    snprintf(c.items[0].date, sizeof c.items[0].date, "2026-01-01");
    snprintf(c.items[1].date, sizeof c.items[1].date, "2026-01-01");
    return c;
}

static bool find(const char *name, double *value)
{
    char date[CLOCK_STAMP_SIZE];
    if (!ceilings_find(&key, name, value, date)) {
        return false;
    }
    PACER_ASSERT(*value > 0 && isfinite(*value), "%s is %g", name, *value);
    for (const char *at = date; *at != '\0'; at++) {
        PACER_ASSERT(*at >= ' ' && *at <= '~', "%s is of %s", name, date);
    }
    return true;
}

/* Where the file is: the first call makes one. In the folder of this process, beside no other. */
static const char *stored_file(void)
{
    static char name[256];
    if (name[0] == '\0') {
        setenv("XDG_CACHE_HOME", fuzz_folder(), 1);
        unsetenv("PACER_TUNE");
        unsetenv("PACER_TUNE_CACHE");
        Ceilings c = measured();
        PACER_ASSERT(ceilings_store(&c) == 0, "nothing can be stored in %s", fuzz_folder());
        char *folder = io_join(fuzz_folder(), "pacer");
        DIR *list = opendir(folder);
        for (struct dirent *entry; list != NULL && (entry = readdir(list)) != NULL;) {
            if (strncmp(entry->d_name, "ceilings-", 9) == 0) {
                snprintf(name, sizeof name, "pacer/%.240s", entry->d_name);
            }
        }
        PACER_ASSERT(list != NULL && name[0] != '\0', "no file of ceilings in %s", folder);
        closedir(list);
        free(folder);
    }
    return name;
}

/* What was stored is found again, but for the last digit, which JSON may not have. */
static void expect_found(const char *name, double stored)
{
    double value = NAN;
    PACER_ASSERT(find(name, &value) && fabs(value - stored) <= 1e-14 * stored, "%s: %g after %g",
                 name, value, stored);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    double rate, time;
    fuzz_file(stored_file(), data, size);
    bool had_rate = find("copy", &rate), had_time = find("launch", &time);
    Ceilings c = measured();
    fuzz_forget();
    int code = ceilings_store(&c);
    fuzz_expect(code);
    PACER_ASSERT(code == 0, "not stored over %zu bytes", size);
    PACER_ASSERT(c.items[0].best == (had_rate && rate > 100 ? rate : 100), "%g", c.items[0].best);
    PACER_ASSERT(c.items[1].best == (had_time && time < 1 ? time : 1), "%g", c.items[1].best);
    expect_found("copy", c.items[0].best);
    expect_found("launch", c.items[1].best);
    return 0;
}
