#pragma once
/* What stories are made of. The engine (stories_compile.c, stories_tell.c) knows nothing of
 * children, kites or storms; everything told is data in the stories_*.c files, of three kinds:
 *
 *   rule   a name and the lines it may become: {happy} is "glad" or "full of joy"
 *   table  a name, columns and rows. Picking a row binds all its columns at once, so that what
 *          belongs together stays together: the way a toy breaks, the tool that mends it, the patch
 *          that remains
 *   plot   what to pick, in order, and the text to tell
 *
 * Lines, cells and plot texts are templates:
 *
 *   {kite}        a bound text, else a rule, else the first column of a role
 *   {place.at}    a column of the row picked for a role (or a rule whose name has a dot)
 *   {Kite}        the same with a capital; sentence starts are capitalised anyhow, so this is
 *                 needed only behind a closing quote
 *   a {kite}      a or an, whichever fits what comes; also in front of [
 *   [x|y|]        one of these; an empty one makes the rest optional
 *
 * A rule named ~phrase says the phrase in other words: wherever it stands in a template (as whole
 * words, outside of slots and the first column of tables), a line of the rule takes its place. A
 * capital in the phrase matches only the start of a sentence outside of quotes.
 *
 * A line, a choice or a row may begin with a guard of facts: <rain !home +wet> is possible only
 * where rain is a fact and home is not, and makes wet a fact. Rows write it as their first cell,
 * without the angle brackets. Spaces left over by empty choices are dropped.
 *
 * Picks of a plot, separated by spaces:
 *
 *   place:place<water !far>  binds a row of table `place` to the role `place`. Only rows that set
 *                            the fact water and not far. A role named otherwise than its table sets
 *                            its facts with its name in front: gift:object sets gift.soft where
 *                            object:object sets soft. Facts named any_... are never prefixed.
 *   hero=hero_name           binds the text that a rule gives, to stay the same all story long
 *   +stormy                  makes a fact
 *
 * In one story, a choice of three or more does not repeat itself before all are used. */
#include <stddef.h>

typedef struct {
    const char *name;
    const char *const *lines; /* NULL-terminated */
} StoryRule;

typedef struct {
    const char *name;
    const char *columns;      /* separated by spaces */
    const char *const *cells; /* row after row: guard, then one cell per column; NULL-terminated */
} StoryTable;

typedef struct {
    const char *name;
    const char *picks;
    const char *text;
} StoryPlot;

/* One part of the content; each list ends with an entry whose name is NULL, or is NULL itself. */
typedef struct {
    const StoryRule *rules;
    const StoryTable *tables;
    const StoryPlot *plots;
} StoryContent;

#define STORY_LIST(...)   \
    (const char *const[]) \
    {                     \
        __VA_ARGS__, NULL \
    }

/* All parts, NULL-terminated (stories_words.c). */
extern const StoryContent *const stories_content[];
