/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the wheel has of a timeout: places, and the generations they are for. See worker.h. */

#include "hwt/core/worker.h"

uint32_t hwt_worker_since_floor(const struct hwt_worker *worker, uint32_t id, uint32_t generation)
{
    const struct hwt_slot *slot =
        hwt_directory_slot(&worker->shared->pool.directory, id >> HWT_ID_BITS);
    return generation - (uint32_t)slot->floor;
}

void hwt_worker_leave(struct hwt_worker *worker, uint32_t id)
{
    if (hwt_directory_place(worker->wheel.directory, id)->bucket != 0)
        hwt_wheel_drop(&worker->wheel, id);
}

/* Of one that was taken from its bucket, or cancelled, since: whether it is to be filed again, and
 * then for which tick. Should it be moved to earlier from here on, there is a record of that. */
static bool is_pending(const struct hwt_worker *worker, uint32_t id, uint32_t generation,
                       uint64_t *ret_tick)
{
    const struct hwt_pool *pool = &worker->shared->pool;
    const struct hwt_record record = { 0, id, generation };
    if (!hwt_pending_stays(pool, &record))
        return false;
    *ret_tick = hwt_ticks_at(&worker->wheel.ticks, hwt_entry_deadline(hwt_pool_entry(pool, id)));
    return true;
}

/* For a tick, or the one at which the hand is. */
void hwt_worker_file_for(struct hwt_worker *worker, uint32_t id, uint32_t generation, uint64_t tick,
                         uint64_t floor)
{
    struct hwt_wheel *wheel = &worker->wheel;
    struct hwt_place *place = hwt_directory_place(wheel->directory, id);
    uint32_t its = hwt_worker_since_floor(worker, id, generation);
    int32_t newer = (int32_t)(its - place->generation);
    if (newer < 0)
        return;
    if (newer == 0 && (place->bucket != 0 ? !hwt_wheel_is_after(wheel, id, tick)
                                          : !is_pending(worker, id, generation, &tick)))
        return;
    tick = tick < floor ? floor : tick;
    hwt_worker_leave(worker, id);
    place->generation = its;
    if (hwt_wheel_file(wheel, id, tick) < 0)
        atomic_store_explicit(&worker->shared->overlooked, true, memory_order_relaxed);
}

void hwt_worker_file(struct hwt_worker *worker, uint32_t id, uint64_t generation, uint64_t deadline)
{
    struct hwt_shared *shared = worker->shared;
    struct hwt_stream *own = &shared->lanes.shared->pending;
    if (!worker->expires)
        hwt_worker_file_for(worker, id, (uint32_t)generation,
                            hwt_ticks_at(&worker->wheel.ticks, deadline), worker->floor);
    /* A task's: for the next pass, though the hand may be at a tick of long ago. */
    else if (!hwt_lane_note(&shared->lanes, own,
                            (struct hwt_record){ deadline, id, (uint32_t)generation },
                            hwt_pending_stays))
        atomic_store_explicit(&shared->overlooked, true, memory_order_relaxed);
}

void hwt_worker_forget(struct hwt_worker *worker, uint32_t id, uint64_t generation)
{
    struct hwt_place *place = hwt_directory_place(worker->wheel.directory, id);
    uint32_t its = hwt_worker_since_floor(worker, id, (uint32_t)generation);
    if ((int32_t)(its - place->generation) >= 0) {
        hwt_worker_leave(worker, id);
        place->generation = its;
    }
}
