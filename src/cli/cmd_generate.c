/* `pacer generate`: a prompt, the texts that go on from it to standard output, what it took to
 * standard error, and all of it as JSON.
 *
 * A terminal is shown whole characters as they come, control characters and bytes that are no
 * text as \xNN, and the prompt before them. A pipe or file gets the bytes of the text as they
 * are. */
#include "api/internal.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/output.h"
#include "base/show.h"
#include "base/signals.h"
#include "cli/commands.h"
#include "text/unicode.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROMPT_LIMIT ((size_t)64 << 20)

typedef struct {
    const Config *cfg;
    LoadedModel loaded;
    ByteList prompt;
    TokenList tokens; /* of the prompt */
    char **stops;     /* NULL-terminated */
    Written written;
    double load_seconds;
    bool terminal, echo; /* of standard output; whether the prompt is shown there */
    bool stream, mute;   /* told as it is made; not at all, JSON being in its place */
} Generation;

/* --- what is asked --- */

static int read_standard_input(ByteList *out)
{
    uint8_t part[65536];
    if (isatty(STDIN_FILENO)) {
        log_info("Type the prompt and end it with Ctrl-D");
    }
    for (ssize_t size = 1; size > 0;) {
        size = read(STDIN_FILENO, part, sizeof part);
        if (size < 0 && errno == EINTR) {
            size = 1;
            continue;
        }
        if (size < 0) {
            return err_set(ERR_INPUT, "--prompt -: cannot read standard input: %s",
                           strerror(errno));
        }
        byte_list_add(out, part, (size_t)size);
        if (out->size > PROMPT_LIMIT) {
            return err_set(ERR_INPUT, "--prompt -: standard input is longer than %zu MiB",
                           PROMPT_LIMIT >> 20);
        }
    }
    return 0;
}

static int read_prompt(Generation *g)
{
    const char *text = g->cfg->prompt;
    ByteList *prompt = &g->prompt;
    if (strcmp(text, "-") == 0) {
        int code = read_standard_input(prompt);
        size_t mark = code == 0 ? utf8_mark(prompt->bytes, prompt->size) : 0;
        if (mark > 0) {
            prompt->size -= mark;
            memmove(prompt->bytes, prompt->bytes + mark, prompt->size);
        }
        return code;
    }
    byte_list_add(&g->prompt, text, strlen(text));
    return 0;
}

/* --- text out --- */

static int put_text(const Generation *g, const uint8_t *text, size_t size)
{
    if (g->terminal) {
        escape_write(stdout, text, size, true);
    } else {
        fwrite(text, 1, size, stdout);
    }
    fflush(stdout);
    return output_check_stdout();
}

static int tell(void *user, int64_t sample, const uint8_t *text, size_t size)
{
    (void)sample;
    return put_text(user, text, size);
}

/* A text ends with its line, whatever the model wrote. */
static void end_line(const Generation *g, const ByteList *text)
{
    const ByteList *last = text->size > 0 || !g->echo ? text : &g->prompt;
    if (last->size > 0 && last->bytes[last->size - 1] != '\n') {
        fputc('\n', stdout);
    }
}

static int print_texts(const Generation *g)
{
    int code = 0;
    for (int64_t s = 0; code == 0 && s < g->written.samples; s++) {
        const ByteList *text = &g->written.texts[s].text;
        if (g->written.samples > 1) {
            printf("%s=== sample %lld ===\n", s > 0 ? "\n" : "", (long long)s + 1);
        }
        if (!g->stream && g->echo) {
            put_text(g, g->prompt.bytes, g->prompt.size);
        }
        if (!g->stream) {
            code = put_text(g, text->bytes, text->size);
        }
        end_line(g, text);
    }
    fflush(stdout);
    return code;
}

static void say_summary(const Generation *g)
{
    const Written *w = &g->written;
    char trained[48] = "";
    if (g->loaded.step >= 0) {
        snprintf(trained, sizeof trained, " after %lld step%s", (long long)g->loaded.step,
                 show_plural(g->loaded.step));
    }
    if (w->tokens > 0) {
        log_info("%lld token%s in %.2f s: %.1f tok/s (prompt of %zu token%s in %.2f s)",
                 (long long)w->tokens, show_plural(w->tokens), w->seconds,
                 (double)w->tokens / w->seconds, g->tokens.count,
                 show_plural((int64_t)g->tokens.count), w->prompt_seconds);
    }
    log_info("%s%s, %lld parameters in %s on %s, read in %.2f s; seed %lld",
             g->loaded.model.spec.name, trained, (long long)g->loaded.model.params.parameters,
             dtype_name(g->loaded.weights.dtype), backend_title(g->loaded.backend), g->load_seconds,
             (long long)g->cfg->seed);
}

/* --- JSON --- */

/* Text for JSON, which is UTF-8 without exception: a byte that is none becomes U+FFFD. */
static void put_json_text(cJSON *object, const char *name, const ByteList *text)
{
    char *clean = mem_alloc(text->size * 3 + 1), *to = clean;
    for (size_t at = 0; at < text->size;) {
        int length;
        uint32_t character = utf8_decode(text->bytes + at, text->size - at, &length);
        at += (size_t)length;
        to += utf8_encode(character != 0 ? character : UTF8_REPLACEMENT, (uint8_t *)to);
    }
    *to = '\0';
    json_put_text(object, name, clean);
    free(clean);
}

