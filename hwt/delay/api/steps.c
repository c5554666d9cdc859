/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Every call that changes the store comes here, with one step for each change.
 *
 * Room in the log is reserved first. Then each step is judged, in order, and if none forbids the
 * whole, the log and the table get all of them, without letting go of the lock in between. So what
 * the table says is what the log will say, and others see it at once; nobody is handed a message
 * that is not durable yet (take.c). All steps are in one frame, which is on the disk as a whole or
 * not at all.
 *
 * A step is judged by what the table has and by what the steps before it will make of that. The
 * records of those steps are in a map of their own until all have been judged. A lease that a step
 * before it ends is marked.
 */

#include <errno.h>
#include <stdlib.h>

#include "hwt/delay/api/steps.h"
#include "hwt/delay/whole.h"

/* ---- making steps, without the lock ---- */

int hwt_delay_steps_init(struct hwt_delay_steps *steps, size_t count)
{
    *steps = (struct hwt_delay_steps){ .list = steps->few, .count = count };
    if (count > sizeof(steps->few) / sizeof(steps->few[0]))
        steps->list =
            count > SIZE_MAX / sizeof(*steps->list) ? NULL : malloc(count * sizeof(*steps->list));
    if (!steps->list)
        return -ENOMEM;
    memset(steps->list, 0, count * sizeof(*steps->list));
    return 0;
}

static void release(struct hwt_delay_record **record)
{
    if (*record)
        hwt_delay_record_unref(*record);
    *record = NULL;
}

/* Frees the records that were not handed to the table. */
void hwt_delay_steps_free(struct hwt_delay_steps *steps)
{
    for (size_t i = 0; steps->list && i < steps->count; i++) {
        release(&steps->list[i].found.ticket);
        release(&steps->list[i].tombstone);
        release(&steps->list[i].put);
        release(&steps->list[i].drop);
    }
    release(&steps->note);
    if (steps->list != steps->few)
        free(steps->list);
}

int hwt_delay_step_put(struct hwt_delay_step *step, const hwt_delay_message *message)
{
    step->put = hwt_delay_record_new(HWT_DELAY_PUT, message);
    return step->put ? 0 : -ENOMEM;
}

/* A number that no lease has. */
#define NO_LEASE UINT64_MAX

void hwt_delay_step_lease(struct hwt_delay_step *step, uint8_t op, uint64_t lease)
{
    step->op = op;
    step->lease_token = lease != 0 ? lease : NO_LEASE;
}

int hwt_delay_step_tombstone(struct hwt_delay_step *step, uint64_t due, const void *id,
                             size_t id_size)
{
    const hwt_delay_message message = { .due = due, .id = id, .id_size = id_size };
    step->tombstone = hwt_delay_record_new(HWT_DELAY_TOMBSTONE, &message);
    return step->tombstone ? 0 : -ENOMEM;
}

/* ---- with the lock: what they need ---- */

/* The message that is put back is that of the lease, with the new fields. */
static int make_retry(struct hwt_delay_step *step, const struct hwt_delay_record *old)
{
    const hwt_delay_message *given = step->message;
    const hwt_delay_message message = {
        .due = step->due,
        .id = old->bytes,
        .id_size = old->id_size,
        .payload = given ? given->payload : old->bytes + old->id_size,
        .payload_size = given ? given->payload_size : old->payload_size,
        .retries = old->retries + (old->retries < HWT_DELAY_RETRIES_MAX),
        .first_due = hwt_delay_message_of(old).first_due,
    };
    int r = step->put ? 0 : hwt_delay_step_put(step, &message);
    if (r == 0)
        step->put->handed = old->handed;
    return r;
}

/*
 * How much room a step takes. The lease may end until there is room, and its record is the same. A
 * number that no lease has by now may be given to one until then, for which there is no room, so it
 * is forgotten.
 */
