/* The signals that end or stop the program are blocked except while it waits, so that none falls
 * between looking and waiting. Those of a crash give the terminal back first: everything in
 * their handler may be called from one. */
#include "cli/screen.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/signals.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define PLAIN_WIDTH 80
#define PLAIN_HEIGHT 30
#define TEXT_WIDTH 100  /* above it lines are no longer easy to read */
#define MOST_CELLS 1000 /* columns or lines that are believed */

/* Other screen, no cursor, no wrapping at the edge; and back. */
static const char enter[] = "\033[?1049h\033[?25l\033[?7l\033[2J";
static const char leave[] = "\033[?7h\033[0m\033[?25h\033[?1049l";

static const int handled[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP};
static const int crashes[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};

static struct {
    volatile sig_atomic_t open, ended, resized, stopped;
    bool has_keys, exits;
    struct termios before;
    sigset_t waiting; /* the mask while it waits */
    WatchText shown;
} screen;

bool screen_is_possible(void)
{
    const char *term = getenv("TERM");
    return isatty(STDOUT_FILENO) && term != NULL && term[0] != '\0' && strcmp(term, "dumb") != 0;
}

bool screen_has_colour(void)
{
    const char *refused = getenv("NO_COLOR");
    return screen_is_possible() && (refused == NULL || refused[0] == '\0');
}

bool screen_has_utf8(void)
{
    return setlocale(LC_CTYPE, "") != NULL && strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

static int size_from(const char *name, int otherwise)
{
    const char *text = getenv(name);
    int size = text != NULL ? atoi(text) : 0;
    return size > 0 ? size : otherwise;
}

void screen_size(int *width, int *height)
{
    struct winsize size = {0};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
        *width = size.ws_col;
        *height = size.ws_row;
    } else {
        *width = size_from("COLUMNS", PLAIN_WIDTH);
        *height = size_from("LINES", PLAIN_HEIGHT);
    }
    *width = *width < MOST_CELLS ? *width : MOST_CELLS;
    *height = *height < MOST_CELLS ? *height : MOST_CELLS;
}

int screen_text_width(void)
{
    int width = TEXT_WIDTH, height;
    if (isatty(STDOUT_FILENO)) {
        screen_size(&width, &height);
    }
    return width < TEXT_WIDTH ? width : TEXT_WIDTH;
}

static bool write_all(const char *text, size_t size)
{
    while (size > 0) {
        ssize_t part = write(STDOUT_FILENO, text, size);
        if (part < 0 && errno != EINTR && errno != EAGAIN) {
            return false;
        }
        if (part < 0 && errno == EAGAIN) {
            struct pollfd out = {STDOUT_FILENO, POLLOUT, 0};
            poll(&out, 1, -1);
        }
        text += part > 0 ? part : 0;
        size -= part > 0 ? (size_t)part : 0;
    }
    return true;
}

static void take_terminal(void)
{
    if (screen.has_keys) {
        struct termios raw = screen.before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO); /* Ctrl-C and Ctrl-Z stay signals */
        raw.c_cc[VMIN] = 0;
        raw.c_cc[VTIME] = 0;
        tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    screen.open = 1;
    write_all(enter, sizeof enter - 1);
    watch_text_free(&screen.shown);
}

static void give_back(void)
{
    if (!screen.open) {
        return;
    }
    screen.open = 0;
    write_all(leave, sizeof leave - 1);
    if (screen.has_keys) {
        tcsetattr(STDIN_FILENO, TCSANOW, &screen.before);
    }
}

static void on_signal(int number)
{
    if (number == SIGWINCH) {
        screen.resized = 1;
    } else if (number == SIGTSTP) {
        screen.stopped = 1;
    } else {
        screen.ended = number;
    }
}

static void on_crash(int number)
{
    give_back();
    signal(number, SIG_DFL);
    raise(number);
}

static void set_handlers(const int *numbers, size_t count, void (*handler)(int))
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    for (size_t i = 0; i < count; i++) {
        sigaction(numbers[i], &action, NULL);
    }
}

int screen_open(void)
{
    signals_unshield(); /* nothing is computed here, and ppoll is to end with a signal */
    screen.has_keys = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &screen.before) == 0;
    sigset_t blocked;
    sigemptyset(&blocked);
    for (size_t i = 0; i < sizeof handled / sizeof handled[0]; i++) {
        sigaddset(&blocked, handled[i]);
    }
    sigprocmask(SIG_BLOCK, &blocked, &screen.waiting);
    set_handlers(handled, sizeof handled / sizeof handled[0], on_signal);
    set_handlers(crashes, sizeof crashes / sizeof crashes[0], on_crash);
    signal(SIGPIPE, SIG_IGN);
    if (!screen.exits && atexit(give_back) == 0) {
        screen.exits = true;
    }
    take_terminal();
    return 0;
}

void screen_close(void)
{
    give_back();
    watch_text_free(&screen.shown);
}

int screen_show(const WatchText *frame)
{
    WatchText *shown = &screen.shown;
    Page out = {0};
    bool anew = shown->lines == NULL || shown->flags.width != frame->flags.width ||
                shown->flags.height != frame->flags.height;
    if (anew) {
        page_put(&out, "\033[2J");
    }
    int rows = !anew && shown->count > frame->count ? shown->count : frame->count;
    for (int i = 0; i < rows; i++) {
        const char *line = i < frame->count ? frame->lines[i].text : "";
        const char *before = anew || i >= shown->count ? "" : shown->lines[i].text;
        if (strcmp(line, before) != 0) {
            page_put(&out, "\033[%d;1H\033[K%s", i + 1, line);
        }
    }
    bool good = out.size == 0 || write_all(out.text, out.size);
    page_free(&out);
    watch_text_free(shown);
    watch_text_init(shown, &frame->flags);
    watch_text_append(shown, frame, frame->count);
    return good ? 0 : err_set(ERR_FAILED, "cannot write to the terminal: %s", strerror(errno));
}

/* Ctrl-Z: stops as any program does, with the terminal as it was, and takes it again afterwards. */
static void stop_for_a_while(void)
{
    screen.stopped = 0;
    give_back();
    raise(SIGSTOP);
    take_terminal();
}

ScreenEvent screen_wait(double seconds, char *key)
{
    struct pollfd in = {STDIN_FILENO, POLLIN, 0};
    struct timespec time = {(time_t)seconds, (long)(1e9 * (seconds - floor(seconds)))};
    int ready = ppoll(&in, screen.has_keys ? 1 : 0, &time, &screen.waiting);
    if (screen.ended != 0) {
        return SCREEN_ENDED;
    }
    if (screen.stopped) {
        stop_for_a_while();
        return SCREEN_RESIZED;
    }
    if (screen.resized) {
        screen.resized = 0;
        return SCREEN_RESIZED;
    }
    if (ready > 0) {
        char rest[64];
        if (read(STDIN_FILENO, key, 1) <= 0) {
            screen.ended = SIGHUP; /* the terminal is gone */
            return SCREEN_ENDED;
        }
        if (*key != '\033') {
            return SCREEN_KEY;
        }
        while (read(STDIN_FILENO, rest, sizeof rest) > 0) {
            /* arrows and their like begin with an escape; they mean nothing here */
        }
    }
    return SCREEN_TIME;
}

int screen_signal(void)
{
    return screen.ended == 0 ? 0 : screen.ended == SIGINT ? ERR_INTERRUPTED : ERR_TERMINATED;
}
