/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A pass of the worker: read the streams, run what is due, and what comes before a sleep.
 *
 * A pass files at most 100000 records at a time and looks at the cancelled ones between; the ticks
 * that are over are handled when all that was there is filed, so that what was added before the
 * pass runs in the order of its ticks, however much it is.
 */

#include "hwt/core/worker.h"

#include "hwt/base/probes.h"
#include "hwt/core/task.h"

#define DRAIN_MAX 100000
#define KEEP_UP_EVERY 256 /* runs */
#define KEEP_UP_MAX (KEEP_UP_EVERY * 512)
#define CLAIM_TRIES 256
#define ROUNDS_MAX 8
#define AHEAD 6

int hwt_worker_init(struct hwt_worker *worker, struct hwt_shared *shared, uint32_t ticks_per_wheel)
{
    worker->shared = shared;
    int r = hwt_wheel_init(&worker->wheel, &shared->pool.directory, shared->ticks, ticks_per_wheel);
    if (r == 0)
        hwt_worker_publish_bytes(worker);
    return r;
}

void hwt_worker_destroy(struct hwt_worker *worker)
{
    hwt_wheel_destroy(&worker->wheel);
}

void hwt_worker_publish_bytes(struct hwt_worker *worker)
{
    atomic_store_explicit(&worker->shared->stats.wheel_bytes, worker->wheel.bytes,
                          memory_order_relaxed);
}

/* Or a task has forked, and this is the child. Relaxed: a pass may see it late; who sleeps looks
 * again, see hwt_worker_park(). */
static bool stopping(const struct hwt_worker *worker)
{
    return atomic_load_explicit(&worker->shared->unusual, memory_order_relaxed) &
           (HWT_HALTED_STOPPING | HWT_HALTED_FORKED);
}

/* ---- filing ---- */

static uint32_t since_floor(const struct hwt_worker *worker, uint32_t id, uint32_t generation)
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
    *ret_tick =
        hwt_ticks_at(&worker->wheel.ticks, hwt_entry_deadline(hwt_pool_entry(pool, id)));
    return true;
}

/* For a tick, or the one at which the hand is. */
static void file_for(struct hwt_worker *worker, uint32_t id, uint32_t generation, uint64_t tick,
                     uint64_t floor)
{
    struct hwt_wheel *wheel = &worker->wheel;
    struct hwt_place *place = hwt_directory_place(wheel->directory, id);
    uint32_t its = since_floor(worker, id, generation);
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
        file_for(worker, id, (uint32_t)generation, hwt_ticks_at(&worker->wheel.ticks, deadline),
                 worker->floor);
    /* A task's: for the next pass, though the hand may be at a tick of long ago. */
    else if (!hwt_lane_note(&shared->lanes, own,
                            (struct hwt_record){ deadline, id, (uint32_t)generation },
                            hwt_pending_stays))
        atomic_store_explicit(&shared->overlooked, true, memory_order_relaxed);
}

/* Not while a stream is claimed: `cancelled` may take long. */
static void tell_all(struct hwt_worker *worker)
{
    struct hwt_shared *shared = worker->shared;
    for (uint32_t i = 0; i < worker->untold_count; i++) {
        hwt_timeout timeout = worker->untold[i];
        if (shared->executor)
            hwt_task_submit(shared, timeout.entry);
        else
            hwt_task_tell(shared, timeout.entry, timeout.generation);
    }
    worker->told |= worker->untold_count > 0;
    worker->untold_count = 0;
}

static void read_pending(struct hwt_worker *worker, const struct hwt_record *record)
{
    HWT_MEET(FILE);
    uint64_t tick = hwt_ticks_at(&worker->wheel.ticks, record->deadline);
    file_for(worker, record->id, record->generation, tick, worker->floor);
}

void hwt_worker_forget(struct hwt_worker *worker, uint32_t id, uint64_t generation)
{
    struct hwt_place *place = hwt_directory_place(worker->wheel.directory, id);
    uint32_t its = since_floor(worker, id, (uint32_t)generation);
    if ((int32_t)(its - place->generation) >= 0) {
        hwt_worker_leave(worker, id);
        place->generation = its;
    }
}