static void put_tokens(cJSON *object, const char *name, const TokenList *tokens)
{
    cJSON *array = json_put_array(object, name);
    for (size_t i = 0; i < tokens->count; i++) {
        json_append(array, cJSON_CreateNumber(tokens->ids[i]));
    }
}

static cJSON *settings_json(const Generation *g)
{
    const Config *cfg = g->cfg;
    cJSON *object = json_object();
    json_put_whole(object, "max_tokens", cfg->max_tokens);
    json_put_whole(object, "samples", cfg->samples);
    json_put_number(object, "temperature", cfg->temperature);
    json_put_whole(object, "top_k", cfg->top_k);
    json_put_number(object, "top_p", cfg->top_p);
    json_put_whole(object, "seed", cfg->seed);
    cJSON *stops = json_put_array(object, "stop");
    for (char **stop = g->stops; *stop != NULL; stop++) {
        json_append_text(stops, *stop);
    }
    json_put_bool(object, "cache", cfg->cache);
    return object;
}

static cJSON *texts_json(const Written *written)
{
    cJSON *array = json_array();
    for (int64_t s = 0; s < written->samples; s++) {
        const WrittenText *text = &written->texts[s];
        cJSON *object = json_object();
        put_json_text(object, "text", &text->text);
        put_tokens(object, "tokens", &text->tokens);
        json_put_text(object, "reason", wrote_reason_name(text->reason));
        json_append(array, object);
    }
    return array;
}

static cJSON *timing_json(const Generation *g)
{
    const Written *w = &g->written;
    cJSON *object = json_object();
    json_put_number(object, "load_s", g->load_seconds);
    json_put_number(object, "prompt_s", w->prompt_seconds);
    json_put_number(object, "generate_s", w->seconds);
    json_put_whole(object, "tokens", w->tokens);
    json_put(object, "tokens_per_s",
             w->tokens > 0 ? value_of((double)w->tokens / w->seconds) : (Value){0});
    return object;
}

static int write_json(const Generation *g)
{
    const LoadedModel *loaded = &g->loaded;
    cJSON *object = json_object();
    json_put_text(object, "path", loaded->path);
    json_put_text(object, "model", loaded->model.spec.name);
    json_put_whole(object, "parameters", loaded->model.params.parameters);
    if (loaded->step >= 0) {
        json_put_whole(object, "step", loaded->step);
    }
    json_put_text(object, "device", backend_title(g->loaded.backend));
    json_put_text(object, "dtype", dtype_name(loaded->weights.dtype));
    put_json_text(object, "prompt", &g->prompt);
    put_tokens(object, "prompt_tokens", &g->tokens);
    json_put_item(object, "settings", settings_json(g));
    json_put_item(object, "samples", texts_json(&g->written));
    json_put_item(object, "timing", timing_json(g));
    return json_write(g->cfg->json, object);
}

/* --- the command --- */

static int load(Generation *g, Config *cfg)
{
    double start = clock_seconds();
    int code = loaded_open(&g->loaded, cfg->argv[0], cfg, NULL);
    g->load_seconds = clock_seconds() - start;
    code =
        code != 0 ? code : writer_prompt(&g->loaded, g->prompt.bytes, g->prompt.size, &g->tokens);
    const ModelSpec *spec = &g->loaded.model.spec;
    if (code == 0 && spec->mixer != MIXER_TTT && (int64_t)g->tokens.count > spec->context) {
        log_warn("the prompt has %zu tokens and the model's context %lld: it does not see the "
                 "first %lld",
                 g->tokens.count, (long long)spec->context,
                 (long long)g->tokens.count - (long long)spec->context);
    }
    return code;
}

static int write_texts(Generation *g)
{
    const Config *cfg = g->cfg;
    if (g->stream && g->echo) {
        put_text(g, g->prompt.bytes, g->prompt.size);
    }
    int code =
        api_write(&g->loaded, cfg, g->stops, &g->tokens, g->stream ? tell : NULL, g, &g->written);
    code = code != 0 || g->mute ? code : print_texts(g);
    if (code == 0) {
        say_summary(g);
        code = cfg->json[0] != '\0' ? write_json(g) : 0;
    }
    int pending = signals_pending();
    return code != 0 || pending == 0
               ? code
               : err_set(pending, "stopped after %lld token%s", (long long)g->written.tokens,
                         show_plural(g->written.tokens));
}

int cmd_generate(Config *cfg)
{
    Generation g = {.cfg = cfg, .terminal = isatty(STDOUT_FILENO)};
    g.mute = strcmp(cfg->json, "-") == 0;
    g.stream = cfg->stream && cfg->samples == 1 && !g.mute;
    g.echo = g.terminal && strcmp(cfg->prompt, "-") != 0;
    g.stops = stops_read(cfg->stop);
    int code = read_prompt(&g); /* before signals are caught: Ctrl-C ends the wait for it */
    signals_install();
    signal(SIGPIPE, SIG_DFL); /* nothing is lost when a reader goes away (pacer generate | head) */
    code = code != 0 ? code : load(&g, cfg);
    code = code != 0 ? code : write_texts(&g);
    stops_free(g.stops);
    written_free(&g.written);
    token_list_free(&g.tokens);
    byte_list_free(&g.prompt);
    loaded_close(&g.loaded);
    return code;
}