static int measure(hwt_delay *store, struct hwt_delay_steps *steps, struct hwt_delay_step *step)
{
    const struct hwt_delay_lease *lease =
        step->lease_token == 0 ? NULL : hwt_delay_lease_find(store, step->lease_token);
    if (lease) {
        hwt_delay_lease_prefetch(lease);
        steps->size += hwt_delay_tombstone_most(lease->record);
        steps->ends++;
    } else if (step->lease_token != 0) {
        step->lease_token = NO_LEASE;
    }
    if (step->op == HWT_DELAY_OP_RETRY && lease && make_retry(step, lease->record) < 0)
        return -ENOMEM;
    if (step->tombstone) {
        hwt_delay_prefetch_buckets(store, step->tombstone);
        steps->size += hwt_delay_tombstone_most(step->tombstone);
    }
    if (step->drop) {
        steps->size += hwt_delay_encoded_most(step->drop);
        steps->drops++;
    }
    if (!step->put)
        return 0;
    hwt_delay_prefetch_buckets(store, step->put);
    steps->size += hwt_delay_encoded_most(step->put);
    if (step->op == HWT_DELAY_OP_RETRY)
        return 0;
    steps->memory += hwt_delay_record_bytes(step->put);
    steps->puts++;
    steps->has_new = steps->has_new || step->op != HWT_DELAY_OP_MOVE;
    return 0;
}

static int reserve(hwt_delay *store, struct hwt_delay_steps *steps)
{
    /* A message that was put can be retried and moved, with a tombstone in the same frame. */
    const size_t tombstone = HWT_DELAY_RECORD_HEAD_MAX + HWT_DELAY_ID_MAX + HWT_DELAY_ORIGIN_SIZE;
    const size_t most = hwt_delay_log_most(store);
    int r = 0;
    steps->size = steps->memory = steps->puts = steps->ends = steps->drops = 0;
    steps->has_new = false;
    for (size_t i = 0; i < steps->count && r == 0; i++)
        r = measure(store, steps, &steps->list[i]);
    if (steps->note)
        steps->size += hwt_delay_encoded_most(steps->note);
    if (r < 0)
        return r;
    if (steps->size + (steps->has_new ? tombstone : 0) > most)
        return -EMSGSIZE;
    r = steps->no_wait ? hwt_delay_log_try(store, steps->size, steps->memory, steps->puts > 0)
                       : hwt_delay_log_reserve(store, steps->size, steps->memory, steps->puts > 0);
    if (r == -ENOSPC)
        store->stats.rejected += steps->puts;
    return r;
}

/* ---- tickets ---- */

/* The message that it names is erased, and with MOVE put anew. */
static int make_ticket(struct hwt_delay_step *step)
{
    const struct hwt_delay_record *found = step->found.record;
    hwt_delay_message message = hwt_delay_message_of(found);
    int r = hwt_delay_step_tombstone(step, message.due, message.id, message.id_size);
    if (r < 0 || step->op != HWT_DELAY_OP_MOVE)
        return r;
    message.due = step->due;
    return hwt_delay_step_put(step, &message);
}

/* Lets go of the lock where it reads slots. A step whose message is not there is refused by
 * judge(). */
static int look_for_ticket(hwt_delay *store, struct hwt_delay_step *step)
{
    release(&step->tombstone);
    if (step->op == HWT_DELAY_OP_MOVE)
        release(&step->put);
    int r = hwt_delay_found_look(store, &step->found);
    step->unknown = r == -ENOENT || r == -EBADMSG ? r : 0;
    return r == 0 ? make_ticket(step) : step->unknown < 0 ? 0 : r;
}

static bool tickets_hold(hwt_delay *store, const struct hwt_delay_steps *steps)
{
    for (size_t i = 0; i < steps->count; i++) {
        const struct hwt_delay_found *found = &steps->list[i].found;
        if (found->ticket && !hwt_delay_found_holds(store, found))
            return false;
    }
    return true;
}

static int look_for_tickets(hwt_delay *store, struct hwt_delay_steps *steps)
{
    int r = 0;
    while (r == 0 && !tickets_hold(store, steps)) {
        for (size_t i = 0; i < steps->count && r == 0; i++) {
            if (steps->list[i].found.ticket)
                r = look_for_ticket(store, &steps->list[i]);
        }
    }
    return r;
}