static void read_cancelled(struct hwt_worker *worker, const struct hwt_record *record)
{
    HWT_MEET(REAP);
    hwt_worker_forget(worker, record->id, record->generation);
    if (record->deadline == HWT_RECORD_CANCELLED)
        return;
    struct hwt_entry *entry = hwt_pool_entry(&worker->shared->pool, record->id);
    uint64_t state = hwt_entry_state(entry);
    if (record->deadline == HWT_RECORD_RENEW)
        hwt_task_free(worker->shared, entry); /* it was the record's alone */
    else if ((uint32_t)hwt_generation(state) == record->generation &&
             hwt_phase(state) == HWT_PHASE_UNTOLD)
        worker->untold[worker->untold_count++] = (hwt_timeout){ entry, hwt_generation(state) };
}

/* ---- reading streams ---- */

typedef void (*read_record)(struct hwt_worker *worker, const struct hwt_record *record);

/* Who compacts is soon done, if it runs. */
static bool claim(struct hwt_stream *stream)
{
    for (int tries = 0; tries < CLAIM_TRIES; tries++) {
        if (hwt_stream_claim(stream))
            return true;
        caa_cpu_relax();
    }
    return false;
}

/* A reading ends, however fast producers are: it is for what was published when it began, and a
 * little more. */
static void begin_reading(struct hwt_stream *stream)
{
    stream->left = (uint64_t)hwt_stream_backlog(stream) * HWT_CHUNK_RECORDS;
}

/* Reads up to about `budget` records, and returns how many. */
static size_t read_stream(struct hwt_worker *worker, struct hwt_stream *stream, read_record read,
                          size_t budget)
{
    const struct hwt_directory *directory = worker->wheel.directory;
    const struct hwt_record *records;
    size_t done = 0;
    uint32_t n;
    /* Only the worker moves on in it, and a compaction leaves it where it is. */
    if (!hwt_stream_is_used(stream))
        return 0;
    if (!claim(stream)) {
        worker->again = worker->unsure = true;
        return 0;
    }
    while (done < budget && stream->left > 0 && (n = hwt_stream_peek(stream, &records)) > 0) {
        for (uint32_t i = 0; i < AHEAD && i < n; i++)
            __builtin_prefetch(hwt_directory_place(directory, records[i].id), 1);
        for (uint32_t i = 0; i < n; i++) {
            if (i + AHEAD < n)
                __builtin_prefetch(hwt_directory_place(directory, records[i + AHEAD].id), 1);
            read(worker, &records[i]);
        }
        hwt_stream_advance(stream, n);
        stream->left -= n < stream->left ? n : stream->left;
        done += n;
        if (worker->untold_count > 0) {
            hwt_stream_release(stream);
            tell_all(worker);
            if (!claim(stream)) {
                worker->again = true;
                return done;
            }
        }
    }
    hwt_stream_release(stream);
    return done;
}

/* The stream of one kind of a lane. */
static struct hwt_stream *stream_of(struct hwt_lane *lane, bool cancelled)
{
    return cancelled ? &lane->cancelled : &lane->pending;
}

/* For each stream of one kind that may have something. */
static size_t for_streams(struct hwt_worker *worker, bool cancelled, bool listed,
                          size_t (*act)(struct hwt_worker *worker, struct hwt_stream *stream,
                                        read_record read, size_t budget),
                          size_t budget)
{
    struct hwt_lanes *lanes = &worker->shared->lanes;
    struct hwt_streams *streams = cancelled ? &lanes->cancelled : &lanes->pending;
    read_record read = cancelled ? read_cancelled : read_pending;
    uint32_t count = listed ? 0 : hwt_lanes_count(lanes);
    size_t done = 0;
    for (struct hwt_stream *s = listed ? streams->listed : NULL; s && done < budget;
         s = s->next_listed)
        done += act(worker, s, read, budget - done);
    for (uint32_t i = 0; i < count && done < budget; i++) {
        struct hwt_lane *lane = hwt_lane_at(lanes, i);
        if (lane)
            done += act(worker, stream_of(lane, cancelled), read, budget - done);
    }
    return done;
}

static size_t begin_one(struct hwt_worker *worker, struct hwt_stream *stream, read_record read,
                        size_t budget)
{
    (void)worker;
    (void)read;
    (void)budget;
    begin_reading(stream);
    return 0;
}

/* All that is published now, in batches, the cancelled between. */
static void read_once(struct hwt_worker *worker)
{
    struct hwt_lanes *lanes = &worker->shared->lanes;
    /* Where a thread is half-way through a push, or one compacted when its stream left the list, not
     * all are on the lists. */
    bool listed = hwt_streams_gather(&lanes->pending) && hwt_streams_gather(&lanes->cancelled) &&
                  !worker->unsure;
    size_t filed;
    worker->unsure = false;
    worker->again |= !listed;
    for_streams(worker, false, listed, begin_one, SIZE_MAX);
    for_streams(worker, true, listed, begin_one, SIZE_MAX);
    do {
        filed = for_streams(worker, false, listed, read_stream, DRAIN_MAX);
        HWT_PROBE2(drain, worker->shared, (uint64_t)filed);
        for_streams(worker, true, listed, read_stream, SIZE_MAX);
    } while (filed >= DRAIN_MAX);
}

