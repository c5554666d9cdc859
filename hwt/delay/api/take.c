/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Consumers: take, done, retry, extend.
 *
 * Messages leave the table strictly in the order of their keys. A take waits for a message that is
 * not durable yet, and takes nothing at or above `loaded`. The positions of the slots follow before
 * the lock is let go (table.c).
 */

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "hwt/delay/api/steps.h"
#include "hwt/delay/whole.h"

/* ---- take ---- */

/* The next message, if it can be handed over at this instant. Removes tombstones on the way; then
 * the positions of the slots must follow. */
static struct hwt_delay_record *first_due(hwt_delay *store, uint64_t now, bool *ret_removed)
{
    struct hwt_delay_record *first;
    while ((first = hwt_delay_first(store)) && first->kind == HWT_DELAY_TOMBSTONE &&
           hwt_delay_compare(first->key, hwt_delay_loaded(store)) < 0) {
        hwt_delay_remove(store, first);
        *ret_removed = true;
    }
    if (!first || first->kind != HWT_DELAY_PUT || first->key.due > now ||
        first->key.sequence >= hwt_delay_log_durable(store) ||
        hwt_delay_compare(first->key, hwt_delay_loaded(store)) >= 0)
        return NULL;
    return first;
}

/* It is handed over. */
static void count_taken(hwt_delay *store, const struct hwt_delay_record *record, uint64_t now)
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
    uint16_t handed;  /* the same */
};

struct taking {
    struct taken *taken;
    size_t count, room;
    size_t bytes;
    uint64_t now; /* when they were leased */
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
    bool removed = false;
    int r = 0;
    taking->now = now;
    if (end < store->options.lease)
        end = HWT_NEVER;
    while (taking->count < max && (record = first_due(store, now, &removed))) {
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
        record->handed += record->handed < UINT16_MAX;
        taking->taken[taking->count++] =
            (struct taken){ record, lease->token, record->expired, record->handed };
        taking->bytes += record->id_size + (size_t)record->payload_size;
    }
    if (removed || taking->count > 0)
        hwt_delay_positions_follow(store);
    return taking->count > 0 ? 0 : r;
}

/* The messages and, behind them, their bytes are one allocation. */
static void copy_out(const struct taking *taking, hwt_delay_message *messages)
{
    unsigned char *at = (unsigned char *)(messages + taking->count);
    for (size_t i = 0; i < taking->count; i++) {
        const struct taken *taken = &taking->taken[i];
        const struct hwt_delay_record *record = taken->record;
        size_t size = record->id_size + (size_t)record->payload_size;
        memcpy(at, record->bytes, size);
        messages[i] = hwt_delay_message_of(record);
        messages[i].id = at;
        messages[i].payload = at + record->id_size;
        messages[i].lease = taken->lease;
        messages[i].expired = taken->expired;
        messages[i].deliveries = taken->handed;
        at += size;
    }
}

static void forget(struct taking *taking)
{
    for (size_t i = 0; i < taking->count; i++)
        hwt_delay_record_unref(taking->taken[i].record);
    taking->count = 0;
}

/* There is no memory for the copies, so the messages are pending again before anybody has seen
 * their leases. */
static int64_t give_back(hwt_delay *store, struct taking *taking)
{
    for (size_t i = 0; i < taking->count; i++) {
        struct hwt_delay_lease *lease = hwt_delay_lease_find(store, taking->taken[i].lease);
        struct hwt_delay_record *record = lease ? hwt_delay_lease_end(store, lease) : NULL;
        taking->taken[i].record->handed--;
        if (record)
            hwt_delay_insert(store, record, HWT_DELAY_FRESH);
    }
    forget(taking);
    hwt_delay_wake_arm(store);
    return -ENOMEM;
}

/* Says on the disk how often these were handed over. -ENOMEM, -EIO, ... */
static int write_counts(hwt_delay *store, const struct taking *taking,
                        const struct hwt_delay_handing *handing)
{
    unsigned char *bytes = malloc(handing->size);
    if (!bytes)
        return -ENOMEM;
    for (size_t i = 0; i < taking->count; i++)
        hwt_delay_count_encode(taking->taken[i].record->key, taking->taken[i].handed,
                               bytes + HWT_DELAY_HANDED_SIZE + i * HWT_DELAY_COUNT_SIZE);
    int r = hwt_delay_handed_write(store, handing, bytes);
    free(bytes);
    return r;
}

/* With the lock, which it lets go of meanwhile. */
static int64_t finish(hwt_delay *store, struct taking *taking, hwt_delay_message *messages)
{
    int64_t count = (int64_t)taking->count;
    for (size_t i = 0; i < taking->count; i++)
        count_taken(store, taking->taken[i].record, taking->now);
    hwt_delay_load_soon(store);
    hwt_delay_wake_arm(store);
    const struct hwt_delay_handing handing = hwt_delay_handed_begin(store, taking->count);
    pthread_mutex_unlock(&store->lock);
    copy_out(taking, messages);
    int r = write_counts(store, taking, &handing);
    pthread_mutex_lock(&store->lock);
    hwt_delay_handed_end(store, r == 0);
    forget(taking);
    hwt_delay_checkpoint_look(store);
    return count;
}

