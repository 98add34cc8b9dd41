#include "support/browser.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "report/page.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE 60.0 /* seconds */

struct Browser {
    pid_t pid;
    int to, from;
    int last; /* number of the last command */
    char *session;
    Page in; /* what has come and is not taken yet */
    Page complaints;
    char **requests;
    size_t request_count, request_capacity;
    bool loaded;
};

/* --- messages --- */

static void take_event(Browser *browser, const cJSON *message)
{
    const char *method = json_text_or(message, "method", "");
    const cJSON *about = json_get(message, "params");
    if (strcmp(method, "Page.loadEventFired") == 0) {
        browser->loaded = true;
    } else if (strcmp(method, "Runtime.exceptionThrown") == 0) {
        page_put(&browser->complaints, "exception: %s\n",
                 json_text_or(about, "exceptionDetails.exception.description",
                              json_text_or(about, "exceptionDetails.text", "?")));
    } else if (strcmp(method, "Runtime.consoleAPICalled") == 0 &&
               strcmp(json_text_or(about, "type", ""), "error") == 0) {
        const cJSON *first = cJSON_GetArrayItem(json_get(about, "args"), 0);
        page_put(&browser->complaints, "console: %s\n",
                 json_text_or(first, "value", json_text_or(first, "description", "?")));
    } else if (strcmp(method, "Log.entryAdded") == 0 &&
               strcmp(json_text_or(about, "entry.level", ""), "error") == 0) {
        page_put(&browser->complaints, "log: %s %s\n", json_text_or(about, "entry.text", "?"),
                 json_text_or(about, "entry.url", ""));
    } else if (strcmp(method, "Network.requestWillBeSent") == 0) {
        browser->requests = mem_grow(browser->requests, browser->request_count,
                                     &browser->request_capacity, sizeof *browser->requests);
        browser->requests[browser->request_count++] =
            mem_strdup(json_text_or(about, "request.url", "?"));
    }
}

/* The next message; NULL when none comes in time or the browser has ended. */
static cJSON *receive(Browser *browser, double until)
{
    for (;;) {
        char *end = browser->in.size > 0 ? memchr(browser->in.text, '\0', browser->in.size) : NULL;
        if (end != NULL) {
            size_t length = (size_t)(end - browser->in.text) + 1;
            cJSON *message = cJSON_Parse(browser->in.text);
            browser->in.size -= length;
            memmove(browser->in.text, browser->in.text + length, browser->in.size);
            if (message != NULL) {
                return message;
            }
            continue;
        }
        double left = until - clock_seconds();
        struct pollfd file = {.fd = browser->from, .events = POLLIN};
        static char bytes[1 << 16];
        ssize_t got = left > 0 && poll(&file, 1, (int)(1000 * left) + 1) > 0
                          ? read(browser->from, bytes, sizeof bytes)
                          : 0;
        if (got <= 0) {
            return NULL;
        }
        page_put_bytes(&browser->in, bytes, (size_t)got);
    }
}

