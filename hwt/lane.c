/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pending and cancelled queues. See lane.h. */

#include "hwt/lane.h"

#include <pthread.h>
#include <unistd.h>

#include "hwt/timer.h"

#define LANES_MIN 16
#define LANES_MAX 64 /* bits of numbers_taken */

uint32_t hwt_lanes_owned(void)
{
    long processors = sysconf(_SC_NPROCESSORS_CONF);
    uint32_t count = LANES_MIN;
    while (count < LANES_MAX && (long)count < 2 * processors)
        count *= 2;
    return count;
}

void hwt_lane_init(struct hwt_lane *lane, bool shared)
{
    lane->shared = shared;
    hwt_mpsc_init(&lane->pending_head, &lane->pending_tail);
    hwt_mpsc_init(&lane->cancelled_head, &lane->cancelled_tail);
    hwt_mpsc_init(&lane->passed_head, &lane->passed_tail);
    hwt_mpsc_init(&lane->drained_head, &lane->drained_tail);
    hwt_mpsc_init(&lane->reaped_head, &lane->reaped_tail);
    atomic_init(&lane->free, HWT_ID_NONE);
}

/* ---- the threads' numbers ---- */

_Thread_local uint32_t hwt_thread_number __attribute__((tls_model("initial-exec")));
static _Atomic uint64_t numbers_taken;  /* bit n: number n + 1 is some thread's */
static _Atomic uint32_t numbers_beyond; /* threads that were given a number past these */
static pthread_key_t at_thread_end;
static bool has_thread_end;

/* Release, and acquire where it is taken: what the thread did in its lanes is seen by the next
 * owner. A later destructor of the thread that calls hwt again shares a lane. */
static void give_number_back(void *number)
{
    hwt_thread_number = LANES_MAX + 1;
    HWT_MEET(NUMBER_GIVE);
    atomic_fetch_and_explicit(&numbers_taken, ~((uint64_t)1 << ((uintptr_t)number - 1)),
                              memory_order_release);
    HWT_MEET(NUMBER_GIVEN);
}

/* Runs as the library is loaded, so that no thread must wait for another's first call. */
__attribute__((constructor)) static void make_thread_end(void)
{
    has_thread_end = pthread_key_create(&at_thread_end, give_number_back) == 0;
}

/* Runs as it is unloaded: threads that end later do not call into what is gone. */
__attribute__((destructor)) static void drop_thread_end(void)
{
    if (has_thread_end)
        pthread_key_delete(at_thread_end);
}

static uint32_t take_number(void)
{
    uint64_t taken = atomic_load_explicit(&numbers_taken, memory_order_relaxed);
    uint32_t number;
    do {
        if (taken == UINT64_MAX)
            return 0;
        number = (uint32_t)__builtin_ctzll(~taken) + 1;
        HWT_MEET(NUMBER_TAKE);
    } while (!atomic_compare_exchange_weak_explicit(&numbers_taken, &taken,
                                                    taken | (uint64_t)1 << (number - 1),
                                                    memory_order_acquire, memory_order_relaxed));
    return number;
}

uint32_t hwt_lane_number_thread(void)
{
    uint32_t number = has_thread_end ? take_number() : 0;
    if (number && pthread_setspecific(at_thread_end, (void *)(uintptr_t)number) != 0) {
        give_number_back((void *)(uintptr_t)number);
        number = 0;
    }
    if (!number)
        number =
            LANES_MAX + 1 +
            atomic_fetch_add_explicit(&numbers_beyond, 1, memory_order_relaxed) % HWT_LANES_SHARED;
    return hwt_thread_number = number;
}

/* ---- the queues ---- */

static struct hwt_entry *pop(hwt_mpsc_head *head, hwt_mpsc_tail *tail, bool *ret_stalled)
{
    hwt_mpsc_node *node = hwt_mpsc_pop(head, tail);
    *ret_stalled = node == HWT_MPSC_STALLED;
    return node && !*ret_stalled ? caa_container_of(node, struct hwt_entry, link) : NULL;
}

/* Acquire and release: pending_head passes from one consumer to the next. */
static bool begin_consuming(struct hwt_lane *lane)
{
    HWT_MEET(CONSUME);
    return !atomic_exchange_explicit(&lane->consuming, true, memory_order_acquire);
}

static void end_consuming(struct hwt_lane *lane)
{
    atomic_store_explicit(&lane->consuming, false, memory_order_release);
}

bool hwt_lane_splice_pending(struct hwt_lane *lane)
{
    if (!begin_consuming(lane))
        return false;
    HWT_MEET(SPLICE);
    hwt_mpsc_splice(&lane->drained_head, &lane->drained_tail, &lane->passed_head,
                    &lane->passed_tail);
    bool whole = hwt_mpsc_splice(&lane->drained_head, &lane->drained_tail, &lane->pending_head,
                                 &lane->pending_tail);
    HWT_MEET(SPLICED);
    end_consuming(lane);
    return whole;
}

bool hwt_lane_splice_cancelled(struct hwt_lane *lane)
{
    HWT_MEET(SPLICE_CANCELLED);
    return hwt_mpsc_splice(&lane->reaped_head, &lane->reaped_tail, &lane->cancelled_head,
                           &lane->cancelled_tail);
}

bool hwt_lane_is_empty(struct hwt_lane *lane)
{
    if (!begin_consuming(lane))
        return false;
    bool empty = hwt_mpsc_is_empty(&lane->pending_head, &lane->pending_tail) &&
                 hwt_mpsc_is_empty(&lane->passed_head, &lane->passed_tail) &&
                 hwt_mpsc_is_empty(&lane->drained_head, &lane->drained_tail);
    end_consuming(lane);
    return empty;
}

size_t hwt_lane_salvage(struct hwt_lane *lane, struct hwt_entry **batch, size_t max,
                        size_t patience)
{
    size_t n = 0;
    if (!begin_consuming(lane))
        return 0;
    while (n < max && patience > 0) {
        bool stalled;
        HWT_MEET(SALVAGE_POP);
        struct hwt_entry *entry = pop(&lane->pending_head, &lane->pending_tail, &stalled);
        if (!entry)
            break;
        HWT_MEET(SALVAGE_JUDGE);
        if (hwt_timeout_salvageable(entry)) {
            batch[n++] = entry;
        } else {
            hwt_mpsc_push(&lane->passed_head, &lane->passed_tail, &entry->link);
            patience--;
        }
    }
    end_consuming(lane);
    return n;
}

struct hwt_entry *hwt_lane_pop_drained(struct hwt_lane *lane, bool *ret_stalled)
{
    return pop(&lane->drained_head, &lane->drained_tail, ret_stalled);
}

struct hwt_entry *hwt_lane_pop_reaped(struct hwt_lane *lane, bool *ret_stalled)
{
    return pop(&lane->reaped_head, &lane->reaped_tail, ret_stalled);
}
