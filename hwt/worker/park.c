/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Before a sleep: the next tick with work, and the gate is closed. See gate.h. */

#include "hwt/base/probes.h"
#include "hwt/pool/trim.h"
#include "hwt/worker/worker.h"

/* The tick that goes on; or a tick that is over, if the last pass was cut short. */
static uint64_t this_tick(const struct hwt_worker *worker)
{
    const struct hwt_wheel *wheel = &worker->wheel;
    return hwt_ticks_ending(&wheel->ticks, wheel->tick + wheel->lags);
}

/* Finds the next tick with work. False: it is not known, because many hints that are not wanted
 * come before it; it is not before *ret_next. */
static bool find_next(struct hwt_worker *worker, uint64_t *ret_next)
{
    struct hwt_wheel *wheel = &worker->wheel;
    uint64_t soon = this_tick(worker);
    bool known = hwt_wheel_find(wheel, UINT64_MAX, HWT_LOOKS, ret_next);
    if (hwt_worker_read_single(worker, hwt_ticks_end(&wheel->ticks, *ret_next)))
        known = hwt_wheel_find(wheel, UINT64_MAX, HWT_LOOKS, ret_next);
    /* After a tick the worker looks again at what it could not read or file. */
    bool again = worker->unclaimed > 0 || hwt_worker_needs_rescan(worker);
    if (again && soon < *ret_next)
        *ret_next = soon;
    return known;
}

uint64_t hwt_worker_next(struct hwt_worker *worker)
{
    uint64_t next;
    hwt_worker_read(worker);
    bool known = find_next(worker, &next);
    hwt_worker_publish_bytes(worker);
    return known ? hwt_ticks_end(&worker->wheel.ticks, next) : 0;
}

/* Steps A to C of gate.h: closes the gate for the tick `next`, and reads the streams once more.
 * Returns the tick until which the worker may sleep then. */
static uint64_t close_for(struct hwt_worker *worker, uint64_t next)
{
    struct hwt_shared *shared = worker->shared;
    hwt_gate_close(&shared->gate, hwt_ticks_instant(&worker->wheel.ticks, next));
    struct hwt_stream *pending = hwt_streams_dismiss(&shared->lanes.pending);
    struct hwt_stream *cancelled = hwt_streams_dismiss(&shared->lanes.cancelled);
    hwt_gate_barrier(&shared->gate);
    HWT_SCHED_POINT(PARK_C);
    hwt_worker_read_dismissed(worker, pending, false);
    hwt_worker_read_dismissed(worker, cancelled, true);
    hwt_worker_read(worker);
    if (worker->unclaimed == 0 && !hwt_worker_needs_rescan(worker))
        worker->parked_for = next;
    uint64_t after;
    (void)find_next(worker, &after);
    return after < next ? after : next; /* no longer than the gate says */
}

/* The tick `next`; or a sooner one, from `soon` on, in which there is more memory to give back. */
static uint64_t before_upkeep(const struct hwt_worker *worker, uint64_t soon, uint64_t next)
{
    uint64_t trim_at = hwt_pool_trim_at(&worker->shared->pool);
    uint64_t at = trim_at < worker->upkeep_at ? trim_at : worker->upkeep_at;
    uint64_t tick = hwt_ticks_at(&worker->wheel.ticks, at);
    if (at == HWT_NEVER || tick >= next)
        return next;
    return tick > soon ? tick : soon < next ? soon : next;
}

uint64_t hwt_worker_park(struct hwt_worker *worker)
{
    struct hwt_shared *shared = worker->shared;
    const struct hwt_ticks *ticks = &worker->wheel.ticks;
    HWT_SCHED_POINT(PARK);
    worker->parked_for = 0;
    hwt_gate_begin(&shared->gate);
    hwt_worker_read(worker);
    HWT_SCHED_POINT(PARK_READ);
    uint64_t next, soon = this_tick(worker);
    bool known = find_next(worker, &next);
    if (next > soon && (!known || worker->upkeep_at == 0))
        return 0;
    next = before_upkeep(worker, soon, next);
    /* After one cancel more will come: sleep for a tick, rather than be woken by each. */
    if (worker->told != worker->told_before && soon < next)
        next = soon;
    if (next > soon) {
        next = close_for(worker, next);
        next = before_upkeep(worker, soon, next); /* threads may have given entries back */
    }
    worker->told_before = worker->told;
    hwt_worker_publish_bytes(worker);
    HWT_SCHED_POINT(PARK_CHECK);
    /* Stop sets its bit and then wakes the worker. */
    if (hwt_worker_is_stopping(worker))
        return 0;
    uint64_t until = hwt_ticks_end(ticks, next);
    HWT_PROBE2(park, shared, until);
    return until;
}
