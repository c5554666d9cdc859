/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_WORKER_H
#define HWT_WORKER_H

/*
 * The worker: the one thread that owns the wheel, be it the timer's own or the one that calls
 * hwt_timer_advance() and its like. Only it touches what is in here.
 *
 * What is filed is a hint, as records are: when its tick comes the worker looks at the entry, and
 * only that says what is to be done. This must always hold (it is what "lost" would mean):
 *
 *     for each PENDING timeout there is a hint that counts, no later than its deadline's tick,
 *     or an unread record no later than its deadline, or a thread that is about to append one,
 *     or it is in the worker's or the executor's hands, or `rescan_needed` is set.
 *
 * With one thread an unread record of any instant does, if the lane's `soonest` is no later than the
 * deadline: it is filed for the deadline that the entry has when it is read. So what is filed nowhere
 * and is in nobody's hands has an unread record, and is moved without another one. (But in a
 * timer's last pass, see hwt_worker_finish().)
 *
 * A place knows the generation that was filed last. Of two records the worker believes the one of
 * the newer generation, and of one generation only what the entry says. So a hint of an older
 * timeout in the same entry does not count from when the first record of the newer one is read, in
 * whatever order the streams are.
 *
 * A cancel says nothing to the worker: its hint stays until the worker comes to it. Where the
 * worker has many more hints than timeouts are pending, it goes through them and throws away what
 * does not count or is not wanted: as fast as they come, a part at a time.
 *
 * GENERATIONS IN RECORDS have 32 bits, and are compared by their difference, counted from the floor
 * of their slab. So that no difference comes near 2^31, an entry is renewed after each 2^28
 * timeouts: it passes through the worker, which notes the generation in the place, before it is
 * used again.
 */

#include "hwt/worker/shared.h"

#define HWT_TAKE_MAX 64      /* taken from the wheel at a time */
#define HWT_HEAP_MAX 8192    /* hints, besides one and a half for each timeout that is pending, */
#define HWT_VAIN_MAX 65536   /* but no more in vain than these, or a quarter of what is pending */
#define HWT_SWEEP_EVERY 256  /* hints, while there are too many */
#define HWT_SWEEP_SLICE 4096 /* as if so many had been filed: half a millisecond of a pass */
#define HWT_LOOKS 4096       /* at hints, for the next tick with work */
#define HWT_READ_NS 16       /* for a record: about what reading and filing it takes */
#define HWT_RENEWAL ((uint64_t)1 << 28)

struct hwt_worker {
    struct hwt_shared *shared;
    struct hwt_wheel wheel;
    uint64_t limit; /* ticks before it are over at `now` */
    uint64_t
        file_from; /* after a pass that was cut short: what is filed is for this tick or later */
    uint64_t runs; /* tasks started or handed over, in this pass */
    uint64_t most; /* runs that are wanted in this pass */
    uint64_t parked_for;   /* the tick: what is unread is for it or a later one; 0: not known */
    bool told;             /* of a cancel, in this pass */
    uint64_t drain_epoch;  /* the number of the one that goes on; see drain.c */
    uint64_t drain_epochs; /* how many there were */
    bool again; /* a stream could not be claimed: the next reading goes by all lanes, in a tick */
    size_t since_kept_up;
    uint64_t upkeep_at;   /* the instant at which there is more to give back; 0: at once */
    uint64_t sweep_at;    /* hints in the wheel */
    bool sweep_asks;      /* what does not count was not enough */
    uint32_t walk_number; /* the entry where the next walk for what could not be filed begins */
    uint32_t walk_seat;
    uint32_t untold_count;
    hwt_timeout untold[HWT_CHUNK_RECORDS]; /* of the records that are being read */
};

/* The tick for what is not of the last pass, or the one that goes on. */
static inline uint64_t hwt_worker_tick_after_pass(const struct hwt_worker *worker)
{
    return hwt_ticks_ending(&worker->wheel.ticks, worker->limit);
}

/* Or a task has forked, and this is the child. Relaxed: a pass may see it late; a worker that goes
 * to sleep looks again, after a barrier, see hwt_worker_park(). */
static inline bool hwt_worker_is_stopping(const struct hwt_worker *worker)
{
    return atomic_load_explicit(&worker->shared->slow_path_bits, memory_order_relaxed) &
           (HWT_HALTED_STOPPING | HWT_HALTED_FORKED);
}

int hwt_worker_init(struct hwt_worker *worker, struct hwt_shared *shared, uint32_t ticks_per_wheel);

