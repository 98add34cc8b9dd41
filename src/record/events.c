/* Three layers, bottom up: bytes with protobuf's wire format (a message is a row of fields, each
 * a key and a value), the record around a message (length and checksums), and the few messages
 * that are needed, each by the numbers of its fields in event.proto, summary.proto, tensor.proto
 * and the hparams plugin. */
#include "record/events.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/page.h"
#include "text/unicode.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_START "events.out.tfevents."

/* --- wire format --- */

typedef enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_LENGTH = 2, WIRE_32 = 5 } Wire;

/* Little-endian, whatever the machine is. */
static void put_fixed(Page *out, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        uint8_t byte = (uint8_t)(value >> (8 * i));
        page_put_bytes(out, &byte, 1);
    }
}

static void put_varint(Page *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) {
        put_fixed(out, (value & 0x7f) | 0x80, 1);
    }
    put_fixed(out, value, 1);
}

static void put_key(Page *out, int field, Wire wire)
{
    put_varint(out, (uint64_t)field << 3 | wire);
}

static void put_whole(Page *out, int field, uint64_t value)
{
    put_key(out, field, WIRE_VARINT);
    put_varint(out, value);
}

static void put_double(Page *out, int field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(out, field, WIRE_64);
    put_fixed(out, bits, 8);
}

static void put_float(Page *out, int field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(out, field, WIRE_32);
    put_fixed(out, bits, 4);
}

/* A field of type string must be UTF-8, or readers refuse the whole event. */
static void put_text(Page *out, int field, const char *text)
{
    size_t size = strlen(text);
    const uint8_t *bytes = (const uint8_t *)text;
    put_key(out, field, WIRE_LENGTH);
    put_varint(out, size);
    for (size_t at = 0; at < size;) {
        int length = utf8_length(bytes + at, size - at);
        page_put_bytes(out, length > 0 ? text + at : "?", length > 0 ? (size_t)length : 1);
        at += length > 0 ? (size_t)length : 1;
    }
}

/* Takes the inner message. */
static void put_message(Page *out, int field, Page *inner)
{
    put_key(out, field, WIRE_LENGTH);
    put_varint(out, inner->size);
    page_put_bytes(out, inner->text, inner->size);
    page_free(inner);
}

/* --- records --- */

#define CRC32C_POLYNOMIAL 0x82f63b78u /* bits reversed */