/* Nothing else can be taken. Returns -EBADMSG, once for each part that cannot be read. */
static int tell_of_gap(hwt_delay *store)
{
    bool is_new = hwt_delay_gap_is_new(store);
    hwt_delay_gap_told(store);
    return is_new ? -EBADMSG : 0;
}

/* One attempt: 0, or an error; taking->count says how many. Lets go of the lock when it loads. */
static int attempt(hwt_delay *store, size_t max, struct taking *taking)
{
    for (;;) {
        if (store->poisoned)
            return -EIO;
        if (store->standby)
            return -EPERM;
        uint64_t now = hwt_delay_clock(store);
        if (hwt_delay_is_held(store))
            return -ETIME;
        if (!hwt_delay_leases_expire_some(store)) {
            hwt_delay_yield(store);
            continue;
        }
        int r = take_due(store, max, now, taking);
        if (r < 0 || taking->count > 0)
            return r;
        if (hwt_delay_loaded(store).due > now)
            return tell_of_gap(store);
        struct hwt_delay_record *first = hwt_delay_first(store);
        if (first && hwt_delay_compare(first->key, hwt_delay_loaded(store)) < 0 &&
            first->key.due <= now)
            return 0; /* it is not durable yet */
        r = hwt_delay_load(store, hwt_delay_horizon(now));
        if (r < 0)
            return r;
    }
}

/* Sleeps until something may have become due, and not at all if that has happened already. */
static void sleep_in_take(hwt_delay *store, uint64_t until)
{
    if (hwt_delay_wake_arm(store))
        return;
    if (until == HWT_NEVER) {
        pthread_cond_wait(&store->takes.takers, &store->lock);
    } else {
        const struct timespec end = hwt_timespec(until);
        pthread_cond_timedwait(&store->takes.takers, &store->lock, &end);
    }
}

/* One that is over for this call; the others may end while it waits. See wake.c on troubles. */
static bool is_to_be_told(const hwt_delay *store, int error, uint64_t troubles)
{
    if (error == 0 || error == -ENOBUFS)
        return false;
    return store->poisoned || error != store->takes.trouble ||
           store->takes.told < store->takes.troubles || troubles < store->takes.troubles;
}

static int take_or_wait(hwt_delay *store, size_t max, uint64_t wait, struct taking *taking)
{
    uint64_t now = hwt_delay_monotonic(), until = wait > HWT_NEVER - now ? HWT_NEVER : now + wait;
    uint64_t wakes = store->takes.wakes, troubles = store->takes.troubles;
    for (;;) {
        int r = attempt(store, max, taking);
        if (taking->count > 0 || is_to_be_told(store, r, troubles))
            return r;
        if (store->takes.wakes != wakes || store->takes.woken) {
            store->takes.woken = false;
            return -ECANCELED;
        }
        if (until != HWT_NEVER && hwt_delay_monotonic() >= until)
            return r;
        sleep_in_take(store, until);
    }
}

