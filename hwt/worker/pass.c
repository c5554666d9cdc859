/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A pass of the worker: run what it has slept for, read the streams, run what is due, give memory
 * back.
 *
 * The worker handles the ticks that are over when all that may be for them is filed. So what was
 * added before the pass runs in the order of its ticks, however much it is.
 */

#include "hwt/base/probes.h"
#include "hwt/pool/trim.h"
#include "hwt/worker/task.h"
#include "hwt/worker/worker.h"

#define IN_VAIN_MAX (1 << 17) /* hints that a pass may look at in vain: under a millisecond */
#define KEEP_UP_EVERY 256     /* timeouts that are taken, or a quarter of a tick */
#define ARGS_AHEAD 4          /* the arg of the fourth timeout ahead comes from memory meanwhile */

int hwt_worker_init(struct hwt_worker *worker, struct hwt_shared *shared, uint32_t ticks_per_wheel)
{
    worker->shared = shared;
    int r = hwt_wheel_init(&worker->wheel, &shared->pool.directory, shared->ticks, ticks_per_wheel);
    if (r < 0)
        return r;
    worker->wheel.pieces = &shared->pool.pieces;
    worker->wheel.wanted = hwt_worker_wanted;
    worker->wheel.owner = worker;
    worker->upkeep_at = HWT_NEVER;
    hwt_worker_publish_bytes(worker);
    return 0;
}

void hwt_worker_publish_bytes(struct hwt_worker *worker)
{
    atomic_store_explicit(&worker->shared->stats.wheel_bytes, worker->wheel.bytes,
                          memory_order_relaxed);
}

/* ---- running ---- */

/* Runs a timeout that is due, or hands it over. False: it was not PENDING with this state and
 * deadline, or it is later than `latest`. This function and look() are most of what a timeout costs
 * here, so they are inlined. */
__attribute__((always_inline)) static inline bool run(struct hwt_worker *worker,
                                                      struct hwt_entry *entry, uint64_t state,
                                                      uint64_t deadline, uint64_t latest)
{
    struct hwt_shared *shared = worker->shared;
    HWT_ASSERT(deadline <= atomic_load_explicit(&shared->time.last_pass, memory_order_relaxed));
    if (shared->executor) {
        if (hwt_time_reached_about(&shared->time) > latest ||
            !hwt_entry_hand_over(entry, state, deadline))
            return false;
        hwt_task_submit(shared, entry);
        return true;
    }
    enum hwt_run run = hwt_task_run(shared, entry, state, &deadline, latest);
    if (run == HWT_RUN_AGAIN)
        hwt_task_publish_again(shared, entry, state, deadline);
    return run != HWT_RUN_NOT;
}

static inline void count_in_vain(struct hwt_worker *worker)
{
    worker->wheel.looks -= worker->wheel.looks > 0;
}

/* Looks at an entry whose hint was taken. It is due if its deadline is before `horizon`. If it is
 * time to tell what was cancelled, that comes first; a `cancelled` may do anything to this timeout,
 * so it is looked at once more. */
__attribute__((always_inline)) static inline void look(struct hwt_worker *worker,
                                                       struct hwt_entry *entry, uint64_t horizon)
{
    struct hwt_place *place = hwt_entry_place(entry);
    for (uint64_t latest = worker->keep_up_at;; latest = HWT_NEVER) {
        uint64_t state = hwt_entry_state(entry);
        uint64_t deadline = hwt_entry_deadline(entry);
        HWT_SCHED_POINT(LOOK);
        if (place->where != 0 || !hwt_hint_is_true(state, hwt_entry_filed(entry, place))) {
            count_in_vain(worker);
            return;
        }
        if (deadline >= horizon) {
            count_in_vain(worker);
            uint64_t tick = hwt_ticks_at(&worker->wheel.ticks, deadline);
            if (hwt_wheel_file_at(&worker->wheel, place, hwt_entry_id(entry),
                                  (uint32_t)hwt_generation(state), tick) < 0)
                hwt_worker_need_rescan(worker, place);
            return;
        }
        if (run(worker, entry, state, deadline, latest)) {
            worker->runs++;
            return;
        }
        hwt_worker_keep_up(worker);
        if (hwt_worker_is_stopping(worker))
            return;
    }
}

struct taken {
    struct hwt_entry *entries[HWT_TAKE_MAX];
    bool far; /* they are not due, but their ticks are near now */
};

/* Takes the hints that are due next. Their entries come from memory meanwhile, and so does the
 * first entry after these. All are of ticks before `limit`. */
