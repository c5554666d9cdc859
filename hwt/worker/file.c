/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Filing in the wheel, by places and generations; and sweeps. See worker.h. */

#include "hwt/worker/worker.h"

#define SWEEP_RATIO 4 /* looks for each hint that was filed: a third of the hints can go at least */
#define SWEEP_PARTS                                                                                \
    8 /* parts of the looks: each shows whether the next ones must look at entries, too */

void hwt_worker_need_rescan(struct hwt_worker *worker, struct hwt_place *place)
{
    place->where = 0;
    /* An exchange, so that the flag still carries the release of a producer. */
    atomic_exchange_explicit(&worker->shared->rescan_needed, true, memory_order_relaxed);
}

void hwt_worker_file_again(struct hwt_worker *worker, struct hwt_place *place,
                           const struct hwt_record *record, uint32_t counted)
{
    struct hwt_wheel *wheel = &worker->wheel;
    if (counted != place->generation)
        return;
    const struct hwt_entry *entry = hwt_pool_entry(&worker->shared->pool, record->id);
    /* The deadline is read first: an earlier one that comes later has a record of its own. */
    uint64_t tick = hwt_ticks_at(&wheel->ticks, hwt_entry_deadline(entry));
    if (!hwt_hint_is_true(hwt_entry_state(entry), record->generation))
        return;
    tick = tick < worker->file_from ? worker->file_from : tick;
    tick = tick < wheel->tick ? wheel->tick : tick;
    if (place->where != 0 && !hwt_wheel_is_after(wheel, place, tick))
        return;
    if (hwt_wheel_file_at(wheel, place, record->id, record->generation, tick) < 0)
        hwt_worker_need_rescan(worker, place);
}

void hwt_worker_outdate(struct hwt_worker *worker, uint32_t id, uint32_t generation)
{
    const struct hwt_sites *sites = hwt_directory_sites(worker->wheel.directory);
    struct hwt_place *place = hwt_worker_place(sites, id, &generation);
    if ((int32_t)(generation - place->generation) > 0)
        *place = (struct hwt_place){ generation, 0 };
}

/* ---- sweeps ---- */

/* A newer timeout in the same entry has a record of its own. */
uint32_t hwt_worker_wanted(const void *worker, struct hwt_hint *hints, uint32_t n)
{
    const struct hwt_pool *pool = &((const struct hwt_worker *)worker)->shared->pool;
    uint32_t kept = 0;
    for (const struct hwt_hint *hint = hints; hint < hints + n; hint++) {
        if (hwt_hint_is_true(hwt_entry_state(hwt_pool_entry(pool, hint->id)), hint->generation))
            hints[kept++] = *hint;
    }
    return kept;
}

/* About how many timeouts are pending and filed. Half of the records in the streams are taken to be
 * of pending timeouts, which are not filed yet. With one thread records wait on purpose, so these
 * timeouts count. */
static uint64_t count_filed(const struct hwt_shared *shared)
{
    const struct hwt_run_stats *stats = &shared->stats;
    uint64_t begun = atomic_load_explicit(&stats->rearmed, memory_order_relaxed), ended = 0;
    uint32_t lanes = hwt_lanes_count(&shared->lanes);
    for (unsigned i = 0; i < 64; i++)
        ended += atomic_load_explicit(&stats->lateness[i], memory_order_relaxed);
    for (uint32_t i = 0; i < lanes; i++) {
        const struct hwt_lane *lane = hwt_lane_at(&shared->lanes, i);
        if (!lane)
            continue;
        ended += atomic_load_explicit(&lane->cancelled_count, memory_order_relaxed);
        begun += atomic_load_explicit(&lane->added, memory_order_relaxed);
        /* One chunk may be open, and read as far as it goes. */
        uint32_t chunks = shared->one_thread ? 0 : hwt_stream_backlog(&lane->pending);
        ended += chunks > 1 ? (uint64_t)(chunks - 1) * HWT_CHUNK_RECORDS / 2 : 0;
    }
    return begun > ended ? begun - ended : 0;
}

/* How many hints there may be for so many timeouts that are filed. A third of the hints may not
 * count, so a sweep finds them soon; a fifth, if there are very many. */
static uint64_t most_for(uint64_t filed)
{
    uint64_t half = filed / 2 < HWT_VAIN_MAX ? filed / 2 : HWT_VAIN_MAX, quarter = filed / 4;
    return filed + (half > quarter ? half : quarter) + HWT_HEAP_MAX;
}

/* A hint does not count any more when its entry was used again, and that is seen without a look at
 * the entry. So a sweep looks at entries only if this does not suffice. */
bool hwt_worker_sweep(struct hwt_worker *worker, uint64_t filed, bool asks)
{
    struct hwt_wheel *wheel = &worker->wheel;
    uint64_t most = most_for(count_filed(worker->shared));
    if (wheel->hints > most) {
        uint64_t looks = filed < wheel->hints / SWEEP_RATIO ? filed * SWEEP_RATIO : wheel->hints;
        uint64_t part = looks / SWEEP_PARTS + 1, enough = most - most / 8, thrown = 0;
        asks = asks || worker->sweep_asks;
        for (unsigned i = 0; i < SWEEP_PARTS && wheel->hints > enough; i++) {
            uint64_t gone = hwt_wheel_sweep(wheel, part, enough, asks);
            asks = asks || gone < part / SWEEP_RATIO;
            thrown += gone;
        }
        worker->sweep_asks = wheel->hints > enough && thrown < looks / SWEEP_RATIO;
    }
    bool too_many = wheel->hints > most;
    worker->sweep_at = too_many ? wheel->hints + HWT_SWEEP_EVERY : most;
    return too_many;
}
