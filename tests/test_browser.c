/* The pages of `pacer serve` in a real browser: list, filter, overlay, zoom, a run as it goes, at
 * 1280 and 390 pixels, light and dark, with records that try to break out. PACER_PICTURES=FOLDER
 * keeps pictures of them. */
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "report/page.h"
#include "serve/server.h"
#include "support/browser.h"
#include "support/own_folder.h"
#include "support/run_record.h"
#include "support/watched_run.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static Browser *browser;
static Server *server;
static char *runs;

#define HOSTILE "<img src=x onerror=document.title='broken'>\n\x1b[31m\"quotes\" & \xff </script>"

/* --- what is served --- */

static void put_run(const char *name, double loss)
{
    char *dir = io_join(runs, name);
    assert_int_equal(io_make_folders(dir), 0);
    run_record_write(dir, 1);
    watched_put(dir, "metrics.jsonl", "w", "");
    watched_put_lines(dir, 1, 400, loss);
    watched_put(dir, "metrics.jsonl", "a", "{\"step\":200,\"val_loss\":2.5}\n");
    free(dir);
}

static void put_hostile(void)
{
    char *dir = io_join(runs, "<b>bold<b>\n'\"&name");
    assert_int_equal(io_make_folders(dir), 0);
    run_record_write(dir, 1);
    cJSON *text = cJSON_CreateString(HOSTILE);
    char *json = json_line(text);
    run_record_edit(dir, "run.json", "model.name", json);
    run_record_edit(dir, "run.json", "config.data", json);
    watched_put(dir, "metrics.jsonl", "a", "nonsense\n{\"step\":\"x\"}\n{\"step\":4000,\"lo");
    watched_put(dir, "samples.jsonl", "w", "{\"step\":1,\"text\":");
    watched_put(dir, "samples.jsonl", "a", json);
    watched_put(dir, "samples.jsonl", "a", "}\n{\"step\":2,\"te");
    cJSON_Delete(text);
    free(json);
    free(dir);
}

static int start(void **state)
{
    const char *why;
    own_folder_make(state);
    runs = io_join(own_folder, "runs");
    put_run("small", 5);
    put_run("large", 4.5);
    put_run("sub/third", 4);
    put_hostile();
    char *folders[] = {runs};
    if (server_start(&(ServeOptions){.folders = folders, .count = 1, .listen = ""}, &server) != 0) {
        puts("skipped: this build has no server");
        return 0;
    }
    browser = browser_start(own_folder, &why);
    if (browser == NULL) {
        printf("skipped: %s\n", why);
    }
    return 0;
}

static int end(void **state)
{
    if (browser != NULL) {
        browser_stop(browser);
    }
    if (server != NULL) {
        server_stop(server);
    }
    free(runs);
    return own_folder_remove(state);
}

/* --- what is asked of every page --- */

static void open_page(const char *rest)
{
    if (browser == NULL) {
        skip();
    }
    char *address = mem_format("%s%s", server_address(server), rest);
    browser_open(browser, "about:blank");
    browser_open(browser, address);
    free(address);
}

/* No error, no request elsewhere, nothing wider than the window. */
static void assert_sound(void)
{
    char *complaints = browser_complaints(browser);
    assert_string_equal(complaints, "");
    free(complaints);
    const char *foreign = browser_foreign_request(browser, server_address(server));
    assert_string_equal(foreign != NULL ? foreign : "", "");
    if (!browser_is(browser, "document.documentElement.scrollWidth <= innerWidth")) {
        cJSON *wide = browser_value(
            browser,
            "[...document.querySelectorAll('body *')].filter(e => "
            "e.getBoundingClientRect().right > innerWidth && !e.closest('.scroll')).map(e => "
            "e.outerHTML.slice(0, 120)).slice(0, 5).join('\\n')");
        fail_msg("wider than the window: %s", wide->valuestring);
    }
}

static void picture(const char *name)
{
    const char *folder = getenv("PACER_PICTURES");
    if (folder != NULL && browser != NULL) {
        char *path = mem_format("%s/serve-%s.png", folder, name);
        usleep(300000); /* for what moves to have come to rest */
        browser_picture(browser, path);
        free(path);
    }
}

#define HAS_DYGRAPHS "typeof Dygraph !== 'undefined'"

