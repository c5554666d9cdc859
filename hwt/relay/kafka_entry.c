/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/kafka_inside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hwt/relay/log.h"

/*
 * Entries are the last messages of their keys in the shard's partition of a compacted topic. A read asks the leader for
 * the end of the partition, then for the end of what can be read, and reads up to there.
 */
enum { BATCH = 64 };

static void forget(struct kafka_table *table)
{
    for (size_t i = 0; i < table->count; i++)
        free(table->entries[i].name);
    table->count = 0;
}

void relay_kafka_entries_end(struct kafka_table *table)
{
    relay_kafka_reader_close(&table->reader);
    forget(table);
    free(table->entries);
}

/* NULL: there is none of that name. */
static struct kafka_entry *find(const struct kafka_table *table, const char *name, size_t length)
{
    for (size_t i = 0; i < table->count; i++)
        if (strlen(table->entries[i].name) == length &&
            memcmp(table->entries[i].name, name, length) == 0)
            return &table->entries[i];
    return NULL;
}

/* NULL: no memory. */
static struct kafka_entry *make(struct kafka_table *table, const char *name, size_t length)
{
    struct kafka_entry *more =
        realloc(table->entries, (table->count + 1) * sizeof(*table->entries));
    char *copy = strndup(name, length);

    if (more)
        table->entries = more;
    if (!more || !copy) {
        free(copy);
        return NULL;
    }
    more[table->count] = (struct kafka_entry){ .name = copy };
    return &more[table->count++];
}

static int note(struct kafka_table *table, const rd_kafka_message_t *message)
{
    const char *name = message->key ? message->key : "";
    struct kafka_entry *entry = find(table, name, message->key_len);

    if (!entry)
        entry = make(table, name, message->key_len);
    if (!entry)
        return -ENOMEM;
    snprintf(entry->text, sizeof(entry->text), "%.*s", (int)message->len,
             message->len > 0 ? (const char *)message->payload : "");
    entry->revision = (uint64_t)message->offset + 1;
    entry->written = relay_kafka_stamp_of(message);
    return 0;
}

static int read_some(struct relay_kafka *kafka, struct kafka_table *table)
{
    rd_kafka_message_t *messages[BATCH];
    size_t count = relay_kafka_reader_take(kafka, &table->reader, 1, BATCH, messages);
    int r = 0;

    for (size_t i = 0; i < count; i++) {
        if (r == 0)
            r = note(table, messages[i]);
        rd_kafka_message_destroy(messages[i]);
    }
    return r;
}

/* What is below the partition's end when it is asked for first, has been decided if the other end is not below
 * it. */
static int find_ends(struct relay_kafka *kafka, struct kafka_table *table, int64_t *ret_end)
{
    int64_t high;
    int r = relay_kafka_reader_high(kafka, &table->reader, &high);

    if (r < 0)
        return r;
    if (high != table->high || table->high_at == 0)
        table->high_at = relay_kafka_clock(&kafka->engine);
    table->high = high;
    r = relay_kafka_reader_end(kafka, &table->reader, ret_end);
    if (r == 0 &&
        (!table->reader.reads || *ret_end < table->reader.next)) { /* or it was made anew */
        forget(table);
        r = relay_kafka_reader_first(kafka, &table->reader, &table->reader.next);
    }
    return r;
}

int relay_kafka_entries_read(struct relay_kafka *kafka, struct kafka_table *table)
{
    struct kafka_reader *reader = &table->reader;
    const uint64_t until = relay_kafka_clock(&kafka->engine) + kafka->config->lease / 4;
    int64_t end;
    int r = find_ends(kafka, table, &end);

    if (r < 0 || (reader->reads && reader->next == end))
        return r;
    r = relay_kafka_reader_seek(kafka, reader, reader->next);
    while (r == 0 && reader->next < end) {
        r = relay_kafka_clock(&kafka->engine) < until ? read_some(kafka, table) : -ETIMEDOUT;
        if (r == 0 && !reader->reads)
            r = -EIO;
    }
    relay_kafka_reader_stop(reader);
    if (r == -ENOMEM)
        reader->reads = false;
    return r;
}

bool relay_kafka_entries_hide(const struct kafka_table *table)
{
    return table->reader.next < table->high;
}

int relay_kafka_entry_compare(struct relay_kafka *kafka, struct kafka_table *table,
                              const char *name, uint64_t revision)
{
    const struct kafka_entry *entry;
    int r = relay_kafka_entries_read(kafka, table);

    if (r < 0)
        return r;
    entry = find(table, name, strlen(name));
    return (entry ? entry->revision : 0) == revision ? 0 : -EAGAIN;
}

static struct kafka_table *table_of(struct relay_kafka *kafka, const char *name)
{
    return strncmp(name, "shard.", 6) == 0 ? &kafka->shards : &kafka->places;
}

/* An owner may know a later one of its own than can be read. */
int relay_kafka_read(struct relay_engine *engine, const char *name, char ret_text[RELAY_ENTRY_MAX],
                     uint64_t *ret_revision)
{
    struct relay_kafka *kafka = relay_kafka_of(engine);
    struct kafka_table *table = table_of(kafka, name);
    const struct kafka_entry *entry;
    int r = relay_kafka_entries_read(kafka, table);

    ret_text[0] = 0;
    *ret_revision = 0;
    entry = r < 0 ? NULL : find(table, name, strlen(name));
    if (entry) {
        strcpy(ret_text, entry->text);
        *ret_revision = entry->revision;
    }
    if (r == 0 && table == &kafka->shards && kafka->owner.holds &&
        *ret_revision < kafka->owner.revision)
        r = -EAGAIN;
    return r;
}

/* The entry was read since it was changed, or it has another revision. */
int relay_kafka_written(struct relay_engine *engine, const char *name, uint64_t revision,
                        uint64_t *ret_written)
{
    struct relay_kafka *kafka = relay_kafka_of(engine);
    const struct kafka_entry *entry;
    struct kafka_table *table = table_of(kafka, name);
    int r = relay_kafka_entry_compare(kafka, table, name, revision);

    if (r < 0)
        return r;
    entry = find(table, name, strlen(name));
    *ret_written = entry ? entry->written : 0;
    return entry ? 0 : -EAGAIN;
}
