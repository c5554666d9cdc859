/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Now, deadlines that saturate, parking and waking. See clock.h. */

#include "hwt/clock.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include "hwt/timer.h"

static uint64_t read_clock(const hwt_timer *timer)
{
    if (timer->clock)
        return timer->clock(timer->clock_data);
    struct timespec now;
    clock_gettime(timer->clock_id, &now); /* cannot fail: create has tried the clock */
    return HWT_SEC(now.tv_sec) + (uint64_t)now.tv_nsec;
}

uint64_t hwt_timer_now(const hwt_timer *timer)
{
    return timer ? read_clock(timer) : 0;
}

uint64_t hwt_clock_after(const hwt_timer *timer, uint64_t delay)
{
    return hwt_saturating_add(read_clock(timer), delay);
}

uint64_t hwt_clock_until(const hwt_timer *timer, uint64_t deadline)
{
    if (deadline == HWT_NEVER)
        return HWT_NEVER;
    uint64_t now = read_clock(timer);
    return deadline > now ? deadline - now : 0;
}

int hwt_gate_open_fd(hwt_timer *timer)
{
    /* Nonblocking only where a loop watches it: the worker sleeps in read(). */
    bool watched = timer->flags & HWT_NO_WORKER;
    int fd = timerfd_create(timer->clock_id, TFD_CLOEXEC | (watched ? TFD_NONBLOCK : 0));
    if (fd < 0)
        return -errno;
    timer->gate.fd = fd;
    return 0;
}

void hwt_gate_close(hwt_timer *timer, uint64_t wake_before)
{
    if (wake_before < HWT_GATE_SHORT)
        wake_before = HWT_GATE_SHORT;
    /* Step A. */
    atomic_exchange_explicit(&timer->gate.wake_before, wake_before, memory_order_seq_cst);
    cmm_smp_mb(); /* for liburcu's own loads are less than seq_cst where it is not inlined */
}

void hwt_gate_shorten(hwt_timer *timer)
{
    uint64_t seen = atomic_load_explicit(&timer->gate.wake_before, memory_order_relaxed);
    HWT_MEET(PARK_SHORTEN);
    /* Relaxed: asks less of producers, publishes nothing. A failure means that one of them
     * has opened the gate, which step D finds. */
    if (seen != HWT_GATE_AWAKE)
        atomic_compare_exchange_strong_explicit(&timer->gate.wake_before, &seen, HWT_GATE_SHORT,
                                                memory_order_relaxed, memory_order_relaxed);
}

static void set_fd(const hwt_timer *timer, uint64_t nanoseconds, int flags)
{
    struct itimerspec at = {
        .it_value = { .tv_sec = (time_t)(nanoseconds / HWT_SEC(1)),
                      .tv_nsec = (long)(nanoseconds % HWT_SEC(1)) },
    };
    timerfd_settime(timer->gate.fd, flags, &at, NULL); /* cannot fail with these arguments */
}

bool hwt_gate_arm(hwt_timer *timer, uint64_t instant)
{
    HWT_MEET(PARK_C);
    if (instant == HWT_NEVER) {
        set_fd(timer, 0, 0);
    } else if (timer->clock) {
        uint64_t now = read_clock(timer);
        set_fd(timer, instant > now ? instant - now : 1, 0);
    } else {
        set_fd(timer, instant > 0 ? instant : 1, TFD_TIMER_ABSTIME);
    }
    HWT_MEET(PARK_D);
    /* Seq_cst: not before the call above, see D. */
    return atomic_load_explicit(&timer->gate.wake_before, memory_order_seq_cst) != HWT_GATE_AWAKE;
}

void hwt_gate_quiet(hwt_timer *timer)
{
    set_fd(timer, 0, 0);
}

void hwt_gate_fire(hwt_timer *timer)
{
    set_fd(timer, 1, 0);
}

void hwt_gate_sleep(hwt_timer *timer)
{
    uint64_t expirations;
    ssize_t n = read(timer->gate.fd, &expirations, sizeof(expirations));
    (void)n; /* whatever ended it, the worker looks at the clock and the queues */
}

void hwt_gate_awake(hwt_timer *timer)
{
    /* Relaxed: it only spares producers a system call. */
    atomic_store_explicit(&timer->gate.wake_before, HWT_GATE_AWAKE, memory_order_relaxed);
}

void hwt_gate_wake(hwt_timer *timer)
{
    uint64_t seen = atomic_load_explicit(&timer->gate.wake_before, memory_order_seq_cst);
    while (seen != HWT_GATE_AWAKE) {
        HWT_MEET(WAKE_3);
        /* Seq_cst: not after the call below, see D. */
        if (atomic_compare_exchange_weak_explicit(&timer->gate.wake_before, &seen, HWT_GATE_AWAKE,
                                                  memory_order_seq_cst, memory_order_seq_cst)) {
            HWT_MEET(WAKE_4);
            hwt_gate_fire(timer);
            return;
        }
    }
}

void hwt_gate_announce_given(hwt_timer *timer, struct hwt_lane *lane, uint64_t n)
{
    uint64_t before = hwt_count(&lane->given, n, lane->shared);
    if (before / HWT_BACKLOG != (before + n) / HWT_BACKLOG)
        hwt_gate_wake(timer);
}
