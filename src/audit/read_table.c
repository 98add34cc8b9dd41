/* Tables to facts. Three shapes:
 *   rows are runs:      | Batch | GPUs | tok/s |            a run per row
 *   grouped columns:    |       | Batch 64 |  | Batch 128 | |   a run per row and group; the
 *                       first row |       | Time | Speedup | Time | Speedup |     below holds
 *                       the names
 *   columns are runs:   | Metric | 128 tokens | 512 tokens |    names in the first cell of each
 *                       row
 * A column of steps makes the rows points of one run, a column of ranks parts of one. */
#include "audit/evidence.h"
#include "audit/scan.h"

#include <ctype.h>
#include <string.h>

typedef struct {
    Quantity quantity;
    Unit unit;
    double scale;
    Identity identity; /* said by the header: "Batch-size 64" */
    bool identified;
    bool empty;
    bool ignored; /* the same quantity again, of something else; or no value of its own */
} Column;

typedef struct {
    Evidence *evidence;
    int header, parent, count;
    bool log, by_rank, columns_are_runs, hypothetical;
    Column columns[DOCUMENT_MAX_CELLS];
} Table;

/* Settings with a number in a header or label cell, "2-GPU", "Batch-size 64", "128 Tokens"; returns
 * whether there are any. */
static bool read_label(const Names *names, const char *cell, Identity *identity)
{
    static _Thread_local ScanItem items[SCAN_MAX_ITEMS];
    int count = scan_line(cell, items);
    bool found = false;
    for (int i = 0; i < count; i++) {
        const ScanItem *item = &items[i];
        Unit unit = item->number.unit;
        Quantity quantity = quantity_find(names, item->after, unit, PHRASE_AT_START, NULL);
        if (!quantity_is_setting(quantity)) {
            Quantity before = quantity_find(names, item->before, unit, PHRASE_AT_END, NULL);
            quantity = quantity_is_setting(before) ? before : quantity;
        }
        if (quantity == Q_TOKENS && item->number.value < 1e6) {
            quantity = Q_SEQ;
        }
        if (quantity_is_setting(quantity) && unit == UNIT_NONE && item->number.value > 0 &&
            !item->number.range) {
            identity->values[quantity] = item->number.value;
            found = true;
        }
    }
    return found;
}

static void name_column(const Names *names, const char *cell, Column *column)
{
    char phrase[PHRASE_SIZE];
    phrase_make(cell, strlen(cell), phrase);
    column->unit = number_header_unit(cell, &column->scale);
    column->quantity = quantity_find(names, phrase, column->unit, PHRASE_ANYWHERE, NULL);
    if (column->quantity == Q_NONE && column->unit == UNIT_SECONDS &&
        strstr(phrase, " time ") != NULL) {
        column->quantity = Q_TOTAL_TIME;
    }
    if (column->quantity == Q_NONE && column->unit == UNIT_TOKENS_PER_SECOND) {
        column->quantity = Q_TOKENS_PER_SECOND;
    }
    if (column->quantity == Q_NONE) { /* the unit may be in the cells: "Epoch" over "268.04s" */
        column->unit = UNIT_NONE;
    }
}

static bool has_number(const char *cell)
{
    return isdigit((unsigned char)cell[0]) || cell[0] == '~' ||
           ((cell[0] == '-' || cell[0] == '+') && isdigit((unsigned char)cell[1]));
}

/* Grouped columns: identities spread to the right over empty header cells. */
static void spread_identities(Table *table)
{
    for (int i = 1; i < table->count; i++) {
        Column *column = &table->columns[i];
        if (column->empty && table->columns[i - 1].identified) {
            column->identity = table->columns[i - 1].identity;
            column->identified = true;
        }
    }
}

static void append_label(Identity *identity, const char *cell)
{
    size_t used = strlen(identity->label);
    size_t length = strnlen(cell, IDENTITY_LABEL_SIZE);
    if (used + length + 2 < IDENTITY_LABEL_SIZE) {
        memcpy(identity->label + used, used > 0 ? " " : "", used > 0 ? 1 : 0);
        used += used > 0;
        memcpy(identity->label + used, cell, length);
        identity->label[used + length] = '\0';
    }
}

