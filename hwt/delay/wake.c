/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Waking: one timeout of this project's timer stands for the next instant at which something can
 * be handed over: a message, the end of a lease, or more to load. It wakes a thread that sleeps
 * in take, and makes the event descriptor readable.
 *
 * Everything here is under the store's lock. The timer's task takes it, so it is never held across a
 * call that waits for the task.
 */

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "hwt/delay/store.h"

#define TICK HWT_US(500)
/* The clock may be set meanwhile: looked at again after at most so long. */
#define LONGEST HWT_SEC(1)

static void ring(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    hwt_delay *store = arg;
    pthread_mutex_lock(&store->lock);
    store->alarm_at = HWT_NEVER;
    hwt_delay_wake_arm(store);
    pthread_mutex_unlock(&store->lock);
}

static const hwt_task alarm_task = { ring, NULL };

static uint64_t lease_end(const hwt_delay *store, uint64_t now)
{
    const struct hwt_delay_lease *lease =
        RB_MIN(hwt_delay_ends, &((hwt_delay *)(uintptr_t)store)->ends);
    if (!lease || lease->end == HWT_NEVER)
        return HWT_NEVER;
    uint64_t boottime = hwt_delay_boottime(store);
    uint64_t left = lease->end > boottime ? lease->end - boottime : 0;
    return left < HWT_NEVER - now ? now + left : HWT_NEVER;
}

/*
 * The earliest instant at which something can be due. At that of an erase there is nothing: take
 * drops it then, with all others up to where it loads.
 */
uint64_t hwt_delay_next_locked(hwt_delay *store)
{
    uint64_t now = store->system.realtime(store->system.data);
    uint64_t next = hwt_delay_wheel_next(store);
    const struct hwt_delay_record *first = RB_MIN(hwt_delay_keys, &store->keys);
    if (first && first->key.due < next)
        next = first->key.due;
    uint64_t end = lease_end(store, now);
    return end < next ? end : next;
}

static void set_event(hwt_delay *store)
{
    const uint64_t one = 1;
    if (store->event >= 0 && !store->event_set)
        store->event_set = write(store->event, &one, sizeof(one)) == (ssize_t)sizeof(one);
}

void hwt_delay_wake_now(hwt_delay *store)
{
    if (store->waiting > 0)
        pthread_cond_signal(&store->takers);
    set_event(store);
}

/* Nothing is due: the descriptor is not readable until something is. */
void hwt_delay_wake_clear(hwt_delay *store)
{
    uint64_t count;
    if (store->event >= 0 && store->event_set)
        store->event_set = read(store->event, &count, sizeof(count)) < 0;
    hwt_delay_wake_arm(store);
}

/* The message that is next waits for its frame. Whoever writes that calls here again. */
static bool waits_for_frame(hwt_delay *store, uint64_t now)
{
    const struct hwt_delay_record *first = RB_MIN(hwt_delay_keys, &store->keys);
    return first && first->kind == HWT_DELAY_PUT && first->key.due <= now &&
           first->key.sequence >= store->log.durable_sequence;
}

/*
 * Where it cannot be set there is no alarm until somebody calls here again. Takers that sleep get to
 * know once, and look for themselves from then on; the descriptor stays readable.
 */
static void set_alarm(hwt_delay *store, uint64_t now, uint64_t delay)
{
    bool set = hwt_timeout_reschedule(store->alarm, delay) ||
               hwt_timer_new_timeout(store->timer, &alarm_task, store, delay, &store->alarm) == 0;
    store->alarm_at = set ? now + delay : HWT_NEVER;
    if (!set) {
        if (!store->no_alarm)
            pthread_cond_broadcast(&store->takers);
        set_event(store);
    }
    store->no_alarm = !set;
}

/* Something may have changed what is next. True: something can be taken now. */
bool hwt_delay_wake_arm(hwt_delay *store)
{
    if (!store->timer || (store->waiting == 0 && store->event < 0))
        return false;
    uint64_t now = hwt_delay_clock(store), next = hwt_delay_next_locked(store);
    if (store->held) {
        next = now + LONGEST;
    } else if (next <= now) {
        bool ready = !waits_for_frame(store, now);
        if (ready)
            hwt_delay_wake_now(store);
        return ready;
    }
    if (next == HWT_NEVER || next >= store->alarm_at) {
        store->no_alarm = false; /* none is needed, or it is set */
        return false;
    }
    set_alarm(store, now, next - now < LONGEST ? next - now : LONGEST);
    return false;
}

int hwt_delay_wake_start(hwt_delay *store)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = TICK;
    options.worker_name = "hwt-delay";
    int r = hwt_timer_create(&options, &store->timer);
    return r < 0 ? r : hwt_timer_start(store->timer);
}

void hwt_delay_wake_stop(hwt_delay *store)
{
    hwt_timer_destroy(store->timer);
    store->timer = NULL;
    if (store->event >= 0)
        close(store->event);
    store->event = -1;
}

int hwt_delay_wake(hwt_delay *store)
{
    if (!store)
        return -EINVAL;
    pthread_mutex_lock(&store->lock);
    store->wakes++;
    pthread_cond_broadcast(&store->takers);
    pthread_mutex_unlock(&store->lock);
    return 0;
}

int hwt_delay_fd(hwt_delay *store)
{
    if (!store)
        return -EINVAL;
    if (store->read_only)
        return -EROFS;
    if (store->alone)
        return -ENOTSUP;
    pthread_mutex_lock(&store->lock);
    int r = store->event;
    if (r < 0) {
        r = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        r = r < 0 ? -errno : r;
        store->event = r < 0 ? -1 : r;
        hwt_delay_wake_arm(store);
    }
    pthread_mutex_unlock(&store->lock);
    return r;
}

uint64_t hwt_delay_next(hwt_delay *store)
{
    if (!store)
        return HWT_NEVER;
    pthread_mutex_lock(&store->lock);
    uint64_t next = hwt_delay_next_locked(store);
    pthread_mutex_unlock(&store->lock);
    return next;
}