static void unwatch_tickets(struct hwt_delay_steps *steps)
{
    for (size_t i = 0; i < steps->count; i++)
        hwt_delay_found_unwatch(&steps->list[i].found);
}

/* The records belong to the table, to leases and to snapshots, too, so references go with the
 * lock. */
static void forget_tickets(struct hwt_delay_steps *steps)
{
    for (size_t i = 0; i < steps->count; i++)
        hwt_delay_found_clear(&steps->list[i].found);
}

/* ---- judging ---- */

/* A lease that no step before this ends. */
static struct hwt_delay_lease *held(hwt_delay *store, uint64_t token)
{
    struct hwt_delay_lease *lease = hwt_delay_lease_find(store, token);
    return lease && !lease->ending ? lease : NULL;
}

/* Is there such a message, or may there be? 0, -EBUSY, -ENOENT */
static int look_for(hwt_delay *store, const struct hwt_delay_map *before,
                    const struct hwt_delay_record *tombstone)
{
    uint64_t due = tombstone->key.due;
    const struct hwt_delay_record *there = hwt_delay_find(before, tombstone);
    if (there)
        return there->kind == HWT_DELAY_PUT ? 0 : -ENOENT;
    there = hwt_delay_lookup(store, tombstone);
    if (there && there->state == HWT_DELAY_LEASED)
        return there->lease->ending ? -ENOENT : -EBUSY;
    if (there && there->kind == HWT_DELAY_PUT)
        return 0;
    /* A tombstone that opening read from the log may be of an older message than what a slot
     * has. */
    if (there && hwt_delay_log_keeps(store, there->key.sequence))
        return -ENOENT;
    const struct hwt_delay_key behind = { due, UINT64_MAX };
    bool is_unknown = due >= hwt_delay_loaded(store).due || hwt_delay_gap_at(store, behind);
    return is_unknown && hwt_delay_wheel_covers(store, due) ? 0 : -ENOENT;
}

/* Another message has the due time and the id that this one is to have, as far as memory knows. */
static bool is_taken(const hwt_delay *store, const struct hwt_delay_map *before,
                     const struct hwt_delay_record *put, const struct hwt_delay_record *old)
{
    const struct hwt_delay_record *there = hwt_delay_find(before, put);
    if (there)
        return there->kind == HWT_DELAY_PUT;
    there = hwt_delay_lookup(store, put);
    if (!there || there == old || there->kind != HWT_DELAY_PUT)
        return false;
    return there->state != HWT_DELAY_LEASED || !there->lease->ending;
}

/* Its message has ended, as memory or the steps before say. A message that one of these steps has
 * put is another one. */
static bool is_gone(hwt_delay *store, const struct hwt_delay_map *before,
                    const struct hwt_delay_found *found)
{
    return hwt_delay_found_is_gone(store, found) || hwt_delay_find(before, found->record);
}

/* 0, or why it is refused. */
static int judge(hwt_delay *store, const struct hwt_delay_map *before, struct hwt_delay_step *step,
                 size_t drops)
{
    if (step->drop && step->drop->key.sequence >= hwt_delay_log_next(store))
        return -EINVAL;
    if (step->drop)
        return hwt_delay_drops_fit(store, drops) ? 0 : -ENOBUFS;
    if (step->found.ticket && !step->tombstone)
        return step->unknown;
    if (step->found.ticket && is_gone(store, before, &step->found))
        return -ENOENT;
    if (step->tombstone) {
        int r = look_for(store, before, step->tombstone);
        bool taken =
            step->op == HWT_DELAY_OP_MOVE && is_taken(store, before, step->put, step->found.record);
        return r == 0 && taken ? -EEXIST : r;
    }
    if (step->lease_token == 0)
        return 0;
    step->lease = held(store, step->lease_token);
    if (!step->lease)
        return -ENOENT;
    if (step->put && is_taken(store, before, step->put, step->lease->record))
        return -EEXIST;
    return 0;
}