uint32_t events_crc32c(const void *data, size_t size)
{
    uint32_t table[16]; /* by half bytes: the polynomial's multiples, made anew in no time */
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 4; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? CRC32C_POLYNOMIAL : 0);
        }
        table[i] = crc;
    }
    uint32_t crc = ~0u;
    for (const uint8_t *at = data, *end = at + size; at < end; at++) {
        crc ^= *at;
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

/* A checksum of data that itself holds checksums would be weak: so the format turns and shifts
 * it. */
static uint32_t masked_crc(const void *data, size_t size)
{
    uint32_t crc = events_crc32c(data, size);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* --- the file --- */

struct Events {
    char *path;
    int file;      /* descriptor; -1: not open */
    off_t written; /* in whole records */
    bool failed;   /* a write failed: no more are tried */
    Page event;    /* being built: its time and step */
    Page summary;  /* its values */
};

/* Writes the message as a record (length, checksum of the length, message, checksum of the
 * message); takes it. */
static int write_message(Events *events, Page *message)
{
    Page record = {0};
    put_fixed(&record, message->size, 8);
    put_fixed(&record, masked_crc(record.text, 8), 4);
    page_put_bytes(&record, message->text, message->size);
    put_fixed(&record, masked_crc(message->text, message->size), 4);
    int code =
        events->failed ? err_set(ERR_FAILED, "%s: an earlier write failed", events->path) : 0;
    for (size_t done = 0; code == 0 && done < record.size;) {
        ssize_t part = write(events->file, record.text + done, record.size - done);
        if (part >= 0) {
            done += (size_t)part;
        } else if (errno != EINTR) {
            code = io_error(events->path, "write");
            events->failed = true;
            if (ftruncate(events->file, events->written) != 0) {
                code = err_wrap(code, "the last event is incomplete");
            }
        }
    }
    events->written += code == 0 ? (off_t)record.size : 0;
    free(record.text);
    page_free(message);
    return code;
}

enum { EVENT_WALL_TIME = 1, EVENT_STEP, EVENT_FILE_VERSION, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };

/* Takes path. exclusive: no file may be there. */
static int create(char *path, bool exclusive, double wall_time, Events **out)
{
    Events *events = mem_zalloc(1, sizeof *events);
    events->path = path;
    int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | (exclusive ? O_EXCL : O_TRUNC);
    Page start = {0};
    put_double(&start, EVENT_WALL_TIME, wall_time);
    put_text(&start, EVENT_FILE_VERSION, "brain.Event:2");
    events->file = open(path, flags, 0644);
    int code = events->file >= 0 ? write_message(events, &start) : io_error(path, "write");
    free(start.text);
    if (code != 0) {
        events_close(events, false);
        events = NULL;
    }
    *out = events;
    return code;
}

int events_create(const char *path, double wall_time, Events **out)
{
    return create(mem_strdup(path), false, wall_time, out);
}

#define MAX_FILES 1000 /* of one second and process */

int events_open(const char *dir, Events **out)
{
    double now = clock_now();
    char host[256] = "";
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0') {
        memcpy(host, "host", 5);
    }
    char *path = NULL;
    for (int number = 0; path == NULL || (number < MAX_FILES && io_exists(path)); number++) {
        free(path);
        path = mem_format("%s/" NAME_START "%010lld.%s.%lld.%d", dir, (long long)now, host,
                          (long long)getpid(), number);
    }
    return create(path, true, now, out);
}

int events_close(Events *events, bool durable)
{
    if (events == NULL) {
        return 0;
    }
    int code = 0;
    if (events->file >= 0) {
        bool synced = !durable || events->failed || fsync(events->file) == 0 || errno == EINVAL;
        bool closed = close(events->file) == 0;
        if (!synced || !closed) {
            code = io_error(events->path, "write");
        }
    }
    free(events->event.text);
    free(events->summary.text);
    free(events->path);
    free(events);
    return code;
}

void events_remove(const char *dir)
{
    DIR *entries = opendir(dir);
    for (const struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
        if (strncmp(entry->d_name, NAME_START, strlen(NAME_START)) == 0) {
            char *path = io_join(dir, entry->d_name);
            unlink(path);
            free(path);
        }
    }
    if (entries != NULL) {
        closedir(entries);
    }
}

/* --- events --- */

enum { SUMMARY_VALUE = 1 };
enum { VALUE_TAG = 1, VALUE_SIMPLE = 2, VALUE_TENSOR = 8, VALUE_METADATA = 9 };
enum { METADATA_PLUGIN = 1, PLUGIN_NAME = 1, PLUGIN_CONTENT = 2 };
enum { TENSOR_TYPE = 1, TENSOR_SHAPE = 2, TENSOR_STRING = 8, SHAPE_DIM = 2, DIM_SIZE = 1 };
enum { TYPE_STRING = 7 }; /* of a tensor */
enum { SESSION_STATUS = 1, SESSION_START = 1 };

static void start_event(Page *event, double wall_time, int64_t step)
{
    PACER_ASSERT(step >= 0, "an event of step %lld", (long long)step);
    put_double(event, EVENT_WALL_TIME, wall_time);
    put_whole(event, EVENT_STEP, (uint64_t)step);
}

void events_begin(Events *events, double wall_time, int64_t step)
{
    events->event.size = 0;
    events->summary.size = 0;
    start_event(&events->event, wall_time, step);
}

int events_end(Events *events)
{
    if (events->summary.size == 0) {
        return 0;
    }
    put_message(&events->event, EVENT_SUMMARY, &events->summary);
    return write_message(events, &events->event);
}

int events_restart(Events *events, double wall_time, int64_t step)
{
    Page event = {0}, session = {0};
    start_event(&event, wall_time, step);
    put_whole(&session, SESSION_STATUS, SESSION_START);
    put_message(&event, EVENT_SESSION, &session);
    return write_message(events, &event);
}

void events_scalar(Events *events, const char *tag, double value)
{
    Page one = {0};
    put_text(&one, VALUE_TAG, tag);
    put_float(&one, VALUE_SIMPLE, (float)value);
    put_message(&events->summary, SUMMARY_VALUE, &one);
}

/* Names the plugin that shows a value; content (taken) is its own. */
static void put_plugin(Page *value, const char *name, Page *content)
{
    Page plugin = {0}, metadata = {0};
    put_text(&plugin, PLUGIN_NAME, name);
    put_message(&plugin, PLUGIN_CONTENT, content);
    put_message(&metadata, METADATA_PLUGIN, &plugin);
    put_message(value, VALUE_METADATA, &metadata);
}

void events_text(Events *events, const char *tag, const char *markdown)
{
    Page one = {0}, tensor = {0}, shape = {0}, dim = {0}, nothing = {0};
    put_text(&one, VALUE_TAG, tag);
    put_whole(&dim, DIM_SIZE, 1);
    put_message(&shape, SHAPE_DIM, &dim);
    put_whole(&tensor, TENSOR_TYPE, TYPE_STRING);
    put_message(&tensor, TENSOR_SHAPE, &shape);
    put_text(&tensor, TENSOR_STRING, markdown);
    put_message(&one, VALUE_TENSOR, &tensor);
    put_plugin(&one, "text", &nothing);
    put_message(&events->summary, SUMMARY_VALUE, &one);
}

enum { HPARAMS_START = 3, START_HPARAMS = 1, START_SECONDS = 5, ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum { JSON_NUMBER = 2, JSON_TEXT = 3, JSON_BOOL = 4 }; /* of google.protobuf.Value */

void events_hparams(Events *events, const cJSON *values, double started)
{
    Page session = {0}, content = {0}, one = {0};
    const cJSON *item;
    cJSON_ArrayForEach(item, values)
    {
        Page value = {0}, entry = {0};
        if (cJSON_IsNumber(item)) {
            put_double(&value, JSON_NUMBER, item->valuedouble);
        } else if (cJSON_IsString(item)) {
            put_text(&value, JSON_TEXT, item->valuestring);
        } else if (cJSON_IsBool(item)) {
            put_whole(&value, JSON_BOOL, cJSON_IsTrue(item) ? 1 : 0);
        } else {
            continue;
        }
        put_text(&entry, ENTRY_KEY, item->string);
        put_message(&entry, ENTRY_VALUE, &value);
        put_message(&session, START_HPARAMS, &entry);
    }
    put_double(&session, START_SECONDS, started);
    put_message(&content, HPARAMS_START, &session);
    put_text(&one, VALUE_TAG, "_hparams_/session_start_info");
    put_plugin(&one, "hparams", &content);
    put_message(&events->summary, SUMMARY_VALUE, &one);
}
