/* Tables to records. Three shapes:
 *   rows are runs:      | Batch | GPUs | tok/s |            a record per row
 *   grouped columns:    |       | Batch 64 |  | Batch 128 | |   a record per row and group; the
 *                       first row |       | Time | Speedup | Time | Speedup |     below holds
 *                       the names
 *   columns are runs:   | Metric | 128 tokens | 512 tokens |    names in the first cell of each
 *                       row
 * A column of steps makes the rows points of one run, a column of ranks parts of one. A cell counts
 * only when it is a number and nothing else. */
#include "audit/evidence.h"
#include "audit/scan.h"

#include <ctype.h>
#include <string.h>

typedef struct {
    char phrase[PHRASE_SIZE]; /* of its name, without the unit */
    Quantity quantity;        /* Q_NONE: the units of its cells may still tell */
    unsigned marks;
    Unit unit;
    double scale;
    double settings[Q_LAST_SETTING + 1]; /* that the header names: "Batch-size 64" */
    bool identified, empty;
    bool clock; /* "Time (h:mm)" */
} Column;

typedef struct {
    Evidence *evidence;
    int header, section, count;
    bool log, by_rank;
    bool doubtful; /* neither rows nor columns are surely runs */
    Column columns[DOCUMENT_MAX_CELLS];
} Table;

bool evidence_label(const Names *names, const char *text, double settings[Q_LAST_SETTING + 1])
{
    static _Thread_local ScanItem items[SCAN_MAX_ITEMS];
    int count = scan_line(text, items);
    bool found = false, several[Q_LAST_SETTING + 1] = {false};
    for (int i = 0; i < count; i++) {
        const Number *number = &items[i].number;
        unsigned marks;
        size_t length;
        Quantity quantity = quantity_match(names, items[i].before, number->unit, &marks);
        if (i > 0 && strcmp(items[i - 1].after, items[i].before) == 0) {
            quantity = Q_NONE; /* "8 GPUs (1 node)": words of the last number */
        }
        if (!quantity_is_setting(quantity)) {
            quantity = quantity_begins(names, items[i].after, number->unit, &length);
        }
        if (quantity == Q_TOKENS && number->value < 1e6) {
            quantity = Q_SEQ;
        }
        if (!quantity_is_setting(quantity) || number->unit != UNIT_NONE || !(number->value > 0)) {
            continue;
        }
        several[quantity] |= number->range || number->open ||
                             (settings[quantity] > 0 && settings[quantity] != number->value);
        settings[quantity] = several[quantity] ? 0 : number->value;
        found |= !several[quantity];
    }
    return found;
}

/* Takes the unit off a name, "Time (ms)", "Peak GPU MB", "step_time_s", "tok/s/GPU"; returns how
 * much of it is the name. */
static size_t split_unit(const Names *names, const char *cell, Column *column, bool *per_rank)
{
    size_t length = strlen(cell);
    const char *last = strrchr(cell, ' ');
    const char *open = strrchr(cell, '('), *bracket = strrchr(cell, '[');
    open = bracket > open ? bracket : open;
    if (number_unit(cell, length, &column->unit, &column->scale, per_rank) > 0) {
        return length; /* the unit is the name */
    }
    if (open != NULL && (cell[length - 1] == ')' || cell[length - 1] == ']')) {
        size_t size = (size_t)(cell + length - 1 - (open + 1));
        column->clock = size == 4 && strncasecmp(open + 1, "h:mm", 4) == 0;
        if (column->clock ||
            number_unit(open + 1, size, &column->unit, &column->scale, per_rank) > 0) {
            return (size_t)(open - cell);
        }
    }
    size_t size = last != NULL ? length - (size_t)(last + 1 - cell) : 0;
    if (size > 0 && number_unit(last + 1, size, &column->unit, &column->scale, per_rank) > 0) {
        unsigned marks;
        phrase_make(cell, length - size, column->phrase);
        if (size > 1 || quantity_match(names, column->phrase, column->unit, &marks) != Q_NONE) {
            return length - size;
        }
        column->unit = UNIT_NONE;
        column->scale = 1;
    }
    static const char *const per[] = {"/step", "/iter", "/iteration"};
    for (size_t i = 0; i < sizeof per / sizeof per[0] && size > 0; i++) { /* "all-reduce ms/step" */
        size_t tail = strlen(per[i]);
        if (size > tail && strcasecmp(cell + length - tail, per[i]) == 0 &&
            number_unit(last + 1, size - tail, &column->unit, &column->scale, per_rank) > 0 &&
            column->unit == UNIT_SECONDS) {
            return length - size;
        }
        column->unit = UNIT_NONE;
        column->scale = 1;
    }
    if (length > 1 && cell[length - 1] == '%') {
        column->unit = UNIT_PERCENT;
        column->scale = 0.01;
        return length - 1;
    }
    return length;
}

