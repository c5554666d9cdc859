/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Parking and waking. See gate.h. */

#include "hwt/inbox/gate.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "hwt/base/barrier.h"
#include "hwt/base/futex.h"
#include "hwt/base/sched_point.h"
#include "hwt/base/shield.h"
#include "hwt/base/time.h"

/* From <linux/membarrier.h>, which not every libc finds. */
#define MEMBARRIER_PRIVATE (1 << 3)
#define MEMBARRIER_REGISTER_PRIVATE (1 << 4)

/* ---- the barrier ---- */

static bool membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0) == 0;
}

bool hwt_gate_needs_fences(void)
{
#if defined(HWT_SCHED_POINTS) || defined(HWT_FENCES) || defined(__SANITIZE_THREAD__)
    return true;
#else
    return !membarrier(MEMBARRIER_REGISTER_PRIVATE);
#endif
}

void hwt_gate_barrier(struct hwt_gate *gate)
{
    struct timespec pause = { 0, 10000000 };
    hwt_full_barrier();
    /* A child of fork() may have to register anew. */
    if (hwt_gate_is_fenced(gate) || membarrier(MEMBARRIER_PRIVATE) ||
        (membarrier(MEMBARRIER_REGISTER_PRIVATE) && membarrier(MEMBARRIER_PRIVATE)))
        return;
    atomic_fetch_or_explicit(gate->slow_path_bits, gate->fence_bits, memory_order_seq_cst);
    int shield = hwt_shield();
    while (nanosleep(&pause, &pause) != 0 && errno == EINTR)
        ;
    hwt_unshield(shield);
    hwt_full_barrier();
}

/* ---- the descriptor ---- */

void hwt_gate_init(struct hwt_gate *gate, clockid_t clock_id, _Atomic uint32_t *flags,
                   uint32_t fence_bits)
{
    atomic_init(&gate->wake_before, HWT_GATE_OPEN);
    atomic_init(&gate->parking, HWT_GATE_AWAKE);
    atomic_init(&gate->fd, -1);
    atomic_init(&gate->lost, 0);
    atomic_init(&gate->quiet, false);
    gate->clock_id = clock_id;
    gate->slow_path_bits = flags;
    gate->fence_bits = fence_bits;
    atomic_init(&gate->begun, 0);
    atomic_init(&gate->done, 0);
    gate->done_when_set = 0;
}

static int fd_of(const struct hwt_gate *gate)
{
    /* Acquire: a descriptor that another thread has opened. */
    return atomic_load_explicit(&gate->fd, memory_order_acquire);
}

void hwt_gate_destroy(struct hwt_gate *gate)
{
    int fd = atomic_exchange_explicit(&gate->fd, -1, memory_order_relaxed);
    if (fd >= 0)
        close(fd);
}

void hwt_gate_renew_fd(struct hwt_gate *gate)
{
    int before = atomic_exchange_explicit(&gate->fd, -1, memory_order_relaxed);
    if (before < 0)
        return;
    close(before); /* at a limit of descriptors there may be no other number */
    int r = hwt_gate_open_fd(gate), fd = fd_of(gate);
    if (r == 0 && fd != before) { /* a loop may have noted the number */
        r = dup3(fd, before, O_CLOEXEC) < 0 ? -EMFILE : 0;
        atomic_store_explicit(&gate->fd, r < 0 ? -1 : before, memory_order_relaxed);
        close(fd);
    }
    atomic_store_explicit(&gate->lost, -r, memory_order_relaxed);
    if (r < 0)
        return;
    hwt_gate_set_fd(gate, 1, true); /* the loop that watches it comes at once, and parks anew */
}

int hwt_gate_open_fd(struct hwt_gate *gate)
{
    if (fd_of(gate) >= 0)
        return 0;
    int fd = timerfd_create(gate->clock_id, TFD_CLOEXEC | TFD_NONBLOCK);
    if (fd < 0)
        return -errno;
    atomic_store_explicit(&gate->fd, fd, memory_order_release);
    atomic_store_explicit(&gate->lost, 0, memory_order_relaxed);
    return 0;
}

void hwt_gate_set_fd(struct hwt_gate *gate, uint64_t instant, bool relative)
{
    struct itimerspec at = { .it_value = { 0, 0 } };
    if (instant != UINT64_MAX)
        at.it_value = hwt_timespec(instant > 0 ? instant : 1);
    timerfd_settime(fd_of(gate), relative ? 0 : TFD_TIMER_ABSTIME, &at, NULL);
}

bool hwt_gate_fd_is_as_set(struct hwt_gate *gate)
{
    uint32_t done = atomic_load_explicit(&gate->done, memory_order_acquire);
    uint32_t begun = atomic_load_explicit(&gate->begun, memory_order_acquire);
    bool as_set = begun == done && done == gate->done_when_set;
    gate->done_when_set = done;
    return as_set;
}

