#include "base/signals.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/err.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#define SAME 1.0 /* s: a signal this soon after another is the same request */

static const int asking[] = {SIGINT, SIGTERM, SIGHUP};
enum { ASKING = sizeof asking / sizeof asking[0] };

static atomic_int pending;     /* number of the signal */
static _Atomic double asked_s; /* when the first one came */
static bool claimed;
static bool no_hang_up; /* started by nohup */
static int wake = -1;   /* eventfd that can be read while an end is asked for */

/* The thread that takes signals, as long as any thread is shielded. */
static struct {
    pthread_mutex_t mutex;
    pthread_t thread;
    sem_t end;
    int shields;
    sigset_t mask; /* of the process when the first shield was raised */
} taker = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local struct {
    int depth;
    sigset_t before;
} shield;

/* Safe in a handler. */
static void wake_up(void)
{
    int error = errno;
    if (wake >= 0) {
        (void)!write(wake, &(uint64_t){1}, sizeof(uint64_t));
    }
    errno = error;
}

static void on_signal(int number)
{
    int none = 0;
    double now = clock_seconds();
    if (atomic_compare_exchange_strong(&pending, &none, number)) {
        atomic_store(&asked_s, now);
        wake_up();
    } else if (now - atomic_load(&asked_s) >= SAME) {
        signal(number, SIG_DFL);
        raise(number); /* once this handler has returned */
    }
}

/* --- the thread that takes signals --- */

static void *take_signals(void *argument)
{
    (void)argument;
    sigset_t mask = taker.mask;
    for (int i = 0; i < ASKING; i++) {
        sigdelset(&mask, asking[i]); /* a launcher may have left them blocked */
    }
    prctl(PR_SET_NAME, "pacer-signals");
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    while (sem_wait(&taker.end) != 0) {
        /* a handler has run */
    }
    return NULL;
}

/* What the kernel sends a thread for what it did itself stays deliverable, and so does what
 * reading from or writing to a terminal in the background leads to. */
static void fill_blocked(sigset_t *set)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE,  SIGILL, SIGTRAP,
                              SIGABRT, SIGSYS, SIGTTIN, SIGTTOU};
    sigfillset(set);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        sigdelset(set, own[i]);
    }
}

void signals_block(sigset_t *before)
{
    sigset_t blocked;
    fill_blocked(&blocked);
    pthread_sigmask(SIG_BLOCK, &blocked, before);
}

void signals_shield(void)
{
    if (shield.depth++ > 0) {
        return;
    }
    signals_block(&shield.before);
    pthread_mutex_lock(&taker.mutex);
    if (taker.shields++ == 0) {
        taker.mask = shield.before;
        sem_init(&taker.end, 0, 0);
        int cause = pthread_create(&taker.thread, NULL, take_signals, NULL);
        PACER_ASSERT(cause == 0, "thread for signals: %s", strerror(cause));
    }
    pthread_mutex_unlock(&taker.mutex);
}

void signals_unshield(void)
{
    PACER_ASSERT(shield.depth > 0, "no shield to take down");
    if (--shield.depth > 0) {
        return;
    }
    pthread_mutex_lock(&taker.mutex);
    if (--taker.shields == 0) {
        sem_post(&taker.end);
        pthread_join(taker.thread, NULL);
        sem_destroy(&taker.end);
    }
    pthread_mutex_unlock(&taker.mutex);
    pthread_sigmask(SIG_SETMASK, &shield.before, NULL);
}

/* --- asking for an end --- */

void signals_claim(void)
{
    claimed = true;
    struct sigaction action;
    no_hang_up = sigaction(SIGHUP, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
    signals_shield();
}

void signals_mask_before(sigset_t *mask)
{
    if (shield.depth > 0) {
        *mask = shield.before;
    } else {
        pthread_sigmask(SIG_SETMASK, NULL, mask);
    }
}

void signals_restore(void)
{
    if (claimed) {
        for (int i = 0; i < ASKING; i++) {
            signal(asking[i], asking[i] == SIGHUP && no_hang_up ? SIG_IGN : SIG_DFL);
        }
        signal(SIGPIPE, SIG_DFL);
        signal(SIGXFSZ, SIG_DFL);
    }
    sigset_t mask;
    signals_mask_before(&mask);
    sigprocmask(SIG_SETMASK, &mask, NULL);
}

void signals_forget(void)
{
    uint64_t count;
    atomic_store(&pending, 0);
    if (wake >= 0) {
        (void)!read(wake, &count, sizeof count);
    }
}

void signals_install(void)
{
    if (!claimed) {
        return;
    }
    wake = wake >= 0 ? wake : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    for (int i = 0; i < ASKING; i++) {
        sigaddset(&action.sa_mask, asking[i]); /* one after the other, in the order they came */
    }
    for (int i = 0; i < ASKING; i++) {
        if (asking[i] != SIGHUP || !no_hang_up) {
            sigaction(asking[i], &action, NULL);
        }
    }
    /* A reader that goes away (pacer train | head) must not lose the run. */
    signal(SIGPIPE, SIG_IGN);
    /* A file that meets a size limit is an error of that write, like a full disk. */
    signal(SIGXFSZ, SIG_IGN);
}

void signals_request(int code)
{
    int none = 0;
    atomic_compare_exchange_strong(&pending, &none, code == ERR_INTERRUPTED ? SIGINT : SIGTERM);
    wake_up();
}

int signals_pending(void)
{
    int number = atomic_load_explicit(&pending, memory_order_relaxed);
    return number == 0 ? 0 : number == SIGINT ? ERR_INTERRUPTED : ERR_TERMINATED;
}

int signals_check(void)
{
    int code = signals_pending();
    return code == 0 ? 0 : err_set(code, "stopped by a signal");
}

void signals_wait_readable(int file)
{
    struct pollfd ready[] = {{.fd = file, .events = POLLIN}, {.fd = wake, .events = POLLIN}};
    while (poll(ready, wake >= 0 ? 2 : 1, -1) < 0 && errno == EINTR) {
        if (signals_pending() != 0) {
            return;
        }
    }
}
