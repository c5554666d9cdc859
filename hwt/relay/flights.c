/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/shard.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hwt/relay/log.h"
#include "hwt/relay/policy.h"

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

void relay_flight_failed(struct relay_shard *shard, struct relay_flight *flight, int error,
                         bool elsewhere)
{
    flight->state = RELAY_WAITS;
    relay_gate_leave(shard, flight, error != -ETIMEDOUT);
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
    if (error == -EMSGSIZE && flight->dead && flight->cut < 2) {
        flight->cut++;
        return;
    }
    if (error == -EMSGSIZE && !flight->dead)
        flight->failed = error; /* it cannot be sent again */
    flight->parks = flight->dead;
    if (!flight->parks)
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
    } else if (answer->cookie % RELAY_WAYS == RELAY_TO_TARGET) {
        count_forwarded(shard, flight, answer->repeated);
    }
    relay_gate_leave(shard, flight, true);
    flight->state = RELAY_ENDED;
}

static void note_answer(struct relay_shard *shard, struct relay_flight *flight,
                        const struct relay_answer *answer)
{
    bool elsewhere = answer->cookie % RELAY_WAYS == RELAY_ELSEWHERE;

    if (answer->result == 0)
        end_flight(shard, flight, answer);
    else if (elsewhere || !flight->failed) /* else it was given up, and is under way elsewhere */
        relay_flight_failed(shard, flight, answer->result, elsewhere);
}

void relay_answers_step(struct relay_shard *shard)
{
    struct relay_answer answers[64];
    size_t n;

    while ((n = shard->engine->calls->answers(shard->engine, 64, answers)) > 0)
        for (size_t i = 0; i < n; i++) {
            struct relay_flight *flight = find_flight(shard, answers[i].cookie / RELAY_WAYS);
            if (flight && flight->state == RELAY_SENT)
                note_answer(shard, flight, &answers[i]);
        }
}

void relay_flights_give_up(struct relay_shard *shard)
{
    for (size_t i = 0; i < shard->flights_count; i++)
        if (shard->flights[i].gate)
            relay_flight_failed(shard, &shard->flights[i], -ETIMEDOUT, false);
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
        if (!relay_watermark_covers(&shard->inherited, &flight->place, due))
            continue;
        relay_gate_leave(shard, flight, false);
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
