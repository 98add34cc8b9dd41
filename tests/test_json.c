/* The JSON layer: what goes in comes out, and what is wrong is named. */
#include "base/json.h"

#include "base/err.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static cJSON *tree_of(const char *text)
{
    cJSON *tree = json_parse(text, strlen(text), NULL);
    assert_non_null(tree);
    return tree;
}

static void writes_what_json_has_no_number_for_as_a_note(void **state)
{
    (void)state;
    cJSON *object = json_object();
    json_put(object, "missing", (Value){0});
    json_put_or_null(object, "unknown", (Value){0});
    json_put_number(object, "loss", NAN);
    json_put_number(object, "rate", -INFINITY);
    json_put_number(object, "steps", 3);
    char *line = json_line(object);
    assert_string_equal(line, "{\"unknown\":null,\"loss\":null,\"rate\":null,"
                              "\"note\":\"loss is NaN, rate is -infinite\",\"steps\":3}");
    assert_false(json_value(object, "unknown").known);
    assert_true(json_value(object, "loss").known && isnan(json_value(object, "loss").number));
    assert_true(isnan(json_value(object, "rate").number));
    assert_true(json_value(object, "steps").number == 3);
    json_replace(object, "steps", NULL);
    assert_false(json_value(object, "steps").known);
    free(line);
    cJSON_Delete(object);
}

static void finds_members_by_path(void **state)
{
    (void)state;
    cJSON *tree = tree_of("{\"a\": {\"b\": {\"c\": 1.5, \"t\": \"x\"}, \"on\": true}, \"b.c\": 7,"
                          " \"big\": 1e999}");
    assert_true(json_number(tree, "a.b.c") == 1.5);
    assert_string_equal(json_text(tree, "a.b.t"), "x");
    assert_string_equal(json_text_or(tree, "a.b.u", "none"), "none");
    assert_true(json_is_true(tree, "a.on"));
    assert_null(json_find(tree, "a.b.c.d"));
    assert_null(json_find(tree, "a."));
    assert_null(json_find(NULL, "a"));
    assert_null(json_text(tree, "a.b.c"));
    assert_true(isnan(json_number(tree, "b.c"))); /* a path, not a name */
    assert_true(json_get(tree, "b.c")->valuedouble == 7);
    assert_true(isnan(json_number(tree, "big")));
    cJSON_Delete(tree);
}

static void parses_one_value_and_says_where_it_ends(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
        int line;
    } cases[] = {{"{\"a\": 1}\n", true, 0}, {" [1]\r\n\t ", true, 0}, {"{\"a\": 1} x", false, 1},
                 {"{\n\"a\": }", false, 2}, {"", false, 1},           {"[1]\n\n]", false, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        JsonFault fault = {0};
        cJSON *tree = json_parse(cases[i].text, strlen(cases[i].text), &fault);
        assert_int_equal(tree != NULL, cases[i].good);
        assert_int_equal(fault.line, cases[i].line);
        assert_true(fault.byte <= strlen(cases[i].text));
        cJSON_Delete(tree);
    }
    assert_null(json_parse("1\0", 2, NULL));
}

/* Nodes that a tree has for itself. */
static int own_nodes(const cJSON *tree)
{
    int count = 1;
    const cJSON *item;
    bool shared = (tree->type & cJSON_IsReference) != 0;
    for (item = shared ? NULL : tree->child; item != NULL; item = item->next) {
        count += own_nodes(item);
    }
    return count;
}

