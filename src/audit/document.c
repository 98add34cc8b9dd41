#include "audit/document.h"

#include "audit/number.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The sign of multiplication, and what it becomes when UTF-8 is read as Mac Roman or Latin-1. */
#define TIMES "\xc3\x97"
static const char *const broken_times[] = {"\xe2\x88\x9a\xc3\xb3", "\xc3\x83\xe2\x80\x94"};

/* Length of what says nothing at `text`: marks of emphasis and code, a footnote "[^2]", an HTML
 * tag, an image, the address of a link. `before` is the character in front of it. */
static size_t silent_length(const char *text, char before)
{
    const char *end = NULL;
    if (strncmp(text, "**", 2) == 0 || strncmp(text, "__", 2) == 0) {
        bool power = isalnum((unsigned char)before) && isdigit((unsigned char)text[2]);
        return power ? 0 : 2; /* 2**14 */
    }
    if (*text == '`' || *text == '\r') {
        return 1;
    }
    if (strncmp(text, "[^", 2) == 0 || (strncmp(text, "](", 2) == 0)) {
        end = strchr(text, text[1] == '^' ? ']' : ')');
    } else if (strncmp(text, "![", 2) == 0) {
        end = strstr(text, "](") != NULL ? strchr(strstr(text, "]("), ')') : NULL;
    } else if (*text == '<' && (isalpha((unsigned char)text[1]) || text[1] == '/')) {
        end = strchr(text, '>');
    } else if (*text == '[' && strstr(text, "](") != NULL && before != '!') {
        return strchr(text, ']') == strstr(text, "](") ? 1 : 0;
    }
    return end != NULL ? (size_t)(end - text) + 1 : 0;
}

/* Removes them, and repairs the sign of multiplication, in place. */
static void clean(char *text)
{
    char *to = text, before = ' ';
    for (const char *from = text; *from != '\0';) {
        size_t broken = 0, silent = silent_length(from, before);
        for (size_t i = 0; i < sizeof broken_times / sizeof broken_times[0]; i++) {
            size_t length = strlen(broken_times[i]);
            broken = strncmp(from, broken_times[i], length) == 0 ? length : broken;
        }
        before = *from;
        if (broken > 0) {
            memcpy(to, TIMES, 2);
            to += 2;
            from += broken;
        } else if (silent > 0) {
            bool tag = *from == '<' && to > text && isdigit((unsigned char)to[-1]);
            from += silent;
            if (tag && isdigit((unsigned char)*from)) {
                *to++ = ' '; /* a tag keeps two numbers apart */
            }
        } else {
            *to++ = *from == '\t' ? ' ' : *from;
            from++;
        }
    }
    while (to > text && to[-1] == ' ') {
        to--;
    }
    *to = '\0';
}

static char *skip_blanks(char *text)
{
    return text + strspn(text, " ");
}

/* Decides kind and text of a line of Markdown or of a log. */
static void classify(Line *line)
{
    clean(line->text);
    char *text = skip_blanks(line->text);
    size_t marks = strspn(text, "#");
    if (!line->code && marks > 0 && marks <= 6 && (text[marks] == ' ' || text[marks] == '\0')) {
        line->kind = LINE_HEADING;
        line->level = (int)marks;
        text = skip_blanks(text + marks);
    } else {
        line->kind = LINE_TEXT;
    }
    if ((text[0] == '-' || text[0] == '*' || text[0] == '+' || text[0] == '>') && text[1] == ' ') {
        line->item = true;
        line->indent = (int)(text - line->text);
        text = skip_blanks(text + 2);
    }
    size_t digits = strspn(text, "0123456789");
    if (digits > 0 && digits <= 3 && (text[digits] == '.' || text[digits] == ')') &&
        text[digits + 1] == ' ') {
        line->item = true;
        text = skip_blanks(text + digits + 2);
    }
    size_t stamp = number_stamp(text);
    if (stamp > 0) {
        text = skip_blanks(text + stamp);
        text = text[0] == '-' && text[1] == ' ' ? skip_blanks(text + 1) : text;
    }
    line->text = text;
    if (text[0] == '\0') {
        line->kind = LINE_BLANK;
    }
}

static bool is_fence(const char *text)
{
    text += strspn(text, " \t");
    return strncmp(text, "```", 3) == 0 || strncmp(text, "~~~", 3) == 0;
}

static bool is_rule_line(const char *text)
{
    return strchr(text, '-') != NULL && strchr(text, '|') != NULL &&
           text[strspn(text, " |:-")] == '\0';
}

static bool is_table_line(const Line *line)
{
    return line->kind == LINE_TEXT && strchr(line->text, '|') != NULL;
}

/* Markdown tables: a line of dashes, what stands before it, and the rows behind it. */
static void find_tables(Document *document)
{
    for (int i = 1; i < document->count; i++) {
        Line *line = &document->lines[i];
        if (line->kind == LINE_TEXT && is_rule_line(line->text) && is_table_line(line - 1)) {
            line[-1].kind = LINE_TABLE_HEADER;
            line->kind = LINE_BLANK;
            for (i++; i < document->count && is_table_line(&document->lines[i]); i++) {
                document->lines[i].kind = LINE_TABLE_ROW;
            }
        }
    }
}