/* What a `cancelled` has added and cancelled is read too, unless that goes on and on. */
static void read_all_streams(struct hwt_worker *worker)
{
    bool told = worker->told;
    int rounds = 0;
    do {
        told |= worker->told;
        worker->told = false;
        read_once(worker);
    } while (worker->told && ++rounds < ROUNDS_MAX);
    worker->told |= told;
}

/* There was no memory for a hint: all entries say what is to be done. */
static void look_at_all(struct hwt_worker *worker)
{
    struct hwt_entry *entry;
    uint32_t number = 0, place = 0;
    while ((entry = hwt_pool_walk(&worker->shared->pool, &number, &place)) != NULL) {
        uint64_t state = hwt_entry_state(entry);
        uint64_t deadline = hwt_entry_deadline(entry);
        HWT_MEET(LOOK_AT_ALL);
        if (hwt_phase(state) == HWT_PHASE_UNTOLD) {
            worker->untold[worker->untold_count++] =
                (hwt_timeout){ entry, hwt_generation(state) };
            tell_all(worker);
        }
        if (hwt_phase(state) == HWT_PHASE_PENDING)
            hwt_worker_file(worker, hwt_entry_id(entry), hwt_generation(state), deadline);
    }
}

/* With one thread, only what is to be told comes by a stream, and what tasks have armed. */
static void read_own(struct hwt_worker *worker)
{
    struct hwt_lane *lane = worker->shared->lanes.shared;
    const struct hwt_record *records;
    begin_reading(&lane->pending);
    begin_reading(&lane->cancelled);
    if (hwt_stream_peek(&lane->pending, &records) > 0)
        read_stream(worker, &lane->pending, read_pending, SIZE_MAX);
    if (hwt_stream_peek(&lane->cancelled, &records) > 0)
        read_stream(worker, &lane->cancelled, read_cancelled, SIZE_MAX);
}

void hwt_worker_read(struct hwt_worker *worker)
{
    struct hwt_shared *shared = worker->shared;
    if (shared->one_thread)
        read_own(worker);
    else
        read_all_streams(worker);
    /* Seq_cst, both: after the gate was closed. */
    if (atomic_load_explicit(&shared->overlooked, memory_order_seq_cst) &&
        atomic_exchange_explicit(&shared->overlooked, false, memory_order_seq_cst))
        look_at_all(worker);
}

/* ---- running ---- */

static void run_again(struct hwt_worker *worker, struct hwt_entry *entry, uint64_t generation,
                      uint64_t deadline)
{
    struct hwt_shared *shared = worker->shared;
    uint32_t id = hwt_entry_id(entry);
    HWT_MEET(AGAIN);
    if (shared->one_thread) {
        hwt_worker_file(worker, id, generation, deadline);
        return;
    }
    /* By the stream, behind what its task has added. */
    struct hwt_lane *lane = hwt_shared_enter(shared);
    hwt_shared_say_pending(shared, lane, deadline, id, generation);
    hwt_shared_leave(shared, lane);
}

/* An id that was taken from its bucket; its timeout is due if its deadline is before `horizon`. */
static void look(struct hwt_worker *worker, uint32_t id, uint64_t horizon)
{
    struct hwt_shared *shared = worker->shared;
    const struct hwt_place *place = hwt_directory_place(worker->wheel.directory, id);
    struct hwt_entry *entry = hwt_pool_entry(&shared->pool, id);
    bool ran;
    do {
        uint64_t state = hwt_entry_state(entry);
        uint64_t deadline = hwt_entry_deadline(entry);
        HWT_MEET(LOOK);
        if (place->bucket != 0 || hwt_phase(state) != HWT_PHASE_PENDING || state & HWT_HANDED ||
            since_floor(worker, id, (uint32_t)hwt_generation(state)) != place->generation)
            return;
        if (deadline >= horizon) {
            file_for(worker, id, (uint32_t)hwt_generation(state),
                     hwt_ticks_at(&worker->wheel.ticks, deadline), 0);
            return;
        }
        if (shared->executor) {
            ran = hwt_exchange_both(shared, entry, state, deadline, state | HWT_HANDED, deadline);
            if (ran)
                hwt_task_submit(shared, entry);
            worker->runs += ran;
            continue;
        }
        if (hwt_task_run(shared, entry, state, deadline, &ran, &deadline))
            run_again(worker, entry, hwt_generation(state), deadline);
        worker->runs += ran;
    } while (!ran);
}