static void name_cell(const Names *names, const char *cell, Column *column)
{
    size_t length = strlen(cell);
    bool per_rank = false;
    column->unit = UNIT_NONE;
    column->scale = 1;
    size_t name = split_unit(names, cell, column, &per_rank);
    Unit unit = column->clock ? UNIT_SECONDS : column->unit;
    phrase_make(cell, name, column->phrase);
    column->quantity = quantity_match(names, column->phrase, unit, &column->marks);
    if (column->quantity == Q_NONE && name < length) { /* "tokens / sec" is a name as a whole */
        phrase_make(cell, length, column->phrase);
        column->quantity = quantity_match(names, column->phrase, unit, &column->marks);
    }
    column->marks |= per_rank ? MARK_PER_RANK : 0;
    if (unit == UNIT_NONE && quantity_is_time(column->quantity)) { /* "s/epoch" */
        number_unit(column->phrase + 1, strcspn(column->phrase + 1, " "), &column->unit,
                    &column->scale, &per_rank);
    }
}

/* What a column, or a row, is called: "global_batch_size", and where that is no name, also
 * "GlobalBatchSize". */
static void name_column(const Names *names, const char *header, Column *column)
{
    char cell[PHRASE_SIZE];
    size_t used = 0;
    for (int split = 0; split < 2; split++) {
        used = 0;
        for (size_t i = 0; header[i] != '\0' && used + 2 < sizeof cell; i++) {
            char before = i > 0 ? header[i - 1] : ' ';
            bool word = isupper((unsigned char)header[i]) &&
                        (islower((unsigned char)before) ||
                         (isupper((unsigned char)before) && islower((unsigned char)header[i + 1])));
            if (split && word) {
                cell[used++] = ' ';
            }
            cell[used++] = header[i] == '_' ? ' ' : header[i];
        }
        cell[used] = '\0';
        if (split == 0 || column->quantity == Q_NONE) {
            Column kept = *column;
            name_cell(names, cell, column);
            *column = split == 1 && column->quantity == Q_NONE ? kept : *column;
        }
    }
}