static int take(hwt_delay *store, size_t max, uint64_t wait, struct taking *taking)
{
    int r;
    if (wait == 0 || store->synchronous) {
        r = attempt(store, max, taking);
    } else {
        store->takes.waiting++;
        r = take_or_wait(store, max, wait, taking);
        store->takes.waiting--;
    }
    if (taking->count > 0)
        return 0;
    if (r < 0 && r == store->takes.trouble)
        store->takes.told = store->takes.troubles;
    if (r != -ECANCELED)
        hwt_delay_wake_clear(store);
    return r;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Before that nothing that is durable is left to be handed over, and no end waits for the disk. */
static uint64_t frontier(hwt_delay *store)
{
    const struct hwt_delay_record *first = hwt_delay_lowest(store);
    uint64_t from = least(hwt_delay_loaded(store).due, hwt_delay_log_ended_from(store));
    uint64_t now = hwt_delay_realtime(store);
    if (first)
        from = least(from, first->key.due);
    if (hwt_delay_gaps_of(store)->count > 0)
        from = least(from, hwt_delay_gaps_of(store)->all[0].from.due);
    return least(now + 1, from);
}

int64_t hwt_delay_take(hwt_delay *store, size_t max, uint64_t wait,
                       const hwt_delay_message **ret_messages)
{
    uint64_t none;
    return hwt_delay_take_frontier(store, max, wait, ret_messages, &none);
}

int64_t hwt_delay_take_frontier(hwt_delay *store, size_t max, uint64_t wait,
                                const hwt_delay_message **ret_messages, uint64_t *ret_frontier)
{
    if (!store || max == 0 || !ret_messages || !ret_frontier)
        return -EINVAL;
    if (store->read_only)
        return -EROFS;
    struct taking taking = { 0 };
    if (max > hwt_delay_handed_most(store))
        max = hwt_delay_handed_most(store);
    int shield = hwt_delay_enter(store);
    if (wait > 0)
        hwt_delay_handed_await(store);
    int64_t r = take(store, max, wait, &taking);
    hwt_delay_message *messages =
        taking.count > 0 ? malloc(taking.count * sizeof(*messages) + taking.bytes) : NULL;
    if (taking.count > 0 && !messages)
        r = give_back(store, &taking);
    *ret_frontier = frontier(store);
    if (messages) {
        r = finish(store, &taking, messages);
        *ret_messages = messages;
    }
    hwt_delay_leave(store, shield);
    free(taking.taken);
    return r;
}

int hwt_delay_lead(hwt_delay *store)
{
    if (!store)
        return -EINVAL;
    if (store->read_only)
        return -EROFS;
    int shield = hwt_delay_enter(store);
    store->standby = false;
    if (hwt_delay_has_jobs(store))
        hwt_delay_load_soon(store);
    hwt_delay_changed(store, HWT_DELAY_LOOK);
    hwt_delay_leave(store, shield);
    return 0;
}

void hwt_delay_free(const hwt_delay_message *messages)
{
    free((void *)(uintptr_t)messages);
}

/* ---- done ---- */

/* So many leases that their tombstones fit into a frame. */
static size_t part_of(const hwt_delay *store, size_t count)
{
    const size_t most = HWT_DELAY_RECORD_HEAD_MAX + HWT_DELAY_ID_MAX;
    size_t part = hwt_delay_log_most(store) / most;
    return part < count ? part : count;
}

/* Ends a part of them, and does not wait. How many were still held, or an error. */
static int64_t done(hwt_delay *store, const uint64_t *leases, struct hwt_delay_steps *steps)
{
    int64_t held = 0;
    for (size_t i = 0; i < steps->count; i++) {
        steps->list[i] = (struct hwt_delay_step){ .may_fail = true };
        hwt_delay_step_lease(&steps->list[i], HWT_DELAY_OP_DONE, leases[i]);
    }
    int r = hwt_delay_steps_make(store, steps);
    for (size_t i = 0; i < steps->count; i++)
        held += steps->list[i].result == 0;
    return r < 0 ? r : held;
}

/* In parts, if need be; all are on the disk with the frame of the last one. Lets go of the lock. */
static int64_t done_all(hwt_delay *store, const uint64_t *leases, size_t count,
                        struct hwt_delay_steps *steps)
{
    const size_t part = steps->count;
    uint64_t frame = 0;
    int64_t held = 0, r = 0;
    for (size_t i = 0; i < count && r >= 0; i += steps->count) {
        steps->count = count - i < part ? count - i : part;
        r = done(store, leases + i, steps);
        held += r > 0 ? r : 0;
        frame = r > 0 ? steps->frame : frame;
    }
    int written = hwt_delay_steps_leave(store, frame, true);
    r = written < 0 ? written : r;
    /* The leases that were ended before an error are ended. The others are still held. */
    return r < 0 && (held == 0 || r == -EIO) ? r : held;
}

int64_t hwt_delay_done(hwt_delay *store, const uint64_t *leases, size_t count)
{
    struct hwt_delay_steps steps;
    if (!store || !leases || count == 0)
        return -EINVAL;
    if (store->read_only)
        return -EROFS;
    if (hwt_delay_steps_init(&steps, part_of(store, count)) < 0)
        return -ENOMEM;
    int shield = hwt_delay_enter(store);
    int64_t r = done_all(store, leases, count, &steps);
    hwt_unshield(shield);
    hwt_delay_steps_free(&steps);
    return r;
}

int hwt_delay_retry(hwt_delay *store, uint64_t lease, uint64_t due)
{
    struct hwt_delay_steps steps;
    if (!store || due == HWT_NEVER)
        return -EINVAL;
    if (store->read_only)
        return -EROFS;
    hwt_delay_steps_init(&steps, 1); /* one needs no memory */
    hwt_delay_step_lease(steps.list, HWT_DELAY_OP_RETRY, lease);
    steps.list->due = due;
    int r = hwt_delay_steps_apply(store, &steps);
    hwt_delay_steps_free(&steps);
    return r;
}

int hwt_delay_extend(hwt_delay *store, uint64_t lease, uint64_t duration)
{
    if (!store)
        return -EINVAL;
    if (store->read_only)
        return -EROFS;
    int shield = hwt_delay_enter(store);
    hwt_delay_leases_expire(store);
    struct hwt_delay_lease *held = hwt_delay_lease_find(store, lease);
    int r = store->poisoned ? -EIO : held ? 0 : -ENOENT;
    if (r == 0) {
        uint64_t now = hwt_delay_boottime(store);
        hwt_delay_lease_move(store, held, duration > HWT_NEVER - now ? HWT_NEVER : now + duration);
        hwt_delay_wake_arm(store);
    }
    hwt_delay_leave(store, shield);
    return r;
}
