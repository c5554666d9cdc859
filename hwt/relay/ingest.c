/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/shard.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hwt/relay/log.h"

enum { CHANGES_MAX = 4 * RELAY_PULL_MAX };

/* The longest id of a producer, so that the one which the target gets has no more than
 * RELAY_TARGET_MAX bytes. */
enum { GIVEN_MAX = 128 };

/*
 * The changes that one pull makes in the store. The store's note is the place up to which it has
 * read; it changes in the same step, so a crash leaves both or none.
 */
struct batch {
    hwt_delay_change changes[CHANGES_MAX];
    hwt_delay_message messages[CHANGES_MAX];   /* of the puts; at the same index */
    struct relay_flight *flights[CHANGES_MAX]; /* that end with it, likewise; or NULL */
    unsigned char ids[CHANGES_MAX][RELAY_ID_MAX];
    size_t count, bytes;
    struct relay_place place; /* behind what is in it */
};

/* Headers and the record's own come to the payload. */
static size_t record_max(const struct relay_config *config)
{
    return config->message_max + 65536;
}

hwt_delay_options relay_shard_store(const struct relay_config *config)
{
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;

    options.flags = HWT_DELAY_CREATE | HWT_DELAY_STANDBY;
    options.payload_max = (uint32_t)record_max(config);
    options.lease = HWT_SEC(UINT64_C(315360000)); /* ten years: leases end with the process */
    options.clock_leap = config->clock_bound; /* the broker's clock is asked once a lease only */
    if (options.memory < 32 * record_max(config))
        options.memory = 32 * record_max(config);
    if (options.segment_size < 16 * record_max(config))
        options.segment_size = 16 * record_max(config);
    return options;
}

static int read_place(struct relay_shard *shard)
{
    char text[RELAY_ENTRY_MAX] = "";
    uint64_t mark;
    int64_t size = hwt_delay_note(shard->store, text, sizeof(text) - 1, &mark);
    int r;

    if (size < 0)
        return (int)size;
    r = (size_t)size < sizeof(text) ? relay_note_read(text, &shard->at, &shard->top) : -EBADMSG;
    if (r == 0 && size > 0)
        relay_points_add(shard, &shard->at, mark);
    return r;
}

int relay_shard_open(const struct relay_config *config, unsigned number,
                     struct relay_engine *engine, hwt_delay *store, uint64_t life,
                     struct relay_shard **ret_shard)
{
    struct relay_shard *shard = calloc(1, sizeof(*shard));
    int r;

    if (!shard)
        return -ENOMEM;
    shard->config = config;
    shard->number = number;
    shard->engine = engine;
    shard->store = store;
    shard->life = life;
    shard->revision = UINT64_MAX;            /* none was seen */
    shard->flight_last = relay_clock(shard); /* answers may come to what another one has sent */
    r = read_place(shard);
    if (r < 0)
        free(shard);
    else
        *ret_shard = shard;
    return r;
}

int relay_ingest_place(struct relay_shard *shard, const struct relay_place *place,
                       const struct relay_place *top)
{
    hwt_delay_batch note = HWT_DELAY_BATCH_INIT;
    char text[RELAY_ENTRY_MAX];
    int r;

    relay_note_write(place, top, text);
    note.note = text;
    note.note_size = strlen(text);
    r = hwt_delay_apply(shard->store, NULL, 0, &note);
    if (r < 0)
        return r;
    shard->at = *place;
    shard->top = *top;
    relay_points_add(shard, place, note.mark);
    return 0;
}

bool relay_is_for_now(int error)
{
    return error == -ENOSPC || error == -ENOMEM || error == -EMFILE || error == -ENFILE;
}

bool relay_stores(const struct relay_shard *shard)
{
    return relay_clock(shard) >= shard->stores_at;
}

void relay_is_short(struct relay_shard *shard, int error)
{
    if (relay_stores(shard))
        relay_log(shard->number, "messages cannot be stored for now: %s", strerror(-error));
    shard->stores_at = relay_clock(shard) + HWT_SEC(2) + shard->config->lease;
    relay_lease_resign(shard, "its store is short of something");
}

