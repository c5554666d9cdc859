/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Consumers: take, done, retry, extend.
 *
 * Messages leave the table strictly in the order of their keys: a message that is not durable yet is
 * waited for, and nothing is taken at or above `loaded`. The positions of the slots follow before the
 * lock is let go (table.c).
 */

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "hwt/delay/store.h"

/* ---- take ---- */

/* The next message, if it can be handed over at this instant. Drops erases on the way; then the
 * positions of the slots must follow. */
static struct hwt_delay_record *first_due(hwt_delay *store, uint64_t now, bool *ret_dropped)
{
    struct hwt_delay_record *first;
    while ((first = hwt_delay_first(store)) && first->kind == HWT_DELAY_ERASE &&
           hwt_delay_compare(first->key, store->loaded) < 0) {
        hwt_delay_drop_erase(store, first);
        *ret_dropped = true;
    }
    if (!first || first->kind != HWT_DELAY_PUT || first->key.due > now ||
        first->key.sequence >= store->log.durable_sequence ||
        hwt_delay_compare(first->key, store->loaded) >= 0)
        return NULL;
    return first;
}

static void note_lateness(hwt_delay *store, const struct hwt_delay_record *record, uint64_t now)
{
    hwt_delay_stats *stats = &store->stats;
    uint64_t since = record->key.due > record->arrived ? record->key.due : record->arrived;
    uint64_t late = now > since ? now - since : 0;
    stats->taken++;
    stats->lateness[late == 0 ? 0 : 63 - __builtin_clzll(late)]++;
    stats->lateness_sum += late;
    if (late > stats->lateness_max)
        stats->lateness_max = late;
}

/* Records that were leased, to be copied when the lock is let go. */
struct taken {
    struct hwt_delay_record *record;
    uint64_t lease;
    uint32_t expired; /* the record's own may change once the lock is let go */
};

struct taking {
    struct taken *taken;
    size_t count, room;
    size_t bytes;
};

static int grow(struct taking *taking, size_t max)
{
    size_t room = taking->room ? 2 * taking->room : 64;
    room = room < max ? room : max;
    struct taken *taken = realloc(taking->taken, room * sizeof(*taken));
    if (!taken)
        return -ENOMEM;
    taking->taken = taken;
    taking->room = room;
    return 0;
}

/* Leases what is due. -ENOBUFS, -ENOMEM: only if there is nothing. */
static int take_due(hwt_delay *store, size_t max, uint64_t now, struct taking *taking)
{
    struct hwt_delay_record *record;
    uint64_t end = hwt_delay_boottime(store) + store->options.lease;
    bool dropped = false;
    int r = 0;
    if (end < store->options.lease)
        end = HWT_NEVER;
    while (taking->count < max && (record = first_due(store, now, &dropped))) {
        r = hwt_delay_lease_fits(store, record) ? 0 : -ENOBUFS;
        if (r == 0 && taking->count == taking->room)
            r = grow(taking, max);
        struct hwt_delay_lease *lease = r == 0 ? malloc(sizeof(*lease)) : NULL;
        if (!lease) {
            r = r == 0 ? -ENOMEM : r;
            break;
        }
        hwt_delay_lease_add(store, lease, record, end);
        record->refs++;
        taking->taken[taking->count++] = (struct taken){ record, lease->token, record->expired };
        taking->bytes += record->id_size + (size_t)record->payload_size;
        note_lateness(store, record, now);
    }
    if (dropped || taking->count > 0)
        hwt_delay_settle(store);
    return taking->count > 0 ? 0 : r;
}

/* One allocation: the messages, and behind them their bytes. */
static hwt_delay_message *copy_out(const struct taking *taking)
{
    hwt_delay_message *messages = malloc(taking->count * sizeof(*messages) + taking->bytes);
    unsigned char *at = messages ? (unsigned char *)(messages + taking->count) : NULL;
    for (size_t i = 0; messages && i < taking->count; i++) {
        const struct taken *taken = &taking->taken[i];
        const struct hwt_delay_record *record = taken->record;
        size_t size = record->id_size + (size_t)record->payload_size;
        memcpy(at, record->bytes, size);
        messages[i] = (hwt_delay_message){
            .due = record->key.due,
            .id = at,
            .id_size = record->id_size,
            .payload = at + record->id_size,
            .payload_size = record->payload_size,
            .lease = taken->lease,
            .retries = record->retries,
            .expired = taken->expired,
        };
        at += size;
    }
    return messages;
}

