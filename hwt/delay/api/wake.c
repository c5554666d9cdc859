/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The store's alarm (pool.h) stands for the next instant at which something can be handed over, be
 * that a message, the end of a lease, or more to load. It wakes a thread that sleeps in take, and
 * makes the event descriptor readable.
 *
 * A trouble is a reason why takes get nothing though something is due, because the clock has leapt
 * or loading fails. When one begins, all that sleep in take return with it, and the descriptor
 * becomes readable; if nobody sleeps, the next take returns with it. From then on it has been told,
 * so takes sleep, and the descriptor stays unreadable, until the trouble is over. The clock is
 * looked at every second while it is held, and the loader tries again every second what has failed.
 *
 * Everything here is under the store's lock.
 */

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "hwt/delay/whole.h"

void hwt_delay_takes_init(hwt_delay *store)
{
    struct hwt_delay_takes *takes = &store->takes;
    hwt_delay_cond_init(&takes->takers);
    takes->event = -1;
    takes->alarm_at = HWT_NEVER;
}

void hwt_delay_takes_free(hwt_delay *store)
{
    if (store->takes.event >= 0)
        close(store->takes.event);
    pthread_cond_destroy(&store->takes.takers);
}

/* The clock may be set meanwhile, so it is looked at again after at most so long. */
#define LONGEST HWT_SEC(1)

uint64_t hwt_delay_ring(void *arg)
{
    hwt_delay *store = arg;
    pthread_mutex_lock(&store->lock);
    store->takes.alarm_at = HWT_NEVER;
    hwt_delay_wake_arm(store);
    pthread_mutex_unlock(&store->lock);
    return HWT_NEVER;
}

static uint64_t lease_end(const hwt_delay *store, uint64_t now)
{
    uint64_t end = hwt_delay_lease_first_end(store);
    if (end == HWT_NEVER)
        return HWT_NEVER;
    uint64_t boottime = hwt_delay_boottime(store);
    uint64_t left = end > boottime ? end - boottime : 0;
    return left < HWT_NEVER - now ? now + left : HWT_NEVER;
}

/*
 * The earliest instant at which something can be due. At the instant of a tombstone there is
 * nothing. A take drops it then, with all others up to the instant to which it loads. One for whose
 * time there is no slot has nothing to erase, unless a checkpoint is writing one, and goes now.
 */
uint64_t hwt_delay_next_locked(hwt_delay *store)
{
    uint64_t now = hwt_delay_realtime(store);
    uint64_t next = hwt_delay_wheel_next(store);
    struct hwt_delay_record *first;
    while ((first = hwt_delay_lowest(store)) && first->kind == HWT_DELAY_TOMBSTONE &&
           !hwt_delay_log_is_pinned(store) && !store->read_only &&
           !hwt_delay_wheel_covers(store, first->key.due))
        hwt_delay_remove(store, first);
    first = hwt_delay_first(store);
    if (first && first->key.due < next)
        next = first->key.due;
    uint64_t end = lease_end(store, now);
    return end < next ? end : next;
}

static void set_event(hwt_delay *store)
{
    const uint64_t one = 1;
    if (store->takes.event >= 0 && !store->takes.event_set)
        store->takes.event_set =
            write(store->takes.event, &one, sizeof(one)) == (ssize_t)sizeof(one);
}

/* All that sleep in take look again. */
static void wake_all(hwt_delay *store)
{
    pthread_cond_broadcast(&store->takes.takers);
    set_event(store);
}

/* Something can be taken, and one thread that sleeps in take is enough. */
static void wake_now(hwt_delay *store)
{
    if (store->takes.waiting > 0)
        pthread_cond_signal(&store->takes.takers);
    set_event(store);
}

/* A trouble begins, or 0: there is none, or it is over. */
static void set_trouble(hwt_delay *store, int error)
{
    if (store->takes.trouble == error)
        return;
    store->takes.trouble = error;
    if (error < 0) {
        store->takes.troubles++;
        wake_all(store);
    } else {
        wake_now(store);
    }
}

