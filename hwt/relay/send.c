/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/shard.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hwt/relay/log.h"
#include "hwt/relay/policy.h"
#include "hwt/relay/proof.h"

/* A message as it is sent, with the texts of the headers that it gets. */
struct draft {
    struct relay_field fields[RELAY_FIELDS_MAX + 8];
    size_t count, payload_size;
    char due[RELAY_DUE_ROOM], source[RELAY_ENTRY_MAX], attempt[24];
    char id[RELAY_TARGET_MAX + 64], reason[RELAY_REASON_MAX + 64], own_id[RELAY_ENTRY_MAX];
    char *names; /* allocated */
};

static void add(struct draft *draft, const char *name, const char *value)
{
    draft->fields[draft->count++] = (struct relay_field){ name, value };
}

static void begin_draft(struct draft *draft, const struct relay_shard *shard,
                        const struct relay_record *record, uint64_t due)
{
    draft->names = NULL;
    draft->count = record->fields_count;
    draft->payload_size = record->payload_size;
    memcpy(draft->fields, record->fields, record->fields_count * sizeof(record->fields[0]));
    relay_due_write(due, draft->due);
    snprintf(draft->source, sizeof(draft->source), "%s.%u:%" PRIu64, shard->config->space,
             shard->number, record->place.position);
}

static int send(struct relay_shard *shard, struct relay_flight *flight, const char *target,
                const char *id, const struct draft *draft, const struct relay_record *record)
{
    const struct relay_outgoing message = {
        .target = target,
        .id = id,
        .fields = draft->fields,
        .fields_count = draft->count,
        .payload = record->payload,
        .payload_size = draft->payload_size,
    };
    uint64_t cookie =
        flight->number * RELAY_WAYS + (target && *target ? RELAY_TO_TARGET : RELAY_ELSEWHERE);
    int r = shard->engine->calls->send(shard->engine, &message, cookie);

    if (r == 0)
        flight->state = RELAY_SENT;
    return r;
}

static bool is_for_ever(int error)
{
    return error == -EMSGSIZE || error == -EINVAL;
}

/* Leaves out what the dead letters have no room for. Returns its bytes. */
static uint64_t cut(const struct relay_shard *shard, const struct relay_flight *flight,
                    struct draft *draft)
{
    const struct relay_limits *limits = &shard->engine->limits;
    uint64_t headers = relay_fields_size(draft->fields, draft->count), left_out = 0;

    if (flight->cut >= 2 || !relay_fits(limits->headers, headers) ||
        !relay_fits(limits->message, headers)) {
        left_out = headers;
        headers = draft->count = 0;
    }
    if (flight->cut >= 1 || !relay_fits(limits->message, headers + draft->payload_size)) {
        left_out += draft->payload_size;
        draft->payload_size = 0;
    }
    return left_out;
}

static int send_dead(struct relay_shard *shard, struct relay_flight *flight, struct draft *draft,
                     const struct relay_record *record, const char *why)
{
    uint64_t left_out;

    draft->count -= !*record->target && draft->count > 0; /* its reason, which is `why` */
    left_out = record->missing + cut(shard, flight, draft);
    if (*record->target) {
        add(draft, "Hwt-Target", record->target);
        add(draft, "Hwt-Due", draft->due);
        if (*record->key)
            add(draft, "Hwt-Key", record->key);
    }
    if (left_out > 0)
        snprintf(draft->reason, sizeof(draft->reason), "%s; %" PRIu64 " bytes of it are left out",
                 why, left_out);
    add(draft, "Hwt-Reason", left_out > 0 ? draft->reason : why);
    add(draft, "Hwt-Source", draft->source);
    snprintf(draft->id, sizeof(draft->id), "%s:dead", record->id);
    flight->dead = true;
    return send(shard, flight, "", draft->id, draft, record);
}

