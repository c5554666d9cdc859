/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Stop beside a thread that adds: on hwt/pool/entry.h, lane.h, stream.[ch] and hwt/base/word.c as
 * they are, and gate.c; what hwt_halt() and end_one() do, and withdraw(), is copied from timer.h,
 * stop.c and arm.c.
 *
 *     -DFENCES, -DAT=n, -DFLAG=order, -DLOOK=order    as in gate.c
 *
 * Verified: the timeout is refused by its adder or ended by stop, never both and never neither; and
 * stop sees what the adder wrote.
 */

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

/* They are not called here. */
#define syscall(...) 0
#define nanosleep(...) 0
#define pthread_setcancelstate(...) 0

#include "hwt/base/word.c"
#include "hwt/base/futex.c"
#include "hwt/inbox/gate.c"
#include "hwt/inbox/lane.h"
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

static _Atomic uint32_t slow_path_bits;
static struct hwt_gate gate;
static struct hwt_lanes lanes;
static struct hwt_stream stream;
static struct hwt_entry entry;
static int here, refused, ended;

static void run(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
}

static const hwt_task task = { .run = run };

static bool end(uint64_t state)
{
    return hwt_entry_leave_over(&entry, state);
}

static bool stays(const void *data, const struct hwt_record *record)
{
    (void)data;
    (void)record;
    return true;
}

static void *add(void *arg)
{
    (void)arg;
    interrupted(0);
    uint64_t state = hwt_entry_begin(&entry, &task, &here, 5);
    struct hwt_record record = { 5, 1, 1 };
#ifdef FENCES
    hwt_lane_publish(&lanes, &lanes.pending, &stream, record, stays);
#else
    hwt_stream_append(&stream, record);
#endif
    interrupted(1);
    if (atomic_load_explicit(&slow_path_bits, ORDER(LOOK)) & STOPPING)
        refused = end(state);
    interrupted(2);
    return NULL;
}

static struct hwt_stream_filter nothing; /* GenMC cannot read one that is made here */

int main(void)
{
    pthread_t adder;
    hwt_stream_init(&stream, NULL);
    (void)hwt_stream_grow(&stream, nothing);
    atomic_init(&stream.listed, true);
    lanes.gate = &gate;
    gate.slow_path_bits = &slow_path_bits;
    gate.fence_bits = FENCED;
#ifdef FENCES
    atomic_init(&slow_path_bits, FENCED);
#endif
    pthread_create(&adder, NULL, add, NULL);

    atomic_fetch_or_explicit(&slow_path_bits, STOPPING, ORDER(FLAG));
    all_pass_a_barrier(&gate);
    uint64_t state = hwt_entry_state(&entry);
    if (hwt_phase(state) == HWT_PHASE_PENDING) {
        assert(hwt_entry_arg(&entry) == &here && hwt_entry_task(&entry) == &task);
        assert(hwt_entry_deadline(&entry) == 5);
        ended = end(state);
    }

    pthread_join(adder, NULL);
    assert(refused + ended == 1);
    return 0;
}