static void shares_what_is_equal_and_changes_nothing(void **state)
{
    (void)state;
    static const char like[] = "{\"m\":{\"a\":[1,2,{\"b\":null}],\"c\":\"x\"},\"n\":[1,[2,3]],"
                               "\"o\":{},\"p\":true}";
    static const struct {
        const char *text;
        int nodes; /* of its own: lists that differ, and everything that is no list */
    } cases[] = {
        {like, 1},
        {"{\"p\":true,\"m\":{\"a\":[1,2,{\"b\":null}],\"c\":\"x\"}}", 3}, /* another order */
        {"{\"m\":{\"a\":[1,2,{\"b\":0}],\"c\":\"x\"},\"n\":[1,[2,3]]}", 9},
        {"{\"m\":{\"a\":[1,2],\"c\":\"x\"},\"n\":[1,[2,3],4],\"o\":[],\"p\":false}", 12},
        {"{\"m\":{\"a\":[1,2,{\"b\":null},4],\"d\":\"x\"},\"o\":{\"e\":1}}", 10},
        {"{\"m\":5,\"n\":\"[1]\",\"q\":{\"m\":{\"a\":1}}}", 6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cJSON *first = tree_of(like), *tree = tree_of(cases[i].text);
        json_share(tree, first);
        char *line = json_line(tree);
        assert_string_equal(line, cases[i].text);
        assert_int_equal(own_nodes(tree), cases[i].nodes);
        cJSON *copy = json_copy(tree);
        cJSON_Delete(tree);
        char *left = json_line(first);
        assert_string_equal(left, like);
        cJSON_Delete(first);
        char *copied = json_line(copy);
        assert_string_equal(copied, cases[i].text);
        cJSON_Delete(copy);
        free(line);
        free(left);
        free(copied);
    }
    cJSON *alone = tree_of("{\"a\":[1]}");
    json_share(alone, NULL);
    json_share(alone, alone);
    json_share(NULL, alone);
    assert_int_equal(own_nodes(alone), 3);
    cJSON_Delete(alone);
}

static void takes_whole_numbers_only(void **state)
{
    (void)state;
    cJSON *tree = tree_of("[0, 10, 11, 0.5, -1, \"1\", null, 1e300]");
    const bool good[] = {true, true, false, false, false, false, false, false};
    int64_t out = -1;
    for (int i = 0; i < 8; i++) {
        assert_int_equal(json_whole(cJSON_GetArrayItem(tree, i), 10, &out), good[i]);
    }
    assert_int_equal(out, 10); /* what is wrong leaves it alone */
    assert_false(json_whole(NULL, 10, &out));
    cJSON_Delete(tree);
}

static void names_the_member_that_is_wrong(void **state)
{
    (void)state;
    cJSON *tree = tree_of("{\"n\": \"x\", \"f\": 1.5, \"t\": 3, \"o\": [], \"a\": {}, \"v\": 9,"
                          " \"d\": {\"e\": 1, \"n\": 2.5},"
                          " \"long\": \"ab\\u001bd\", \"null\": null}");
    static const struct {
        const char *name;
        char kind; /* number, count, text, object, array */
        const char *message;
    } cases[] = {{"n", 'n', "\"in.side.n\" is not a number"},
                 {"f", 'c', "\"in.side.f\" is not a whole number"},
                 {"t", 't', "\"in.side.t\" is not text"},
                 {"o", 'o', "\"in.side.o\" is not an object"},
                 {"a", 'a', "\"in.side.a\" is not an array"},
                 {"d.e.f", 'n', "\"in.side.d.e\" is not an object"}};
    char text[8];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        JsonReader reader = {.path = "file.json", .inside = "in.side"};
        switch (cases[i].kind) {
        case 'n':
            assert_false(json_read_number(&reader, tree, cases[i].name).known);
            break;
        case 'c':
            assert_false(json_read_count(&reader, tree, cases[i].name).known);
            break;
        case 't':
            json_read_text(&reader, tree, cases[i].name, text, sizeof text);
            assert_string_equal(text, "");
            break;
        case 'o':
            assert_null(json_read_object(&reader, tree, cases[i].name));
            break;
        default:
            assert_null(json_read_array(&reader, tree, cases[i].name));
        }
        assert_int_equal(reader.code, ERR_INPUT);
        assert_non_null(strstr(err_message(), cases[i].message));
        assert_non_null(strstr(err_message(), "file.json: "));
        assert_false(json_read_number(&reader, tree, "v").known); /* nothing after a failure */
        json_wrong(&reader, "v", "read");
        assert_non_null(strstr(err_message(), cases[i].message));
    }
    JsonReader reader = {.path = "file.json", .inside = ""};
    assert_true(json_read_count(&reader, tree, "v").number == 9);
    assert_true(json_read_number(&reader, tree, "d.n").number == 2.5);
    assert_false(json_read_number(&reader, tree, "null").known);
    assert_false(json_read_number(&reader, tree, "null.x.y").known);
    assert_null(json_read_array(&reader, tree, "absent"));
    json_read_text(&reader, tree, "long", text, 4);
    assert_string_equal(text, "ab?");
    assert_int_equal(reader.code, 0);
    assert_int_equal(json_read_format("file.json", tree, "v", 8), ERR_INPUT);
    assert_non_null(strstr(err_message(), "file.json: written by a newer pacer: \"v\" 9"));
    assert_int_equal(json_read_format("file.json", tree, "v", 9), 0);
    cJSON_Delete(tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_what_json_has_no_number_for_as_a_note),
        cmocka_unit_test(finds_members_by_path),
        cmocka_unit_test(parses_one_value_and_says_where_it_ends),
        cmocka_unit_test(shares_what_is_equal_and_changes_nothing),
        cmocka_unit_test(takes_whole_numbers_only),
        cmocka_unit_test(names_the_member_that_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