static size_t take(struct hwt_worker *worker, uint64_t limit, struct taken *taken)
{
    const struct hwt_pool *pool = &worker->shared->pool;
    const struct hwt_sites *sites = hwt_directory_sites(&pool->directory);
    uint64_t left = worker->most - worker->runs;
    uint32_t ids[HWT_TAKE_MAX];
    size_t n = hwt_wheel_take(&worker->wheel, limit, ids,
                              left < HWT_TAKE_MAX ? (size_t)left : HWT_TAKE_MAX, &taken->far);
    for (size_t i = 0; i < n; i++) {
        taken->entries[i] = hwt_site_entry(hwt_sites_at(sites, ids[i] >> HWT_ID_BITS), ids[i]);
        __builtin_prefetch(taken->entries[i], 1);
    }
    uint32_t next = hwt_wheel_peek(&worker->wheel, limit);
    if (next != HWT_ID_NONE) {
        const struct hwt_entry *entry = hwt_pool_entry(pool, next);
        __builtin_prefetch(entry, 1);
        __builtin_prefetch(hwt_entry_place(entry), 1);
    }
    return n;
}

static bool is_cut_short(const struct hwt_worker *worker)
{
    return worker->runs >= worker->most || worker->wheel.looks == 0;
}

/* Takes some timeouts of ticks before `limit`, and runs those that are due. False: nothing is due,
 * or the pass is cut short, or the worker must stop. */
static bool expire_some(struct hwt_worker *worker, uint64_t limit)
{
    struct taken taken;
    size_t n;
    if (hwt_worker_is_stopping(worker) || is_cut_short(worker) ||
        (n = take(worker, limit, &taken)) == 0)
        return false;
    /* A timeout is due if its deadline is in this tick. If it was moved to a later tick, it takes
     * its turn there, though that may be over, too. Hints that have only come nearer are filed
     * again. */
    uint64_t horizon = taken.far ? 0 : hwt_ticks_end(&worker->wheel.ticks, worker->wheel.tick);
    for (size_t i = 0; i < n && !hwt_worker_is_stopping(worker); i++) {
        if (i + ARGS_AHEAD < n)
            __builtin_prefetch(hwt_entry_arg(taken.entries[i + ARGS_AHEAD]));
        look(worker, taken.entries[i], horizon);
    }
    worker->since_kept_up += n;
    if (worker->since_kept_up >= KEEP_UP_EVERY)
        hwt_worker_keep_up(worker);
    return true;
}

/* If a stream could not be read, or a timeout could not be filed, there may be more for the last tick
 * that is over. So that tick stays open, unless it was handled. */
static void set_lags(struct hwt_worker *worker, bool more_may_come)
{
    worker->wheel.lags = more_may_come && worker->wheel.tick < worker->limit;
}

/* The worker's own thread runs what it has slept for before it reads the records that were added
 * meanwhile, because these may be many. None of them is for an earlier tick, and in the same tick
 * they come behind. */
static void expire_first(struct hwt_worker *worker)
{
    const uint64_t parked_for = worker->parked_for;
    const uint64_t limit = parked_for < worker->limit ? parked_for + 1 : worker->limit;
    uint64_t next;
    worker->parked_for = 0;
    if (parked_for == 0)
        return;
    /* A take that finds nothing would end the tick, so it looks first. */
    while (hwt_wheel_find(&worker->wheel, limit, HWT_LOOKS, &next) && next < limit &&
           expire_some(worker, limit))
        ;
}

/* A pass that may start all that is due goes on, however many hints it has looked at in vain. */
static bool goes_on_in_vain(struct hwt_worker *worker)
{
    if (worker->wheel.looks > 0 || worker->most < UINT64_MAX || hwt_worker_is_stopping(worker))
        return false;
    worker->wheel.looks = IN_VAIN_MAX;
    hwt_worker_keep_up(worker);
    return true;
}

/* Runs what is due before `until` in the tick that has only begun. Others are not filed again. */
static void expire_begun(struct hwt_worker *worker, uint64_t until)
{
    struct taken taken;
    size_t n;
    worker->wheel.looks = UINT64_MAX;
    while (!hwt_worker_is_stopping(worker) && (n = take(worker, worker->limit + 1, &taken)) > 0) {
        for (size_t i = 0; i < n && !hwt_worker_is_stopping(worker); i++) {
            if (taken.far || hwt_entry_deadline(taken.entries[i]) < until)
                look(worker, taken.entries[i], taken.far ? 0 : until);
        }
    }
}

/* Runs what is due and could not be filed, without regard to its tick, until the pass has `most`
 * runs. It goes by all entries, from where the last walk was cut short, so none waits for ever. */