/* Nothing is near in memory to what the step before needs. */
static void prefetch(const hwt_delay *store, const struct hwt_delay_step *step)
{
    if (step->tombstone)
        hwt_delay_prefetch_nodes(store, step->tombstone);
    if (step->put)
        hwt_delay_prefetch_nodes(store, step->put);
}

/* 0: all that count will be made; else what the first one was refused with that may not be. */
static int judge_all(hwt_delay *store, struct hwt_delay_steps *steps)
{
    enum { AHEAD = 8 };
    struct hwt_delay_map before;
    int refused = 0;
    hwt_delay_map_init(&before);
    for (size_t i = 0; i < steps->count; i++) {
        if (i + AHEAD < steps->count)
            prefetch(store, &steps->list[i + AHEAD]);
        struct hwt_delay_step *step = &steps->list[i];
        step->result = judge(store, &before, step, steps->drops);
        if (step->result < 0) {
            step->lease = NULL;
            refused = refused == 0 && !step->may_fail ? step->result : refused;
            continue;
        }
        if (step->lease)
            step->lease->ending = true;
        if (step->tombstone)
            hwt_delay_supplant(&before, step->tombstone);
        if (step->put)
            hwt_delay_supplant(&before, step->put);
    }
    hwt_delay_map_clear(&before);
    return refused;
}

/* None was made. Those that are not the reason say so. */
static void give_up(struct hwt_delay_steps *steps)
{
    for (size_t i = 0; i < steps->count; i++) {
        struct hwt_delay_step *step = &steps->list[i];
        if (step->lease)
            step->lease->ending = false;
        step->lease = NULL;
        if (step->result == 0)
            step->result = -ECANCELED;
    }
}

/* ---- making them ---- */

static void end_lease(hwt_delay *store, struct hwt_delay_step *step)
{
    struct hwt_delay_record *record = hwt_delay_lease_end(store, step->lease);
    step->lease = NULL;
    if (record)
        hwt_delay_record_unref(record);
    store->stats.done++;
}

static void make_step(hwt_delay *store, struct hwt_delay_step *step, uint64_t now)
{
    struct hwt_delay_record *tombstone = step->tombstone, *put = step->put;
    step->tombstone = step->put = NULL; /* the table has them */
    if (step->lease) {
        hwt_delay_log_add_done(store, step->lease->record);
        end_lease(store, step);
    }
    if (tombstone) {
        tombstone->ends = hwt_delay_ends_one(store, tombstone);
        hwt_delay_log_add(store, tombstone);
        hwt_delay_apply_tombstone(store, tombstone);
        store->stats.cancelled += step->op != HWT_DELAY_OP_MOVE;
    }
    if (put) {
        if (step->op ==
            HWT_DELAY_OP_MOVE) /* as it is now: it may have been taken since it was found */
            put->handed = step->found.record->handed;
        put->arrived = now;
        put->ends = hwt_delay_ends_one(store, put);
        hwt_delay_log_add(store, put);
        hwt_delay_apply_put(store, put);
    }
    if (put && step->op == HWT_DELAY_OP_RETRY)
        store->stats.retried++;
    else
        store->stats.put += put && step->op != HWT_DELAY_OP_MOVE;
}

/* Behind all others, which may hold leases that these end. It makes no difference to what is
 * put. */
static void make_drops(hwt_delay *store, struct hwt_delay_steps *steps)
{
    for (size_t i = 0; i < steps->count; i++) {
        struct hwt_delay_step *step = &steps->list[i];
        if (step->result < 0 || !step->drop)
            continue;
        hwt_delay_log_add(store, step->drop);
        hwt_delay_drop(store, step->drop);
        step->drop = NULL;
    }
}

