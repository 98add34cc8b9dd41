#pragma once
/* Shared by the files of src/config. */
#include "config/config.h"

/* Where a value is being read, for messages and for its Origin. */
typedef struct {
    OriginKind kind;
    const char *path; /* ORIGIN_FILE, ORIGIN_RECORD */
    int line;         /* ORIGIN_FILE */
} Source;

/* One value of any type. */
typedef union {
    bool flag;
    int64_t whole;
    double real;
    int choice;
    const char *text; /* not owned */
} OptionValue;

/* Reads text as a value of the option and checks its limits. ERR_INPUT gives the reason alone; the
 * caller puts place, name and text before it. value->text points to `text`. */
int value_parse(const Option *option, const char *text, OptionValue *value);

/* The word that stands for -1, which lies below the limits; NULL: the option has none. */
const char *value_word(const Option *option);

/* text in quotes, cut and cleaned so that it can stand in a message. */
#define VALUE_QUOTE_SIZE 96
const char *value_quote(const char *text, char quoted[VALUE_QUOTE_SIZE]);

/* 1000000 as "1M", 1500 as "1500", 0.5 as "0.5". */
#define VALUE_BRIEF_SIZE 32
const char *value_brief(double number, char brief[VALUE_BRIEF_SIZE]);

size_t option_index(const Option *option);
bool option_taken_by(const Option *option, Command command);

/* The field itself; its type is the option's. */
void *option_field(Config *cfg, const Option *option);
const void *option_field_const(const Config *cfg, const Option *option);

/* Where the option's present value came from. */
Source option_source(const Config *cfg, const Option *option);

/* Sets "PLACE: NAME FORMAT" as an ERR_INPUT message and returns ERR_INPUT. NAME has its dashes when
 * the source is the command line. */
int source_error(Source source, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for the named option, at the place where its present value came from. */
int option_error(const Config *cfg, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The option of that name, if cfg->command takes it. Otherwise NULL and a message that names the
 * nearest option or the commands that take it. */
const Option *option_lookup(const Config *cfg, const char *name, Source source);

/* Parses, stores and notes the origin. */
int option_assign(Config *cfg, const Option *option, const char *text, Source source);

/* Back to the default. */
void option_reset(Config *cfg, const Option *option);

/* Given by somebody, not made up here: RECORD, PROGRAM, FILE or COMMAND_LINE. */
bool origin_is_given(OriginKind kind);