/* The middle of the first element of a selector. */
static void place_of(const char *selector, double *x, double *y)
{
    char *expression = mem_format("(() => { const e = document.querySelector(\"%s\"); "
                                  "e.scrollIntoView({block: 'center'}); "
                                  "const r = e.getBoundingClientRect(); "
                                  "return [r.left + r.width / 2, r.top + r.height / 2]; })()",
                                  selector);
    cJSON *place = browser_value(browser, expression);
    *x = cJSON_GetArrayItem(place, 0)->valuedouble;
    *y = cJSON_GetArrayItem(place, 1)->valuedouble;
    cJSON_Delete(place);
    free(expression);
}

static void click(const char *selector)
{
    double x, y;
    place_of(selector, &x, &y);
    browser_click(browser, x, y);
}

/* --- pages --- */

static void test_browser__list_filters_sorts_and_chooses(void **state)
{
    (void)state;
    open_page("");
    browser_await(browser, "document.querySelectorAll('.list tbody tr').length === 4");
    assert_sound();
    assert_true(browser_is(browser, "document.querySelector('.list').innerText.includes('sub/')"));
    picture("list");

    browser_key(browser, "/");
    assert_true(browser_is(browser, "document.activeElement.type === 'search'"));
    browser_key(browser, "t");
    browser_key(browser, "h");
    browser_await(browser, "document.querySelectorAll('.list tbody tr').length === 1");
    assert_true(browser_is(browser, "location.hash === '#/?q=th'"));

    /* The address has it all: the same page again. */
    open_page("#/?q=large&sort=5");
    browser_await(browser, "document.querySelectorAll('.list tbody tr').length === 1");
    open_page("#/?sort=5&desc=1");
    browser_await(browser, "document.querySelectorAll('.list tbody tr').length === 4");
    assert_true(browser_is(browser, "(() => { const l = [...document.querySelectorAll('.list tbody "
                                    "tr')].map(r => parseFloat(r.cells[5].textContent)); return "
                                    "l.every((x, i) => i === 0 || l[i - 1] >= x); })()"));
    click(".list th:nth-child(6) button");
    browser_await(browser,
                  "document.querySelector('.list th:nth-child(6)').ariaSort === 'ascending'");
    click("button.state");
    browser_await(browser, "location.hash.includes('state=')");
    assert_sound();
}

static void test_browser__hostile_names_are_text(void **state)
{
    (void)state;
    open_page("");
    browser_await(browser, "document.querySelectorAll('.list tbody tr').length === 4");
    assert_true(
        browser_is(browser, "document.querySelector('.list').innerText.includes('<b>bold<b>')"));
    assert_true(
        browser_is(browser, "document.querySelector('.list').innerText.includes('<img src=x')"));
    browser_do(browser, "location.hash = [...document.querySelectorAll('.list a')].find(a => "
                        "a.textContent.includes('bold')).getAttribute('href')");
    browser_await(browser, "document.querySelector('.sample')");
    assert_true(
        browser_is(browser, "document.querySelector('.sample').innerText.includes('<img')"));
    assert_true(
        browser_is(browser, "document.querySelector('h1').textContent.includes('<b>bold<b>\\n')"));
    assert_true(
        browser_is(browser, "document.querySelectorAll('#main img, #main b').length === 0"));
    assert_true(browser_is(browser, "!document.title.includes('broken')"));
    assert_true(
        browser_is(browser, "document.body.innerText.includes('2 lines of its record cannot')"));
    assert_sound();
}

static void test_browser__runs_over_each_other(void **state)
{
    (void)state;
    open_page("");
    browser_await(browser, "document.querySelectorAll('.list tbody tr').length === 4");
    browser_do(browser, "document.querySelectorAll('.list input').forEach((box, i) => { if "
                        "(!box.ariaLabel.includes('bold')) box.click(); })");
    browser_key(browser, "o");
    browser_await(browser, "location.hash.startsWith('#/compare') && "
                           "document.querySelectorAll('.options tbody tr').length > 0");
    browser_await(browser, "document.querySelectorAll('.legend .series').length === 6");
    assert_sound();
    picture("overlay");
    if (!browser_is(browser, HAS_DYGRAPHS)) {
        return;
    }
    browser_await(browser, "document.querySelector('.plot canvas')");

    /* Zoom by dragging, then all of it again. */
    double x, y;
    place_of(".plot", &x, &y);
    browser_drag(browser, x - 100, y, x + 100, y);
    browser_await(browser, "document.querySelector('.plot').dataset.zoomed === 'true'");
    browser_move(browser, x, y);
    browser_await(browser, "/steps \\d/.test(document.querySelector('.where').textContent)");
    assert_true(browser_is(browser, "document.querySelector('.legend .value').textContent > '3'"));
    click("button.all");
    browser_await(browser, "document.querySelector('.plot').dataset.zoomed === 'false'");

    /* Other axes, kept in the address, with the keyboard's zoom. */
    browser_do(browser, "(() => { const s = document.querySelector('.choices select'); s.value = "
                        "'tokens'; s.dispatchEvent(new Event('change')); "
                        "document.querySelector('.set-logy').click(); })()");
    browser_await(browser,
                  "location.hash.includes('x=tokens') && location.hash.includes('logy=1')");
    browser_do(browser, "document.querySelector('.plot').focus()");
    browser_key(browser, "+");
    browser_await(browser, "document.querySelector('.plot').dataset.zoomed === 'true'");
    browser_key(browser, "0");
    browser_await(browser, "document.querySelector('.plot').dataset.zoomed === 'false'");
    browser_reload(browser);
    browser_await(browser, "document.querySelector('.choices select')?.value === 'tokens' && "
                           "document.querySelector('.set-logy').checked");
    assert_sound();
}

