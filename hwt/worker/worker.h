/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_WORKER_H
#define HWT_WORKER_H

/*
 * The worker: the one thread that owns the wheel. It is the timer's own thread, or the thread that
 * calls hwt_timer_advance() and its like. Only it touches the fields here.
 *
 * A hint in the wheel, as a record, only says "look at this timeout". When its tick comes, the
 * worker looks at the entry, and the entry alone says what is to be done. This must always hold
 * ("lost" would be its opposite):
 *
 *     for each PENDING timeout there is a hint that counts, no later than its deadline's tick,
 *     or an unread record no later than its deadline, or a thread that is about to append one,
 *     or it is in the worker's or the executor's hands, or `rescan_needed` is set.
 *
 * With one thread an unread record for any instant will do, if the lane's `soonest` is no later
 * than the deadline, because it is filed for the deadline that the entry has when it is read. So a
 * timeout that is filed nowhere and is in nobody's hands has an unread record, and is moved without
 * another one. (The last pass of a timer is an exception, see hwt_worker_finish().)
 *
 * A place has the generation that was filed last. The worker believes the record of the newer
 * generation. If two records are of one generation, it goes by the entry alone. So when the worker
 * has read the first record of a timeout, no hint of an older timeout in that entry counts any
 * more, in whatever order the streams are read.
 *
 * A cancel does not tell the worker: the hint stays until the worker comes to it. If the worker has
 * many more hints than timeouts are pending, it sweeps: it throws away hints that do not count or
 * are not wanted, a part at a time, as fast as they come.
 *
 * GENERATIONS IN RECORDS have 32 bits, are counted from the floor of their slab, and are compared
 * by their difference. No difference may come near 2^31. So an entry is renewed after each 2^28
 * timeouts: it goes through the worker, which writes the generation to the place, before it is used
 * again.
 */

#include "hwt/worker/shared.h"

#define HWT_TAKE_MAX 64      /* hints that are taken from the wheel at a time */
#define HWT_HEAP_MAX 8192    /* hints, besides one and a half for each timeout that is pending, */
#define HWT_VAIN_MAX 65536   /* but no more in vain than these, or a quarter of what is pending */
#define HWT_SWEEP_EVERY 256  /* hints that come between two sweeps, while there are too many */
#define HWT_SWEEP_SLICE 4096 /* a pass sweeps as for so many that were filed: half a millisecond */
#define HWT_LOOKS 4096       /* hints that are looked at to find the next tick with work */
#define HWT_READ_NS 16       /* about how long it takes to read and file a record */
#define HWT_RENEWAL ((uint64_t)1 << 28)

struct hwt_worker {
    struct hwt_shared *shared;
    struct hwt_wheel wheel;
    uint64_t limit;      /* ticks before it are over at the instant of the pass */
    uint64_t file_from;  /* after a pass that was cut short: no hint is filed for an earlier tick */
    uint64_t runs;       /* tasks that this pass has started or handed over */
    uint64_t most;       /* tasks that this pass may start */
    uint64_t parked_for; /* the tick: no unread record is for an earlier one; 0: not known */
    uint64_t told;       /* cancels that were told, ever */
    uint64_t told_before;  /* of these, before the last pass began or the last sleep */
    uint64_t drain_epoch;  /* the number of the drain that goes on; see drain.c */
    uint64_t drain_epochs; /* how many drains there were */
    uint32_t unclaimed;    /* claims that failed in the last drain: the next goes by all lanes */
    uint64_t keep_up_at;   /* a task that runs then or later has hwt_worker_keep_up() before it */
    size_t since_kept_up;  /* so many timeouts were taken since that was called */
    uint64_t upkeep_at;    /* the instant at which there is more to give back; 0: at once */
    uint64_t sweep_at;     /* a drain sweeps when the wheel has so many hints */
    bool sweep_asks;       /* the next sweep begins with looks at entries */
    uint32_t walk_number;  /* the next walk for what could not be filed begins at this entry */
    uint32_t walk_seat;
    uint32_t untold_count;
    hwt_timeout untold[HWT_CHUNK_RECORDS]; /* from the records that are being read */
};

/* The first tick that the last pass, or the one that goes on, does not handle. */
static inline uint64_t hwt_worker_tick_after_pass(const struct hwt_worker *worker)
{
    return hwt_ticks_ending(&worker->wheel.ticks, worker->limit);
}

/* Whether stop has begun, or a task has forked and this is the child. Relaxed: a pass may see it
 * late. A worker that goes to sleep looks again, after a barrier, see hwt_worker_park(). */
static inline bool hwt_worker_is_stopping(const struct hwt_worker *worker)
{
    return atomic_load_explicit(&worker->shared->slow_path_bits, memory_order_relaxed) &
           (HWT_HALTED_STOPPING | HWT_HALTED_FORKED);
}

/* Whether there was no memory to file something. Relaxed: a producer that sets it later wakes the
 * worker, see hwt_shared_need_rescan(). */
static inline bool hwt_worker_needs_rescan(const struct hwt_worker *worker)
{
    return atomic_load_explicit(&worker->shared->rescan_needed, memory_order_relaxed);
}

