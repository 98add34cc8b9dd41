/* A canvas of small dots, two by four in a character with braille and one without, in which the
 * line is drawn column by column: each takes the mean of its points, and reaches to its
 * neighbour's height. */
#include "report/watch.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LABEL_COLUMNS 9  /* "  4.1234 " */
#define SHORTEST 8       /* windows in a curve: a longer one would lag behind all of it */
#define LABELLED_FROM 30 /* columns of the terminal */

typedef struct {
    const WatchRun *run;
    WatchPlot plot;
    int columns, rows;   /* characters */
    int fine_x, fine_y;  /* dots of a character */
    unsigned char *dots; /* a bit for each dot: braille's own numbering, or 1 */
    bool *marks;
    double left, right, low, high; /* of the axes; loss after the logarithm */
} Canvas;

void watch_smooth(const WatchRun *run, int smoothing, double *values)
{
    const Curve *curve = &run->curve;
    double lines = curve->train.thinning.lines > 0 ? (double)curve->train.thinning.lines : 1;
    double window = fmin(ldexp(1, smoothing) / lines, (double)curve->train.count / SHORTEST);
    double share = window > 1 ? 2 / (window + 1) : 1;
    for (size_t i = 0; i < curve->train.count; i++) {
        /* The first ones are a plain mean of all so far. */
        double own = fmax(share, 1 / ((double)i + 1));
        double before = i > 0 ? values[i - 1] : 0;
        values[i] = before + (share < 1 ? own : 1) * (curve->train.points[i].loss - before);
    }
}

static double place(const Canvas *canvas, int64_t step)
{
    return canvas->plot.by_tokens ? curve_tokens(&canvas->run->curve, step) : (double)step;
}

static double height(const Canvas *canvas, double loss)
{
    return canvas->plot.log_loss ? log(loss) : loss;
}

static void widen(Canvas *canvas, double loss)
{
    if (isfinite(loss)) {
        canvas->low = fmin(canvas->low, loss);
        canvas->high = fmax(canvas->high, loss);
    }
}

static int dot_row(const Canvas *canvas, double loss)
{
    int most = canvas->rows * canvas->fine_y - 1;
    double share = (canvas->high - loss) / (canvas->high - canvas->low);
    return share <= 0 ? 0 : share >= 1 ? most : (int)lround(share * most);
}

/* A place as a column of the canvas, of `columns`. */
static int column_at(const Canvas *canvas, double at, int columns)
{
    double width = canvas->right - canvas->left;
    double share = width > 0 ? (at - canvas->left) / width : 1;
    int column = (int)(share * columns);
    return column < 0 ? 0 : column >= columns ? columns - 1 : column;
}

static void set_dot(Canvas *canvas, int x, int y)
{
    static const unsigned char bits[4][2] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};
    int cell = y / canvas->fine_y * canvas->columns + x / canvas->fine_x;
    canvas->dots[cell] |= canvas->fine_x == 1 ? 1 : bits[y % canvas->fine_y][x % canvas->fine_x];
}

/* Means of the columns of dots; between two that have points, the straight line. */
static void bin(const Canvas *canvas, const double *values, double *means)
{
    const Curve *curve = &canvas->run->curve;
    int columns = canvas->columns * canvas->fine_x, before = -1;
    int *counts = mem_zalloc((size_t)columns, sizeof *counts);
    memset(means, 0, (size_t)columns * sizeof *means);
    for (size_t i = 0; i < curve->train.count; i++) {
        double at = place(canvas, curve->train.points[i].step);
        double loss = height(canvas, values[i]);
        if (isfinite(at) && isfinite(loss)) {
            int column = column_at(canvas, at, columns);
            means[column] += (loss - means[column]) / ++counts[column];
        }
    }
    for (int column = 0; column < columns; column++) {
        if (counts[column] == 0) {
            means[column] = NAN;
            continue;
        }
        for (int gap = before + 1; before >= 0 && gap < column; gap++) {
            means[gap] = means[before] +
                         (means[column] - means[before]) * (gap - before) / (column - before);
        }
        before = column;
    }
    free(counts);
}

static void draw_line(Canvas *canvas, const double *means)
{
    int columns = canvas->columns * canvas->fine_x, before = -1;
    for (int x = 0; x < columns; x++) {
        if (isnan(means[x])) {
            before = -1;
            continue;
        }
        int own = dot_row(canvas, means[x]), from = own, to = own;
        if (before >= 0 && before < own) {
            from = before + 1;
        } else if (before > own) {
            to = before - 1;
        }
        for (int y = from; y <= to; y++) {
            set_dot(canvas, x, y);
        }
        before = own;
    }
}

static void draw_marks(Canvas *canvas)
{
    const Curve *curve = &canvas->run->curve;
    for (size_t i = 0; i < curve->validation.count; i++) {
        double at = place(canvas, curve->validation.points[i].step);
        double loss = height(canvas, curve->validation.points[i].loss);
        if (isfinite(at) && isfinite(loss)) {
            int row = dot_row(canvas, loss) / canvas->fine_y;
            canvas->marks[row * canvas->columns + column_at(canvas, at, canvas->columns)] = true;
        }
    }
}

static void put_dots(WatchText *text, unsigned char dots)
{
    /* U+2800 and the number of the dots. */
    char braille[4] = {(char)0xe2, (char)(0xa0 | dots >> 6), (char)(0x80 | (dots & 0x3f)), '\0'};
    watch_text_glyph(text, INK_CYAN, braille, '*', 1);
}

