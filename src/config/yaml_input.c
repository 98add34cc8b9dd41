#include "config/yaml_input.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define MAX_FILE_SIZE ((size_t)1 << 20)

int yaml_input_line(yaml_mark_t mark)
{
    return (int)mark.line + 1;
}

/* libyaml gives bytes that are no text by offset instead of by line. */
int yaml_input_fault(const YamlInput *input)
{
    const yaml_parser_t *parser = &input->parser;
    if (parser->error == YAML_MEMORY_ERROR) {
        mem_checked(NULL, input->size);
    }
    const char *problem = parser->problem != NULL ? parser->problem : "cannot be read";
    if (parser->error != YAML_READER_ERROR) {
        return err_set(ERR_INPUT, "%s:%d: not YAML: %s", input->path,
                       yaml_input_line(parser->problem_mark), problem);
    }
    int line = 1;
    for (size_t i = 0; i < parser->problem_offset && i < input->size; i++) {
        line += input->text[i] == '\n';
    }
    return err_set(ERR_INPUT, "%s:%d: not UTF-8 text: %s", input->path, line, problem);
}

/* Sets the parser to the beginning of the data. */
static void begin(YamlInput *input)
{
    /* With the encoding given, libyaml takes a byte order mark for a column. */
    size_t mark = utf8_mark(input->data, input->size);
    input->text = input->data + mark;
    input->size -= mark;
    mem_checked(yaml_parser_initialize(&input->parser) ? input : NULL, input->size);
    yaml_parser_set_encoding(&input->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&input->parser, (const unsigned char *)input->text, input->size);
}

int yaml_input_open(YamlInput *input, const char *path)
{
    *input = (YamlInput){.path = path};
    int code = io_read_all(path, MAX_FILE_SIZE, &input->data, &input->size);
    if (code == 0) {
        begin(input);
    }
    return code;
}

void yaml_input_text(YamlInput *input, const char *name, const char *text)
{
    *input = (YamlInput){.path = name, .data = mem_strdup(text), .size = strlen(text)};
    begin(input);
}

void yaml_input_close(YamlInput *input)
{
    yaml_parser_delete(&input->parser);
    free(input->data);
    *input = (YamlInput){0};
}
