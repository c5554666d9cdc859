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

/* A message is sent to its target first. If that fails, it is sent to the delay stream again for a
 * later time, or to the dead letters, because its state is never changed but through the log. */
enum { TRIES_TARGET, TRIES_ELSEWHERE, TRIES };

/* A message as it is sent, with the texts of the headers that it gets. */
struct draft {
    struct relay_field fields[RELAY_FIELDS_MAX + 8];
    size_t count, payload_size;
    char due[RELAY_DUE_ROOM], source[RELAY_ENTRY_MAX], attempt[24];
    char id[RELAY_TARGET_MAX + 64], reason[RELAY_REASON_MAX + 64], own_id[RELAY_ENTRY_MAX];
};

static void add(struct draft *draft, const char *name, const char *value)
{
    draft->fields[draft->count++] = (struct relay_field){ name, value };
}

static void begin_draft(struct draft *draft, const struct relay_shard *shard,
                        const struct relay_record *record, uint64_t due)
{
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
    uint64_t cookie = flight->number * TRIES + (target && *target ? TRIES_TARGET : TRIES_ELSEWHERE);
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
    add(draft, "Hwt-Target", record->target);
    add(draft, "Hwt-Due", draft->due);
    add(draft, "Hwt-Attempt", draft->attempt);
    add(draft, "Hwt-Id", record->id);
    add(draft, "Hwt-Source", draft->source);
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
    if (fault)
        say_dead(shard, &record, fault);
    if (fault)
        return send_dead(shard, flight, &draft, &record, fault);
    if (flight->failed)
        return send_again(shard, flight, &draft, &record);
    add(&draft, "Hwt-Due", draft.due);
    add(&draft, "Hwt-Source", draft.source);
    return send(shard, flight, record.target, record.id, &draft, &record);
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

    for (size_t i = 0; i < count; i++) {
        struct relay_flight *flight = waiting[i];
        if (relay_clock(shard) < flight->not_before) {
            if (shard->engine->together && !flight->refused)
                return;
            continue;
        }
        if (shard->drains || !relay_lease_holds(shard) || send_now(shard, flight) < 0)
            return;
    }
}