/* A take has said what there is to say, so the descriptor is not readable until there is more. */
void hwt_delay_wake_clear(hwt_delay *store)
{
    uint64_t count;
    if (store->takes.event >= 0 && store->takes.event_set)
        store->takes.event_set = read(store->takes.event, &count, sizeof(count)) < 0;
    hwt_delay_wake_arm(store);
}

/*
 * The instant at which a take is worth a call. That is at once if it is `now` or before. A message
 * that waits for its frame, or for a lease to end, does not count, because whoever writes the frame
 * or ends the lease calls here again.
 */
static uint64_t worth_a_take(hwt_delay *store, uint64_t now)
{
    const struct hwt_delay_record *first = hwt_delay_first(store);
    uint64_t end = lease_end(store, now), due = HWT_NEVER;
    if (hwt_delay_gap_is_new(store))
        return now;
    if (first && hwt_delay_compare(first->key, hwt_delay_loaded(store)) < 0) {
        bool waits =
            first->kind == HWT_DELAY_PUT && (first->key.sequence >= hwt_delay_log_durable(store) ||
                                             !hwt_delay_lease_fits(store, first));
        due = waits && first->key.due <= now ? HWT_NEVER : first->key.due;
    } else {
        /* The rest is to be loaded first. */
        due = hwt_delay_wheel_next(store);
        if (first && first->key.due < due)
            due = first->key.due;
        if (due <= now && store->takes.trouble != 0 && store->takes.told == store->takes.troubles)
            due = HWT_NEVER;
    }
    return due < end ? due : end;
}

/* Something may have changed what is next. True: something can be taken now. */
bool hwt_delay_wake_arm(hwt_delay *store)
{
    if (!hwt_delay_has_jobs(store) || store->poisoned || store->standby ||
        (store->takes.waiting == 0 && store->takes.event < 0))
        return false;
    uint64_t now = hwt_delay_clock(store);
    uint64_t next = hwt_delay_is_held(store) ? now + LONGEST : worth_a_take(store, now);
    if (next <= now) {
        wake_now(store);
        return true;
    }
    if (next == HWT_NEVER || next >= store->takes.alarm_at)
        return false;
    uint64_t delay = next - now < LONGEST ? next - now : LONGEST;
    store->takes.alarm_at = now + delay;
    hwt_delay_want_in(store, HWT_DELAY_ALARM, delay);
    return false;
}

void hwt_delay_takes_hear(hwt_delay *store, int reason)
{
    if (reason == HWT_DELAY_MORE)
        hwt_delay_wake_arm(store);
    else if (reason == HWT_DELAY_LOOK)
        wake_all(store);
    else
        set_trouble(store, reason);
}

int hwt_delay_wake(hwt_delay *store)
{
    if (!store)
        return -EINVAL;
    int shield = hwt_delay_enter(store);
    store->takes.wakes++;
    store->takes.woken = store->takes.waiting == 0;
    pthread_cond_broadcast(&store->takes.takers);
    hwt_delay_leave(store, shield);
    return 0;
}

int hwt_delay_fd(hwt_delay *store)
{
    if (!store)
        return -EINVAL;
    if (store->read_only)
        return -EROFS;
    if (store->synchronous)
        return -ENOTSUP;
    int shield = hwt_delay_enter(store);
    int r = store->takes.event;
    if (r < 0) {
        r = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        r = r < 0 ? -errno : r;
        store->takes.event = r < 0 ? -1 : r;
        if (!store->standby)
            set_event(store); /* the first take says what there is */
        hwt_delay_wake_arm(store);
    }
    hwt_delay_leave(store, shield);
    return r;
}

uint64_t hwt_delay_next(hwt_delay *store)
{
    if (!store)
        return HWT_NEVER;
    int shield = hwt_delay_enter(store);
    uint64_t next = hwt_delay_next_locked(store);
    hwt_delay_leave(store, shield);
    return next;
}
