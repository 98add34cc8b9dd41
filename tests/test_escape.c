/* Text from outside on its way to a person, a shell, Markdown, JSON: what is shown, and that
 * errors and the log show nothing else. */
#include "base/err.h"
#include "base/escape.h"
#include "base/log.h"
#include "support/capture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define ESC "\x1b"
#define CSI "\xc2\x9b"          /* U+009B */
#define OVERRIDE "\xe2\x80\xae" /* U+202E */

static const struct {
    const char *text, *line;
} lines[] = {
    {"", ""},
    {"plain 'text' \"with\" \\ and $(all)", "plain 'text' \"with\" \\ and $(all)"},
    {"caf\xc3\xa9 \xe6\xbc\xa2\xe5\xad\x97 \xf0\x9f\xa6\x8a \xef\xbf\xbd",
     "caf\xc3\xa9 \xe6\xbc\xa2\xe5\xad\x97 \xf0\x9f\xa6\x8a \xef\xbf\xbd"},
    {"\xe0\xb8\x81\xe0\xb8\xb3 \xe2\x80\x8d", "\xe0\xb8\x81\xe0\xb8\xb3 \xe2\x80\x8d"},
    {"a\nb\tc\rd", "a\\nb\\tc\\x0dd"},
    {ESC "]0;title\a\x7f", "\\x1b]0;title\\x07\\x7f"},
    {CSI "31m\xc2\x80\xc2\xa0", "\\xc2\\x9b31m\\xc2\\x80\xc2\xa0"},
    {"\x9b"
     "31m\xff\xc3",
     "\\x9b31m\\xff\\xc3"},
    {OVERRIDE "x\xe2\x81\xa6y\xe2\x80\xa8z\xd8\x9c",
     "\\xe2\\x80\\xaex\\xe2\\x81\\xa6y\\xe2\\x80\\xa8z\\xd8\\x9c"},
    {"\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80\xef\xbf\xbe",
     "\\xc0\\xaf\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80\\xef\\xbf\\xbe"},
};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void test_escape__a_line_has_visible_characters_alone(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(lines); i++) {
        char once[256], twice[256];
        escape_line(once, sizeof once, lines[i].text);
        assert_string_equal(once, lines[i].line);
        escape_line(twice, sizeof twice, once);
        assert_string_equal(twice, once);
    }
}

/* Every byte and every two bytes: none of the controls comes through, in whatever they stand. */
static void test_escape__no_two_bytes_make_a_control(void **state)
{
    (void)state;
    for (unsigned pair = 1; pair < 0x10000; pair++) {
        char text[3] = {(char)(pair & 0xff), (char)(pair >> 8), '\0'}, line[16];
        escape_line(line, sizeof line, text);
        for (const unsigned char *at = (const unsigned char *)line; *at != '\0'; at++) {
            assert_true(*at >= 0x20 && *at != 0x7f);
            if (*at >= 0x80) { /* a whole character of two bytes, and no C1 control */
                assert_true(at[0] >= 0xc2 && at[0] < 0xe0 && (at[1] & 0xc0) == 0x80);
                assert_true(at[0] != 0xc2 || at[1] >= 0xa0);
                at++;
            }
        }
    }
}

static void test_escape__a_long_line_is_cut_behind_a_character(void **state)
{
    (void)state;
    char line[8];
    escape_line(line, sizeof line, "abcd" ESC "e");
    assert_string_equal(line, "abcd");
    escape_line(line, sizeof line, "abcdef\xc3\xa9");
    assert_string_equal(line, "abcdef");
    escape_line(line, sizeof line, "abcde\xc3\xa9x");
    assert_string_equal(line, "abcde\xc3\xa9");
}

static void test_escape__breaks_of_the_format_alone_are_breaks(void **state)
{
    (void)state;
    capture_begin(STDOUT_FILENO);
    escape_printf(stdout, "\n%s: %d\n\n", "a\nb" CSI, 7);
    escape_printf(stdout, "%s", "\nwhole\n");
    escape_printf(stdout, "\n");
    escape_write(stdout, "x\ny\t\0" ESC, 6, true);
    escape_write(stdout, "x\ny\t\0" ESC, 6, false);
    fflush(stdout);
    char *out = capture_end();
    assert_string_equal(out,
                        "\na\\nb\\xc2\\x9b: 7\n\n\\nwhole\\n\nx\ny\t\\x00\\x1bx\\ny\\t\\x00\\x1b");
    free(out);
}

