/* The engine that tells stories, on content small enough to know every outcome. */
#include "data/stories.h"
#include "data/stories_engine.h"

#include <ctype.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void free_strings(char **strings, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        free(strings[i]);
    }
    free(strings);
}

static void grammar_free(StoryGrammar *g)
{
    for (uint32_t i = 0; i < g->roles_count; i++) {
        free(g->roles[i].row_sets);
    }
    void *const owned[] = {g->roles, g->text,    g->ops,    g->alternatives, g->list,
                           g->cells, g->choices, g->guards, g->picks,        g->plots};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        free(owned[i]);
    }
    free_strings(g->rule_names, g->rules_count);
    free_strings(g->fact_names, g->facts_count);
    free_strings(g->role_names, g->roles_count);
    free_strings(g->text_names, g->texts_count);
    free_strings(g->plot_names, g->plots_count);
    free(g);
}

/* Tells a story of `content` in which the one plot has these picks and this text. */
static void tell(const char *content, const char *picks, const char *text, uint64_t seed, char *out)
{
    char plot[1024];
    snprintf(plot, sizeof plot, "plot one:\n    %s\n\n    %s\n", picks, text);
    const StoryText files[] = {{"content.txt", content}, {"plot.txt", plot}, {0}};
    StoryGrammar *grammar = stories_compile(files);
    size_t size = stories_tell(grammar, seed, out, STORY_MAX_BYTES, NULL, NULL);
    out[size] = '\0';
    grammar_free(grammar);
}

static void test_stories_engine__minds_articles_and_capitals(void **state)
{
    (void)state;
    static const char rules[] = "owl: owl\n"
                                "cat: cat\n"
                                "he: he\n"
                                "use: useful hour\n"
                                "yes: yes!\n"
                                "quote: \"no!\"\n"
                                "clause: a {cat}, who sat,\n";
    static const char *const cases[][2] = {
        {"a {owl} and a {cat}.", "An owl and a cat.\n"},
        {"it was a {use}, an {cat}, a [|old ]{cat}.", NULL},
        {"{he} ran. {he} sat! {he}?", "He ran. He sat! He?\n"},
        {"\"{yes}\" {he} said. \"{yes}\" {He} ran.", "\"Yes!\" he said. \"Yes!\" He ran.\n"},
        {"he said, \"{cat}.\" and {he} left", "He said, \"Cat.\" and he left\n"},
        {"so [] {cat}[ ], and [].\n\n    {he}", "So cat, and.\n\nHe\n"},
        {"a {cat} said {quote}. {he}", "A cat said \"No!\" He\n"},
        {"it was {clause}. {clause} ran", "It was a cat, who sat. A cat, who sat, ran\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[STORY_MAX_BYTES + 1], all[256];
        /* Every rule must be referred to, so all stand behind the case. */
        snprintf(all, sizeof all, "%s\n\n    {owl}{cat}{he}{use}{yes}{quote}{clause}", cases[i][0]);
        tell(rules, "", all, 1, out);
        char *end = strstr(out, "\n\nOwlcat");
        assert_non_null(end);
        end[1] = '\0';
        if (cases[i][1] != NULL) {
            assert_string_equal(out, cases[i][1]);
        } else {
            assert_true(strcmp(out, "It was a useful hour, a cat, a cat.\n") == 0 ||
                        strcmp(out, "It was a useful hour, a cat, an old cat.\n") == 0);
        }
    }
}

static void test_stories_engine__obeys_facts_and_keeps_what_is_bound(void **state)
{
    (void)state;
    static const char content[] = "sky: <rain +wet> gray | <!rain> blue\n"
                                  "ground: <wet> mud | <!wet> dust\n"
                                  "color: red | green\n"
                                  "    white | black\n"
                                  "table weather: name | coat\n"
                                  "    <+rain> rain | raincoat\n"
                                  "    <+sun> sun\n"
                                  "        | hat\n";
    bool seen[2] = {false, false};
    for (uint64_t seed = 0; seed < 40; seed++) {
        char out[STORY_MAX_BYTES + 1];
        tell(content, "weather:weather other:weather<sun> shade=color",
             "{weather} {weather.coat} {sky} {ground} [<rain>yes|<!rain>no] [<other.sun>ok]"
             " {other} {shade} {shade} {shade}",
             seed, out);
        bool rain = strncmp(out, "Rain", 4) == 0;
        seen[rain] = true;
        static const char *const starts[] = {"Sun hat blue dust no ok sun ",
                                             "Rain raincoat gray mud yes ok sun "};
        assert_memory_equal(out, starts[rain], strlen(starts[rain]));
        char a[16], b[16], c[16];
        assert_int_equal(sscanf(out + strlen(starts[rain]), "%15s %15s %15s", a, b, c), 3);
        assert_string_equal(a, b);
        assert_string_equal(b, c);
    }
    assert_true(seen[0] && seen[1]);
}

static void test_stories_engine__rephrases_and_does_not_repeat(void **state)
{
    (void)state;
    static const char rules[] = "~at once: now | at once\n"
                                "~all at once: all at once\n"
                                "~big: enormous\n"
                                "one: a | b | c | d\n";
    bool seen[2] = {false, false};
    for (uint64_t seed = 0; seed < 40; seed++) {
        char out[STORY_MAX_BYTES + 1];
        tell(rules, "", "x all at once. a big, bigger ape. At once. {one}{one}{one}{one}", seed,
             out);
        bool kept = strstr(out, "At once.") != NULL;
        seen[kept] = true;
        const char *start = kept ? "X all at once. An enormous, bigger ape. At once. "
                                 : "X all at once. An enormous, bigger ape. Now. ";
        assert_memory_equal(out, start, strlen(start));
        for (const char *letter = "abcd"; *letter != '\0'; letter++) {
            int count = 0;
            for (const char *p = out + strlen(start); *p != '\0'; p++) {
                count += tolower((unsigned char)*p) == *letter;
            }
            assert_int_equal(count, 1);
        }
    }
    assert_true(seen[0] && seen[1]);
}

/* Content that breaks a rule stops the program with a message that names it. */
static void assert_refused(const char *content, const char *picks, const char *text,
                           const char *says)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        char out[STORY_MAX_BYTES + 1];
        dup2(ends[1], STDERR_FILENO);
        tell(content, picks, text, 1, out);
        _exit(0);
    }
    close(ends[1]);
    char message[4096];
    size_t size = 0;
    for (ssize_t got; (got = read(ends[0], message + size, sizeof message - 1 - size)) > 0;) {
        size += (size_t)got;
    }
    close(ends[0]);
    message[size] = '\0';
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    if (strstr(message, says) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", message, says);
    }
}

