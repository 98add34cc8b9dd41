/* `pacer completion`: a script for bash, zsh or fish, written from the table of commands and
 * that of options. What may stand behind an option is decided once (expectation_of); the rest is
 * each shell's grammar. */
#include "base/assert.h"
#include "base/err.h"
#include "cli/commands.h"
#include "model/spec.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* What may be typed: words, files, both or neither. */
typedef struct {
    char words[512]; /* between blanks, "": none */
    bool files;
} Expectation;

static void add_word(Expectation *expected, const char *word, size_t length)
{
    size_t used = strlen(expected->words), room = sizeof expected->words - used;
    int more =
        snprintf(expected->words + used, room, "%s%.*s", used > 0 ? " " : "", (int)length, word);
    PACER_ASSERT((size_t)more < room, "no room for %s", word);
}

/* A text as help writes it: "auto|never|DIR", " bash|zsh|fish", " MODEL [TEXT...]". In small
 * letters it is a word to type; of the others, those for a place on disk. */
static Expectation expectation_from(const char *metavar)
{
    static const char *const places[] = {"PATH", "FILE",   "DIR",   "DATA",      "MODEL",
                                         "RUN",  "FOLDER", "INPUT", "TEXT",      "RECIPE",
                                         "A",    "B",      "OTHER", "TOKENIZER", NULL};
    Expectation expected = {.files = false};
    while (*metavar != '\0') {
        size_t length = strcspn(metavar, " |[].");
        if (length > 0 && islower((unsigned char)metavar[0])) {
            add_word(&expected, metavar, length);
        }
        for (int i = 0; places[i] != NULL; i++) {
            expected.files |=
                strlen(places[i]) == length && strncmp(metavar, places[i], length) == 0;
        }
        metavar += length;
        metavar += strspn(metavar, " |[].");
    }
    return expected;
}

static Expectation argument_of(Command command)
{
    return expectation_from(command_rows[command].arguments);
}

/* Of a switch: what may stand behind "=". */
static Expectation expectation_of(const Option *option)
{
    Expectation expected = {.files = false};
    if (option->type == OPTION_BOOL) {
        add_word(&expected, "on off", 6);
    } else if (option->type == OPTION_CHOICE) {
        for (int i = 0; option->choices[i] != NULL; i++) {
            add_word(&expected, option->choices[i], strlen(option->choices[i]));
        }
    } else if (strcmp(option->name, "model") == 0) {
        for (int i = 0; spec_preset(i) != NULL; i++) {
            add_word(&expected, spec_preset(i)->name, strlen(spec_preset(i)->name));
        }
    } else if (option->type == OPTION_TEXT) {
        bool prose = strcmp(option->metavar, "TEXT") == 0; /* a prompt is no file */
        expected = expectation_from(prose ? "" : option->metavar);
        if (strcmp(option->name, "data") == 0) {
            add_word(&expected, "builtin:stories builtin:bytes builtin:random", 44);
        } else if (strcmp(option->name, "tokenizer") == 0) {
            add_word(&expected, "bytes", 5);
        }
    }
    return expected;
}

/* Calls `each` for every option that the command takes. */
static void for_options(Command command, void (*each)(const Option *option, Command command))
{
    for (const Option *option = config_options(); option->name != NULL; option++) {
        if (option->commands & 1u << command) {
            each(option, command);
        }
    }
}

/* A text between single quotes; `also`: characters that get a backslash, for the shell function
 * that reads it. */
static void put_quoted(const char *text, size_t length, const char *also)
{
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\'') {
            fputs("'\\''", stdout);
        } else {
            printf("%s%c", strchr(also, text[i]) != NULL ? "\\" : "", text[i]);
        }
    }
}

/* Help in a few words: up to where it goes into detail. */
static size_t brief(const char *help)
{
    return strcspn(help, ";");
}

/* --- commands of two words, which stand together in the list of commands --- */

static size_t first_word(Command command)
{
    return strcspn(command_words(command), " ");
}

static bool same_group(Command a, Command b)
{
    size_t length = first_word(a);
    return length == first_word(b) && strncmp(command_words(a), command_words(b), length) == 0;
}

/* Where a group begins, or a command of one word. */
static bool is_first(Command command)
{
    return command == 0 || !same_group(command, command - 1);
}

static bool is_grouped(Command command)
{
    return strchr(command_words(command), ' ') != NULL;
}

static const char *second_word(Command command)
{
    return command_words(command) + first_word(command) + 1;
}

/* --- bash --- */

static void bash_option_name(const Option *option, Command command)
{
    (void)command;
    printf(" --%s", option->name);
}

static void bash_print_values(void)
{
    for (const Option *option = config_options(); option->name != NULL; option++) {
        Expectation expected = expectation_of(option);
        printf("    --%s) ", option->name);
        if (option->type == OPTION_BOOL) {
            /* Behind a switch something new begins, unless "=" joins them. */
            printf("[[ $joined ]] && words='%s' || option= ;;\n", expected.words);
        } else {
            printf("words='%s'%s ;;\n", expected.words, expected.files ? " files=1" : "");
        }
    }
}