static void expire_unfiled(struct hwt_worker *worker, uint64_t horizon, uint64_t most)
{
    struct hwt_shared *shared = worker->shared;
    if (!hwt_worker_needs_rescan(worker))
        return;
    bool all = worker->walk_number == 0 && worker->walk_seat == 0;
    while (!hwt_worker_is_stopping(worker) && worker->runs < most) {
        struct hwt_entry *entry =
            hwt_pool_walk(&shared->pool, &worker->walk_number, &worker->walk_seat);
        if (entry) {
            if (hwt_phase(hwt_entry_state(entry)) == HWT_PHASE_PENDING &&
                hwt_entry_deadline(entry) < horizon)
                look(worker, entry, horizon);
            continue;
        }
        worker->walk_number = worker->walk_seat = 0;
        if (all)
            return;
        all = true;
    }
}

/* Gives the free entries of this thread's lane to the pool. */
static void flush_own(const struct hwt_worker *worker)
{
    struct hwt_lane *lane = hwt_shared_enter(worker->shared);
    hwt_pool_flush_last(&worker->shared->pool, &lane->cache);
    hwt_lane_leave(&worker->shared->lanes, lane);
}

/* Gives memory back after a peak, a slice in each pass, so that nothing waits for long: first hints
 * that have heaped up, then chunks, and then slabs. */
static void keep_house(struct hwt_worker *worker)
{
    struct hwt_pool *pool = &worker->shared->pool;
    const struct hwt_wheel *wheel = &worker->wheel;
    const uint64_t now =
        atomic_load_explicit(&worker->shared->time.last_pass, memory_order_relaxed);
    const uint64_t hints = wheel->hints;
    if (hints > HWT_HEAP_MAX && hwt_worker_sweep(worker, HWT_SWEEP_SLICE, true)) {
        /* If no hint could go, it looks at the next ones in a tick. */
        worker->upkeep_at = wheel->hints < hints ? 0 : now;
        return;
    }
    if (hwt_pieces_collect(&pool->pieces)) {
        worker->upkeep_at = 0;
        return;
    }
    worker->upkeep_at = hwt_pool_trim_at(pool);
    if (worker->upkeep_at == HWT_NEVER || worker->upkeep_at > now)
        return;
    if (worker->upkeep_at > 0)
        flush_own(worker); /* a trim begins */
    if (hwt_pool_trim(pool, now))
        hwt_lanes_ask_back(&worker->shared->lanes);
    worker->upkeep_at = hwt_pool_trim_at(pool);
}

uint64_t hwt_worker_pass(struct hwt_worker *worker, uint64_t now, uint64_t most)
{
    struct hwt_time *time = &worker->shared->time;
    uint64_t last = atomic_load_explicit(&time->last_pass, memory_order_relaxed);
    if (now < last)
        now = last;
    atomic_store_explicit(&time->last_pass, now, memory_order_relaxed);
    worker->limit = hwt_ticks_at(&worker->wheel.ticks, now);
    worker->runs = 0;
    worker->most = most;
    worker->wheel.looks = IN_VAIN_MAX;
    worker->told_before = worker->told;
    hwt_worker_has_kept_up(worker, now);
    expire_first(worker);
    hwt_worker_read(worker);
    uint64_t horizon = hwt_ticks_instant(&worker->wheel.ticks, worker->limit);
    expire_unfiled(worker, horizon, most - most / 2); /* the rest is for what is filed */
    do
        set_lags(worker, worker->unclaimed > 0 || hwt_worker_needs_rescan(worker));
    while (expire_some(worker, worker->limit) || goes_on_in_vain(worker));
    expire_unfiled(worker, horizon, most); /* tasks may have moved some within these ticks */
    if (!is_cut_short(worker)) {           /* then what could not be filed has run */
        set_lags(worker, worker->unclaimed > 0);
        (void)expire_some(worker, worker->limit);
    }
    /* After a pass that was cut short, the next one does the rest. A hint that is filed until then
     * for a tick that is over comes behind the timeouts that the tasks of this pass have added. */
    worker->file_from = is_cut_short(worker) ? hwt_worker_tick_after_pass(worker) : 0;
    if (worker->shared->one_thread)
        hwt_worker_read_own(worker);
    keep_house(worker);
    hwt_worker_publish_bytes(worker);
    HWT_ASSERT(worker->runs <= most && worker->untold_count == 0);
    return worker->runs;
}

bool hwt_worker_finish(struct hwt_worker *worker, uint64_t now, uint64_t until)
{
    (void)hwt_worker_pass(worker, now, UINT64_MAX);
    if (worker->unclaimed > 0)
        return false;
    if (hwt_ticks_instant(&worker->wheel.ticks, worker->limit) < until) {
        (void)hwt_worker_read_single(worker, until);
        expire_begun(worker, until);
        expire_unfiled(worker, until, UINT64_MAX);
    }
    return true;
}