static void prefetch_entry(const struct hwt_worker *worker, uint32_t id)
{
    __builtin_prefetch(hwt_pool_entry(&worker->shared->pool, id), 1);
}

static size_t take(struct hwt_worker *worker, uint32_t *batch, bool *ret_far)
{
    uint64_t left = worker->most - worker->runs;
    size_t n = hwt_wheel_take(&worker->wheel, worker->limit, batch,
                              left < HWT_BATCH ? (size_t)left : HWT_BATCH, ret_far);
    for (size_t i = 0; i < n; i++)
        prefetch_entry(worker, batch[i]);
    uint32_t next = hwt_wheel_peek(&worker->wheel, worker->limit);
    if (next != HWT_ID_NONE)
        prefetch_entry(worker, next);
    return n;
}

/* Files what has come nearer: not before its age begins, so not later than it was. */
static void bring_near(struct hwt_worker *worker, const uint32_t *batch, size_t n)
{
    for (size_t i = 0; i < n; i++)
        look(worker, batch[i], 0);
}

/*
 * Between two batches: cancelled timeouts that are to be told do not wait until all that is due has
 * run, or they would heap up beside many slow tasks. Only so many, that running goes on.
 */
static void keep_up(struct hwt_worker *worker, size_t n)
{
    struct hwt_lanes *lanes = &worker->shared->lanes;
    worker->since_kept_up += n;
    if (worker->since_kept_up < KEEP_UP_EVERY)
        return;
    worker->since_kept_up = 0;
    if (worker->shared->one_thread) {
        begin_reading(&lanes->shared->cancelled);
        if (hwt_stream_backlog(&lanes->shared->cancelled) > HWT_BACKLOG)
            read_stream(worker, &lanes->shared->cancelled, read_cancelled, KEEP_UP_MAX);
        return;
    }
    if (!hwt_streams_gather(&lanes->cancelled))
        return;
    uint32_t chunks = 0;
    for (const struct hwt_stream *s = lanes->cancelled.listed; s; s = s->next_listed)
        chunks += hwt_stream_backlog(s) / 2; /* an open one is no backlog */
    if (chunks <= HWT_BACKLOG / 2)
        return;
    for_streams(worker, true, true, begin_one, SIZE_MAX);
    for_streams(worker, true, true, read_stream, KEEP_UP_MAX);
}

static void expire(struct hwt_worker *worker)
{
    uint32_t batch[HWT_BATCH];
    bool far;
    size_t n;
    while (!stopping(worker) && worker->runs < worker->most &&
           (n = take(worker, batch, &far)) > 0) {
        if (far) {
            bring_near(worker, batch, n);
            continue;
        }
        /* The end of this tick, not of the last: what was pushed back to a later one, though
         * that is over too, takes its turn there. */
        uint64_t horizon = hwt_ticks_end(&worker->wheel.ticks, worker->wheel.tick);
        for (size_t i = 0; i < n && !stopping(worker); i++)
            look(worker, batch[i], horizon);
        keep_up(worker, n);
    }
}

/* What is due and could not be filed runs without regard to its turn. */
static void expire_unfiled(struct hwt_worker *worker)
{
    struct hwt_shared *shared = worker->shared;
    struct hwt_entry *entry;
    uint32_t number = 0, place = 0;
    uint64_t horizon = hwt_ticks_instant(&worker->wheel.ticks, worker->limit);
    if (!atomic_load_explicit(&shared->overlooked, memory_order_relaxed))
        return;
    while (!stopping(worker) && worker->runs < worker->most &&
           (entry = hwt_pool_walk(&shared->pool, &number, &place)) != NULL) {
        if (hwt_phase(hwt_entry_state(entry)) == HWT_PHASE_PENDING &&
            hwt_entry_deadline(entry) < horizon)
            look(worker, hwt_entry_id(entry), horizon);
    }
}

static void leave_wheel(void *worker, uint32_t id)
{
    hwt_worker_leave(worker, id);
}

/* After a peak. What the executor has may be of a slab that is free otherwise. */
static void trim(struct hwt_worker *worker, uint32_t patience)
{
    struct hwt_shared *shared = worker->shared;
    if (hwt_pool_is_worth_a_trim(&shared->pool, patience) && hwt_task_none_submitted(shared))
        hwt_pool_trim(&shared->pool, leave_wheel, worker);
}