/* Of a dead letter, so that they say nothing of what it is now. False: no memory. */
static bool rename_own(struct draft *draft)
{
    size_t room = 1;
    char *at;

    for (size_t i = 0; i < draft->count; i++)
        room += strlen(RELAY_WAS) + strlen(draft->fields[i].name) + 1;
    at = draft->names = malloc(room);
    for (size_t i = 0; at && i < draft->count; i++) {
        if (!relay_field_is_hwt(&draft->fields[i]))
            continue;
        const char *name = at;
        at += sprintf(at, RELAY_WAS "%s", draft->fields[i].name) + 1;
        draft->fields[i].name = name;
    }
    return at != NULL;
}

static int send_again(struct relay_shard *shard, struct relay_flight *flight, struct draft *draft,
                      struct relay_record *record)
{
    uint64_t backoff = record->attempt < 6 ? HWT_SEC(UINT64_C(1) << record->attempt) : HWT_SEC(60);
    uint64_t due = hwt_delay_now(shard->store) + backoff;
    struct relay_proof proof;
    int r;

    record->attempt++;
    r = relay_prove(shard, record, due, &proof);
    if (r < 0)
        return r;
    relay_due_write(due, draft->due);
    snprintf(draft->attempt, sizeof(draft->attempt), "%" PRIu64, record->attempt);
    snprintf(draft->id, sizeof(draft->id), "%s:%s:%s", record->id, draft->attempt, proof.id);
    snprintf(draft->source + strlen(draft->source), sizeof(draft->source) - strlen(draft->source),
             ":%s", proof.whole);
    if (*record->target)
        add(draft, "Hwt-Target", record->target);
    else if (!rename_own(draft))
        return -ENOMEM;
    else
        add(draft, "Hwt-Op", "dead");
    add(draft, "Hwt-Due", draft->due);
    add(draft, "Hwt-Attempt", draft->attempt);
    add(draft, "Hwt-Id", record->id);
    add(draft, "Hwt-Source", draft->source);
    flight->dead = false;
    if (*record->key)
        add(draft, "Hwt-Key", record->key);
    return send(shard, flight, NULL, draft->id, draft, record);
}

/* Why it is a dead letter; NULL: it is none. */
static const char *find_fault(const struct relay_shard *shard, struct relay_flight *flight,
                              const struct relay_record *record, char reason[RELAY_REASON_MAX])
{
    const struct relay_case judged = { record->target, record->fields, record->fields_count,
                                       record->payload_size };

    int r;

    flight->why = RELAY_DEAD_ORDER;
    if (!*record->target)
        return record->fields_count > 0 ? record->fields[record->fields_count - 1].value
                                        : "it was too long";
    flight->why = RELAY_DEAD_SIZE;
    if (record->missing > 0)
        return "it was longer than message_max when it was read";
    r = relay_policy_judge(shard->config, &shard->engine->limits, &judged, reason);
    flight->why = r == -EPERM ? RELAY_DEAD_TARGET : r == -EINVAL ? RELAY_DEAD_ORDER : flight->why;
    if (r < 0)
        return reason;
    flight->why = RELAY_DEAD_ATTEMPTS;
    if (!flight->failed ||
        (!is_for_ever(flight->failed) && record->attempt + 1 < shard->config->attempts))
        return NULL;
    snprintf(reason, RELAY_REASON_MAX, "not sent: %s; attempt %" PRIu64 " of %" PRIu64,
             strerror(-flight->failed), record->attempt + 1, shard->config->attempts);
    return reason;
}

/* The first one of a minute. */
static void say_dead(struct relay_shard *shard, const struct relay_record *record, const char *why)
{
    const uint64_t now = relay_clock(shard);

    if (shard->dead_said_at > 0 && now - shard->dead_said_at < HWT_SEC(60))
        return;
    shard->dead_said_at = now;
    relay_log(shard->number, "position %" PRIu64 " becomes a dead letter: %s",
              record->place.position, why);
}

