#pragma once
/* A YAML file on its way through libyaml: read whole, at most 1 MiB, with faults that name file
 * and line. */
#include <stdbool.h>
#include <stddef.h>

#include <yaml.h>

typedef struct {
    const char *path; /* not owned */
    char *data;
    const char *text; /* data without a byte order mark */
    size_t size;
    yaml_parser_t parser; /* at the beginning of text */
} YamlInput;

/* 0 or an ErrCode naming the file. After a failure there is nothing to close. */
int yaml_input_open(YamlInput *input, const char *path);

/* The same of a text that is given; name stands for its path in messages. */
void yaml_input_text(YamlInput *input, const char *name, const char *text);
void yaml_input_close(YamlInput *input);

/* What the parser stumbled over, as ERR_INPUT with file and line. */
int yaml_input_fault(const YamlInput *input);

int yaml_input_line(yaml_mark_t mark); /* from 1 */