/* The number of a cell and the mean of a call in parentheses behind it; 0 when it holds more. */
static int read_cell(const char *cell, const Column *column, Number numbers[2])
{
    bool bound = cell[0] == '<' || cell[0] == '>';
    cell += bound;
    cell += strncmp(cell, "\xe2\x89\x88", 3) == 0 ? 3 : 0;
    cell += strspn(cell, " ");
    char timed[32];
    size_t length = number_read_clock(cell, &numbers[0]), size = strlen(cell);
    if (length == 0 && column->clock && size + 3 < sizeof timed) {
        memcpy(timed, cell, size);
        memcpy(timed + size, " h", 3);
        length = number_read_clock(timed, &numbers[0]) == size + 2 ? size : 0;
    }
    length = length > 0 ? length : number_read(cell, false, &numbers[0]);
    if (length == 0) {
        return 0;
    }
    const char *rest = cell + length + strspn(cell + length, " *");
    int count = 1;
    if (*rest == '(') {
        const char *digits = rest + strcspn(rest, "0123456789~");
        if (*digits != '\0' && number_read(digits, false, &numbers[1]) > 0 &&
            numbers[1].unit == numbers[0].unit && numbers[0].unit == UNIT_SECONDS) {
            count = 2;
        }
    } else if (column->quantity == Q_RANKS && (*rest == 'x' || strncmp(rest, "\xc3\x97", 2) == 0)) {
        numbers[0].unit = UNIT_NONE; /* "8 x A100" */
    } else if (word_is_one_of(rest, strlen(rest), "tokens|sequences|samples|steps|gpus")) {
        /* "6 sequences" */
    } else if (*rest != '\0' && strncmp(rest, "\xc2\xb1", 2) != 0 && strncmp(rest, "+/-", 3) != 0) {
        return 0;
    }
    if (column->quantity == Q_RANKS && numbers[0].unit == UNIT_TIMES) {
        numbers[0].unit = UNIT_NONE; /* "8x" */
    }
    numbers[0].open |= bound;
    for (int i = 0; i < count; i++) {
        number_apply_unit(&numbers[i], column->unit, column->scale);
    }
    return count;
}

/* What a number under this name is; the unit of the cell may decide. */
static Quantity quantity_of_cell(const Table *table, const Column *column, const Number *number,
                                 unsigned *marks)
{
    *marks = column->marks;
    Quantity quantity = column->quantity;
    if (quantity == Q_NONE || !quantity_fits(quantity, number->unit)) {
        quantity = quantity_match(&table->evidence->names, column->phrase, number->unit, marks);
    }
    *marks |= number->per_rank ? MARK_PER_RANK : 0;
    return quantity == Q_BATCH && (*marks & MARK_PER_RANK) ? Q_LOCAL_BATCH : quantity;
}

static void add_fact(const Table *table, Quantity quantity, unsigned marks, Number number, int line,
                     int record, int column, int rank, bool call)
{
    if (quantity == Q_RANK || quantity == Q_NONE || (quantity == Q_STEP && !table->log)) {
        return;
    }
    evidence_add(table->evidence, &(Fact){.quantity = quantity,
                                          .marks = marks,
                                          .number = number,
                                          .line = line,
                                          .record = record,
                                          .column = column,
                                          .rank = rank,
                                          .moment = -1,
                                          .call = call});
}

static void append_label(char label[RECORD_LABEL_SIZE], const char *cell)
{
    size_t used = strlen(label), length = strnlen(cell, RECORD_LABEL_SIZE);
    if (used + length + 2 < RECORD_LABEL_SIZE) {
        label[used] = ' ';
        memcpy(label + used + (used > 0), cell, length);
        label[used + (used > 0) + length] = '\0';
    }
}

static bool is_sum(const char *cell)
{
    return scan_has_any(cell, " average | avg | mean | total | sum | subtotal ");
}

static int open_record(const Table *table, int line, const char *label)
{
    Record record = {.kind = RECORD_ROW,
                     .line = line,
                     .around = table->section,
                     .table = table->header + 1,
                     .point = table->log,
                     .supposed = table->evidence->records[table->section].supposed};
    append_label(record.label, label);
    return evidence_record(table->evidence, &record);
}