/* -EBUSY: it has to wait, and others may go meanwhile; or it has failed. */
static int send_to_target(struct relay_shard *shard, struct relay_flight *flight,
                          struct draft *draft, struct relay_record *record)
{
    struct relay_gate *gate;
    enum relay_turn turn = relay_gate_ask(shard, record->target, &gate);
    int r;

    if (turn == RELAY_HAS_TO_WAIT)
        return -EBUSY;
    if (turn == RELAY_GOES_BACK) {
        relay_flight_failed(shard, flight, -ETIMEDOUT, false);
        return -EBUSY;
    }
    add(draft, "Hwt-Due", draft->due);
    add(draft, "Hwt-Source", draft->source);
    r = send(shard, flight, record->target, record->id, draft, record);
    if (r == 0)
        relay_gate_enter(gate, flight);
    return r;
}

static int send_flight(struct relay_shard *shard, struct relay_flight *flight)
{
    struct relay_record record;
    char reason[RELAY_REASON_MAX];
    struct draft draft;
    const char *fault;
    int r = relay_record_read(flight->message->payload, flight->message->payload_size, &record);

    if (r == 0)
        r = relay_believe(shard, flight->message->due, &record, draft.own_id);
    if (r < 0)
        return r;
    begin_draft(&draft, shard, &record, flight->message->due);
    fault = find_fault(shard, flight, &record, reason);
    if (fault && !flight->parks)
        say_dead(shard, &record, fault);
    if (fault && !flight->parks)
        return send_dead(shard, flight, &draft, &record, fault);
    if (fault || flight->failed) {
        r = send_again(shard, flight, &draft, &record);
        free(draft.names);
        return r;
    }
    return send_to_target(shard, flight, &draft, &record);
}

static int compare_dues(const void *a, const void *b)
{
    const struct relay_flight *left = *(struct relay_flight *const *)a,
                              *right = *(struct relay_flight *const *)b;
    const uint64_t by_due = left->message->due, than = right->message->due;

    if (by_due != than)
        return by_due < than ? -1 : 1;
    return left->number < right->number ? -1 : 1;
}

/* In the order of their due times: a message that has arrived late may be due before others. */
static size_t find_waiting(struct relay_shard *shard, struct relay_flight **waiting)
{
    size_t count = 0;
    bool sorted = true;

    for (size_t i = 0; i < shard->flights_count; i++) {
        struct relay_flight *flight = &shard->flights[i];
        if (flight->state != RELAY_WAITS)
            continue;
        waiting[count++] = flight;
        sorted = sorted && (count == 1 || compare_dues(&waiting[count - 2], &flight) < 0);
    }
    if (!sorted)
        qsort(waiting, count, sizeof(waiting[0]), compare_dues);
    return count;
}

/* With transactions, what its target refuses at once goes elsewhere in the same transaction. */
static int send_now(struct relay_shard *shard, struct relay_flight *flight)
{
    int r = send_flight(shard, flight);

    if (r == -EBUSY && flight->failed)
        r = send_flight(shard, flight);
    if (r < 0 || !shard->engine->together)
        return r;
    relay_answers_step(shard);
    if (flight->state != RELAY_WAITS || relay_clock(shard) < flight->not_before)
        return 0;
    return send_flight(shard, flight);
}

/* With transactions, nothing passes a message that waits, because the watermark stays below that
 * one, so a new owner would send again what has passed. But one that is refused elsewhere, too, is
 * passed. */
void relay_send_step(struct relay_shard *shard)
{
    struct relay_flight *waiting[RELAY_FLIGHTS_MAX];
    size_t count = find_waiting(shard, waiting);
    int r;

    for (size_t i = 0; i < count; i++) {
        struct relay_flight *flight = waiting[i];
        if (relay_clock(shard) < flight->not_before) {
            if (shard->engine->together && !flight->refused)
                return;
            continue;
        }
        r = relay_lease_holds(shard) ? send_now(shard, flight) : -EAGAIN;
        if (r < 0 && r != -EBUSY)
            return;
    }
}
