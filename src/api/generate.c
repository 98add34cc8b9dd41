/* Text from a model, by options: what pacer_generate and `pacer generate` have in common. */
#include "api/internal.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/show.h"
#include "base/signals.h"

#include <stdlib.h>
#include <string.h>

/* A line of --stop, in which \n, \t and \\ stand for what cannot be in it. */
static char *stop_text(const char *line, size_t size)
{
    char *text = mem_alloc(size + 1), *to = text;
    for (size_t i = 0; i < size; i++) {
        char next = line[i] == '\\' && i + 1 < size ? line[i + 1] : '\0';
        bool escape = next == 'n' || next == 't' || next == '\\';
        *to++ = !escape ? line[i] : next == 'n' ? '\n' : next == 't' ? '\t' : '\\';
        i += escape;
    }
    *to = '\0';
    return text;
}

char **stops_read(const char *lines)
{
    size_t count = 0;
    char **stops = mem_zalloc(1, sizeof *stops);
    for (const char *line = lines; *line != '\0';) {
        size_t size = strcspn(line, "\n");
        if (size > 0) {
            stops = mem_realloc(stops, count + 2, sizeof *stops);
            stops[count++] = stop_text(line, size);
            stops[count] = NULL;
        }
        line += size + (line[size] == '\n');
    }
    return stops;
}

void stops_free(char **stops)
{
    for (char **stop = stops; *stop != NULL; stop++) {
        free(*stop);
    }
    free(stops);
}

int api_write(LoadedModel *loaded, const Config *cfg, char **stops, const TokenList *prompt,
              WriterTell *tell, void *user, Written *out)
{
    WriterSettings settings = {.sampling = {.temperature = cfg->temperature,
                                            .top_k = cfg->top_k,
                                            .top_p = cfg->top_p,
                                            .seed = (uint64_t)cfg->seed},
                               .samples = cfg->samples,
                               .max_tokens = cfg->max_tokens,
                               .threads = config_threads(cfg),
                               .cached = cfg->cache,
                               .stops = (const char *const *)stops,
                               .interrupted = signals_pending,
                               .tell = tell,
                               .user = user};
    return writer_run(loaded, prompt, &settings, out);
}

/* --- as a function of the library --- */

typedef struct {
    pacer_text_function *function;
    void *user;
} TextCallback;

static int tell_text(void *user, int64_t sample, const uint8_t *text, size_t size)
{
    const TextCallback *callback = user;
    if (callback->function((const char *)text, size, sample, callback->user) != 0) {
        signals_request(ERR_INTERRUPTED);
    }
    return 0;
}

int pacer_generate(pacer_model *model, const pacer_options *options, const char *prompt,
                   size_t size, pacer_text_function *on_text, void *user, pacer_result **result)
{
    Config cfg;
    TokenList tokens = {0};
    Written written = {0};
    TextCallback callback = {on_text, user};
    int code = api_begin(options, COMMAND_GENERATE, result, &cfg);
    if (code == 0) {
        const char *text = prompt != NULL ? prompt : cfg.prompt;
        code = writer_prompt(&model->loaded, (const uint8_t *)text,
                             prompt != NULL ? size : strlen(text), &tokens);
    }
    if (code == 0) {
        char **stops = stops_read(cfg.stop);
        code = api_write(&model->loaded, &cfg, stops, &tokens, on_text != NULL ? tell_text : NULL,
                         &callback, &written);
        stops_free(stops);
    }
    if (code == 0 && result != NULL) {
        cJSON *numbers = json_object();
        json_put_whole(numbers, "prompt_tokens", (int64_t)tokens.count);
        json_put_whole(numbers, "tokens", written.tokens);
        json_put_number(numbers, "prompt_s", written.prompt_seconds);
        json_put_number(numbers, "generate_s", written.seconds);
        if (written.seconds > 0) {
            json_put_number(numbers, "tokens_per_s", (double)written.tokens / written.seconds);
        }
        *result = result_new(NULL, numbers);
    }
    if (code == 0 && signals_pending() != 0) {
        code = err_set(signals_pending(), "stopped after %lld token%s", (long long)written.tokens,
                       show_plural(written.tokens));
    }
    written_free(&written);
    token_list_free(&tokens);
    return api_end(&cfg, code);
}