/* There is no memory for the copies: what was leased is pending again. */
static void give_back(hwt_delay *store, const struct taking *taking)
{
    for (size_t i = 0; i < taking->count; i++) {
        struct hwt_delay_lease *lease = hwt_delay_lease_find(store, taking->taken[i].lease);
        struct hwt_delay_record *record = lease ? hwt_delay_lease_end(store, lease) : NULL;
        if (record)
            hwt_delay_insert(store, record, HWT_DELAY_FRESH);
    }
}

/* With the lock, which it lets go of. */
static int64_t finish(hwt_delay *store, struct taking *taking,
                      const hwt_delay_message **ret_messages)
{
    bool more = store->bytes[HWT_DELAY_FILED] <= store->options.memory / 16;
    if (store->threads > 0 && more)
        pthread_cond_signal(&store->loader_wake);
    hwt_delay_wake_arm(store);
    pthread_mutex_unlock(&store->lock);
    hwt_delay_message *messages = copy_out(taking);
    pthread_mutex_lock(&store->lock);
    if (!messages)
        give_back(store, taking);
    for (size_t i = 0; i < taking->count; i++)
        hwt_delay_record_unref(taking->taken[i].record);
    pthread_mutex_unlock(&store->lock);
    if (messages)
        *ret_messages = messages;
    return messages ? (int64_t)taking->count : -ENOMEM;
}

/* Nothing else can be taken: -EBADMSG, once, for what cannot be read. */
static int tell_of_gap(hwt_delay *store)
{
    bool is_new = store->gap_is_new;
    store->gap_is_new = false;
    return is_new ? -EBADMSG : 0;
}

/* One attempt: 0, or an error; taking->count says how many. Lets go of the lock where it loads. */
static int attempt(hwt_delay *store, size_t max, struct taking *taking)
{
    for (;;) {
        if (store->poisoned)
            return -EIO;
        uint64_t now = hwt_delay_clock(store);
        if (store->held)
            return -ETIME;
        hwt_delay_leases_expire(store);
        int r = take_due(store, max, now, taking);
        if (r < 0 || taking->count > 0)
            return r;
        if (store->loaded.due > now)
            return tell_of_gap(store);
        struct hwt_delay_record *first = hwt_delay_first(store);
        if (first && hwt_delay_compare(first->key, store->loaded) < 0 && first->key.due <= now)
            return 0; /* it is not durable yet */
        r = hwt_delay_load(store, hwt_delay_horizon(now));
        if (r < 0)
            return r;
    }
}

static uint64_t monotonic(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * HWT_SEC(1) + (uint64_t)now.tv_nsec;
}

/* Until something may have become due; not at all where that has happened already. */
static void sleep_in_take(hwt_delay *store, uint64_t until)
{
    const uint64_t nap = HWT_MS(100);
    if (hwt_delay_wake_arm(store))
        return;
    if (store->no_alarm && monotonic() + nap < until)
        until = monotonic() + nap;
    if (until == HWT_NEVER) {
        pthread_cond_wait(&store->takers, &store->lock);
    } else {
        const struct timespec at = { (time_t)(until / HWT_SEC(1)), (long)(until % HWT_SEC(1)) };
        pthread_cond_timedwait(&store->takers, &store->lock, &at);
    }
}

/* One that is over for this call; the others may end while it waits. See wake.c on troubles. */
static bool is_to_be_told(const hwt_delay *store, int error, uint64_t troubles)
{
    if (error == 0 || error == -ENOBUFS)
        return false;
    return store->poisoned || error != store->trouble || store->told < store->troubles ||
           troubles < store->troubles;
}