static void bash_print_commands(void)
{
    for (Command c = 0; c < COMMAND_COUNT; c++) {
        Expectation expected = argument_of(c);
        printf("    '%s')\n        options='", command_words(c));
        for_options(c, bash_option_name);
        printf("' words='%s'%s ;;\n", expected.words, expected.files ? " files=1" : "");
    }
}

static void bash_print_words(Command group, bool seconds)
{
    for (Command c = 0; c < COMMAND_COUNT; c++) {
        if (seconds && same_group(c, group)) {
            printf(" %s", second_word(c));
        } else if (!seconds && is_first(c)) {
            printf(" %.*s", (int)first_word(c), command_words(c));
        }
    }
}

static void print_bash(void)
{
    fputs("# Completion of pacer for bash: source <(pacer completion bash)\n"
          "_pacer() {\n"
          "    local current=${COMP_WORDS[COMP_CWORD]} option= joined= options= words= files=\n"
          "    local command=${COMP_WORDS[1]} behind=2\n"
          "    [[ $command == help ]] && behind=3 && command=${COMP_WORDS[2]}\n"
          "    COMPREPLY=()\n"
          "    if ((COMP_CWORD < behind)); then\n"
          "        COMPREPLY=($(compgen -W '",
          stdout);
    bash_print_words(COMMAND_TRAIN, false);
    fputs(" help version' -- \"$current\"))\n"
          "        return\n"
          "    fi\n"
          "    case $command in\n",
          stdout);
    for (Command c = 0; c < COMMAND_COUNT; c++) {
        if (is_grouped(c) && is_first(c)) {
            printf("    %.*s) words='", (int)first_word(c), command_words(c));
            bash_print_words(c, true);
            fputs("' ;;\n", stdout);
        }
    }
    fputs("    esac\n"
          "    if [[ $words ]]; then\n"
          "        if ((COMP_CWORD == behind)); then\n"
          "            COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
          "            return\n"
          "        fi\n"
          "        command+=\" ${COMP_WORDS[behind]}\" words=\n"
          "    fi\n"
          "    ((behind > 2)) && [[ ${COMP_WORDS[1]} == help ]] && return\n"
          "    # bash takes --name=value for three words.\n"
          "    option=${COMP_WORDS[COMP_CWORD - 1]}\n"
          "    if [[ $current == = ]]; then\n"
          "        current= joined=1\n"
          "    elif [[ $option == = ]]; then\n"
          "        option=${COMP_WORDS[COMP_CWORD - 2]} joined=1\n"
          "    fi\n"
          "    case $option in\n",
          stdout);
    bash_print_values();
    fputs("    *) option= ;;\n"
          "    esac\n"
          "    if [[ ! $option ]]; then\n"
          "        case $command in\n",
          stdout);
    bash_print_commands();
    fputs("        esac\n"
          "        [[ $current == -* ]] && words=$options files=\n"
          "    fi\n"
          "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
          "    if [[ $files ]]; then\n"
          "        local file\n"
          "        compopt -o filenames 2>/dev/null\n"
          "        while IFS= read -r file; do\n"
          "            COMPREPLY+=(\"$file\")\n"
          "        done < <(compgen -f -- \"$current\")\n"
          "    fi\n"
          "}\n"
          "complete -F _pacer pacer\n",
          stdout);
}

/* --- zsh --- */

static void zsh_put_action(const Expectation *expected)
{
    if (expected->files && expected->words[0] != '\0') {
        fputs(":value:_pacer_words_or_files ", stdout);
        put_quoted(expected->words, strlen(expected->words), ":");
    } else if (expected->files) {
        fputs(":file:_files", stdout);
    } else if (expected->words[0] != '\0') {
        printf(":value:(%s)", expected->words);
    } else {
        fputs(":value: ", stdout);
    }
}

static void zsh_print_option(const Option *option, Command command)
{
    Expectation expected = expectation_of(option);
    /* A switch takes its value in the same word, if at all. */
    bool flag = option->type == OPTION_BOOL, list = option->flags & OPTION_LIST;
    printf("            '%s--%s=%s[", list ? "*" : "", option->name, flag ? "-" : "");
    const char *help = config_help(option, command);
    put_quoted(help, brief(help), "[]:\\");
    printf("]%s", flag ? ":" : "");
    zsh_put_action(&expected);
    fputs("' \\\n", stdout);
}

static void zsh_print_row(const char *word, size_t length, const char *summary)
{
    printf("            '%.*s:", (int)length, word);
    put_quoted(summary, strlen(summary), ":");
    fputs("'\n", stdout);
}