/* Finds it by its number, because the numbers ascend. NULL: it has ended. */
static struct relay_flight *find_flight(struct relay_shard *shard, uint64_t number)
{
    size_t low = 0, high = shard->flights_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (shard->flights[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < shard->flights_count && shard->flights[low].number == number ? &shard->flights[low]
                                                                              : NULL;
}

static void count_failure(struct relay_shard *shard, const struct relay_flight *flight)
{
    struct relay_record record;
    size_t pattern;

    relay_count_add(&shard->counts.failures, 1);
    if (relay_record_read(flight->message->payload, flight->message->payload_size, &record) < 0)
        return;
    pattern = relay_policy_pattern(shard->config, record.target);
    if (pattern < shard->config->targets.count)
        relay_count_add(&shard->counts.failures_of[pattern], 1);
}

static void note_failure(struct relay_shard *shard, struct relay_flight *flight, int error,
                         bool elsewhere)
{
    flight->state = RELAY_WAITS;
    if (error == -ECANCELED) {
        flight->not_before = relay_clock(shard) + shard->config->lease / 32;
        return;
    }
    if (!elsewhere) {
        flight->failed = error;
        count_failure(shard, flight);
        return;
    }
    flight->refused = true;
    if (error == -EMSGSIZE && flight->dead && flight->cut < 2)
        flight->cut++;
    else if (error == -EMSGSIZE && !flight->dead)
        flight->failed = error; /* it cannot be sent again */
    flight->not_before = relay_clock(shard) + HWT_SEC(1);
}

/* The lateness counts only as much as the relay could help, so a message that has arrived after its
 * due time is late from then on. */
static void count_forwarded(struct relay_shard *shard, const struct relay_flight *flight,
                            bool repeated)
{
    uint64_t due = flight->message->due, from = flight->place.timestamp;
    uint64_t now = hwt_delay_now(shard->store);

    from = from > due ? from : due;
    relay_count_add(&shard->counts.forwarded, 1);
    relay_count_add(&shard->counts.repeats, repeated);
    relay_count_lateness(&shard->counts, now > from ? now - from : 0);
}

static void end_flight(struct relay_shard *shard, struct relay_flight *flight,
                       const struct relay_answer *answer)
{
    if (flight->dead) {
        relay_count_add(&shard->counts.dead_letters, 1);
        relay_count_add(&shard->counts.dead_letters_of[flight->why], 1);
    } else if (answer->cookie % TRIES == TRIES_TARGET) {
        count_forwarded(shard, flight, answer->repeated);
    }
    flight->state = RELAY_ENDED;
}

void relay_answers_step(struct relay_shard *shard)
{
    struct relay_answer answers[64];
    size_t n;

    while ((n = shard->engine->calls->answers(shard->engine, 64, answers)) > 0)
        for (size_t i = 0; i < n; i++) {
            struct relay_flight *flight = find_flight(shard, answers[i].cookie / TRIES);
            if (!flight || flight->state != RELAY_SENT)
                continue;
            if (answers[i].result == 0)
                end_flight(shard, flight, &answers[i]);
            else
                note_failure(shard, flight, answers[i].result,
                             answers[i].cookie % TRIES == TRIES_ELSEWHERE);
        }
}

static void forget(struct relay_flight *flight)
{
    if (--flight->taken->users == 0) {
        hwt_delay_free(flight->taken->messages);
        free(flight->taken);
    }
}

/* Done with those that have ended. They stay if the store cannot say so for now. */
static int done(struct relay_shard *shard)
{
    uint64_t leases[RELAY_FLIGHTS_MAX];
    size_t ended = 0, kept = 0;
    int64_t n;

    for (size_t i = 0; i < shard->flights_count; i++)
        if (shard->flights[i].state == RELAY_ENDED)
            leases[ended++] = shard->flights[i].message->lease;
    if (ended == 0)
        return 0;
    n = hwt_delay_done(shard->store, leases, ended);
    if (n < 0) {
        relay_log(shard->number, RELAY_ERROR "the store cannot end messages: %s",
                  strerror((int)-n));
        return n == -EIO || n == -EBADMSG ? (int)n : 0;
    }
    for (size_t i = 0; i < shard->flights_count; i++) {
        if (shard->flights[i].state == RELAY_ENDED)
            forget(&shard->flights[i]);
        else
            shard->flights[kept++] = shard->flights[i];
    }
    shard->flights_count = kept;
    return 0;
}

int relay_end_step(struct relay_shard *shard)
{
    relay_answers_step(shard);
    for (size_t i = 0; i < shard->flights_count; i++) {
        struct relay_flight *flight = &shard->flights[i];
        uint64_t due = flight->message->due;
        if (relay_watermark_covers(&shard->inherited, &flight->place, due))
            flight->state = RELAY_ENDED;
    }
    return done(shard);
}

struct relay_flight *relay_flights_waiting(struct relay_shard *shard, uint64_t due, const void *id,
                                           size_t id_size)
{
    if (due > shard->taken_due) /* it was not taken, whatever the clock says now */
        return NULL;
    for (size_t i = 0; i < shard->flights_count; i++) {
        struct relay_flight *flight = &shard->flights[i];
        const hwt_delay_message *message = flight->message;
        if (flight->state == RELAY_WAITS && message->due == due && message->id_size == id_size &&
            memcmp(message->id, id, id_size) == 0)
            return flight;
    }
    return NULL;
}

uint64_t relay_flights_lowest(const struct relay_shard *shard)
{
    uint64_t lowest = HWT_NEVER;

    for (size_t i = 0; i < shard->flights_count; i++) {
        enum relay_state state = shard->flights[i].state;
        bool ends = state == RELAY_ENDED || (state == RELAY_SENT && shard->engine->together);
        if (!ends)
            lowest = relay_min(lowest, shard->flights[i].message->due);
    }
    return lowest;
}

/* All of them become flights, whatever is found in them, see relay_flights_lowest(). */
static int add_flights(struct relay_shard *shard, struct relay_taken *taken, size_t count)
{
    int r = 0;

    taken->users = count;
    for (size_t i = 0; i < count; i++) {
        const hwt_delay_message *message = &taken->messages[i];
        struct relay_flight *flight = &shard->flights[shard->flights_count++];
        struct relay_record record;
        *flight = (struct relay_flight){ .number = ++shard->flight_last,
                                         .taken = taken,
                                         .message = message };
        if (relay_record_read(message->payload, message->payload_size, &record) < 0)
            r = -EBADMSG;
        else
            flight->place = record.place;
        if (message->due > shard->taken_due)
            shard->taken_due = message->due;
    }
    return r;
}

/* How many were taken, or what taking has failed with. */
static int64_t take(struct relay_shard *shard)
{
    size_t room = RELAY_FLIGHTS_MAX - shard->flights_count;
    struct relay_taken *taken = malloc(sizeof(*taken));
    const struct relay_place place = shard->at; /* first: see watermark.h */
    uint64_t frontier = 0;
    int64_t n;
    int r;

    if (!taken)
        return -ENOMEM;
    n = hwt_delay_take_frontier(shard->store, room, 0, &taken->messages, &frontier);
    if (frontier > 0)
        shard->taken = (struct relay_watermark){ place, frontier - 1 };
    if (n <= 0) {
        free(taken);
        return n;
    }
    r = add_flights(shard, taken, (size_t)n);
    return r < 0 ? r : n;
}

int relay_take_step(struct relay_shard *shard)
{
    int64_t n = 0;

    while (relay_shard_takes(shard) && (n = take(shard)) > 0)
        ;
    if (n == -ETIME)
        relay_lease_resign(shard, "the clock has leapt");
    if (n != -EIO && n != -EBADMSG && n != -EROFS)
        return 0; /* what is short now is there later */
    relay_log(shard->number, RELAY_ERROR "messages cannot be taken from the store: %s",
              strerror((int)-n));
    return (int)n;
}

bool relay_shard_takes(const struct relay_shard *shard)
{
    return shard->role == RELAY_OWNS && !shard->drains && shard->flights_count < RELAY_FLIGHTS_MAX;
}

void relay_shard_close(struct relay_shard *shard)
{
    relay_lease_release(shard);
    for (size_t i = 0; i < shard->flights_count; i++)
        forget(&shard->flights[i]);
    free(shard);
}