int hwt_worker_init(struct hwt_worker *worker, struct hwt_shared *shared, uint32_t ticks_per_wheel);

/* One pass at `now`: reads the streams, and runs what is due, but no more than `most` tasks.
 * Returns how many it started. */
uint64_t hwt_worker_pass(struct hwt_worker *worker, uint64_t now, uint64_t most);

/* The last pass of a timer, at `now`. It also runs what is due before `until` in the tick that has
 * only begun. Other pending timeouts may be filed nowhere then. False: a stream could not be read,
 * so the caller must call it again. */
bool hwt_worker_finish(struct hwt_worker *worker, uint64_t now, uint64_t until);

/* ---- drain.c ---- */

/* Reads the streams. No task runs, only `cancelled`. */
void hwt_worker_read(struct hwt_worker *worker);

/* With one thread: reads the cancelled stream. */
void hwt_worker_read_own(struct hwt_worker *worker);

/* With one thread: reads the pending stream, if a record may be for an instant before `until`, or
 * if there are many. Returns whether it did. */
bool hwt_worker_read_single(struct hwt_worker *worker, uint64_t until);

/* Reads streams that have left the list, chained by next_listed. */
void hwt_worker_read_dismissed(struct hwt_worker *worker, struct hwt_stream *dismissed,
                               bool cancelled);

/* Between two tasks: tells what was cancelled. */
void hwt_worker_keep_up(struct hwt_worker *worker);

/* At `now` nothing is to be told. It is done again so soon that nothing is told a tick late. */
static inline void hwt_worker_has_kept_up(struct hwt_worker *worker, uint64_t now)
{
    worker->since_kept_up = 0;
    worker->keep_up_at = hwt_saturating_add(now, worker->wheel.ticks.duration / 4);
}

/* ---- file.c ---- */

/* The place of an id. *generation becomes what places have: counted from the floor of the slab. */
static inline struct hwt_place *hwt_worker_place(const struct hwt_sites *sites, uint32_t id,
                                                 uint32_t *generation)
{
    const struct hwt_site *site = hwt_sites_at(sites, id >> HWT_ID_BITS);
    *generation -= (uint32_t)site->floor;
    return hwt_site_place(sites, site, id);
}

/* The part of hwt_worker_file_at() for a generation that is not newer than the place's: files the
 * entry for the deadline that it has, if the place is later. */
void hwt_worker_file_again(struct hwt_worker *worker, struct hwt_place *place,
                           const struct hwt_record *record, uint32_t counted);

/* The wheel had no memory for a hint: all entries are looked at after the next drain. */
void hwt_worker_need_rescan(struct hwt_worker *worker, struct hwt_place *place);

/* Files for `tick`, for `file_from` or for the wheel's own tick, whichever is latest. `counted` is
 * the record's generation as places have it. */
static inline void hwt_worker_file_at(struct hwt_worker *worker, struct hwt_place *place,
                                      const struct hwt_record *record, uint32_t counted,
                                      uint64_t tick)
{
    /* The generations are so near that their difference says which is newer. */
    HWT_ASSERT(counted - place->generation + 2 * (uint32_t)HWT_RENEWAL <=
               4 * (uint32_t)HWT_RENEWAL);
    if (__builtin_expect((int32_t)(counted - place->generation) <= 0, 0)) {
        hwt_worker_file_again(worker, place, record, counted);
        return;
    }
    place->generation = counted;
    if (tick < worker->file_from)
        tick = worker->file_from;
    if (__builtin_expect(
            hwt_wheel_file_at(&worker->wheel, place, record->id, record->generation, tick) < 0, 0))
        hwt_worker_need_rescan(worker, place);
}

/* If there are too many hints, throws some away, for the `filed` ones that have come since. It
 * throws away hints that do not count and, if it `asks` or that was not enough, those that are not
 * wanted. Returns whether there are still too many. */
bool hwt_worker_sweep(struct hwt_worker *worker, uint64_t filed, bool asks);

/* With one thread: whether a pending timeout is filed. */
static inline bool hwt_worker_is_filed(hwt_timeout timeout)
{
    const struct hwt_place *place = hwt_entry_place(timeout.entry);
    return place->where != 0 &&
           hwt_entry_filed(timeout.entry, place) == (uint32_t)timeout.generation;
}

/* This timeout has ended: no record or hint of it, or of an older one, counts any more. */
void hwt_worker_outdate(struct hwt_worker *worker, uint32_t id, uint32_t generation);

/* The wheel's `wanted`: moves the hints of pending timeouts to the front. */
uint32_t hwt_worker_wanted(const void *worker, struct hwt_hint *hints, uint32_t n);

/* ---- park.c ---- */

/* The instant at which the next tick with work can be handled. HWT_NEVER: there is none. 0: it is
 * not known yet, so ask again. */
uint64_t hwt_worker_next(struct hwt_worker *worker);

/* Before a sleep. Closes the gate, if that will be long. Returns the instant until which there is
 * nothing to do. 0: there is something now, so make another pass. */
uint64_t hwt_worker_park(struct hwt_worker *worker);

/* Tells the counters what memory the wheel holds. */
void hwt_worker_publish_bytes(struct hwt_worker *worker);

#endif
