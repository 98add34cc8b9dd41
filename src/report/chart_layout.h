#pragma once
/* Where the parts of a picture stand. Units: the picture is FIGURE_WIDTH wide, its height
 * follows from what is in it; places count from its top left. */
#include "report/chart_plot.h"
#include "report/chart_scale.h"

#define FIGURE_WIDTH 520.0
#define FIGURE_TEXT 13.0 /* sizes of fonts */
#define FIGURE_TITLE 15.0
#define FIGURE_SMALL 11.0
#define FIGURE_LINE 18.0        /* from one line of text to the next */
#define FIGURE_LABEL_ROOM 180.0 /* for the labels of lying bars */
#define FIGURE_MAX_LINES 4
#define FIGURE_LINE_BYTES 320

typedef struct {
    double x, y; /* of the middle of its left edge */
    char text[FIGURE_LINE_BYTES];
} LegendEntry;

typedef struct {
    const Plot *plot;
    bool lying;          /* bars from left to right, categories under each other */
    Scale values, along; /* along: x of lines */
    double left, right, top, bottom, height; /* margins, and the whole picture's height */
    double row;                              /* of lying bars: height of a category */
    LegendEntry *entries;                    /* one per series; NULL: no legend */
} Figure;

/* The plot has a value. */
void figure_plan(Figure *figure, const Plot *plot);
void figure_free(Figure *figure);

/* Breaks text at spaces into lines no wider than `room`; what does not fit into `most` lines
 * ends in "...". Returns how many lines there are. */
int figure_wrap(const char *text, double room, double font, int most,
                char lines[][FIGURE_LINE_BYTES]);

/* What a text takes, estimated on the safe side. */
double figure_text_width(const char *text, double font);