static int take_or_wait(hwt_delay *store, size_t max, uint64_t wait, struct taking *taking)
{
    uint64_t now = monotonic(), until = wait > HWT_NEVER - now ? HWT_NEVER : now + wait;
    uint64_t wakes = store->wakes, troubles = store->troubles;
    for (;;) {
        int r = attempt(store, max, taking);
        if (taking->count > 0 || is_to_be_told(store, r, troubles))
            return r;
        if (store->wakes != wakes || store->woken) {
            store->woken = false;
            return -ECANCELED;
        }
        if (until != HWT_NEVER && monotonic() >= until)
            return r;
        sleep_in_take(store, until);
    }
}

static int take(hwt_delay *store, size_t max, uint64_t wait, struct taking *taking)
{
    int r;
    if (wait == 0 || store->alone) {
        r = attempt(store, max, taking);
    } else {
        store->waiting++;
        r = take_or_wait(store, max, wait, taking);
        store->waiting--;
    }
    if (taking->count > 0)
        return 0;
    if (r < 0 && r == store->trouble)
        store->told = store->troubles;
    if (r != -ECANCELED)
        hwt_delay_wake_clear(store);
    return r;
}

int64_t hwt_delay_take(hwt_delay *store, size_t max, uint64_t wait,
                       const hwt_delay_message **ret_messages)
{
    if (!store || max == 0 || !ret_messages)
        return -EINVAL;
    if (store->read_only)
        return -EROFS;
    struct taking taking = { 0 };
    pthread_mutex_lock(&store->lock);
    int64_t r = take(store, max, wait, &taking);
    if (r == 0 && taking.count > 0) {
        r = finish(store, &taking, ret_messages);
    } else {
        pthread_mutex_unlock(&store->lock);
    }
    free(taking.taken);
    return r;
}

void hwt_delay_free(const hwt_delay_message *messages)
{
    free((void *)(uintptr_t)messages);
}

/* ---- done ---- */

/* The erase of a leased message: it has the sequence of the message. */
static struct hwt_delay_record *erase_of(const struct hwt_delay_record *record)
{
    const hwt_delay_message message = {
        .due = record->key.due,
        .id = record->bytes,
        .id_size = record->id_size,
    };
    struct hwt_delay_record *erase = hwt_delay_record_new(HWT_DELAY_ERASE, &message);
    if (erase)
        erase->key.sequence = record->key.sequence;
    return erase;
}

static void end_lease(hwt_delay *store, struct hwt_delay_lease *lease)
{
    struct hwt_delay_record *record = hwt_delay_lease_end(store, lease);
    if (record) {
        if (store->pending > 0)
            store->pending--;
        hwt_delay_record_unref(record);
    }
    store->stats.done++;
}

/* 1: it was held, and *ret_frame brings it to the disk; 0: it was not. */
static int done(hwt_delay *store, uint64_t token, uint64_t *ret_frame)
{
    const size_t most = HWT_DELAY_RECORD_SIZE + HWT_DELAY_ID_MAX;
    int r = hwt_delay_log_reserve(store, most, 0, false);
    if (r < 0)
        return r;
    struct hwt_delay_lease *lease = hwt_delay_lease_find(store, token);
    if (!lease)
        return 0;
    struct hwt_delay_record *erase = erase_of(lease->record);
    if (!erase)
        return -ENOMEM;
    *ret_frame = hwt_delay_log_add(store, erase, false);
    hwt_delay_record_unref(erase);
    end_lease(store, lease);
    return 1;
}

int64_t hwt_delay_done(hwt_delay *store, const uint64_t *leases, size_t count)
{
    if (!store || !leases || count == 0)
        return -EINVAL;
    if (store->read_only)
        return -EROFS;
    int64_t held = 0;
    uint64_t frame = 0;
    int r = 0;
    pthread_mutex_lock(&store->lock);
    hwt_delay_leases_expire(store);
    for (size_t i = 0; i < count && r >= 0; i++) {
        r = done(store, leases[i], &frame);
        held += r > 0;
    }
    if (frame > 0) {
        int written = hwt_delay_log_wait(store, frame);
        r = written < 0 ? written : r;
    }
    hwt_delay_look_at_log(store);
    hwt_delay_wake_arm(store);
    pthread_mutex_unlock(&store->lock);
    /* What was ended before an error is ended: the others still have their leases. */
    return r < 0 && (held == 0 || r == -EIO) ? r : held;
}