/* One pass at `now`: reads the streams, runs what is due, but no more than `most`. Returns how many
 * tasks it started. */
uint64_t hwt_worker_pass(struct hwt_worker *worker, uint64_t now, uint64_t most);

/* The last pass of a timer, at `now`: it also runs what is due before `until` in the tick that has
 * only begun. Other pending timeouts may be filed nowhere then. False: a stream could not be read, and
 * it is to be done again. */
bool hwt_worker_finish(struct hwt_worker *worker, uint64_t now, uint64_t until);

/* ---- drain.c ---- */

/* Reads the streams: nothing runs but `cancelled`. */
void hwt_worker_read(struct hwt_worker *worker);

/* With one thread: what is to be told. */
void hwt_worker_read_own(struct hwt_worker *worker);

/* With one thread: files what was noted, if anything of it may be for an instant before `until`, or
 * if it is much. Whether it did. */
bool hwt_worker_read_single(struct hwt_worker *worker, uint64_t until);

/* Reads streams that have left the list, chained by next_listed. hwt_worker_read() must follow: it
 * reads the shared pending one whether it is listed or not. */
void hwt_worker_read_dismissed(struct hwt_worker *worker, struct hwt_stream *dismissed,
                               bool cancelled);

/* After `n` more timeouts of a pass: tells what was cancelled, if that heaps up. */
void hwt_worker_keep_up(struct hwt_worker *worker, size_t n);

/* ---- file.c ---- */

/* Where the worker keeps what it knows of an id; and the generation as places have it, counted from
 * the floor of their slab. */
static inline struct hwt_place *hwt_worker_place(const struct hwt_sites *sites, uint32_t id,
                                                 uint32_t *generation)
{
    const struct hwt_site *site = hwt_sites_at(sites, id >> HWT_ID_BITS);
    *generation -= (uint32_t)site->floor;
    return hwt_site_place(sites, site, id);
}

/* Whether two generations are so near that their difference, this one, says which of them is newer. */
static inline bool hwt_worker_is_near(uint32_t difference)
{
    return difference + 2 * (uint32_t)HWT_RENEWAL <= 4 * (uint32_t)HWT_RENEWAL;
}

/* What hwt_worker_file_at() does of a generation that is not newer than the place's: only what the
 * entry says holds. */
void hwt_worker_file_again(struct hwt_worker *worker, struct hwt_place *place,
                           const struct hwt_record *record, uint32_t counted);

/* The wheel had no memory: the entries are looked at another time. */
void hwt_worker_need_rescan(struct hwt_worker *worker, struct hwt_place *place);

/* Files for `tick`, for `file_from` or for the wheel's own tick, whichever is latest. `counted` is the record's
 * generation as places have it. */
static inline void hwt_worker_file_at(struct hwt_worker *worker, struct hwt_place *place,
                                      const struct hwt_record *record, uint32_t counted,
                                      uint64_t tick)
{
    HWT_ASSERT(hwt_worker_is_near(counted - place->generation));
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

/* When there are `sweep_at` hints, or in a pass: throws away some of what has heaped up, if it is
 * much, for the `filed` ones that have come since: what does not count, and, if it `asks` or that
 * was not enough, what is not wanted. Whether it is too much yet. */
bool hwt_worker_sweep(struct hwt_worker *worker, uint64_t filed, bool asks);

/* With one thread: whether a pending timeout is filed. */
static inline bool hwt_worker_is_filed(hwt_timeout timeout)
{
    const struct hwt_place *place = hwt_entry_place(timeout.entry);
    return place->where != 0 &&
           hwt_entry_filed(timeout.entry, place) == (uint32_t)timeout.generation;
}

/* What a record of this generation was written for has ended, and it need not be filed: what comes
 * later in the same entry is newer. */
void hwt_worker_outdate(struct hwt_worker *worker, uint32_t id, uint32_t generation);

/* Moves the hints of what is pending to the front; `worker` is that. For the wheel. */
uint32_t hwt_worker_wanted(const void *worker, struct hwt_hint *hints, uint32_t n);

/* ---- park.c ---- */

/* The instant at which the next tick with work can be handled, HWT_NEVER: none; 0: it is not known
 * yet, ask again. */
uint64_t hwt_worker_next(struct hwt_worker *worker);

/*
 * Before a long sleep closes the gate. Returns the instant until when nothing has to be done, or
 * 0: there is something now, do another pass.
 */
uint64_t hwt_worker_park(struct hwt_worker *worker);

/* Tells the counters what memory the wheel holds. */
void hwt_worker_publish_bytes(struct hwt_worker *worker);

#endif