static void clear(struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        if (batch->changes[i].op == HWT_DELAY_OP_PUT)
            free((void *)(uintptr_t)batch->messages[i].payload);
    batch->count = batch->bytes = 0;
}

static int flush(struct relay_shard *shard, struct batch *batch)
{
    hwt_delay_batch note = HWT_DELAY_BATCH_INIT;
    char text[RELAY_ENTRY_MAX];
    int r;

    if (shard->top.position < batch->place.position)
        shard->top = batch->place;
    relay_note_write(&batch->place, &shard->top, text);
    note.note = text;
    note.note_size = strlen(text);
    r = hwt_delay_apply(shard->store, batch->changes, batch->count, &note);
    if (r == 0) {
        shard->at = batch->place;
        shard->moved_at = relay_clock(shard);
        relay_points_add(shard, &batch->place, note.mark);
    }
    for (size_t i = 0; i < batch->count; i++)
        if (batch->flights[i] && (r < 0 || batch->changes[i].result < 0))
            batch->flights[i]->state = RELAY_WAITS;
    clear(batch);
    return r;
}

/* A change that is left out if it cannot be made. A full batch goes to the store first. */
static int add_change(struct relay_shard *shard, struct batch *batch, hwt_delay_change change,
                      struct relay_flight *flight)
{
    int r = batch->count == CHANGES_MAX ? flush(shard, batch) : 0;

    if (r < 0)
        return r;
    change.flags = HWT_DELAY_MAY_FAIL;
    batch->flights[batch->count] = flight;
    batch->changes[batch->count++] = change;
    return 0;
}

/* Ends those that are taken and were not sent, because they are cancelled, or replaced. */
static int end_flights(struct relay_shard *shard, struct batch *batch, uint64_t due, const void *id,
                       size_t id_size)
{
    struct relay_flight *flight;
    int r = 0;

    while (r == 0 && (flight = relay_flights_waiting(shard, due, id, id_size))) {
        const hwt_delay_change change = { .op = HWT_DELAY_OP_DONE,
                                          .lease = flight->message->lease };
        r = add_change(shard, batch, change, flight);
        if (r == 0)
            flight->state = RELAY_ENDED;
    }
    return r;
}

/* Without the payload, and then without headers, if the store has no room for them: then it is
 * longer than all that a relay of this message_max sends. */
static void *write_short(const struct relay_shard *shard, struct relay_record *record, size_t *size)
{
    void *bytes = relay_record_write(record, size);

    if (bytes && *size > record_max(shard->config)) {
        free(bytes);
        record->missing += record->payload_size;
        if (record->payload_size == 0) {
            record->missing += relay_fields_size(record->fields, record->fields_count);
            record->fields_count = 0;
        }
        record->payload_size = 0;
        return write_short(shard, record, size);
    }
    return bytes;
}

static int add(struct relay_shard *shard, struct batch *batch, uint64_t due, const char *key,
               struct relay_record *record)
{
    unsigned char id[RELAY_ID_MAX];
    size_t id_size = relay_store_id(key, record->place.timestamp, record->crc, id), size, at;
    void *bytes = write_short(shard, record, &size);
    int r = bytes ? end_flights(shard, batch, due, id, id_size) : -ENOMEM;

    if (r == 0 &&
        (batch->bytes + size > 2 * record_max(shard->config) || batch->count == CHANGES_MAX))
        r = flush(shard, batch);
    if (r < 0) {
        free(bytes);
        return r;
    }
    at = batch->count++;
    memcpy(batch->ids[at], id, id_size);
    batch->messages[at] = (hwt_delay_message){
        .due = due, .id = batch->ids[at], .id_size = id_size, .payload = bytes, .payload_size = size
    };
    batch->changes[at] =
        (hwt_delay_change){ .op = HWT_DELAY_OP_PUT, .message = &batch->messages[at] };
    batch->flights[at] = NULL;
    batch->bytes += size;
    return 0;
}

/* A message that is sent already is not cancelled, because it was due, and its cancel came too
 * late. */