/* A row that is a run, or one per group of columns. */
static void read_row(const Table *table, char **cells, int count, int line)
{
    double settings[Q_LAST_SETTING + 1] = {0};
    char label[RECORD_LABEL_SIZE] = "";
    int rank = -1;
    bool ranked = false;
    Number numbers[2];
    for (int i = 0; i < count && i < table->count; i++) {
        const Column *column = &table->columns[i];
        int found = read_cell(cells[i], column, numbers);
        if (found > 0 && column->quantity == Q_RANK) {
            rank = (int)numbers[0].value;
            ranked = true;
        } else if (column->quantity == Q_NONE && !column->identified && cells[i][0] != '\0' &&
                   !(i == 0 && evidence_label(&table->evidence->names, cells[i], settings)) &&
                   found == 0) {
            append_label(label, cells[i]);
        }
    }
    bool sum = is_sum(cells[0]) || (table->by_rank && !ranked);
    rank = sum ? -1 : rank;
    int record = -1;
    const double *group = NULL;
    for (int i = 0; i < count && i < table->count; i++) {
        const Column *column = &table->columns[i];
        bool other = column->identified && (group == NULL || memcmp(group, column->settings,
                                                                    sizeof column->settings) != 0);
        if (record < 0 || other) {
            record = open_record(table, line, table->log || table->by_rank ? "" : label);
            table->evidence->records[record].sum = sum;
            evidence_add_settings(table->evidence, settings, line, record);
            group = column->identified ? column->settings : NULL;
            if (group != NULL) {
                evidence_add_settings(table->evidence, group, line, record);
            }
        }
        int found = read_cell(cells[i], column, numbers);
        for (int k = 0; k < found; k++) {
            unsigned marks;
            Quantity quantity = quantity_of_cell(table, column, &numbers[k], &marks);
            add_fact(table, quantity, marks, numbers[k], line, record, i, rank, k == 1);
        }
    }
}

/* What stands in brackets behind a batch: "64 (8 GPUs)", "8 per GPU (128 effective)". */
static Quantity beside_batch(const char *cell, Number *number)
{
    const char *open = strchr(cell, '(');
    size_t length = open != NULL ? number_read(open + 1, false, number) : 0;
    const char *rest = length > 0 ? open + 1 + length : "";
    return !number->counted                       ? Q_NONE
           : strcasecmp(rest, " gpus)") == 0      ? Q_RANKS
           : strcasecmp(rest, " effective)") == 0 ? Q_GLOBAL_BATCH
                                                  : Q_NONE;
}

/* A row whose first cell names what its columns, each a run, hold. */
static void read_named_row(const Table *table, char **cells, int count, int line, const int *runs)
{
    Column named = {.scale = 1};
    name_column(&table->evidence->names, cells[0], &named);
    for (int i = 1; i < count && i < table->count; i++) {
        Number numbers[2];
        unsigned marks;
        if (runs[i] >= 0 && read_cell(cells[i], &named, numbers) > 0) {
            Quantity quantity = quantity_of_cell(table, &named, &numbers[0], &marks);
            bool batch = quantity == Q_BATCH || quantity == Q_GLOBAL_BATCH;
            quantity = batch && strstr(cells[i], "tokens") != NULL ? Q_TOKENS_PER_STEP : quantity;
            add_fact(table, quantity, marks, numbers[0], line, runs[i], line, -1, false);
            if (batch || quantity == Q_LOCAL_BATCH) {
                numbers[1] = (Number){.value = 0};
                Quantity other = beside_batch(cells[i], &numbers[1]);
                add_fact(table, other, 0, numbers[1], line, runs[i], line, -1, false);
            }
        }
    }
}

/* The second header row of grouped columns, if the row is one: names get their places, and
 * settings of a group reach over the empty cells to its right. */
static bool read_subheader(Table *table, char **cells, int count)
{
    Column columns[DOCUMENT_MAX_CELLS];
    int named = 0;
    for (int i = 0; i < count && i < table->count; i++) {
        if (isdigit((unsigned char)cells[i][0])) {
            return false;
        }
        columns[i] = table->columns[i];
        name_column(&table->evidence->names, cells[i], &columns[i]);
        named += i > 0 && columns[i].quantity != Q_NONE;
        if (i > 0 && columns[i].empty && columns[i - 1].identified) {
            memcpy(columns[i].settings, columns[i - 1].settings, sizeof columns[i].settings);
            columns[i].identified = true;
        }
    }
    if (named < 2) {
        return false;
    }
    memcpy(table->columns, columns,
           (size_t)(count < table->count ? count : table->count) * sizeof columns[0]);
    return true;
}