/* --- HTML tables --- */

/* The next place of a tag, "<td" or "</td", from line *at on; NULL: none before line `end`. */
static char *find_tag(const Document *document, int *at, int end, char *from, const char *tag)
{
    for (; *at < end; ++*at, from = NULL) {
        from = from != NULL ? from : document->lines[*at].text;
        char *found = strcasestr(from, tag);
        if (found != NULL) {
            return found;
        }
    }
    return NULL;
}

/* Writes a row, from its line on, as "| a | b |" into the line where it begins, and blanks the
 * others. Lines lie behind each other in the text of the document, so there is room: a cell has
 * more tags than that has marks. Returns the first line behind the row, `end` if it has none. */
static int read_html_row(Document *document, int line, int end, bool *header)
{
    char row[DOCUMENT_LINE_SIZE] = "|";
    size_t used = 1;
    int first = line;
    char *open = find_tag(document, &first, end, NULL, "<tr");
    if (open == NULL) {
        return end;
    }
    int last = first;
    char *close = find_tag(document, &last, end, open, "</tr");
    int cells = 0, at = first;
    for (char *from = open; close != NULL;) {
        int stop = at;
        char *data = find_tag(document, &at, last + 1, from, "<td");
        char *head = find_tag(document, &stop, last + 1, from, "<th");
        if (head != NULL && (data == NULL || stop < at || (stop == at && head < data))) {
            data = head;
            at = stop;
        }
        if (data == NULL || (at == last && data > close) || strchr(data, '>') == NULL) {
            break;
        }
        int until = at;
        char *text = strchr(data, '>') + 1,
             *finish = find_tag(document, &until, last + 1, text, "</t");
        for (int i = at; i <= until && finish != NULL; i++) {
            const char *part = i == at ? text : document->lines[i].text;
            size_t length = i == until ? (size_t)(finish - part) : strlen(part);
            length = used + length + 4 < sizeof row ? length : 0;
            row[used++] = ' ';
            memcpy(row + used, part, length);
            used += length;
            if (used + 8 > sizeof row) {
                return end;
            }
        }
        row[used++] = '|';
        cells++;
        if (finish == NULL) {
            break;
        }
        from = finish;
        at = until;
    }
    if (close == NULL || cells < 2) {
        return close == NULL ? end : last + 1;
    }
    row[used] = '\0';
    char *to = document->lines[first].text;
    if (used > (size_t)(close - to)) {
        return last + 1;
    }
    memcpy(to, row, used + 1);
    for (int i = first + 1; i <= last; i++) {
        document->lines[i].text = to + used;
    }
    clean(to);
    document->lines[first].kind = *header ? LINE_TABLE_HEADER : LINE_TABLE_ROW;
    *header = false;
    return last + 1;
}

/* Tables in HTML become such with bars. One with cells over several columns or rows is left alone:
 * what belongs together is not sure. */
static void find_html_tables(Document *document)
{
    bool fenced = false;
    for (int i = 0; i < document->count; i++) {
        int first = i;
        fenced ^= is_fence(document->lines[i].text);
        char *open = fenced ? NULL : strcasestr(document->lines[i].text, "<table");
        if (open == NULL) {
            continue;
        }
        int last = first;
        bool plain = find_tag(document, &last, document->count, open, "</table") != NULL;
        for (int k = first; k <= last && plain; k++) {
            plain = strcasestr(document->lines[k].text, "span=") == NULL;
        }
        bool header = true;
        for (int k = first; k < last && plain;) {
            k = read_html_row(document, k, last + 1, &header);
        }
        for (int k = first; k <= last && !header; k++) {
            document->lines[k].joined = document->lines[k].kind == LINE_BLANK;
        }
        i = plain ? last : i;
    }
}

static int count_outside_quotes(const char *text, char delimiter)
{
    int count = 0;
    bool quoted = false;
    for (; *text != '\0'; text++) {
        quoted = *text == '"' ? !quoted : quoted;
        count += !quoted && *text == delimiter;
    }
    return count;
}

static const Line *filled_line(const Document *document, int *at)
{
    for (; *at < document->count; ++*at) {
        const char *text = document->lines[*at].text;
        if (text[strspn(text, " \t\r")] != '\0') {
            return &document->lines[(*at)++];
        }
    }
    return NULL;
}

/* The delimiter of a CSV file, 0 when it is none: two first lines with equally many cells, the
 * first without a sentence in it. */
