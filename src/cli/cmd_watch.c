/* pacer watch: a run directory or an experiment's folder as a screen that follows it, or as one
 * plain frame. */
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "cli/commands.h"
#include "cli/screen.h"
#include "report/results.h"
#include "report/watch.h"

#include <stdio.h>
#include <string.h>

#define FIRST_SMOOTHING 3

/* What is watched. A folder that is not there yet may become either. */
typedef struct {
    const char *dir;
    bool is_experiment;
    WatchRun run;
    WatchExperiment experiment;
} Watched;

static void look(Watched *watched)
{
    if (!watched->is_experiment && results_is_experiment(watched->dir)) {
        watched->is_experiment = true;
        watch_experiment_open(&watched->experiment, watched->dir);
    }
    if (watched->is_experiment) {
        watch_experiment_poll(&watched->experiment);
    } else {
        watch_poll(&watched->run);
    }
}

static void view(const Watched *watched, const WatchFlags *flags, WatchText *out)
{
    if (watched->is_experiment) {
        watch_experiment_view(&watched->experiment, flags, out);
    } else {
        watch_view(&watched->run, flags, out);
    }
}

/* Whether --once has something to show. */
static int check_there(const Watched *watched)
{
    bool there =
        watched->is_experiment ? watched->experiment.json != NULL : watched->run.run != NULL;
    if (there) {
        return 0;
    }
    return err_set(ERR_INPUT,
                   "%s: neither a run (run.json) nor an experiment (experiment.json); without "
                   "--once, in a terminal, watch waits for it",
                   watched->dir);
}

static int print_once(Watched *watched, WatchFlags *flags)
{
    look(watched);
    int code = check_there(watched);
    if (code != 0) {
        return code;
    }
    WatchText frame;
    view(watched, flags, &frame);
    for (int i = 0; i < frame.count; i++) {
        puts(frame.lines[i].text);
    }
    watch_text_free(&frame);
    return 0;
}

/* False: the key ends the view. */
static bool act_on(char key, WatchFlags *flags)
{
    WatchPlot *plot = &flags->plot;
    bool *toggled = key == ' '   ? &flags->paused
                    : key == 'h' ? &flags->help
                    : key == 'l' ? &plot->log_loss
                    : key == 't' ? &plot->by_tokens
                                 : NULL;
    if (toggled != NULL) {
        *toggled = !*toggled;
    }
    plot->smoothing += key == '+' && plot->smoothing < WATCH_MAX_SMOOTHING;
    plot->smoothing -= key == '-' && plot->smoothing > 0;
    return key != 'q';
}

static int follow(Watched *watched, WatchFlags *flags, double every)
{
    int code = screen_open();
    double due = clock_seconds();
    for (bool on = true; on && code == 0;) {
        double now = clock_seconds();
        if (now >= due) {
            due = now + every;
            if (!flags->paused) {
                look(watched);
            }
        }
        screen_size(&flags->width, &flags->height);
        WatchText frame;
        view(watched, flags, &frame);
        code = screen_show(&frame);
        watch_text_free(&frame);
        double left = due - clock_seconds();
        char key = '\0';
        ScreenEvent event = code == 0 ? screen_wait(left > 0 ? left : 0, &key) : SCREEN_TIME;
        on = event == SCREEN_KEY ? act_on(key, flags) : event != SCREEN_ENDED;
    }
    screen_close();
    int signal = screen_signal();
    return code == 0 && signal != 0 ? err_set(signal, "the view was ended; the run is as it was")
                                    : code;
}

int cmd_watch(Config *cfg)
{
    Watched watched = {.dir = cfg->argv[0]};
    if (io_exists(watched.dir) && !io_is_folder(watched.dir)) {
        return err_set(ERR_INPUT, "%s: not a folder; give the run's directory", watched.dir);
    }
    bool once = cfg->once || !screen_is_possible();
    WatchFlags flags = {.utf8 = screen_has_utf8(),
                        .colour = screen_has_colour(),
                        .plot = {.smoothing = FIRST_SMOOTHING},
                        .keys = !once};
    screen_size(&flags.width, &flags.height);
    watch_open(&watched.run, watched.dir);
    int code = once ? print_once(&watched, &flags) : follow(&watched, &flags, cfg->every);
    watch_close(&watched.run);
    if (watched.is_experiment) {
        watch_experiment_close(&watched.experiment);
    }
    return code;
}