static void test_escape__errors_and_log_are_single_lines(void **state)
{
    (void)state;
    static const char name[] = "a\npacer: error: forged" ESC "[2J" CSI "\xff%s%n";
#define SHOWN "a\\npacer: error: forged\\x1b[2J\\xc2\\x9b\\xff%s%n"
    assert_int_equal(err_set(ERR_INPUT, "%s: bad", name), ERR_INPUT);
    assert_string_equal(err_message(), SHOWN ": bad");
    err_wrap(ERR_INPUT, "in %s", name);
    assert_string_equal(err_message(), "in " SHOWN ": " SHOWN ": bad");
    err_set(ERR_INPUT, "again: %s", err_message());
    assert_string_equal(err_message(), "again: in " SHOWN ": " SHOWN ": bad");
    log_setup(LOG_INFO, 0, 1);
    capture_begin(STDERR_FILENO);
    log_error("%s", name);
    log_info("%s", name);
    fflush(stderr);
    char *said = capture_end();
    assert_string_equal(said, "pacer: error: " SHOWN "\n" SHOWN "\n");
    free(said);
    char *longer = malloc(20001);
    memset(longer, '\n', 20000);
    longer[20000] = '\0';
    capture_begin(STDERR_FILENO);
    log_warn("%s", longer);
    fflush(stderr);
    said = capture_end();
    assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
    free(said);
    free(longer);
}

static void test_escape__markdown_and_json(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"a|b`c`<script>&[x](y)*_#~$", "a\\|b\\`c\\`&lt;script>&amp;\\[x\\](y)\\*\\_\\#\\~\\$"},
        {"back\\", "back\\\\"},
        {"- item\n# head", "\\- item \\# head"},
        {"-1.5 %", "-1.5 %"},
        {"> said", "\\> said"},
        {ESC OVERRIDE "\xff", "\\\\x1b\\\\xe2\\\\x80\\\\xae\\\\xff"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *text = escape_markdown(cases[i][0]);
        assert_string_equal(text, cases[i][1]);
        free(text);
    }
    char *json = escape_json("{\n\t\"\xc3\xa9\": \"" CSI OVERRIDE "\x7f\xff\"\n}");
    assert_string_equal(json, "{\n\t\"\xc3\xa9\": \"\\u009b\\u202e\\u007f\\ufffd\"\n}");
    free(json);
}

/* What bash makes of the word is the word. */
static void test_escape__a_shell_reads_back_the_word(void **state)
{
    (void)state;
    static const char *const words[] = {"plain-1.5_x/y:z",
                                        "",
                                        "two words",
                                        "it's",
                                        "''",
                                        "~",
                                        "=ls",
                                        "a\\",
                                        "\\'",
                                        "$(id) `id` $HOME !x",
                                        "new\nline",
                                        "tab\t1",
                                        ESC "1",
                                        CSI "7",
                                        "\xff"
                                        "0",
                                        "it's\n\\" ESC "x'",
                                        "caf\xc3\xa9",
                                        "*",
                                        "#",
                                        "-x",
                                        "{a,b}"};
    for (size_t i = 0; i < COUNT(words); i++) {
        char *word = escape_shell(words[i]), command[256], back[64] = "";
        snprintf(command, sizeof command, "exec bash -c \"$(cat <<'END'\nprintf %%s %s\nEND\n)\"",
                 word);
        for (const char *at = word; *at != '\0'; at++) {
            assert_true((unsigned char)*at >= ' ');
        }
        FILE *shell = popen(command, "r");
        assert_non_null(shell);
        size_t size = fread(back, 1, sizeof back - 1, shell);
        assert_int_equal(pclose(shell), 0);
        assert_int_equal(size, strlen(words[i]));
        assert_string_equal(back, words[i]);
        free(word);
    }
    char *path = escape_shell_path("-x y");
    assert_string_equal(path, "'./-x y'");
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_escape__a_line_has_visible_characters_alone),
        cmocka_unit_test(test_escape__no_two_bytes_make_a_control),
        cmocka_unit_test(test_escape__a_long_line_is_cut_behind_a_character),
        cmocka_unit_test(test_escape__breaks_of_the_format_alone_are_breaks),
        cmocka_unit_test(test_escape__errors_and_log_are_single_lines),
        cmocka_unit_test(test_escape__markdown_and_json),
        cmocka_unit_test(test_escape__a_shell_reads_back_the_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