static void test_browser__a_run_as_it_goes(void **state)
{
    (void)state;
    if (browser == NULL) {
        skip();
    }
    char *dir = io_join(runs, "live");
    pid_t child = fork();
    if (child == 0) {
        execl(PACER_BINARY, "pacer", "train", "--data", "builtin:bytes", "--steps", "100000",
              "--model", "tiny", "--layers", "1", "--d-model", "16", "--heads", "2", "--batch", "1",
              "--seq", "16", "--log-every", "1", "--eval-every", "100", "--eval-batches", "1",
              "--threads", "1", "--quiet", "--out", dir, (char *)NULL);
        _exit(127);
    }
    open_page("");
    browser_await(browser, "[...document.querySelectorAll('.list tbody tr')].some(r => "
                           "r.innerText.includes('live') && r.innerText.includes('running'))");
    browser_do(browser, "location.hash = [...document.querySelectorAll('.list a')].find(a => "
                        "a.textContent === 'live').getAttribute('href')");
    const char *step = "Number([...document.querySelectorAll('.figure')].find(f => "
                       "f.innerText.startsWith('step'))?.querySelector('.number').textContent"
                       ".replaceAll(',', ''))";
    char *begun = mem_format("%s > 0", step), *further = NULL;
    browser_await(browser, begun);
    cJSON *first = browser_value(browser, step);
    further = mem_format("%s > %g && document.querySelectorAll('.legend .series').length >= 5",
                         step, first->valuedouble + 100);
    browser_await(browser, further);
    assert_sound();
    picture("run");

    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    browser_await(browser, "document.querySelector('.subtitle .state').textContent === 'dead'");
    browser_await(browser,
                  "document.querySelector('code.command').textContent.startsWith('pacer train')");
    assert_sound();
    assert_int_equal(io_remove_tree(dir), 0);
    cJSON_Delete(first);
    free(begun);
    free(further);
    free(dir);
}

static void test_browser__narrow_and_dark(void **state)
{
    (void)state;
    open_page("");
    browser_resize(browser, 390, 844);
    static const char *const schemes[] = {"light", "dark"};
    for (int i = 0; i < 2; i++) {
        browser_prefer(browser, schemes[i]);
        browser_await(browser, "document.querySelectorAll('.list tbody tr').length >= 4");
        assert_sound();
        char *colour = mem_format("getComputedStyle(document.body).backgroundColor === '%s'",
                                  i == 0 ? "rgb(255, 255, 255)" : "rgb(20, 24, 27)");
        assert_true(browser_is(browser, colour));
        free(colour);
    }
    picture("list-390");
    browser_do(browser, "location.hash = [...document.querySelectorAll('.list a')].find(a => "
                        "a.textContent.includes('small')).getAttribute('href')");
    browser_await(browser, "document.querySelectorAll('.figure').length >= 8 && "
                           "document.querySelector('.options')");
    assert_sound();
    picture("run-390");
    browser_do(browser, "document.querySelector('.theme').click()");
    assert_true(browser_is(browser,
                           "getComputedStyle(document.body).backgroundColor === "
                           "'rgb(255, 255, 255)' && localStorage['pacer-theme'] === 'light'"));
    browser_do(browser, "localStorage.clear()");

    /* Everything that can be clicked can be reached and seen with the keyboard. */
    browser_do(browser, "document.activeElement.blur()");
    for (int i = 0; i < 4; i++) {
        browser_key(browser, "Tab");
        assert_true(browser_is(browser, "document.activeElement !== document.body && "
                                        "getComputedStyle(document.activeElement).outlineStyle !== "
                                        "'none'"));
    }
    browser_do(browser, "document.activeElement.blur()");
    browser_key(browser, "?");
    assert_true(browser_is(browser, "document.querySelector('dialog').open"));
    browser_resize(browser, 1280, 900);
    browser_prefer(browser, "light");
}