/* Whether no header names a quantity, so that columns are runs or the next row has the names. */
static bool read_header(Table *table, char **cells, int count)
{
    bool named = false;
    table->count = count;
    for (int i = 0; i < count; i++) {
        Column *column = &table->columns[i];
        *column = (Column){.scale = 1, .empty = cells[i][0] == '\0'};
        name_column(&table->evidence->names, cells[i], column);
        if (column->quantity == Q_NONE && i > 0) {
            column->identified =
                evidence_label(&table->evidence->names, cells[i], column->settings);
        }
        named |= i > 0 && column->quantity != Q_NONE;
        table->log |= column->quantity == Q_STEP;
        table->by_rank |= column->quantity == Q_RANK;
    }
    if (named) {
        for (int i = 0; i < count; i++) {
            /* A name with a number in it among plain names is of something else. */
            table->columns[i].identified = false;
        }
    }
    for (int i = 1; i < count && !named; i++) { /* "Optimal sequence length": a name after all */
        char phrase[PHRASE_SIZE];
        phrase_make(cells[i], strlen(cells[i]), phrase);
        for (const char *at = phrase; *at != '\0' && at[1] != '\0'; at = strchrnul(at + 1, ' ')) {
            size_t length;
            table->doubtful |=
                !table->columns[i].identified &&
                quantity_begins(&table->evidence->names, at, UNIT_NONE, &length) != Q_NONE;
        }
    }
    return !named;
}

static bool is_only_table(const Evidence *evidence, int header, int section)
{
    const Line *lines = evidence->document->lines;
    int count = evidence->document->count, tables = 0;
    for (int i = evidence->records[section].line; i < count && lines[i].kind != LINE_HEADING; i++) {
        tables += lines[i].kind == LINE_TABLE_HEADER;
    }
    return tables == 1 || (tables == 0 && header == 0);
}

int evidence_read_table(Evidence *evidence, int header, int section)
{
    const Document *document = evidence->document;
    char header_copy[DOCUMENT_LINE_SIZE], copy[DOCUMENT_LINE_SIZE];
    char *header_cells[DOCUMENT_MAX_CELLS], *cells[DOCUMENT_MAX_CELLS];
    Table table = {.evidence = evidence, .header = header, .section = section};
    int count = document_cells(document, &document->lines[header], header_copy, header_cells);
    bool columns_are_runs = read_header(&table, header_cells, count);
    /* "Parameter | Value": lines of the section, where it has no other table. */
    bool pairs = table.count == 2 && is_only_table(evidence, header, section);
    int runs[DOCUMENT_MAX_CELLS], line = header + 1;
    bool first = true, opened = false;
    int end = document_table_end(document, header);
    for (; line < end; line++) {
        if (document->lines[line].kind == LINE_BLANK) {
            continue; /* the line of dashes */
        }
        count = document_cells(document, &document->lines[line], copy, cells);
        evidence->numbers += count;
        evidence->cut |= evidence->numbers > EVIDENCE_MAX_NUMBERS;
        if (evidence->cut) {
            break;
        }
        if (first && columns_are_runs && read_subheader(&table, cells, count)) {
            columns_are_runs = false;
        } else if (table.doubtful) {
            continue;
        } else if (!columns_are_runs) {
            read_row(&table, cells, count, line + 1);
        } else {
            for (int i = 0; i < table.count && !opened; i++) {
                bool run = i > 0 && (!table.columns[i].empty || table.count == 2);
                runs[i] = run && pairs ? section
                          : run        ? open_record(&table, line + 1, header_cells[i])
                                       : -1;
                if (runs[i] >= 0) {
                    evidence_add_settings(evidence, table.columns[i].settings, header + 1, runs[i]);
                }
            }
            opened = true;
            read_named_row(&table, cells, count, line + 1, runs);
        }
        first = false;
    }
    return line;
}
