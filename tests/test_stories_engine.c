/* The engine that tells stories, on content small enough to know every outcome. */
#include "data/stories.h"
#include "data/stories_engine.h"

#include <ctype.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void tell(const StoryRule *rules, const StoryTable *tables, const char *picks,
                 const char *text, uint64_t seed, char *out)
{
    const StoryPlot plots[] = {{"plot", picks, text}, {0}};
    const StoryContent content = {rules, tables, plots};
    const StoryContent *const parts[] = {&content, NULL};
    StoryGrammar *grammar = stories_compile(parts);
    size_t size = stories_tell(grammar, seed, out, STORY_MAX_BYTES, NULL, NULL);
    out[size] = '\0';
    stories_grammar_free(grammar);
}

static void test_stories_engine__minds_articles_and_capitals(void **state)
{
    (void)state;
    const StoryRule rules[] = {{"owl", STORY_LIST("owl")},
                               {"cat", STORY_LIST("cat")},
                               {"he", STORY_LIST("he")},
                               {"use", STORY_LIST("useful hour")},
                               {"yes", STORY_LIST("yes!")},
                               {"quote", STORY_LIST("\"no!\"")},
                               {"clause", STORY_LIST("a {cat}, who sat,")},
                               {0}};
    static const char *const cases[][2] = {
        {"a {owl} and a {cat}.", "An owl and a cat.\n"},
        {"it was a {use}, an {cat}, a [|old ]{cat}.", NULL},
        {"{he} ran. {he} sat! {he}?", "He ran. He sat! He?\n"},
        {"\"{yes}\" {he} said. \"{yes}\" {He} ran.", "\"Yes!\" he said. \"Yes!\" He ran.\n"},
        {"he said, \"{cat}.\" and {he} left", "He said, \"Cat.\" and he left\n"},
        {"so [] {cat}[ ], and [].\n\n{he}", "So cat, and.\n\nHe\n"},
        {"a {cat} said {quote}. {he}", "A cat said \"No!\" He\n"},
        {"it was {clause}. {clause} ran", "It was a cat, who sat. A cat, who sat, ran\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[STORY_MAX_BYTES + 1], all[256];
        /* Every rule must be referred to, so all stand behind the case. */
        snprintf(all, sizeof all, "%s\n\n{owl}{cat}{he}{use}{yes}{quote}{clause}", cases[i][0]);
        tell(rules, NULL, "", all, 1, out);
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
    const StoryRule rules[] = {{"sky", STORY_LIST("<rain +wet>gray", "<!rain>blue")},
                               {"ground", STORY_LIST("<wet>mud", "<!wet>dust")},
                               {"color", STORY_LIST("red", "green", "white", "black")},
                               {0}};
    const StoryTable tables[] = {
        {"weather", "name coat", STORY_LIST("+rain", "rain", "raincoat", "+sun", "sun", "hat")},
        {0}};
    bool seen[2] = {false, false};
    for (uint64_t seed = 0; seed < 40; seed++) {
        char out[STORY_MAX_BYTES + 1];
        tell(rules, tables, "weather:weather other:weather<sun> shade=color",
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
    const StoryRule rules[] = {{"~at once", STORY_LIST("now", "at once")},
                               {"~all at once", STORY_LIST("all at once")},
                               {"~big", STORY_LIST("enormous")},
                               {"one", STORY_LIST("a", "b", "c", "d")},
                               {0}};
    bool seen[2] = {false, false};
    for (uint64_t seed = 0; seed < 40; seed++) {
        char out[STORY_MAX_BYTES + 1];
        tell(rules, NULL, "", "x all at once. a big, bigger ape. At once. {one}{one}{one}{one}",
             seed, out);
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
static void assert_refused(const StoryRule *rules, const StoryTable *tables, const char *picks,
                           const char *text, const char *says)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        char out[STORY_MAX_BYTES + 1];
        dup2(ends[1], STDERR_FILENO);
        tell(rules, tables, picks, text, 1, out);
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
    const StoryRule none[] = {{0}};
    const StoryRule cat[] = {{"cat", STORY_LIST("cat")}, {0}};
    const StoryRule twice[] = {{"cat", STORY_LIST("cat")}, {"cat", STORY_LIST("cat")}, {0}};
    const StoryRule wet[] = {{"cat", STORY_LIST("<wet>cat", "dog")}, {0}};
    const StoryRule dry[] = {{"cat", STORY_LIST("<!dry>cat")}, {0}};
    const StoryRule loop[] = {{"cat", STORY_LIST("a {cat}")}, {0}};
    const StoryTable table[] = {{"t", "name color", STORY_LIST("", "a", "b")}, {0}};
    const StoryTable ragged[] = {{"t", "name color", STORY_LIST("", "a")}, {0}};
    assert_refused(none, NULL, "", "{cat}", "unknown {cat}");
    assert_refused(cat, NULL, "", "no", "nothing refers to the rule cat");
    assert_refused(twice, NULL, "", "{cat}", "rule cat is there twice");
    assert_refused(wet, NULL, "", "{cat}", "nothing sets the fact wet");
    assert_refused(dry, NULL, "+dry", "{cat}", "no line of {cat} is allowed");
    assert_refused(loop, NULL, "", "{cat}", "rules that call themselves");
    assert_refused(none, table, "t:t", "{t.size}", "unknown column {t.size}");
    assert_refused(none, table, "t:u", "{t}", "no table for t");
    assert_refused(none, table, "t:t<wet>", "{t}", "no row of table t fits wet");
    assert_refused(none, ragged, "t:t", "{t}", "no whole rows");
    assert_refused(cat, NULL, "", "{cat", "slot without end");
    assert_refused(cat, NULL, "", "[{cat}", "unexpected");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stories_engine__minds_articles_and_capitals),
        cmocka_unit_test(test_stories_engine__obeys_facts_and_keeps_what_is_bound),
        cmocka_unit_test(test_stories_engine__rephrases_and_does_not_repeat),
        cmocka_unit_test(test_stories_engine__refuses_broken_content),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
