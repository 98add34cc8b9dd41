/* "Did you mean": the optimal string alignment distance (insert, delete, replace, swap
 * neighbours). */
#include "config/config.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define MAX_LENGTH 48 /* longer text is compared by its beginning */

static int lower(char c)
{
    return tolower((unsigned char)c);
}

static int smallest(int a, int b)
{
    return a < b ? a : b;
}

static int distance(const char *a, const char *b)
{
    size_t a_length = strnlen(a, MAX_LENGTH), b_length = strnlen(b, MAX_LENGTH);
    int row[3]
           [MAX_LENGTH + 1]; /* row[i % 3][j]: distance of the first i of a to the first j of b */
    for (size_t j = 0; j <= b_length; j++) {
        row[0][j] = (int)j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        int *now = row[i % 3], *before = row[(i + 2) % 3], *earlier = row[(i + 1) % 3];
        now[0] = (int)i;
        for (size_t j = 1; j <= b_length; j++) {
            bool same = lower(a[i - 1]) == lower(b[j - 1]);
            now[j] = smallest(before[j - 1] + !same, smallest(before[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                lower(a[i - 2]) == lower(b[j - 1])) {
                now[j] = smallest(now[j], earlier[j - 2] + 1);
            }
        }
    }
    return row[a_length % 3][b_length];
}

const char *config_nearest(const char *text, const char *const *names, bool *likely)
{
    const char *best = NULL;
    int best_distance = 0;
    size_t length = strnlen(text, MAX_LENGTH);
    for (size_t i = 0; names[i] != NULL; i++) {
        int d = distance(text, names[i]);
        /* The beginning of a name is as good as one slip: weight for weight-decay. */
        if (d > 1 && length >= 3 && strncasecmp(text, names[i], length) == 0) {
            d = 1;
        }
        if (best == NULL || d < best_distance) {
            best = names[i];
            best_distance = d;
        }
    }
    *likely = best != NULL && best_distance <= 1 + (int)length / 4;
    return best;
}
