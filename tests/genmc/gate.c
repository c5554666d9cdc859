/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The gate, on hwt/inbox/gate.[ch], lane.[ch] and stream.[ch] as they are: the worker parks while a
 * producer appends a record that is due before the worker wakes, or, with -DSTOPS or -DASKS, another
 * thread sets its flag. Their two lines, and the worker's looks, are copied from timer.h, request.c,
 * park.c and thread.c.
 *
 *     -DFENCES    the producer makes its own barrier
 *     -DAT=n      membarrier: while the worker is in it, the producer passes a full barrier: 0:
 *                 before its record, 1: between the record and the look, 2: after the look
 *     -DFLAG=order, -DLOOK=order
 *                 weaker orders for the flag and the looks at it
 *     -DLISTED    the stream is on the worker's list, which it takes it off before
 *     -DUNLISTED  it is on no list
 *     -DSHORT     the worker sleeps to the next tick
 *     -DLATE      a third thread wakes the worker, for what was said before
 *     -DHELD      a third thread has marked the sleep CALLED, and stands still before its call
 *
 * Verified: if the worker has seen nothing, it is not ASLEEP any more, so that a futex does not
 * sleep; and whoever had something to say has made a system call, or relied on one that was over.
 * With -DLISTED: or the stream is on the queue. With -DUNLISTED the worker sees no more than that it
 * is there.
 */

#include <assert.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

/* They are not called, but to wake. */
static void call_system(void);
#define syscall(...) (call_system(), 0)
#define nanosleep(...) 0
#define pthread_setcancelstate(...) 0

#include "hwt/base/futex.c"
#include "hwt/inbox/gate.c"
#define give_back give_back_to_lanes /* stream.c has one, too */
#include "hwt/inbox/lane.c"
#undef give_back
#include "pieces.h"

#include "hwt/inbox/stream.c"
#include "membarrier.h"

#ifndef FLAG
#define FLAG seq_cst
#endif
#ifndef LOOK
#define LOOK relaxed
#endif
#define ORDER_(order) memory_order_##order
#define ORDER(order) ORDER_(order)

#define STOPPING 2
#define FENCED 64

HWT_THREAD_LOCAL uint32_t hwt_thread_number;

static _Atomic uint32_t slow_path_bits;
static struct hwt_gate gate;
static struct hwt_lanes lanes;
static struct hwt_stream stream;
static _Atomic bool request;
static _Atomic bool called;
static bool has_called; /* when the other's call is over */

/* A call by anybody: who relies on it has seen that it was over. */
static void call_system(void)
{
    atomic_store_explicit(&called, true, memory_order_relaxed);
}

uint32_t hwt_thread_take_number(void)
{
    return HWT_THREAD_NONE;
}

static bool stays(const void *data, const struct hwt_record *record)
{
    (void)data;
    (void)record;
    return true;
}

static void *other(void *arg)
{
    (void)arg;
#if defined(STOPS)
    atomic_fetch_or_explicit(&slow_path_bits, STOPPING, ORDER(FLAG)); /* hwt_halt() */
    hwt_gate_wake(&gate);
#elif defined(ASKS)
    atomic_store_explicit(&request, true, ORDER(FLAG)); /* ask() */
    hwt_gate_wake(&gate);
#else
    struct hwt_record record = { 5, 1, 1 };
    interrupted(0);
#ifdef AT
    /* hwt_lane_publish() with the barrier in the middle. */
    hwt_stream_append(&stream, record);
    interrupted(1);
    hwt_streams_list(&lanes.pending, &stream);
#else
    hwt_lane_publish(&lanes, &lanes.pending, &stream, record, stays);
#endif
#ifndef LISTED
    if (hwt_gate_asks(&gate, record.deadline))
        hwt_gate_wake(&gate);
#endif
    interrupted(2);
#endif
    atomic_thread_fence(memory_order_acquire); /* for the look at who was relied on */
    has_called = atomic_load_explicit(&called, memory_order_relaxed);
    return NULL;
}

#ifdef LATE
static void *late(void *arg)
{
    hwt_gate_wake(&gate);
    return arg;
}
#endif

#ifdef HELD
/* As hwt_gate_wake(), until its call. */
static void *late(void *arg)
{
    uint32_t parking = atomic_load_explicit(&gate.parking, memory_order_seq_cst);
    if (state_of(parking) == HWT_GATE_ASLEEP)
        (void)atomic_compare_exchange_strong_explicit(&gate.parking, &parking,
                                                      with_state(parking, HWT_GATE_CALLED),
                                                      memory_order_seq_cst, memory_order_seq_cst);
    return arg;
}
#endif

static struct hwt_stream_filter nothing; /* GenMC cannot read one that is made here */

int main(void)
{
    pthread_t thread;
    hwt_stream_init(&stream, NULL);
    (void)hwt_stream_grow(&stream, nothing);
#ifdef UNLISTED
    atomic_init(&stream.listed, false);
#else
    atomic_init(&stream.listed, true);
    lanes.pending.listed = &stream;
#endif
    lanes.pending.last_listed = &lanes.pending.listed;
    hwt_queue_init(&lanes.pending.head, &lanes.pending.tail);
    lanes.gate = &gate;
    hwt_gate_init(&gate, CLOCK_MONOTONIC, &slow_path_bits, FENCED);
#ifdef FENCES
    atomic_init(&slow_path_bits, FENCED);
#endif
    pthread_create(&thread, NULL, other, NULL);
#if defined(LATE) || defined(HELD)
    pthread_t waker;
    pthread_create(&waker, NULL, late, NULL);
#endif

    hwt_gate_begin(&gate);
#ifndef SHORT
    hwt_gate_close(&gate, 10);
#ifdef LISTED
    hwt_streams_dismiss(&lanes.pending);
#endif
    all_pass_a_barrier(&gate);
#endif
#ifdef UNLISTED
    bool seen = hwt_queue_pop(&lanes.pending.head, &lanes.pending.tail) != NULL;
#else
    bool seen = hwt_stream_is_used(&stream);
#endif
    /* hwt_worker_park(), run_worker() */
    seen = seen || atomic_load_explicit(&slow_path_bits, ORDER(LOOK)) & STOPPING;
    seen = seen || atomic_load_explicit(&request, ORDER(LOOK));

    pthread_join(thread, NULL);
#if defined(LATE) || defined(HELD)
    pthread_join(waker, NULL);
#endif
#ifdef LISTED
    if (!seen)
        assert(hwt_queue_pop(&lanes.pending.head, &lanes.pending.tail) == &stream.node);
#else
    if (!seen) {
        assert(!hwt_gate_is_asleep(&gate));
        assert(has_called);
    }
#endif
    return 0;
}