static void print_zsh(void)
{
    fputs("#compdef pacer\n"
          "# Completion of pacer for zsh: the file _pacer in a folder of $fpath\n"
          "_pacer_words_or_files() {\n"
          "    local _words=(${argv:#-*})\n"
          "    compadd -a _words\n"
          "    _files\n"
          "}\n"
          "_pacer() {\n"
          "    local -a commands\n"
          "    [[ $words[2] == help ]] && ((CURRENT > 2)) && shift words && ((CURRENT--))\n"
          "    if ((CURRENT == 2)); then\n"
          "        commands=(\n",
          stdout);
    for (Command c = 0; c < COMMAND_COUNT; c++) {
        if (is_first(c)) {
            const char *summary = is_grouped(c) ? "several commands" : command_rows[c].summary;
            zsh_print_row(command_words(c), first_word(c), summary);
        }
    }
    zsh_print_row("help", 4, "what a command does");
    zsh_print_row("version", 7, "release, commit and what this program was built with");
    fputs("        )\n        _describe command commands\n        return\n    fi\n"
          "    local command=$words[2]\n"
          "    case $command in\n",
          stdout);
    for (Command c = 0; c < COMMAND_COUNT; c++) {
        if (!is_grouped(c) || !is_first(c)) {
            continue;
        }
        printf("    %.*s)\n        commands=(\n", (int)first_word(c), command_words(c));
        for (Command k = c; k < COMMAND_COUNT; k++) {
            if (same_group(c, k)) {
                zsh_print_row(second_word(k), strlen(second_word(k)), command_rows[k].summary);
            }
        }
        fputs("        ) ;;\n", stdout);
    }
    fputs("    esac\n"
          "    if ((${#commands})); then\n"
          "        if ((CURRENT == 3)); then\n"
          "            _describe command commands\n"
          "            return\n"
          "        fi\n"
          "        command+=\" $words[3]\"\n"
          "        shift words\n"
          "        ((CURRENT--))\n"
          "    fi\n"
          "    shift words\n"
          "    ((CURRENT--))\n"
          "    case $command in\n",
          stdout);
    for (Command c = 0; c < COMMAND_COUNT; c++) {
        printf("    '%s')\n        _arguments \\\n", command_words(c));
        for_options(c, zsh_print_option);
        Expectation expected = argument_of(c);
        fputs("            '*", stdout);
        zsh_put_action(&expected);
        fputs("' ;;\n", stdout);
    }
    fputs("    esac\n}\n"
          "if [[ $funcstack[1] == _pacer ]]; then\n    _pacer \"$@\"\nelse\n    compdef _pacer "
          "pacer\nfi\n",
          stdout);
}

/* --- fish --- */

static void fish_put_help(const char *help)
{
    fputs(" -d '", stdout);
    for (size_t i = 0, length = brief(help); i < length; i++) {
        printf("%s%c", help[i] == '\'' || help[i] == '\\' ? "\\" : "", help[i]);
    }
    fputs("'\n", stdout);
}

static void fish_print_option(const Option *option, Command command)
{
    Expectation expected = expectation_of(option);
    printf("complete -c pacer -n '__pacer_is %s' -l %s", command_words(command), option->name);
    if (option->type != OPTION_BOOL) {
        fputs(expected.files ? " -r -F" : " -x", stdout);
        if (expected.words[0] != '\0') {
            printf(" -a '%s'", expected.words);
        }
    }
    fish_put_help(config_help(option, command));
}

static void print_fish(void)
{
    fputs(
        "# Completion of pacer for fish: ~/.config/fish/completions/pacer.fish\n"
        "function __pacer_is --description 'whether these words are the command on the line'\n"
        "    set -l typed (commandline -opc)\n"
        "    set -l count (count $argv)\n"
        "    test (count $typed) -gt $count; or return 1\n"
        "    for i in (seq $count)\n"
        "        test $typed[(math $i + 1)] = $argv[$i]; or return 1\n"
        "    end\n"
        "end\n"
        "function __pacer_after --description 'whether these words, and no more, are on the line'\n"
        "    test (count (commandline -opc)) -eq (math (count $argv) + 1); and __pacer_is $argv\n"
        "end\n"
        "complete -c pacer -f\n",
        stdout);
    for (Command c = 0; c < COMMAND_COUNT; c++) {
        if (is_first(c)) {
            printf("complete -c pacer -n 'test (count (commandline -opc)) -eq 1' -a %.*s",
                   (int)first_word(c), command_words(c));
            fish_put_help(is_grouped(c) ? "several commands" : command_rows[c].summary);
        }
        if (is_grouped(c)) {
            printf("complete -c pacer -n '__pacer_after %.*s' -a %s", (int)first_word(c),
                   command_words(c), second_word(c));
            fish_put_help(command_rows[c].summary);
        }
    }
    fputs("complete -c pacer -n 'test (count (commandline -opc)) -eq 1' -a 'help version'\n",
          stdout);
    for (Command c = 0; c < COMMAND_COUNT; c++) {
        Expectation expected = argument_of(c);
        if (expected.files) {
            printf("complete -c pacer -n '__pacer_is %s' -F\n", command_words(c));
        }
        if (expected.words[0] != '\0') {
            printf("complete -c pacer -n '__pacer_is %s' -a '%s'\n", command_words(c),
                   expected.words);
        }
        for_options(c, fish_print_option);
    }
}

int cmd_completion(Config *cfg)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
        if (strcmp(cfg->argv[0], shells[i].name) == 0) {
            shells[i].print();
            return 0;
        }
    }
    return err_set(ERR_INPUT, "completion: there is none for '%.60s'; use bash, zsh or fish",
                   cfg->argv[0]);
}
