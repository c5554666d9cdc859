/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The consumer looks at each promise about a message when it comes. It leaves one in a thousand
 * undone, so that its lease ends and it comes again. When all is put and the near ones have come,
 * it moves the clock, from one message to the next or by hours; the store takes that for a leap,
 * and is told that it is right.
 */

#include "life.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define AT_ONCE 500
#define WAIT HWT_SEC(12)
#define JUMP HWT_SEC(3 * 3600)      /* at least, of the clock */
#define LONGEST HWT_SEC(29 * 86400) /* longer than any delay */

static bool is_left_undone(const struct run *run, uint64_t number)
{
    return hash_of(run, number, 4) % 1000 == 0;
}

static uint64_t number_of(const struct run *run, const hwt_delay_message *message)
{
    char id[ID_SIZE + 1], own[ID_SIZE + 1];

    if (message->id_size == ID_SIZE) {
        memcpy(id, message->id, ID_SIZE);
        id[ID_SIZE] = '\0';
        uint64_t number = strtoull(id + 6, NULL, 10);
        id_of(number, own);
        if (strcmp(id, own) == 0 && number < run->options.messages)
            return number;
    }
    return UINT64_MAX;
}

static bool is_whole(const struct run *run, uint64_t number, const hwt_delay_message *message)
{
    static unsigned char *payload;

    if (!payload && !(payload = malloc(run->options.payload + 1)))
        die("the consumer", -ENOMEM);
    payload_of(run, number, payload);
    return message->due == run->shared->entries[number].due &&
           message->payload_size == run->options.payload &&
           (message->payload_size == 0 ||
            memcmp(message->payload, payload, message->payload_size) == 0);
}

/* Why it comes again. CAUSE_NONE: for no reason that the store is allowed. */
static enum cause cause_of(const struct run *run, const struct entry *e,
                           const hwt_delay_message *message)
{
    if (message->expired > 0)
        return CAUSE_LEASE;
    if (e->puts > e->puts_seen)
        return CAUSE_PUT_AGAIN;
    if (e->life != run->shared->life && e->done != GRANTED)
        return CAUSE_KILLED;
    return CAUSE_NONE;
}

static void note_time(struct run *run, const struct entry *e, uint64_t now, bool first)
{
    if (now < e->due)
        count(&run->shared->early, 1);
    /* Lateness is of what was not held up by a kill. */
    else if (first && e->puts == 1 && e->due > run->opened && run->shared->phase != PHASE_FAR)
        histogram_add(&run->shared->lateness, (int64_t)(now - e->due));
}

/* Returns its entry if it is to be done with; NULL: left undone, or nobody put it. */
static struct entry *note(struct run *run, const hwt_delay_message *message, uint64_t now)
{
    struct shared *shared = run->shared;
    uint64_t number = number_of(run, message);

    if (number == UINT64_MAX || !is_whole(run, number, message)) {
        count(&shared->wrong_content, 1);
        return NULL;
    }
    struct entry *e = &shared->entries[number];
    bool first = e->deliveries == 0;
    if (e->cancel == GRANTED)
        count(&shared->after_cancel, 1);
    if (!first)
        count(&shared->repeated[cause_of(run, e, message)], 1);
    note_time(run, e, now, first);
    e->deliveries++;
    e->done = NOT_ASKED;
    e->life = (uint16_t)shared->life;
    e->puts_seen = e->puts;
    count(&shared->delivered, first);
    return first && is_left_undone(run, number) ? NULL : e;
}

static void deal_with(struct run *run, const hwt_delay_message *messages, size_t n)
{
    struct entry *entries[AT_ONCE];
    uint64_t leases[AT_ONCE], now = hwt_delay_now(run->store);
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        if (i > 0 && messages[i].due < messages[i - 1].due)
            count(&run->shared->out_of_order, 1);
        entries[kept] = note(run, &messages[i], now);
        leases[kept] = messages[i].lease;
        kept += entries[kept] != NULL;
    }
    for (size_t i = 0; i < kept; i++)
        entries[i]->done = ASKED;
    int64_t ended = kept > 0 ? hwt_delay_done(run->store, leases, kept) : 0;
    if (ended < 0)
        die("done", (int)ended);
    /* Where a lease had ended, it is not known whose. */
    for (size_t i = 0; i < kept && (size_t)ended == kept; i++)
        entries[i]->done = GRANTED;
}

/* When all are put, real time goes on for a while, through kills too; then the clock is moved. */
static void note_phase(struct shared *shared, const struct options *options)
{
    uint64_t now = read_clock(CLOCK_MONOTONIC);

    if (shared->phase == PHASE_PUT && counted(&shared->acknowledged) == options->messages) {
        atomic_store(&shared->far_at, now + WAIT);
        shared->phase = PHASE_WAIT;
    }
    if (shared->phase == PHASE_WAIT && now >= counted(&shared->far_at))
        shared->phase = PHASE_FAR;
}

/* Nothing is due now. Returns whether there is nothing at all. */
static bool move_clock(struct run *run)
{
    struct shared *shared = run->shared;
    uint64_t next = hwt_delay_next(run->store), now = hwt_delay_now(run->store);

    if (shared->phase != PHASE_FAR)
        return false;
    if (next == HWT_NEVER)
        return true;
    /* In the end there is a lease or nothing: real time ends that. */
    if (next <= now || counted(&shared->clock_offset) > LONGEST)
        return false;
    count(&shared->clock_offset, next - now > JUMP ? next - now : JUMP);
    return false;
}

void consume(struct run *run)
{
    const hwt_delay_message *messages;

    for (;;) {
        note_phase(run->shared, &run->options);
        int64_t n = hwt_delay_take(run->store, AT_ONCE, HWT_MS(20), &messages);
        if (n > 0) {
            deal_with(run, messages, (size_t)n);
            hwt_delay_free(messages);
        } else if (n == -ETIME) {
            int r = hwt_delay_accept_clock(run->store);
            if (r < 0)
                die("accept_clock", r);
        } else if (n == -ENOBUFS) { /* until leases end */
            nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
        } else if (n < 0) {
            die("take", (int)n);
        } else if (move_clock(run)) {
            return;
        }
    }
}