uint64_t hwt_worker_pass(struct hwt_worker *worker, uint64_t now, uint64_t most)
{
    struct hwt_time *time = &worker->shared->time;
    const struct hwt_ticks *ticks = &worker->wheel.ticks;
    uint64_t told = atomic_load_explicit(&time->told, memory_order_relaxed);
    if (now < told)
        now = told;
    atomic_store_explicit(&time->told, now, memory_order_relaxed);
    worker->limit = hwt_ticks_at(ticks, now);
    worker->runs = 0;
    worker->most = most;
    worker->told = worker->again = false;
    hwt_worker_read(worker);
    worker->expires = true;
    expire_unfiled(worker);
    expire(worker);
    expire_unfiled(worker); /* what was pushed back within the ticks that are over */
    worker->expires = false;
    /* Of a pass that was cut short, the next one does the rest: what is filed until then for a tick
     * that is over comes behind what its tasks have filed. */
    worker->floor = worker->runs < worker->most   ? 0
                    : worker->limit < ticks->last ? worker->limit
                                                  : ticks->last - 1;
    if (worker->shared->one_thread)
        read_own(worker);
    /* A timer that has work in each tick never sleeps long. */
    if (worker->runs <= HWT_BATCH)
        trim(worker, 2);
    hwt_worker_publish_bytes(worker);
    return worker->runs;
}

/* ---- before a sleep ---- */

/* The next tick with work. */
static uint64_t next_tick(struct hwt_worker *worker)
{
    struct hwt_wheel *wheel = &worker->wheel;
    /* What could not be read or filed is looked at again in a tick. */
    if (worker->again || atomic_load_explicit(&worker->shared->overlooked, memory_order_relaxed))
        return wheel->tick;
    return hwt_wheel_next(wheel);
}

uint64_t hwt_worker_next(struct hwt_worker *worker)
{
    worker->again = false;
    hwt_worker_read(worker);
    uint64_t next = next_tick(worker);
    hwt_worker_publish_bytes(worker);
    return hwt_ticks_end(&worker->wheel.ticks, next);
}

static void read_dismissed(struct hwt_worker *worker, struct hwt_stream *dismissed, bool cancelled)
{
    read_record read = cancelled ? read_cancelled : read_pending;
    while (dismissed) {
        struct hwt_stream *next = dismissed->next_listed;
        begin_reading(dismissed);
        read_stream(worker, dismissed, read, SIZE_MAX);
        dismissed = next;
    }
}

/* Step A to C of gate.h: the gate is closed for the tick `next`, and the streams are read once
 * more. Returns the next tick after that. */
static uint64_t close_for(struct hwt_worker *worker, uint64_t next)
{
    struct hwt_shared *shared = worker->shared;
    hwt_gate_close(&shared->gate, hwt_ticks_instant(&worker->wheel.ticks, next));
    struct hwt_stream *pending = hwt_streams_dismiss(&shared->lanes.pending);
    struct hwt_stream *cancelled = hwt_streams_dismiss(&shared->lanes.cancelled);
    hwt_gate_barrier(&shared->gate);
    HWT_MEET(PARK_C);
    read_dismissed(worker, pending, false);
    read_dismissed(worker, cancelled, true);
    hwt_worker_read(worker);
    uint64_t after = next_tick(worker);
    return after < next ? after : next; /* no longer than the gate says */
}

uint64_t hwt_worker_park(struct hwt_worker *worker)
{
    struct hwt_shared *shared = worker->shared;
    const struct hwt_ticks *ticks = &worker->wheel.ticks;
    HWT_MEET(PARK);
    worker->again = false;
    hwt_worker_read(worker);
    uint64_t next = next_tick(worker);
    /* Where a cancel was told, more will be: sleep for a tick, rather than be woken by each. */
    if (worker->told)
        next = worker->wheel.tick;
    if (next > worker->wheel.tick) {
        trim(worker, 1);
        next = close_for(worker, next);
    } else {
        hwt_gate_close(&shared->gate, HWT_GATE_OPEN);
    }
    worker->told = false;
    hwt_worker_publish_bytes(worker);
    HWT_MEET(PARK_CHECK);
    /* Seq_cst: stop sets the flag, then looks at the gate. */
    if (atomic_load_explicit(&shared->unusual, memory_order_seq_cst) & HWT_HALTED_STOPPING)
        return 0;
    uint64_t until = hwt_ticks_end(ticks, next);
    HWT_PROBE2(park, shared, until);
    return until;
}
