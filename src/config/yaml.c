/* Config files: one flat YAML mapping of option names to scalars, or to a sequence of scalars
 * where an option may be given several times. Anything more of YAML (nesting, anchors, tags,
 * several documents) is refused by line, because it could only be a mistake here. Parsing stops
 * at the first fault, so depth cannot be driven up. */
#include "config/config.h"
#include "config/internal.h"
#include "config/yaml_input.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/page.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    Config *cfg;
    YamlInput input;
    int seen[CONFIG_MAX_OPTIONS]; /* line of each option, 0 while it has not come */
} Reader;

static int fault(const Reader *reader, const yaml_event_t *event, const char *message)
{
    return err_set(ERR_INPUT, "%s:%d: %s", reader->input.path, yaml_input_line(event->start_mark),
                   message);
}

static int next_event(Reader *reader, yaml_event_t *event)
{
    return yaml_parser_parse(&reader->input.parser, event) ? 0 : yaml_input_fault(&reader->input);
}

/* The scalar's text, or NULL and a message. `what` is the option whose value it is, or "option
 * name". */
static const char *scalar_text(const Reader *reader, const yaml_event_t *event, const char *what)
{
    const char *problem = NULL;
    if (event->type != YAML_SCALAR_EVENT) {
        problem = "one plain value must stand here, as in `batch: 8`";
    } else if (event->data.scalar.anchor != NULL || event->data.scalar.tag != NULL) {
        problem = "anchors and tags are not used here; write the value itself";
    } else if (strlen((const char *)event->data.scalar.value) != event->data.scalar.length) {
        problem = "has a zero byte";
    }
    if (problem != NULL) {
        err_set(ERR_INPUT, "%s:%d: %s: %s", reader->input.path, yaml_input_line(event->start_mark),
                what, problem);
        return NULL;
    }
    return (const char *)event->data.scalar.value;
}

static int assign(Reader *reader, const Option *option, int line, const yaml_event_t *value)
{
    Source source = {ORIGIN_FILE, reader->input.path, line};
    const char *text = scalar_text(reader, value, option->name);
    if (text == NULL) {
        return ERR_INPUT;
    }
    bool plain = value->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (plain && (text[0] == '\0' || strcmp(text, "~") == 0 || strcmp(text, "null") == 0)) {
        return source_error(source, option->name, " has no value%s",
                            option->type == OPTION_TEXT ? " (an empty text is written \"\")" : "");
    }
    return option_assign(reader->cfg, option, text, source);
}

/* `- a`, `- b`, ... as lines. */
static int assign_sequence(Reader *reader, const Option *option, int line)
{
    Page lines = {0};
    const char *join = "";
    int code = 0;
    for (bool ended = false; code == 0 && !ended;) {
        yaml_event_t event;
        code = next_event(reader, &event);
        if (code != 0) {
            break;
        }
        ended = event.type == YAML_SEQUENCE_END_EVENT;
        const char *text = ended ? "" : scalar_text(reader, &event, option->name);
        if (text == NULL) {
            code = ERR_INPUT;
        } else if (!ended) {
            page_put(&lines, "%s%s", join, text);
            join = "\n";
        }
        yaml_event_delete(&event);
    }
    char *all = page_end(&lines);
    if (code == 0) {
        code = option_assign(reader->cfg, option, all,
                             (Source){ORIGIN_FILE, reader->input.path, line});
    }
    free(all);
    return code;
}

/* One `name: value`, whose key has been read. */
static int read_pair(Reader *reader, const yaml_event_t *key)
{
    const char *name = scalar_text(reader, key, "option name");
    if (name == NULL) {
        return ERR_INPUT;
    }
    int line = yaml_input_line(key->start_mark);
    Source source = {ORIGIN_FILE, reader->input.path, line};
    const Option *option = option_lookup(reader->cfg, name, source);
    if (option == NULL) {
        return ERR_INPUT;
    }
    int *seen = &reader->seen[option_index(option)];
    if (*seen != 0) {
        return source_error(source, name, " is given twice (first in line %d)", *seen);
    }
    *seen = line;
    yaml_event_t value;
    int code = next_event(reader, &value);
    if (code == 0) {
        code = value.type == YAML_SEQUENCE_START_EVENT && (option->flags & OPTION_LIST)
                   ? assign_sequence(reader, option, line)
                   : assign(reader, option, line, &value);
        yaml_event_delete(&value);
    }
    return code;
}

static bool is_empty_scalar(const yaml_event_t *event)
{
    return event->type == YAML_SCALAR_EVENT && event->data.scalar.length == 0 &&
           event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           event->data.scalar.anchor == NULL && event->data.scalar.tag == NULL;
}

/* The only document's root: a mapping, whose pairs follow, or nothing. */
static int check_root(const Reader *reader, const yaml_event_t *root)
{
    if (root->type != YAML_MAPPING_START_EVENT) {
        return is_empty_scalar(root) ? 0 : fault(reader, root, "must be lines of `option: value`");
    }
    bool marked = root->data.mapping_start.anchor != NULL || root->data.mapping_start.tag != NULL;
    return marked ? fault(reader, root, "anchors and tags are not used here") : 0;
}

static int read_stream(Reader *reader)
{
    int documents = 0, code = 0;
    bool inside = false; /* the mapping */
    for (bool ended = false; code == 0 && !ended;) {
        yaml_event_t event;
        code = next_event(reader, &event);
        if (code != 0) {
            break;
        }
        switch (event.type) {
        case YAML_STREAM_START_EVENT:
        case YAML_DOCUMENT_END_EVENT:
            break;
        case YAML_DOCUMENT_START_EVENT:
            code = ++documents > 1 ? fault(reader, &event, "a second document; one is allowed") : 0;
            break;
        case YAML_MAPPING_END_EVENT:
            inside = false;
            break;
        case YAML_STREAM_END_EVENT:
        case YAML_NO_EVENT:
            ended = true;
            break;
        default:
            code = inside ? read_pair(reader, &event) : check_root(reader, &event);
            inside = true;
        }
        yaml_event_delete(&event);
    }
    return code;
}

static int load(Reader *reader)
{
    mem_set_text(&reader->cfg->config, reader->input.path); /* origins are kept as lines of it */
    int code = read_stream(reader);
    yaml_input_close(&reader->input);
    return code;
}

int config_load_yaml(Config *cfg, const char *path)
{
    Reader reader = {.cfg = cfg};
    int code = yaml_input_open(&reader.input, path);
    return code != 0 ? code : load(&reader);
}

int config_load_line(Config *cfg, const char *options)
{
    Reader reader = {.cfg = cfg};
    char *text = mem_format("{%s}", options);
    yaml_input_text(&reader.input, options, text);
    free(text);
    int code = load(&reader);
    if (code != 0 && strstr(err_message(), "unknown option") != NULL) {
        char *message = mem_strdup(err_message());
        code = err_set(code,
                       "%s; options on a line are written 'name: value, name: value', with a "
                       "space behind the colon, and a value that has a comma in quotes",
                       message);
        free(message);
    }
    return code;
}
