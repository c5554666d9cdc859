/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/kafka_inside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hwt/relay/log.h"

/*
 * Entries are the last messages of their keys in the shard's partition of a compacted topic. A read asks the leader for
 * the end of the partition, and reads up to there.
 */
enum { BATCH = 64 };

static void forget(struct relay_kafka *kafka)
{
    for (size_t i = 0; i < kafka->entries_count; i++)
        free(kafka->entries[i].name);
    kafka->entries_count = 0;
}

void relay_kafka_entries_end(struct relay_kafka *kafka)
{
    relay_kafka_reader_close(&kafka->entry_reader);
    forget(kafka);
    free(kafka->entries);
}

const struct kafka_entry *relay_kafka_entry_find(const struct relay_kafka *kafka, const char *name)
{
    for (size_t i = 0; i < kafka->entries_count; i++)
        if (strcmp(kafka->entries[i].name, name) == 0)
            return &kafka->entries[i];
    return NULL;
}

/* NULL: no memory. */
static struct kafka_entry *make(struct relay_kafka *kafka, const char *name, size_t length)
{
    struct kafka_entry *more =
        realloc(kafka->entries, (kafka->entries_count + 1) * sizeof(*kafka->entries));
    char *copy = strndup(name, length);

    if (more)
        kafka->entries = more;
    if (!more || !copy) {
        free(copy);
        return NULL;
    }
    more[kafka->entries_count] = (struct kafka_entry){ .name = copy };
    return &more[kafka->entries_count++];
}

static int note(struct relay_kafka *kafka, const rd_kafka_message_t *message)
{
    struct kafka_entry *entry = NULL;

    for (size_t i = 0; i < kafka->entries_count && !entry; i++)
        if (strlen(kafka->entries[i].name) == message->key_len &&
            memcmp(kafka->entries[i].name, message->key, message->key_len) == 0)
            entry = &kafka->entries[i];
    if (!entry)
        entry = make(kafka, message->key ? message->key : "", message->key_len);
    if (!entry)
        return -ENOMEM;
    snprintf(entry->text, sizeof(entry->text), "%.*s", (int)message->len,
             message->len > 0 ? (const char *)message->payload : "");
    entry->revision = (uint64_t)message->offset + 1;
    entry->written = relay_kafka_stamp_of(message);
    return 0;
}

static int read_some(struct relay_kafka *kafka)
{
    rd_kafka_message_t *messages[BATCH];
    size_t count = relay_kafka_reader_take(kafka, &kafka->entry_reader, 1, BATCH, messages);
    int r = 0;

    for (size_t i = 0; i < count; i++) {
        if (r == 0)
            r = note(kafka, messages[i]);
        rd_kafka_message_destroy(messages[i]);
    }
    return r;
}

int relay_kafka_entries_read(struct relay_kafka *kafka)
{
    struct kafka_reader *reader = &kafka->entry_reader;
    const uint64_t until = relay_kafka_clock(&kafka->engine) + kafka->config->lease / 4;
    int64_t first, end;
    int r = relay_kafka_reader_ends(kafka, reader, &first, &end);

    if (r < 0)
        return r;
    if (!reader->reads || end < reader->next) { /* at first, or the topic was made anew */
        forget(kafka);
        reader->next = first;
    }
    if (reader->reads && reader->next == end)
        return 0;
    r = relay_kafka_reader_seek(kafka, reader, reader->next);
    while (r == 0 && reader->next < end) {
        r = relay_kafka_clock(&kafka->engine) < until ? read_some(kafka) : -ETIMEDOUT;
        if (r == 0 && !reader->reads)
            r = -EIO;
    }
    relay_kafka_reader_stop(reader);
    if (r == -ENOMEM)
        reader->reads = false;
    return r;
}

int relay_kafka_read(struct relay_engine *engine, const char *name, char ret_text[RELAY_ENTRY_MAX],
                     uint64_t *ret_revision)
{
    struct relay_kafka *kafka = relay_kafka_of(engine);
    const struct kafka_entry *entry;
    int r = relay_kafka_entries_read(kafka);

    ret_text[0] = 0;
    *ret_revision = 0;
    entry = r < 0 ? NULL : relay_kafka_entry_find(kafka, name);
    if (entry) {
        strcpy(ret_text, entry->text);
        *ret_revision = entry->revision;
    }
    return r;
}

/* The entry was read since it was changed, or it has another revision. */
int relay_kafka_written(struct relay_engine *engine, const char *name, uint64_t revision,
                        uint64_t *ret_written)
{
    struct relay_kafka *kafka = relay_kafka_of(engine);
    const struct kafka_entry *entry;
    int r = relay_kafka_entries_read(kafka);

    if (r < 0)
        return r;
    entry = relay_kafka_entry_find(kafka, name);
    if (!entry || entry->revision != revision)
        return -EAGAIN;
    *ret_written = entry->written;
    return 0;
}