/* ---- parking ---- */

static uint32_t with_state(uint32_t parking, uint32_t state)
{
    return (parking & ~(uint32_t)HWT_GATE_STATE_MASK) | state;
}

static uint32_t state_of(uint32_t parking)
{
    return parking & HWT_GATE_STATE_MASK;
}

/* The worker alone writes the number. */
static uint32_t number_of(const struct hwt_gate *gate)
{
    return with_state(atomic_load_explicit(&gate->parking, memory_order_relaxed), 0);
}

void hwt_gate_begin(struct hwt_gate *gate)
{
    const uint32_t next = number_of(gate) + HWT_GATE_STATE_MASK + 1;
    atomic_store_explicit(&gate->wake_before, HWT_GATE_OPEN, memory_order_relaxed);
    /* Release: the descriptor, for the one that calls. */
    atomic_store_explicit(&gate->parking, with_state(next, HWT_GATE_ASLEEP), memory_order_release);
    hwt_full_barrier();
}

void hwt_gate_close(struct hwt_gate *gate, uint64_t wake_before)
{
    HWT_SCHED_POINT(PARK_A);
    /* Relaxed: hwt_gate_begin() has a barrier before it, and B follows. */
    atomic_store_explicit(&gate->wake_before, wake_before, memory_order_relaxed);
    HWT_SCHED_POINT(PARK_B);
}

void hwt_gate_sleep(struct hwt_gate *gate, uint64_t until)
{
    const struct timespec at = hwt_timespec(until);
    HWT_SCHED_POINT(PARK_D);
    hwt_futex_wait(&gate->parking, with_state(number_of(gate), HWT_GATE_ASLEEP),
                   until == UINT64_MAX ? NULL : &at);
}

bool hwt_gate_open(struct hwt_gate *gate)
{
    /* Relaxed, both: they only spare others a system call. An exchange reads the newest state. */
    atomic_store_explicit(&gate->wake_before, HWT_GATE_OPEN, memory_order_relaxed);
    const uint32_t awake = with_state(number_of(gate), HWT_GATE_AWAKE);
    return state_of(atomic_exchange_explicit(&gate->parking, awake, memory_order_relaxed)) !=
           HWT_GATE_ASLEEP;
}

/* Step 5. */
static void call(struct hwt_gate *gate)
{
    if (fd_of(gate) < 0) {
        hwt_futex_wake(&gate->parking, 1);
        return;
    }
    /* Acq_rel: a driver that sees one of these sets the descriptor after this step. */
    atomic_fetch_add_explicit(&gate->begun, 1, memory_order_acq_rel);
    hwt_gate_set_fd(gate, 1, true);
    HWT_SCHED_POINT(WAKE_QUIET);
    atomic_fetch_add_explicit(&gate->done, 1, memory_order_acq_rel);
    /* Seq_cst: either this sees the flag, or hwt_gate_quiet() comes after the call above. */
    if (atomic_load_explicit(&gate->quiet, memory_order_seq_cst))
        hwt_gate_set_fd(gate, UINT64_MAX, false);
}

void hwt_gate_wake(struct hwt_gate *gate)
{
    HWT_SCHED_POINT(WAKE_3);
    /* Seq_cst: after stop's flag, a request or a backlog, which are seq_cst or have a barrier
     * behind them; and before the call, see hwt_gate_is_asleep(). */
    uint32_t parking = atomic_load_explicit(&gate->parking, memory_order_seq_cst);
    while (state_of(parking) == HWT_GATE_ASLEEP &&
           !atomic_compare_exchange_weak_explicit(&gate->parking, &parking,
                                                  with_state(parking, HWT_GATE_CALLED),
                                                  memory_order_seq_cst, memory_order_seq_cst))
        ;
    if (state_of(parking) == HWT_GATE_AWAKE)
        return;
    HWT_SCHED_POINT(WAKE_4);
    call(gate);
    HWT_SCHED_POINT(WAKE_DONE);
    /* Release: a waker that relies on it comes after the call. */
    parking = with_state(parking, HWT_GATE_CALLED);
    atomic_compare_exchange_strong_explicit(&gate->parking, &parking,
                                            with_state(parking, HWT_GATE_AWAKE),
                                            memory_order_release, memory_order_relaxed);
}

void hwt_gate_quiet(struct hwt_gate *gate)
{
    atomic_store_explicit(&gate->quiet, true, memory_order_seq_cst);
    HWT_SCHED_POINT(QUIET);
    if (fd_of(gate) >= 0)
        hwt_gate_set_fd(gate, UINT64_MAX, false);
}