static int cancel(struct relay_shard *shard, struct batch *batch, uint64_t due, const char *key)
{
    unsigned char id[RELAY_ID_MAX];
    hwt_delay_change change = { .op = HWT_DELAY_OP_CANCEL, .due = due };
    int r;

    change.id_size = relay_store_id(key, 0, 0, id);
    r = end_flights(shard, batch, due, id, change.id_size);
    if (r == 0 && batch->count == CHANGES_MAX)
        r = flush(shard, batch);
    if (r < 0)
        return r;
    change.id = memcpy(batch->ids[batch->count], id, change.id_size);
    return add_change(shard, batch, change, NULL);
}

static bool is_covered(const struct relay_shard *shard, const struct relay_place *place,
                       uint64_t due)
{
    return relay_watermark_covers(&shard->entry.watermark, place, due) ||
           relay_watermark_covers(&shard->inherited, place, due);
}

/* A message that gives no order is due at once, to the dead letters. */
static int add_dead(struct relay_shard *shard, struct batch *batch,
                    const struct relay_message *message, struct relay_record *record,
                    const char *reason)
{
    record->target = "";
    for (size_t i = 0; i < message->fields_count; i++) {
        const struct relay_field *field = &message->fields[i];
        if ((!relay_field_is_hwt(field) && relay_field_is_known(field)) ||
            relay_field_is_about(field))
            continue;
        if (*field->name && record->fields_count < RELAY_FIELDS_MAX)
            record->fields[record->fields_count++] = *field;
        else
            record->missing += relay_fields_size(field, 1);
    }
    record->fields[record->fields_count++] = (struct relay_field){ "Hwt-Reason", reason };
    if (is_covered(shard, &record->place, message->timestamp))
        return 0;
    return add(shard, batch, message->timestamp, NULL, record);
}

/* A dead letter that was put for later: its own headers have their names again, and the reason is the last of them. */
static void end_dead(struct relay_record *record)
{
    const char *reason = "it was a dead letter";
    size_t kept = 0;

    for (size_t i = 0; i < record->fields_count; i++) {
        struct relay_field field = record->fields[i];
        if (relay_field_was_hwt(&field))
            field.name += strlen(RELAY_WAS);
        if (relay_field_is_about(&field))
            reason = field.value;
        else
            record->fields[kept++] = field;
    }
    record->fields[kept++] = (struct relay_field){ "Hwt-Reason", reason };
    record->fields_count = kept;
}

static int add_order(struct relay_shard *shard, struct batch *batch,
                     const struct relay_message *message, const struct relay_order *order,
                     struct relay_record *record)
{
    int r = 0;

    if (order->op == RELAY_REPLACE)
        r = cancel(shard, batch, order->due_old, order->key);
    if (r < 0 || is_covered(shard, &record->place, order->due))
        return r;
    record->target = order->op == RELAY_DEAD ? "" : order->target;
    record->key = order->key ? order->key : "";
    for (size_t i = 0; i < message->fields_count; i++)
        if (!relay_field_is_known(&message->fields[i]))
            record->fields[record->fields_count++] = message->fields[i];
    if (order->op == RELAY_DEAD)
        end_dead(record);
    if (order->id) { /* the owner looks whether it is one, see proof.h */
        record->id = order->id;
        record->attempt = order->attempt;
        record->fields[record->fields_count++] =
            (struct relay_field){ "Hwt-Source", order->source };
    }
    /* One that comes back after a failure is no longer known by its key. */
    return add(shard, batch, order->due, order->id ? NULL : order->key, record);
}

/*
 * The id by which the target knows doubles. Copies of the stream may have a put that was sent twice
 * at different times, so the producer's id tells it better than its time, with due time and
 * content, in case that the producer uses an id again.
 */
static void write_id(const struct relay_shard *shard, const struct relay_order *order,
                     const struct relay_record *record, char id[RELAY_ENTRY_MAX])
{
    if (!order->given || strlen(order->given) > GIVEN_MAX)
        relay_own_id(shard, record, id);
    else
        snprintf(id, RELAY_ENTRY_MAX, "%s.%u:%" PRIu64 ":%08" PRIx32 ":%s", shard->config->space,
                 shard->number, order->due, record->crc, order->given);
}

