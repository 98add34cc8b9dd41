/* "Did you mean": the optimal string alignment distance (insert, delete, replace, swap
 * neighbours), by which a name must be near, and words that a name shares with the text. */
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

/* How many letters both begin with. */
static int common(const char *a, const char *b)
{
    int count = 0;
    while (a[count] != '\0' && lower(a[count]) == lower(b[count])) {
        count++;
    }
    return count;
}

/* Whether `name` is the first letters of the words of text: lr of learning-rate. */
static bool is_initials(const char *name, const char *text)
{
    bool starts = true;
    for (; *text != '\0'; text++) {
        if (starts && lower(*name++) != lower(*text)) {
            return false;
        }
        starts = *text == '-' || *text == '_';
    }
    return *name == '\0';
}

/* Whether every word of `name` is one of text's: max-tokens of max-new-tokens. */
static bool is_within(const char *name, const char *text)
{
    for (size_t length; *name != '\0'; name += length + (name[length] != '\0')) {
        length = strcspn(name, "-_");
        const char *word = text;
        while (*word != '\0' &&
               (strncasecmp(word, name, length) != 0 || strcspn(word, "-_") != length)) {
            word += strcspn(word, "-_");
            word += *word != '\0';
        }
        if (*word == '\0') {
            return false;
        }
    }
    return true;
}

/* In slips of the keyboard. A name and its beginning, its words or their initials are near: weight
 * for weight-decay, output for out, batch-size for batch, learning-rate for lr. */
static int slips(const char *text, const char *name)
{
    size_t of_text = strnlen(text, MAX_LENGTH), of_name = strnlen(name, MAX_LENGTH);
    size_t shared = (size_t)common(text, name);
    int d = distance(text, name);
    if ((shared >= 3 && shared == of_text) || (of_name >= 3 && is_within(name, text)) ||
        (of_name >= 2 && is_initials(name, text))) {
        d = smallest(d, 1);
    } else if (shared >= 3 && shared == of_name && of_text - of_name <= 3) {
        d = smallest(d, 2);
    }
    return d;
}

const char *config_nearest(const char *text, const char *const *names)
{
    const char *best = NULL;
    int least = 0;
    for (size_t i = 0; names[i] != NULL; i++) {
        size_t a = strnlen(text, MAX_LENGTH), b = strnlen(names[i], MAX_LENGTH);
        int most = smallest(((int)(a > b ? a : b) + 1) / 3, 3), d = slips(text, names[i]);
        if (d <= most && (best == NULL || d < least ||
                          (d == least && common(text, names[i]) > common(text, best)))) {
            best = names[i];
            least = d;
        }
    }
    return best;
}