static void make_all(hwt_delay *store, struct hwt_delay_steps *steps)
{
    uint64_t now = hwt_delay_realtime(store), before = hwt_delay_log_next(store);
    for (size_t i = 0; i < steps->count; i++) {
        if (steps->list[i].result == 0)
            make_step(store, &steps->list[i], now);
    }
    make_drops(store, steps);
    if (steps->note) {
        hwt_delay_log_add(store, steps->note);
        hwt_delay_set_note(store, steps->note);
        steps->note = NULL;
    }
    steps->mark = hwt_delay_log_next(store) - 1;
    steps->frame = hwt_delay_log_next(store) > before ? hwt_delay_log_frame(store) : 0;
}

/* Ends the leases that are over. -EAGAIN: some are left, and the call does not wait for that. */
static int end_leases(hwt_delay *store, const struct hwt_delay_steps *steps)
{
    if (steps->no_wait)
        return hwt_delay_leases_expire_some(store) ? 0 : -EAGAIN;
    hwt_delay_leases_expire(store);
    return 0;
}

/*
 * With the lock, which it lets go of while there is no room. 0: the steps that were not refused are
 * in the log and the table, and durable with the frame that they say. Else none is.
 */
int hwt_delay_steps_make(hwt_delay *store, struct hwt_delay_steps *steps)
{
    int r = 0;
    for (bool holds = false; r == 0 && !holds;) {
        r = end_leases(store, steps);
        if (r == 0)
            r = look_for_tickets(store, steps);
        if (r == 0)
            r = reserve(store, steps);
        holds = r == 0 && hwt_delay_leases_expire_some(store) && tickets_hold(store, steps);
    }
    unwatch_tickets(steps);
    if (r == 0)
        r = judge_all(store, steps);
    if (r == 0 && steps->durable)
        r = hwt_delay_notices_reserve(store);
    if (r < 0)
        give_up(steps);
    else
        make_all(store, steps);
    forget_tickets(steps);
    return r;
}

/* ---- waiting, or being told ---- */

#define SOON HWT_US(100)

/*
 * Others have the lock for long now and then, as when a checkpoint begins, or when its holder has no
 * processor. The call does not sleep for it. A thread that sleeps gets a processor back when the scheduler
 * gives it one, and that takes milliseconds if more threads want to run than there are processors.
 * -EAGAIN: the lock was not free for so long.
 */
static int lock_soon(hwt_delay *store)
{
    int r = pthread_mutex_trylock(&store->lock);
    if (r == 0)
        return 0;
    const uint64_t end = hwt_delay_monotonic() + SOON;
    while (r != 0 && hwt_delay_monotonic() < end)
        r = pthread_mutex_trylock(&store->lock);
    return r == 0 ? 0 : -EAGAIN;
}

/*
 * Looks for a checkpoint that they have made due before it waits, so that others make it meanwhile.
 * A synchronous store makes it here, once the frame is on the disk.
 */
int hwt_delay_steps_leave(hwt_delay *store, uint64_t frame, bool ends)
{
    if (store->synchronous)
        (void)hwt_delay_log_wait(store, frame);
    hwt_delay_checkpoint_look(store);
    if (ends)
        hwt_delay_wake_arm(store);
    return hwt_delay_log_leave(store, frame);
}

/* With the lock, which it lets go of. */
static int make_and_leave(hwt_delay *store, struct hwt_delay_steps *steps)
{
    int r = hwt_delay_steps_make(store, steps);
    bool waits = r == 0 && !steps->durable;
    if (r == 0 && !waits)
        hwt_delay_notices_add(store, (struct hwt_delay_notice){ steps->durable, steps->arg });
    int written = hwt_delay_steps_leave(store, waits ? steps->frame : 0, steps->ends > 0);
    return waits ? written : r;
}

int hwt_delay_steps_apply(hwt_delay *store, struct hwt_delay_steps *steps)
{
    steps->no_wait = steps->no_wait && !store->synchronous;
    int shield = hwt_shield();
    int r = steps->no_wait ? lock_soon(store) : pthread_mutex_lock(&store->lock);
    if (r == 0)
        r = make_and_leave(store, steps);
    hwt_unshield(shield);
    return r;
}