void relay_own_id(const struct relay_shard *shard, const struct relay_record *record,
                  char id[RELAY_ENTRY_MAX])
{
    snprintf(id, RELAY_ENTRY_MAX, "%s.%u:%" PRIu64 ":%08" PRIx32, shard->config->space,
             shard->number, record->place.timestamp, record->crc);
}

static int ingest_message(struct relay_shard *shard, struct batch *batch,
                          const struct relay_message *message)
{
    struct relay_record record = { .key = "", .crc = relay_crc(message) };
    struct relay_order order = { 0 };
    char reason[RELAY_REASON_MAX], id[RELAY_ENTRY_MAX];
    int r;

    record.place =
        (struct relay_place){ shard->at.incarnation, message->position, message->timestamp };
    record.payload = message->payload;
    record.payload_size = message->payload_size;
    record.id = id;
    r = relay_order_read(message, &order, reason);
    write_id(shard, &order, &record, id);
    if (r < 0)
        r = add_dead(shard, batch, message, &record, reason);
    else if (order.op == RELAY_CANCEL)
        r = cancel(shard, batch, order.due, order.key);
    else
        r = add_order(shard, batch, message, &order, &record);
    if (r == 0)
        batch->place = record.place;
    return r;
}

static int ingest(struct relay_shard *shard, const struct relay_message *messages, size_t count)
{
    struct batch *batch = malloc(sizeof(*batch));
    int r = 0;

    if (!batch)
        return -ENOMEM;
    batch->count = batch->bytes = 0;
    batch->place = shard->at;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = ingest_message(shard, batch, &messages[i]);
    if (r == 0)
        r = flush(shard, batch);
    clear(batch);
    free(batch);
    return r;
}

/*
 * Whether the stream's leader has any of the positions that are left out. Else these messages were
 * deleted one by one. An engine whose sends become visible together with the entry reads one log,
 * and no copy of it.
 */
static bool may_lack_any(struct relay_shard *shard, const struct relay_message *messages,
                         size_t count)
{
    uint64_t next = shard->at.position + 1, position, timestamp;

    for (size_t i = 0; i < count && !shard->engine->together; next = messages[i++].position + 1)
        if (messages[i].position != next &&
            (shard->engine->calls->find(shard->engine, next, &position, &timestamp) < 0 ||
             position != messages[i].position))
            return true;
    return false;
}

/* A follower that has read all that has arrived gathers what comes next for a moment. Nobody waits
 * for it, and each sync of its store takes the disk from others. */
int relay_ingest_step(struct relay_shard *shard)
{
    const uint64_t after = shard->at.position;
    const struct relay_message *messages;
    int64_t n;
    int r;

    if (relay_clock(shard) < shard->ingest_after)
        return 0;
    if (!shard->knows_stream)
        return relay_agree(shard);
    n = shard->engine->calls->pull(shard->engine, after, RELAY_PULL_MAX, &messages);
    if (n == -ESTALE || (n > 0 && messages[n - 1].position != after + (uint64_t)n)) {
        shard->knows_stream = false; /* some are missing: lost, or merely deleted one by one */
        r = relay_agree(shard);
        if (r < 0 || n < 0 || !shard->knows_stream || shard->at.position != after ||
            may_lack_any(shard, messages, (size_t)n))
            return r; /* they are pulled again */
    }
    r = n > 0 ? ingest(shard, messages, (size_t)n) : 0;
    if (relay_is_for_now(r)) {
        shard->ingest_after = relay_clock(shard) + HWT_SEC(1);
        relay_is_short(shard, r);
        return 0;
    }
    if (r < 0)
        relay_log(shard->number, RELAY_ERROR "messages cannot be stored: %s", strerror(-r));
    else if (shard->role == RELAY_FOLLOWS && n > 0 && n < RELAY_PULL_MAX)
        shard->ingest_after = relay_clock(shard) + shard->config->lease / 64;
    return r;
}
