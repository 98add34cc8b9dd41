#include "support/watched_run.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "support/own_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

char *watched_dir(void)
{
    static int number;
    char *dir = mem_format("%s/run%d", own_folder, number++);
    assert_int_equal(io_make_folders(dir), 0);
    return dir;
}

void watched_put(const char *dir, const char *name, const char *mode, const char *text)
{
    char *path = io_join(dir, name);
    FILE *file = fopen(path, mode);
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    free(path);
}

void watched_put_lines(const char *dir, int64_t from, int64_t to, double loss)
{
    for (int64_t step = from; step <= to; step++) {
        char *line = mem_format("{\"step\":%lld,\"tokens\":%lld,\"loss\":%g,\"lr\":0.001,"
                                "\"grad_norm\":0.5,\"tok_s\":%lld,\"ms\":20}\n",
                                (long long)step, (long long)(100 * step),
                                loss - 1e-3 * (double)step, (long long)(5000 + step));
        watched_put(dir, "metrics.jsonl", "a", line);
        free(line);
    }
}

void watched_put_running(const char *dir, cJSON *process, const char *host)
{
    cJSON *run = json_object();
    json_put_text(run, "id", "1a2b");
    json_put_text(run, "status", "running");
    char now[CLOCK_STAMP_SIZE];
    clock_stamp(now);
    json_put_text(run, "started", now);
    json_put_whole(run, "total_steps", 400);
    cJSON *machine = json_object();
    json_put_text(machine, "host", host);
    json_put_item(run, "machine", machine);
    json_put_item(run, "process", process);
    char *path = io_join(dir, "run.json");
    assert_int_equal(json_save(path, run), 0);
    free(path);
    cJSON_Delete(run);
}

const char *watched_own_host(void)
{
    static char host[256];
    gethostname(host, sizeof host - 1);
    return host;
}

WatchFlags watched_flags(int width, int height, bool utf8)
{
    return (WatchFlags){.width = width, .height = height, .utf8 = utf8, .keys = true};
}

/* The whole frame, lines ended by newlines. Caller frees. */
static char *frame_text(const WatchRun *run, WatchFlags flags)
{
    WatchText text;
    watch_view(run, &flags, &text);
    Page page = {0};
    page_put(&page, "%s", "");
    for (int i = 0; i < text.count; i++) {
        page_put(&page, "%s\n", text.lines[i].text);
    }
    watch_text_free(&text);
    return page.text;
}

void watched_assert_says(const WatchRun *run, WatchFlags flags, const char *words)
{
    char *text = frame_text(run, flags);
    if (strstr(text, words) == NULL) {
        fail_msg("'%s' is not in:\n%s", words, text);
    }
    free(text);
}