/* Another message has the due time and the id that this one is to have, as far as memory knows. */
static bool is_taken(hwt_delay *store, const struct hwt_delay_record *record, uint64_t due)
{
    const void *id = record->bytes;
    const struct hwt_delay_record *leased =
        hwt_delay_find(&store->leased, due, id, record->id_size);
    const struct hwt_delay_record *there =
        hwt_delay_find(&store->identities, due, id, record->id_size);
    return (leased && leased != record) || (there && there->kind == HWT_DELAY_PUT);
}

/* Both records are in one frame. */
static int retry(hwt_delay *store, uint64_t token, uint64_t due, uint64_t *ret_frame)
{
    const struct hwt_delay_lease *held = hwt_delay_lease_find(store, token);
    if (!held)
        return -ENOENT;
    const size_t size =
        2 * (HWT_DELAY_RECORD_SIZE + (size_t)held->record->id_size) + held->record->payload_size;
    int r = hwt_delay_log_reserve(store, size, 0, false);
    if (r < 0)
        return r;
    struct hwt_delay_lease *lease = hwt_delay_lease_find(store, token);
    if (!lease)
        return -ENOENT;
    const struct hwt_delay_record *old = lease->record;
    if (is_taken(store, old, due))
        return -EEXIST;
    const hwt_delay_message message = {
        .due = due,
        .id = old->bytes,
        .id_size = old->id_size,
        .payload = old->bytes + old->id_size,
        .payload_size = old->payload_size,
        .retries = old->retries + (old->retries < HWT_DELAY_RETRIES_MAX),
    };
    struct hwt_delay_record *erase = erase_of(old);
    struct hwt_delay_record *record = hwt_delay_record_new(HWT_DELAY_PUT, &message);
    if (erase && record) {
        hwt_delay_log_add(store, erase, false);
        record->arrived = store->system.realtime(store->system.data);
        *ret_frame = hwt_delay_log_add(store, record, true);
        end_lease(store, lease);
        hwt_delay_apply_put(store, record);
        store->stats.retried++;
        record = NULL;
        r = 0;
    } else {
        r = -ENOMEM;
    }
    if (erase)
        hwt_delay_record_unref(erase);
    if (record)
        hwt_delay_record_unref(record);
    return r;
}

int hwt_delay_retry(hwt_delay *store, uint64_t lease, uint64_t due)
{
    if (!store || due == HWT_NEVER)
        return -EINVAL;
    if (store->read_only)
        return -EROFS;
    uint64_t frame;
    pthread_mutex_lock(&store->lock);
    hwt_delay_leases_expire(store);
    int r = retry(store, lease, due, &frame);
    if (r == 0)
        r = hwt_delay_log_wait(store, frame);
    hwt_delay_look_at_log(store);
    hwt_delay_wake_arm(store);
    pthread_mutex_unlock(&store->lock);
    return r;
}

int hwt_delay_extend(hwt_delay *store, uint64_t lease, uint64_t duration)
{
    if (!store)
        return -EINVAL;
    if (store->read_only)
        return -EROFS;
    pthread_mutex_lock(&store->lock);
    hwt_delay_leases_expire(store);
    struct hwt_delay_lease *held = hwt_delay_lease_find(store, lease);
    int r = store->poisoned ? -EIO : held ? 0 : -ENOENT;
    if (r == 0) {
        uint64_t now = hwt_delay_boottime(store);
        hwt_delay_lease_move(store, held, duration > HWT_NEVER - now ? HWT_NEVER : now + duration);
        hwt_delay_wake_arm(store);
    }
    pthread_mutex_unlock(&store->lock);
    return r;
}