static void send_message(Browser *browser, const char *method, cJSON *params)
{
    cJSON *message = json_object();
    json_put_whole(message, "id", ++browser->last);
    json_put_text(message, "method", method);
    json_put_item(message, "params", params != NULL ? params : json_object());
    if (browser->session != NULL) {
        json_put_text(message, "sessionId", browser->session);
    }
    char *line = json_line(message);
    for (size_t done = 0, size = strlen(line) + 1; done < size;) {
        ssize_t wrote = write(browser->to, line + done, size - done);
        if (wrote < 0 && errno != EINTR) {
            break;
        }
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    free(line);
    cJSON_Delete(message);
}

/* Its result; NULL when it fails or none comes. Caller deletes it. */
static cJSON *try_call(Browser *browser, const char *method, cJSON *params)
{
    double until = clock_seconds() + PATIENCE;
    send_message(browser, method, params);
    int wanted = browser->last;
    for (cJSON *message; (message = receive(browser, until)) != NULL;) {
        bool answer = json_number(message, "id") == wanted;
        cJSON *result = answer ? cJSON_DetachItemFromObject(message, "result") : NULL;
        if (!answer) {
            take_event(browser, message);
        }
        cJSON_Delete(message);
        if (answer) {
            return result;
        }
    }
    return NULL;
}

static cJSON *call(Browser *browser, const char *method, cJSON *params)
{
    cJSON *result = try_call(browser, method, params);
    if (result == NULL) {
        fail_msg("the browser does not answer %s", method);
    }
    return result;
}

static void order(Browser *browser, const char *method, cJSON *params)
{
    cJSON_Delete(call(browser, method, params));
}

/* --- starting and ending --- */

static void become_browser(const char *name, const char *folder, const int in[2], const int out[2])
{
    char *profile = mem_format("--user-data-dir=%s/profile", folder);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    int read_end = fcntl(in[0], F_DUPFD, 10), write_end = fcntl(out[1], F_DUPFD, 10);
    dup2(read_end, 3);
    dup2(write_end, 4);
    int nothing = open("/dev/null", O_RDWR);
    dup2(nothing, STDIN_FILENO);
    dup2(nothing, STDOUT_FILENO);
    dup2(nothing, STDERR_FILENO);
    const char *arguments[] = {name,
                               "--headless=new",
                               "--remote-debugging-pipe",
                               profile,
                               "--no-first-run",
                               "--no-default-browser-check",
                               "--disable-gpu",
                               "--disable-dev-shm-usage",
                               "--disable-background-networking",
                               "--disable-component-update",
                               "--disable-extensions",
                               "--disable-sync",
                               "--hide-scrollbars",
                               "--force-device-scale-factor=1",
                               "--window-size=1280,900",
                               geteuid() == 0 ? "--no-sandbox" : "--disable-breakpad",
                               "about:blank",
                               NULL};
    execvp(name, (char **)arguments);
    _exit(127);
}

static void end_process(Browser *browser)
{
    close(browser->to);
    close(browser->from);
    for (int i = 0; i < 100 && waitpid(browser->pid, NULL, WNOHANG) == 0; i++) {
        usleep(20000);
    }
    kill(-browser->pid, SIGKILL); /* its group: whatever of it is left */
    waitpid(browser->pid, NULL, 0);
}

static void release(Browser *browser)
{
    for (size_t i = 0; i < browser->request_count; i++) {
        free(browser->requests[i]);
    }
    free(browser->requests);
    free(browser->session);
    page_free(&browser->in);
    page_free(&browser->complaints);
    free(browser);
}

static bool attach(Browser *browser)
{
    cJSON *params = json_object();
    json_put_text(params, "url", "about:blank");
    cJSON *made = try_call(browser, "Target.createTarget", params);
    if (json_text(made, "targetId") == NULL) {
        cJSON_Delete(made);
        return false;
    }
    params = json_object();
    json_put_text(params, "targetId", json_text(made, "targetId"));
    json_put_bool(params, "flatten", true);
    cJSON *attached = try_call(browser, "Target.attachToTarget", params);
    const char *session = json_text(attached, "sessionId");
    browser->session = session != NULL ? mem_strdup(session) : NULL;
    cJSON_Delete(made);
    cJSON_Delete(attached);
    return browser->session != NULL;
}

Browser *browser_start(const char *folder, const char **why)
{
    static const char *const names[] = {"chromium", "chromium-browser", "google-chrome", "chrome"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int in[2], out[2];
        assert_int_equal(pipe2(in, O_CLOEXEC), 0);
        assert_int_equal(pipe2(out, O_CLOEXEC), 0);
        Browser *browser = mem_zalloc(1, sizeof *browser);
        browser->pid = fork();
        if (browser->pid == 0) {
            become_browser(names[i], folder, in, out);
        }
        close(in[0]);
        close(out[1]);
        browser->to = in[1];
        browser->from = out[0];
        signal(SIGPIPE, SIG_IGN);
        if (attach(browser)) {
            order(browser, "Page.enable", NULL);
            order(browser, "Runtime.enable", NULL);
            order(browser, "Log.enable", NULL);
            order(browser, "Network.enable", NULL);
            return browser;
        }
        end_process(browser);
        release(browser);
    }
    *why = "there is no Chromium that starts here";
    return NULL;
}

void browser_stop(Browser *browser)
{
    free(browser->session);
    browser->session = NULL;
    cJSON_Delete(try_call(browser, "Browser.close", NULL));
    end_process(browser);
    release(browser);
}

/* --- pages --- */

void browser_open(Browser *browser, const char *address)
{
    cJSON *params = json_object();
    browser->loaded = false;
    json_put_text(params, "url", address);
    order(browser, "Page.navigate", params);
    double until = clock_seconds() + PATIENCE;
    for (cJSON *message; !browser->loaded && (message = receive(browser, until)) != NULL;) {
        take_event(browser, message);
        cJSON_Delete(message);
    }
    assert_true(browser->loaded);
}

void browser_reload(Browser *browser)
{
    order(browser, "Page.reload", NULL);
}

void browser_resize(Browser *browser, int width, int height)
{
    cJSON *params = json_object();
    json_put_whole(params, "width", width);
    json_put_whole(params, "height", height);
    json_put_number(params, "deviceScaleFactor", 1);
    json_put_bool(params, "mobile", false);
    order(browser, "Emulation.setDeviceMetricsOverride", params);
}

void browser_prefer(Browser *browser, const char *scheme)
{
    cJSON *params = json_object(), *feature = json_object();
    json_put_text(feature, "name", "prefers-color-scheme");
    json_put_text(feature, "value", scheme);
    json_append(json_put_array(params, "features"), feature);
    order(browser, "Emulation.setEmulatedMedia", params);
}

/* NULL: the page is on its way to another. */
static cJSON *evaluate(Browser *browser, const char *expression)
{
    cJSON *params = json_object();
    json_put_text(params, "expression", expression);
    json_put_bool(params, "returnByValue", true);
    json_put_bool(params, "awaitPromise", true);
    return try_call(browser, "Runtime.evaluate", params);
}

cJSON *browser_value(Browser *browser, const char *expression)
{
    cJSON *result = evaluate(browser, expression);
    if (result == NULL) {
        fail_msg("the browser does not answer %s", expression);
    }
    if (json_get(result, "exceptionDetails") != NULL) {
        fail_msg("%s: %s", expression,
                 json_text_or(result, "exceptionDetails.exception.description", "threw"));
    }
    cJSON *value = json_copy(json_find(result, "result.value"));
    cJSON_Delete(result);
    return value;
}

void browser_do(Browser *browser, const char *expression)
{
    cJSON_Delete(browser_value(browser, expression));
}

bool browser_is(Browser *browser, const char *expression)
{
    cJSON *value = browser_value(browser, expression);
    bool is = cJSON_IsTrue(value);
    cJSON_Delete(value);
    return is;
}

void browser_await(Browser *browser, const char *expression)
{
    double until = clock_seconds() + PATIENCE;
    char *asked = mem_format("Boolean(%s)", expression);
    bool is = false;
    while (!is && clock_seconds() < until) {
        cJSON *result = evaluate(browser, asked);
        is = json_is_true(result, "result.value");
        cJSON_Delete(result);
        if (!is) {
            usleep(30000);
        }
    }
    free(asked);
    if (!is) {
        cJSON *text = browser_value(browser, "document.body.innerText.slice(0, 1500)");
        fail_msg("a minute is not enough until %s; the page says: %s", expression,
                 cJSON_IsString(text) ? text->valuestring : "");
    }
}

/* --- hands --- */

static void mouse(Browser *browser, const char *type, double x, double y, bool pressed)
{
    cJSON *params = json_object();
    json_put_text(params, "type", type);
    json_put_number(params, "x", x);
    json_put_number(params, "y", y);
    json_put_text(params, "button", pressed ? "left" : "none");
    json_put_whole(params, "buttons", pressed);
    json_put_whole(params, "clickCount", strcmp(type, "mouseMoved") != 0);
    order(browser, "Input.dispatchMouseEvent", params);
}

void browser_move(Browser *browser, double x, double y)
{
    mouse(browser, "mouseMoved", x, y, false);
}

void browser_drag(Browser *browser, double x, double y, double to_x, double to_y)
{
    mouse(browser, "mouseMoved", x, y, false);
    mouse(browser, "mousePressed", x, y, true);
    for (int i = 1; i <= 8; i++) {
        mouse(browser, "mouseMoved", x + (to_x - x) * i / 8, y + (to_y - y) * i / 8, true);
    }
    mouse(browser, "mouseReleased", to_x, to_y, true);
}

void browser_click(Browser *browser, double x, double y)
{
    browser_drag(browser, x, y, x, y);
}

void browser_key(Browser *browser, const char *key)
{
    static const char *const types[] = {"keyDown", "keyUp"};
    for (int i = 0; i < 2; i++) {
        cJSON *params = json_object();
        json_put_text(params, "type", types[i]);
        json_put_text(params, "key", key);
        if (strcmp(key, "Tab") == 0) {
            json_put_whole(params, "windowsVirtualKeyCode", 9);
        } else if (i == 0 && strlen(key) == 1) {
            json_put_text(params, "text", key);
        }
        order(browser, "Input.dispatchKeyEvent", params);
    }
}

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void browser_picture(Browser *browser, const char *path)
{
    cJSON *params = json_object();
    json_put_text(params, "format", "png");
    cJSON *result = call(browser, "Page.captureScreenshot", params);
    const char *text = json_text_or(result, "data", "");
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    uint32_t bits = 0;
    int count = 0;
    for (const char *place; *text != '\0' && (place = strchr(digits, *text)) != NULL; text++) {
        bits = bits << 6 | (uint32_t)(place - digits);
        count += 6;
        if (count >= 8) {
            count -= 8;
            fputc((int)(bits >> count & 0xff), file);
        }
    }
    assert_int_equal(fclose(file), 0);
    cJSON_Delete(result);
}

/* --- what was seen --- */

char *browser_complaints(Browser *browser)
{
    cJSON_Delete(browser_value(browser, "0")); /* takes what has come until now */
    char *text = mem_strdup(browser->complaints.text != NULL ? browser->complaints.text : "");
    page_free(&browser->complaints);
    return text;
}

const char *browser_foreign_request(const Browser *browser, const char *prefix)
{
    for (size_t i = 0; i < browser->request_count; i++) {
        const char *url = browser->requests[i];
        if (strncmp(url, prefix, strlen(prefix)) != 0 && strncmp(url, "data:", 5) != 0 &&
            strncmp(url, "about:", 6) != 0) {
            return url;
        }
    }
    return NULL;
}

int browser_requests(const Browser *browser)
{
    return (int)browser->request_count;
}