static void test_stories_engine__refuses_broken_content(void **state)
{
    (void)state;
    static const char cat[] = "cat: cat\n", table[] = "table t: name | color\n    a | b\n";
    assert_refused("", "", "{cat}", "plot.txt:4: unknown {cat}");
    assert_refused(cat, "", "no", "content.txt:1: nothing refers to the rule cat");
    assert_refused("cat: cat\n\ncat: cat\n", "", "{cat}", "content.txt:3: rule cat is there twice");
    assert_refused("cat: <wet> cat | dog\n", "", "{cat}", "nothing sets the fact wet");
    assert_refused("cat: <!dry> cat\n", "+dry", "{cat}", "no line of {cat} is allowed");
    assert_refused("cat: a {cat}\n", "", "{cat}", "rules that call themselves");
    assert_refused(table, "t:t", "{t.size}", "plot.txt:4: unknown column {t.size}");
    assert_refused(table, "t:u", "{t}", "plot.txt:2: no table for t");
    assert_refused(table, "t:t<wet>", "{t}", "plot.txt:2: no row of table t fits wet");
    assert_refused(table, "t", "{t}", "plot.txt:2: bad pick t");
    assert_refused(table, "@t", "{t}", "plot.txt:2: no picks @t");
    assert_refused(cat, "", "{cat", "plot.txt:4: slot without end");
    assert_refused(cat, "", "[{cat}", "plot.txt:4: unexpected");
}

/* Lines that do not follow the format, by file and line. */
static void test_stories_engine__refuses_broken_lines(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"# a comment\ncat\n", "content.txt:2: not a line \"NAME: ...\""},
        {"    cat\n", "content.txt:1: not a line \"NAME: ...\""},
        {"cat:\n  cat\n", "content.txt:2: indent by 4 spaces"},
        {"cat:\n\tcat\n", "content.txt:2: a tab or a carriage return"},
        {"cat: cat\r\n", "content.txt:1: a tab or a carriage return"},
        {"cat:\n\ndog: dog\n", "content.txt:1: cat is not complete"},
        {": cat\n", "content.txt:1: no name in front of the colon"},
        {"cat: cat | | dog\n", "content.txt:1: nothing between two |"},
        {"cat:\n    <wet cat\n", "content.txt:2: guard without end"},
        {"table t: name | color\n    a | b\n\n    a\n", "content.txt:4: a row of 1 cells"},
        {"table t: name | color\n", "content.txt:1: t is not complete"},
        {"plot two:\n    +fact\n", "content.txt:1: two is not complete"},
        {"picks cast: +a\n\n    +b\n", "content.txt:1: cast is not complete"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_refused(cases[i][0], "", "no", cases[i][1]);
    }
}

/* Comments, blank lines, continued lines, empty texts, shared picks, phrases with an open end. */
static void test_stories_engine__reads_the_format(void **state)
{
    (void)state;
    static const char content[] = "# about it\n"
                                  "picks all: t:t\n"
                                  "    +dry\n"
                                  "\n"
                                  "long: [one\n"
                                  "        |one] two\n"
                                  "        three\n"
                                  "none: -\n"
                                  "~did not ...: didn't\n"
                                  "table t: name | color\n"
                                  "    # within a table\n"
                                  "    <+wet> -\n"
                                  "        | [a|a]\n";
    char out[STORY_MAX_BYTES + 1];
    tell(content, "@all +x",
         "{long}{none}\n    did not go[<wet>, {t.color}].\n\n    Did not[<dry>!]", 1, out);
    assert_string_equal(out, "One two three didn't go, a.\n\nDid not!\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stories_engine__minds_articles_and_capitals),
        cmocka_unit_test(test_stories_engine__obeys_facts_and_keeps_what_is_bound),
        cmocka_unit_test(test_stories_engine__rephrases_and_does_not_repeat),
        cmocka_unit_test(test_stories_engine__reads_the_format),
        cmocka_unit_test(test_stories_engine__refuses_broken_content),
        cmocka_unit_test(test_stories_engine__refuses_broken_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