/* With the digits that tell neighbouring labels apart. */
static void loss_text(const Canvas *canvas, double loss, char *text, size_t size)
{
    bool logarithmic = canvas->plot.log_loss;
    double range = logarithmic ? exp(canvas->high) - exp(canvas->low) : canvas->high - canvas->low;
    int digits = 2 - (int)floor(log10(range));
    digits = digits < 0 ? 0 : digits > 5 ? 5 : digits;
    snprintf(text, size, "%.*f", digits, logarithmic ? exp(loss) : loss);
}

static void put_row(WatchText *text, const Canvas *canvas, int row, bool labelled)
{
    if (labelled) {
        /* The loss at the upper edge of the first row, the lower edge of the last, and between. */
        double share = canvas->rows > 1 ? (double)row / (canvas->rows - 1) : 0;
        double loss = canvas->high - share * (canvas->high - canvas->low);
        bool shown = row == canvas->rows - 1 || (row % 4 == 0 && row + 2 < canvas->rows);
        char number[32] = "";
        if (shown) {
            loss_text(canvas, loss, number, sizeof number);
        }
        watch_text_put(text, INK_DIM, "%*.*s ", LABEL_COLUMNS - 2, LABEL_COLUMNS - 2, number);
        watch_text_glyph(text, INK_DIM, "│", '|', 1);
    }
    int end = canvas->columns;
    while (end > 0 && !canvas->marks[row * canvas->columns + end - 1] &&
           canvas->dots[row * canvas->columns + end - 1] == 0) {
        end--;
    }
    for (int column = 0; column < end; column++) {
        int cell = row * canvas->columns + column;
        if (canvas->marks[cell]) {
            watch_text_glyph(text, INK_YELLOW, "◆", 'o', 1);
        } else if (canvas->dots[cell] != 0) {
            put_dots(text, canvas->dots[cell]);
        } else {
            watch_text_glyph(text, INK_PLAIN, " ", ' ', 1);
        }
    }
}

/* What the axes are, under the drawing: the ends of the range, and what the signs mean where
 * there is room. */
static void put_axis(WatchText *text, const Canvas *canvas, int indent)
{
    WatchPlot plot = canvas->plot;
    char *left = plot.by_tokens ? mem_format("%s", unit_count(canvas->left).text)
                                : mem_format("%.0f", canvas->left);
    char *right = plot.by_tokens ? mem_format("tokens %s", unit_count(canvas->right).text)
                                 : mem_format("step %.0f", canvas->right);
    char legend[96];
    bool marked = memchr(canvas->marks, true, (size_t)(canvas->columns * canvas->rows)) != NULL;
    snprintf(legend, sizeof legend, "loss%s%s%s%s", plot.log_loss ? ", log" : "",
             plot.smoothing > 0 ? ", smoothed" : "", marked ? ", validation " : "",
             !marked            ? ""
             : text->flags.utf8 ? "◆"
                                : "o");
    int room = text->flags.width - indent - (int)strlen(left) - (int)strlen(right);
    int middle = watch_text_columns(legend, text->flags.utf8);
    watch_text_put(text, INK_DIM, "%*s%s", indent, "", left);
    int before = room >= middle + 2 ? (room - middle) / 2 : room;
    watch_text_put(text, INK_PLAIN, "%*s", before > 1 ? before : 1, "");
    if (room >= middle + 2) {
        watch_text_put(text, INK_DIM, "%s%*s", legend, room - middle - before, "");
    }
    watch_text_put(text, INK_DIM, "%s", right);
    free(left);
    free(right);
}

/* The range of both axes; false when there is nothing to draw. */
static bool scale(const double *values, Canvas *canvas)
{
    const Curve *curve = &canvas->run->curve;
    canvas->left = place(canvas, curve->train.points[0].step);
    canvas->right = place(canvas, curve->train.points[curve->train.count - 1].step);
    canvas->low = INFINITY;
    canvas->high = -INFINITY;
    for (size_t i = 0; i < curve->train.count; i++) {
        widen(canvas, height(canvas, values[i]));
    }
    for (size_t i = 0; i < curve->validation.count; i++) {
        widen(canvas, height(canvas, curve->validation.points[i].loss));
    }
    if (!(canvas->high > canvas->low)) {
        canvas->low -= 0.5;
        canvas->high += 0.5;
    }
    return canvas->right >= canvas->left && isfinite(canvas->low) && isfinite(canvas->high);
}

void watch_plot(WatchText *text, const WatchRun *run, int rows)
{
    bool labelled = text->flags.width >= LABELLED_FROM;
    int indent = labelled ? LABEL_COLUMNS : 0;
    Canvas canvas = {.run = run,
                     .plot = text->flags.plot,
                     .columns = text->flags.width - indent,
                     .rows = rows - 1,
                     .fine_x = text->flags.utf8 ? 2 : 1,
                     .fine_y = text->flags.utf8 ? 4 : 1};
    size_t points = run->curve.train.count;
    if (rows < 3 || canvas.columns < 2 || points == 0) {
        return;
    }
    double *values = mem_zalloc(points, sizeof *values);
    watch_smooth(run, canvas.plot.smoothing, values);
    if (scale(values, &canvas)) {
        size_t cells = (size_t)canvas.columns * (size_t)canvas.rows;
        canvas.dots = mem_zalloc(cells, 1);
        canvas.marks = mem_zalloc(cells, sizeof *canvas.marks);
        double *means = mem_zalloc((size_t)(canvas.columns * canvas.fine_x), sizeof *means);
        bin(&canvas, values, means);
        draw_line(&canvas, means);
        draw_marks(&canvas);
        for (int row = 0; row < canvas.rows; row++) {
            watch_text_line(text);
            put_row(text, &canvas, row, labelled);
        }
        watch_text_line(text);
        put_axis(text, &canvas, indent);
        free(means);
        free(canvas.dots);
        free(canvas.marks);
    }
    free(values);
}