/* Every kind of block, as report.html and an experiment's page have them. */
static void test_browser__blocks_of_a_document(void **state)
{
    (void)state;
    open_page("");
    char *text;
    size_t size;
    assert_int_equal(io_read_all(PACER_GOLD_DIR "/../support/blocks.json", 1 << 20, &text, &size),
                     0);
    Page script = {0};
    page_put(&script, "pacerView.show(document.getElementById('app'), ");
    page_put_bytes(&script, text, size);
    page_put(&script, ")");
    browser_do(browser, script.text);
    page_free(&script);
    free(text);
    browser_await(browser, "document.querySelectorAll('.parallel path').length === 3");
    assert_true(browser_is(browser, "document.title === 'Every <b>kind</b> of block'"));
    assert_true(browser_is(
        browser, "document.querySelectorAll('#app script, #app b, #app i').length === 0"));
    assert_true(browser_is(browser, "document.querySelectorAll('.findings li').length === 2"));
    assert_true(browser_is(
        browser, "document.querySelectorAll('.caution').length === 2")); /* and the unknown */

    /* By number, the missing last; twice the other way round. */
    const char *order = "[...document.querySelectorAll('figure.table tbody tr')].map(r => "
                        "r.cells[0].textContent).join()";
    click("figure.table th:nth-child(2) button");
    char *is = mem_format("%s === '128,8,64'", order);
    browser_await(browser, is);
    click("figure.table th:nth-child(2) button");
    free(is);
    is = mem_format("%s === '8,128,64'", order);
    browser_await(browser, is);
    free(is);

    /* Bars in proportion, with the error as a whisker. */
    assert_true(browser_is(browser,
                           "(() => { const w = [...document.querySelectorAll('[data-name=time] "
                           ".bar')].map(b => b.getBoundingClientRect().width); return "
                           "Math.abs(w[0] / w[2] - 2) < 0.05 && Math.abs(w[0] / w[1] - 6) < "
                           "0.2; })()"));
    assert_true(browser_is(browser, "document.querySelectorAll('.whisker').length === 2"));
    if (browser_is(browser, HAS_DYGRAPHS)) {
        browser_await(browser, "document.querySelector('.lines .plot').dataset.zoomed === 'true'");
        click(".lines button.all");
        browser_await(browser, "document.querySelector('.lines .plot').dataset.zoomed === 'false'");
        assert_true(browser_is(browser,
                               "document.querySelector('.lines .legend').innerText.includes("
                               "'2.5')"));
    }

    /* What is saved: the table's numbers, not their texts, and a picture with something on it. */
    browser_do(browser, "(() => { window.saved = []; const make = URL.createObjectURL; "
                        "URL.createObjectURL = (blob) => { saved.push(blob); return make(blob); }; "
                        "HTMLAnchorElement.prototype.click = function () { saved.name = "
                        "this.download; }; })()");
    browser_do(browser, "document.querySelector('figure.table .save').click()");
    assert_true(browser_is(browser, "saved.length === 1 && /^pacer-[a-z0-9-]+\\.csv$/"
                                    ".test(saved.name)"));
    assert_true(browser_is(browser, "saved[0].text().then((text) => text.split('\\r\\n')"
                                    ".length === document.querySelectorAll('figure.table')[0]"
                                    ".querySelectorAll('tr').length + 1)"));
    if (browser_is(browser, HAS_DYGRAPHS)) {
        browser_do(browser, "document.querySelector('.lines .save').click()");
        browser_await(browser, "saved.length === 2 && saved[1].type === 'image/png' && "
                               "saved[1].size > 2000");
    }
    assert_sound();
    picture("blocks");
    browser_do(browser, "document.querySelector('.parallel').scrollIntoView()");
    picture("blocks-2");
    browser_resize(browser, 390, 844);
    usleep(300000);
    assert_sound();
    picture("blocks-390");
    browser_resize(browser, 1280, 900);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_browser__list_filters_sorts_and_chooses),
        cmocka_unit_test(test_browser__hostile_names_are_text),
        cmocka_unit_test(test_browser__runs_over_each_other),
        cmocka_unit_test(test_browser__a_run_as_it_goes),
        cmocka_unit_test(test_browser__narrow_and_dark),
        cmocka_unit_test(test_browser__blocks_of_a_document),
    };
    return cmocka_run_group_tests(tests, start, end);
}