static void read_header(Table *table, char **cells, int count)
{
    const Names *names = &table->evidence->names;
    int identified = 0;
    table->count = count;
    for (int i = 0; i < count; i++) {
        Column *column = &table->columns[i];
        *column = (Column){.scale = 1, .empty = cells[i][0] == '\0'};
        name_column(names, cells[i], column);
        column->identified = i > 0 && read_label(names, cells[i], &column->identity);
        identified += column->identified;
    }
    bool named = false;
    for (int i = 1; i < count; i++) {
        named |= table->columns[i].quantity != Q_NONE;
    }
    static const char *const derived[] = {" ratio ", " change ", " delta ", " difference ",
                                          " gain "};
    for (int i = 0; i < count && identified == 0; i++) {
        Column *column = &table->columns[i];
        for (int k = 0; k < i && column->quantity != Q_NONE; k++) {
            column->ignored |= table->columns[k].quantity == column->quantity;
        }
        column->ignored |= column->quantity == Q_NONE &&
                           scan_has_any(cells[i], derived, sizeof derived / sizeof derived[0]);
    }
    bool grouped = identified >= 2;
    for (int i = 1; i + 1 < count && identified == 1; i++) {
        grouped |= table->columns[i].identified && table->columns[i + 1].empty;
    }
    table->columns_are_runs = grouped || (identified == 0 && !named && count >= 2);
    for (int i = 1; i < count && identified == 0 && !named && count > 2; i++) {
        append_label(&table->columns[i].identity, cells[i]);
    }
    for (int i = 0; i < count; i++) {
        if (!table->columns_are_runs) {
            table->columns[i].identified = false;
        }
        table->log |= table->columns[i].quantity == Q_STEP;
        table->by_rank |= table->columns[i].quantity == Q_RANK;
    }
}

/* The second header row of grouped columns, if the row is one. */
static bool read_subheader(Table *table, char **cells, int count)
{
    int named = 0;
    if (!table->columns_are_runs) {
        return false;
    }
    Column columns[DOCUMENT_MAX_CELLS];
    for (int i = 0; i < count && i < table->count; i++) {
        if (has_number(cells[i])) {
            return false;
        }
        columns[i] = (Column){.scale = 1};
        name_column(&table->evidence->names, cells[i], &columns[i]);
        named += i > 0 && columns[i].quantity != Q_NONE;
    }
    if (named < 2) {
        return false;
    }
    spread_identities(table);
    for (int i = 1; i < count && i < table->count; i++) {
        table->columns[i].quantity = columns[i].quantity;
        table->columns[i].unit = columns[i].unit;
        table->columns[i].scale = columns[i].scale;
    }
    table->columns_are_runs = false;
    return true;
}

/* Number of a cell, and the mean in parentheses behind it. */
static int read_cell(const char *cell, const Column *column, Number numbers[2])
{
    int count = 0;
    size_t length = has_number(cell) ? number_read(cell, false, &numbers[0]) : 0;
    if (length > 0) {
        count = 1;
        numbers[0].open |= strncmp(cell + length, " to ", 4) == 0;
        const char *open = strchr(cell + length, '(');
        const char *digits = open != NULL ? open + strcspn(open, "0123456789~") : "";
        if (*digits != '\0' && number_read(digits, false, &numbers[1]) > 0 &&
            numbers[1].unit == numbers[0].unit && numbers[0].unit == UNIT_SECONDS) {
            count = 2;
        }
        for (int i = 0; i < count; i++) {
            number_apply_unit(&numbers[i], column->unit, column->scale);
        }
    }
    return count;
}

/* The quantity of a number under a header whose words fit several units. */
static Quantity quantity_of_cell(const Table *table, const char *header, const Column *column,
                                 const Number *number)
{
    char phrase[PHRASE_SIZE];
    phrase_make(header, strlen(header), phrase);
    Quantity found =
        quantity_find(&table->evidence->names, phrase, number->unit, PHRASE_ANYWHERE, NULL);
    return found != Q_NONE ? found : column->quantity;
}

static void add_fact(const Table *table, Quantity quantity, Number number, int line, int scope,
                     int rank, bool mean)
{
    bool kept = quantity > Q_STEP || (quantity == Q_STEP && table->log);
    bool constant = quantity == Q_VOCAB || quantity == Q_PARAMETERS;
    if (!kept || table->hypothetical) {
        return;
    }
    Fact fact = {.quantity = quantity,
                 .number = number,
                 .line = line,
                 .scope = scope,
                 .rank = rank,
                 .moment = -1,
                 .point = table->log && !constant ? line : 0,
                 .mean = mean};
    evidence_add(table->evidence, &fact);
}

/* Settings, labels and rank of a row. */
static void identify_row(const Table *table, char **cells, int count, Identity *identity, int *rank)
{
    for (int i = 0; i < count && i < table->count; i++) {
        const Column *column = &table->columns[i];
        Number numbers[2];
        int found = read_cell(cells[i], column, numbers);
        if (found > 0 && column->quantity == Q_RANK) {
            *rank = (int)numbers[0].value;
        } else if (found > 0 && quantity_is_setting(column->quantity) && numbers[0].value > 0 &&
                   numbers[0].unit == UNIT_NONE && !column->identified) {
            identity->values[column->quantity] = numbers[0].value;
        } else if (column->quantity == Q_NONE && cells[i][0] != '\0') {
            Identity label = {{0}, ""};
            if (i == 0 && read_label(&table->evidence->names, cells[i], &label)) {
                for (int q = 1; q < SETTING_COUNT; q++) {
                    identity->values[q] =
                        label.values[q] != 0 ? label.values[q] : identity->values[q];
                }
            } else if (found == 0 && isalpha((unsigned char)cells[i][0])) {
                append_label(identity, cells[i]);
            }
        }
    }
}