static char csv_delimiter(const Document *document, const char *path)
{
    const char *dot = strrchr(path, '.');
    bool named = dot != NULL && (strcasecmp(dot, ".csv") == 0 || strcasecmp(dot, ".tsv") == 0);
    int at = 0;
    const Line *first = filled_line(document, &at), *second = filled_line(document, &at);
    char best = '\0';
    int most = 0;
    for (const char *candidate = "\t;,"; first != NULL && *candidate != '\0'; candidate++) {
        int count = count_outside_quotes(first->text, *candidate);
        bool same = second != NULL && count_outside_quotes(second->text, *candidate) == count;
        if (count > most && (named || same)) {
            most = count;
            best = *candidate;
        }
    }
    bool prose = first != NULL && (first->text[0] == '#' || strstr(first->text, ": ") != NULL ||
                                   strchr(first->text, '|') != NULL);
    return named ? (best != '\0' ? best : ',') : prose || most < 2 ? '\0' : best;
}

static void split_lines(Document *document, size_t size)
{
    for (size_t start = 0; start < size;) {
        char *text = document->text + start;
        char *end = memchr(text, '\n', size - start);
        size_t length = end != NULL ? (size_t)(end - text) : size - start;
        if (document->count == DOCUMENT_MAX_LINES) {
            document->cut = true;
            return;
        }
        document->lines =
            mem_double(document->lines, (size_t)document->count, sizeof *document->lines);
        text[length < DOCUMENT_LINE_SIZE ? length : DOCUMENT_LINE_SIZE - 1] = '\0';
        document->lines[document->count++] = (Line){.text = text};
        start += length + 1;
    }
}

int document_read(const char *path, Document *document)
{
    size_t size;
    *document = (Document){.delimiter = '|'};
    int code = io_read_all(path, DOCUMENT_MAX_BYTES, &document->text, &size);
    if (code != 0) {
        return code;
    }
    for (size_t i = 0; i < size; i++) {
        if (document->text[i] == '\0') {
            document->text[i] = ' ';
        }
    }
    memset(document->text, ' ', utf8_mark(document->text, size));
    split_lines(document, size);
    char delimiter = csv_delimiter(document, path);
    if (delimiter == '\0') {
        find_html_tables(document);
    }
    bool fenced = false;
    for (int i = 0; i < document->count; i++) {
        Line *line = &document->lines[i];
        if (line->kind != LINE_BLANK || line->joined) {
            line->code = false; /* of an HTML table */
        } else if (delimiter == '\0' && is_fence(line->text)) {
            fenced = !fenced;
            line->kind = LINE_BLANK;
        } else if (delimiter == '\0') {
            line->code = fenced;
            classify(line);
        } else {
            bool blank = line->text[strspn(line->text, " \t\r")] == '\0';
            line->kind = blank ? LINE_BLANK : LINE_TABLE_ROW;
        }
    }
    if (delimiter == '\0') {
        find_tables(document);
    } else {
        document->delimiter = delimiter;
        int at = 0;
        if (filled_line(document, &at) != NULL) {
            document->lines[at - 1].kind = LINE_TABLE_HEADER;
        }
    }
    return 0;
}

void document_free(Document *document)
{
    free(document->text);
    free(document->lines);
    *document = (Document){0};
}

int document_table_end(const Document *document, int header)
{
    int line = header + 1;
    for (; line < document->count; line++) {
        const Line *at = &document->lines[line];
        bool dashes = at->kind == LINE_BLANK && line + 1 < document->count &&
                      document->lines[line + 1].kind == LINE_TABLE_ROW;
        if (at->kind != LINE_TABLE_ROW && !dashes && !at->joined) {
            break;
        }
    }
    return line;
}

static char *trim(char *cell)
{
    cell += strspn(cell, " \t\r");
    size_t length = strlen(cell);
    while (length > 0 && strchr(" \t\r", cell[length - 1]) != NULL) {
        cell[--length] = '\0';
    }
    if (length >= 2 && cell[0] == '"' && cell[length - 1] == '"') {
        cell[length - 1] = '\0';
        cell++;
    }
    return cell;
}

int document_cells(const Document *document, const Line *line, char copy[DOCUMENT_LINE_SIZE],
                   char *cells[DOCUMENT_MAX_CELLS])
{
    size_t length = strnlen(line->text, DOCUMENT_LINE_SIZE - 1);
    memcpy(copy, line->text, length);
    copy[length] = '\0';
    char *at = copy;
    bool piped = document->delimiter == '|';
    if (piped) {
        at = skip_blanks(at);
        at += *at == '|';
    }
    int count = 0;
    bool quoted = false;
    cells[count++] = at;
    for (; *at != '\0'; at++) {
        quoted = !piped && *at == '"' ? !quoted : quoted;
        if (*at == document->delimiter && !quoted && !(piped && at > copy && at[-1] == '\\')) {
            *at = '\0';
            if (count == DOCUMENT_MAX_CELLS || (piped && at[1 + strspn(at + 1, " ")] == '\0')) {
                break;
            }
            cells[count++] = at + 1;
        }
    }
    for (int i = 0; i < count; i++) {
        cells[i] = trim(cells[i]);
    }
    return count;
}
