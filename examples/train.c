/* Trains a small model on pacer's own stories and says how it went:
 *
 *     cc -o train train.c $(pkg-config --cflags --libs pacer)
 *     ./train --steps 200
 *
 * Arguments are options of `pacer train`, as pairs of --name and value. Ctrl-C ends the training
 * after its step, saved; started again, it goes on. */
#include <pacer.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The signals are this program's: the library installs no handlers. */
static void on_interrupt(int number)
{
    (void)number;
    pacer_stop();
}

static int on_step(const pacer_step *step, void *user)
{
    FILE *file = user;
    fprintf(file, "step %lld of %lld: loss %.4f, learning rate %.2e, %.0f tokens/s\n",
            (long long)step->step, (long long)step->steps, step->loss, step->lr, step->tok_s);
    return 0; /* anything else would end the training here */
}

/* The first of the codes that is no success ends the program. */
static void check(int code)
{
    if (code != PACER_OK) {
        fprintf(stderr, "train: %s\n", pacer_error());
        exit(-code);
    }
}

int main(int argc, char **argv)
{
    pacer_options *options;
    check(pacer_options_new("train", &options));
    check(pacer_options_set(options, "data", "builtin:stories"));
    check(pacer_options_set(options, "steps", "200"));
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *name = argv[i];
        check(
            pacer_options_set(options, name + (strncmp(name, "--", 2) == 0 ? 2 : 0), argv[i + 1]));
    }

    signal(SIGINT, on_interrupt);
    pacer_result *result;
    int code = pacer_train(options, on_step, stdout, &result);
    pacer_options_free(options);
    if (code == PACER_STOPPED) {
        printf("stopped: %s\n", pacer_error());
    } else if (code == PACER_CHECK) { /* trained, but two numbers of its record do not agree */
        printf("doubtful: %s\n", pacer_error());
    } else {
        check(code);
    }
    printf("%s: %.0f steps, training loss %.4f, validation loss %.4f, %.0f tokens/s\n",
           pacer_result_directory(result), pacer_result_number(result, "steps"),
           pacer_result_number(result, "train_loss"), pacer_result_number(result, "val_loss"),
           pacer_result_number(result, "tok_s"));
    pacer_result_free(result);
    return -code;
}