static int scope_of(const Table *table, const Identity *identity, int line, bool own)
{
    return evidence_scope(
        table->evidence,
        &(Scope){.identity = *identity, .line = line, .table = own ? table->header + 1 : 0});
}

/* The scope of a row, or of its part under a group of columns. */
static int scope_of_group(const Table *table, const Identity *row, const Identity *group, int line,
                          bool own)
{
    Identity identity = *row;
    for (int q = 1; group != NULL && q < SETTING_COUNT; q++) {
        identity.values[q] = group->values[q] != 0 ? group->values[q] : identity.values[q];
    }
    return scope_of(table, &identity, line, own);
}

static bool is_total_row(const char *cell)
{
    return scan_has(cell, " average ") || scan_has(cell, " mean ") || scan_has(cell, " total ");
}

/* A row that is a run, or one per group of columns. */
static void read_run_row(const Table *table, char **header, char **cells, int count, int line)
{
    Identity parent = {{0}, ""};
    if (table->parent != 0) {
        parent = table->evidence->scopes[table->parent].identity;
    }
    Identity row = parent;
    int rank = -1, scope = -1;
    identify_row(table, cells, count, &row, &rank);
    bool points = table->log || table->by_rank;
    if (points) {
        row.label[0] = '\0';
    }
    const Identity *last = NULL;
    for (int i = 0; i < count && i < table->count; i++) {
        const Column *column = &table->columns[i];
        const Identity *group = column->identified ? &column->identity : NULL;
        Number numbers[2];
        int found = column->ignored ? 0 : read_cell(cells[i], column, numbers);
        for (int k = 0; k < found; k++) {
            Quantity quantity = column->identified
                                    ? column->quantity
                                    : quantity_of_cell(table, header[i], column, &numbers[k]);
            if (quantity < Q_STEP) {
                continue;
            }
            if (scope < 0 || (group != NULL && group != last &&
                              (last == NULL || memcmp(last, group, sizeof *group) != 0))) {
                scope = scope_of_group(table, &row, group, line, !points);
                last = group;
            }
            bool whole = rank < 0 && !(table->by_rank && !is_total_row(cells[0]));
            add_fact(table, quantity, numbers[k], line, scope,
                     whole      ? -1
                     : rank < 0 ? 0
                                : rank,
                     k == 1);
        }
    }
}

/* A row whose first cell names what its columns, each a run, hold. */
static void read_named_row(const Table *table, char **cells, int count, int line, const int *scopes)
{
    Column named = {.scale = 1};
    if (count == 0) {
        return;
    }
    name_column(&table->evidence->names, cells[0], &named);
    for (int i = 1; i < count && i < table->count; i++) {
        Number numbers[2];
        int found = read_cell(cells[i], &named, numbers);
        if (found > 0 && table->columns[i].identified && !table->columns[i].ignored) {
            Quantity quantity = quantity_of_cell(table, cells[0], &named, &numbers[0]);
            double *values = table->evidence->scopes[scopes[i]].identity.values;
            if (quantity_is_setting(quantity) && values[quantity] == 0) {
                values[quantity] = numbers[0].value;
            }
            add_fact(table, quantity, numbers[0], line, scopes[i], -1, false);
        }
    }
}

int evidence_read_table(Evidence *evidence, int header, int parent, bool hypothetical)
{
    const Document *document = evidence->document;
    char header_copy[DOCUMENT_LINE_SIZE], copy[DOCUMENT_LINE_SIZE];
    char *header_cells[DOCUMENT_MAX_CELLS], *cells[DOCUMENT_MAX_CELLS];
    Table table = {
        .evidence = evidence, .header = header, .parent = parent, .hypothetical = hypothetical};
    int count = document_cells(document, &document->lines[header], header_copy, header_cells);
    read_header(&table, header_cells, count);
    int scopes[DOCUMENT_MAX_CELLS], line = header + 1;
    bool first = true, made = false;
    for (; line < document->count; line++) {
        LineKind kind = document->lines[line].kind;
        if (kind == LINE_BLANK && line + 1 < document->count &&
            document->lines[line + 1].kind == LINE_TABLE_ROW) {
            continue; /* the line of dashes */
        }
        if (kind != LINE_TABLE_ROW) {
            break;
        }
        count = document_cells(document, &document->lines[line], copy, cells);
        evidence->numbers += count;
        evidence->cut |= evidence->numbers > EVIDENCE_MAX_NUMBERS;
        if (evidence->cut) {
            break;
        }
        if (first && read_subheader(&table, cells, count)) {
            first = false;
            continue;
        }
        first = false;
        if (!table.columns_are_runs) {
            read_run_row(&table, header_cells, cells, count, line + 1);
            continue;
        }
        if (!made) {
            for (int i = 1; i < table.count; i++) {
                Column *column = &table.columns[i];
                scopes[i] = table.count == 2 && !column->identity.label[0]
                                ? parent
                                : scope_of(&table, &column->identity, header + 1, true);
                column->identified = true;
            }
            made = true;
        }
        read_named_row(&table, cells, count, line + 1, scopes);
    }
    return line;
}
