/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The worker reads the streams, which is a drain: it files the pending records, and tells the
 * cancelled ones.
 *
 * It files at most 100000 records at a time, and reads the cancelled streams between.
 */

#include <string.h>

#include "hwt/base/probes.h"
#include "hwt/worker/task.h"
#include "hwt/worker/worker.h"

#define DRAIN_MAX 100000
#define KEEP_UP_MAX ((size_t)1 << 17)
#define CLAIM_TRIES 256
#define OWN_READINGS_MAX 8

static void tell_all(struct hwt_worker *worker)
{
    struct hwt_shared *shared = worker->shared;
    for (uint32_t i = 0; i < worker->untold_count && !hwt_is_forked(shared); i++) {
        hwt_timeout timeout = worker->untold[i];
        if (shared->executor)
            hwt_task_submit(shared, timeout.entry);
        else
            hwt_task_tell(shared, timeout.entry, timeout.generation);
    }
    worker->told += worker->untold_count;
    worker->untold_count = 0;
}

/* Files n records. Their places come from memory meanwhile. */
static void read_pending(struct hwt_worker *worker, const struct hwt_record *records, uint32_t n)
{
    const struct hwt_sites *sites = hwt_directory_sites(worker->wheel.directory);
    struct hwt_place *places[HWT_CHUNK_RECORDS];
    uint32_t counted[HWT_CHUNK_RECORDS];
    for (uint32_t i = 0; i < n; i++) {
        counted[i] = records[i].generation;
        places[i] = hwt_worker_place(sites, records[i].id, &counted[i]);
        __builtin_prefetch(places[i], 1);
    }
    for (uint32_t i = 0; i < n; i++) {
        HWT_SCHED_POINT(FILE);
        uint64_t tick = hwt_ticks_at(&worker->wheel.ticks, records[i].deadline);
        hwt_worker_file_at(worker, places[i], &records[i], counted[i], tick);
    }
}

/* The same with one thread, whose processor has the entries in its cache. It leaves out records
 * that are out of date, and files the others for the deadlines that the entries have. */
static void read_pending_single(struct hwt_worker *worker, const struct hwt_record *records,
                                uint32_t n)
{
    const struct hwt_pool *pool = &worker->shared->pool;
    struct hwt_record wanted[HWT_CHUNK_RECORDS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct hwt_entry *entry = hwt_pool_entry(pool, records[i].id);
        if (hwt_hint_is_true(hwt_entry_state(entry), records[i].generation))
            wanted[count++] = (struct hwt_record){ hwt_entry_deadline(entry), records[i].id,
                                                   records[i].generation };
    }
    read_pending(worker, wanted, count);
}

/* A RENEWED entry is the worker's until its place has the generation. */
static void take_renewed(struct hwt_worker *worker, struct hwt_entry *entry, uint64_t state)
{
    hwt_worker_outdate(worker, hwt_entry_id(entry), (uint32_t)hwt_generation(state));
    hwt_entry_end_renewal(entry, state);
    hwt_task_free(worker->shared, entry);
}

static void read_cancelled_record(struct hwt_worker *worker, const struct hwt_record *record)
{
    HWT_SCHED_POINT(REAP);
    struct hwt_entry *entry = hwt_pool_entry(&worker->shared->pool, record->id);
    uint64_t state = hwt_entry_state(entry);
    if ((uint32_t)hwt_generation(state) != record->generation)
        return;
    if (hwt_phase(state) == HWT_PHASE_RENEWED)
        take_renewed(worker, entry, state);
    else if (hwt_phase(state) == HWT_PHASE_UNTOLD)
        worker->untold[worker->untold_count++] = (hwt_timeout){ entry, hwt_generation(state) };
}

static void read_cancelled(struct hwt_worker *worker, const struct hwt_record *records, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        read_cancelled_record(worker, &records[i]);
}

typedef void (*read_records)(struct hwt_worker *worker, const struct hwt_record *records,
                             uint32_t n);

/* Tries for a short while: a producer that compacts is soon done, if it has a processor. */
static bool claim(struct hwt_stream *stream)
{
    for (int tries = 0; tries < CLAIM_TRIES; tries++) {
        if (hwt_stream_claim(stream))
            return true;
        caa_cpu_relax();
    }
    return false;
}

/* Copies the records of the next chunk, and returns how many. The stream is claimed for no longer
 * than that, because its producer cannot compact it meanwhile, and the worker may wait for its
 * processor, or for memory, while it files. */
static uint32_t take_records(struct hwt_worker *worker, struct hwt_stream *stream,
                             struct hwt_record taken[HWT_CHUNK_RECORDS])
{
    const struct hwt_record *records;
    if (!claim(stream)) {
        worker->unclaimed++;
        return 0;
    }
    uint32_t n = hwt_stream_peek(stream, &records);
    if (n > 0)
        memcpy(taken, records, n * sizeof(*taken));
    hwt_stream_advance(stream, n);
    hwt_stream_release(stream);
    return n;
}

static void begin_drain(struct hwt_worker *worker)
{
    worker->drain_epoch = ++worker->drain_epochs;
}

/* Reads up to about `budget` records, and returns how many. A drain ends, however fast producers
 * are: of each stream it reads the records that were published when it first came to it, and a few
 * more. */
static size_t read_stream(struct hwt_worker *worker, struct hwt_stream *stream, read_records read,
                          size_t budget)
{
    struct hwt_record records[HWT_CHUNK_RECORDS];
    size_t done = 0;
    uint32_t n;
    /* No claim: only the worker moves `read`, and a compaction leaves it as it is. */
    if (!hwt_stream_is_used(stream))
        return 0;
    if (stream->drain_epoch != worker->drain_epoch) {
        stream->drain_epoch = worker->drain_epoch;
        stream->left = (uint64_t)hwt_stream_backlog(stream) * HWT_CHUNK_RECORDS;
    }
    while (done < budget && stream->left > 0 && (n = take_records(worker, stream, records)) > 0) {
        read(worker, records, n);
        stream->left -= n < stream->left ? n : stream->left;
        done += n;
        if (worker->untold_count > 0)
            tell_all(worker);
    }
    return done;
}

/* Reads the streams of one kind, listed or all. */
static size_t read_streams(struct hwt_worker *worker, bool cancelled, bool listed, size_t budget)
{
    struct hwt_lanes *lanes = &worker->shared->lanes;
    struct hwt_streams *streams = cancelled ? &lanes->cancelled : &lanes->pending;
    read_records read = cancelled ? read_cancelled : read_pending;
    uint32_t count = listed ? 0 : hwt_lanes_count(lanes);
    size_t done = 0;
    for (struct hwt_stream *s = listed ? streams->listed : NULL; s && done < budget;
         s = s->next_listed)
        done += read_stream(worker, s, read, budget - done);
    for (uint32_t i = 0; i < count && done < budget; i++) {
        struct hwt_lane *lane = hwt_lane_at(lanes, i);
        if (lane)
            done += read_stream(worker, cancelled ? &lane->cancelled : &lane->pending, read,
                                budget - done);
    }
    return done;
}

/* Reads all that is published now, in parts, and the cancelled streams between. */
static void read_once(struct hwt_worker *worker)
{
    struct hwt_lanes *lanes = &worker->shared->lanes;
    /* While a thread is half-way through a push, some streams are not on the lists. A stream that
     * the last drain could not claim may not be on them either, because it was dismissed since. */
    bool listed = hwt_streams_receive(&lanes->pending) && hwt_streams_receive(&lanes->cancelled) &&
                  worker->unclaimed == 0;
    size_t filed;
    worker->unclaimed = 0;
    begin_drain(worker);
    do {
        filed = read_streams(worker, false, listed, DRAIN_MAX);
        HWT_SCHED_POINT(DRAIN);
        HWT_PROBE2(drain, worker->shared, (uint64_t)filed);
        if (worker->wheel.hints >= worker->sweep_at)
            (void)hwt_worker_sweep(worker, filed, false);
        read_streams(worker, true, listed, SIZE_MAX);
    } while (filed >= DRAIN_MAX);
}

static void read_lane(struct hwt_worker *worker, struct hwt_lane *lane)
{
    begin_drain(worker);
    read_stream(worker, &lane->pending, read_pending, SIZE_MAX);
    read_stream(worker, &lane->cancelled, read_cancelled, SIZE_MAX);
}

/* Reads all streams. Records that `cancelled` callbacks add on this thread are read, too, at most
 * OWN_READINGS_MAX times. They are filed no earlier than the end of the pass. If the wheel cannot
 * file for that tick yet, they stay unread. */
static void read_all_streams(struct hwt_worker *worker)
{
    struct hwt_lane *own = hwt_lane_own(&worker->shared->lanes);
    uint64_t file_from = worker->file_from, next = hwt_worker_tick_after_pass(worker);
    uint64_t told = worker->told;
    read_once(worker);
    worker->file_from = file_from < next ? next : file_from;
    bool reads = own && worker->file_from < worker->wheel.near_end;
    for (int readings = 0; worker->told != told && reads && readings < OWN_READINGS_MAX;
         readings++) {
        told = worker->told;
        read_lane(worker, own);
    }
    worker->file_from = file_from;
}

/* There was no memory for a hint or a record: looks at all entries. What is due and could not be
 * filed takes its turn now, also after a pass that was cut short. */
static void rescan(struct hwt_worker *worker)
{
    struct hwt_entry *entry;
    uint32_t number = 0, seat = 0;
    const uint64_t file_from = worker->file_from;
    worker->file_from = 0;
    while ((entry = hwt_pool_walk(&worker->shared->pool, &number, &seat)) != NULL) {
        uint64_t state = hwt_entry_state(entry);
        uint64_t deadline = hwt_entry_deadline(entry);
        HWT_SCHED_POINT(RESCAN);
        if (hwt_phase(state) == HWT_PHASE_UNTOLD) {
            worker->untold[worker->untold_count++] = (hwt_timeout){ entry, hwt_generation(state) };
            tell_all(worker);
        }
        if (hwt_phase(state) == HWT_PHASE_RENEWED)
            take_renewed(worker, entry, state);
        const struct hwt_record record = { deadline, hwt_entry_id(entry),
                                           (uint32_t)hwt_generation(state) };
        if (hwt_phase(state) == HWT_PHASE_PENDING)
            read_pending(worker, &record, 1);
    }
    worker->file_from = file_from;
    if (worker->wheel.hints >= worker->sweep_at)
        (void)hwt_worker_sweep(worker, worker->wheel.hints, false);
}

/* With one thread a record waits as long as it can, because most timeouts are cancelled before they
 * need be filed. Timeouts that a `cancelled` adds are records, too, and not for the pass that goes
 * on. */
bool hwt_worker_read_single(struct hwt_worker *worker, uint64_t until)
{
    const struct hwt_lanes *lanes = &worker->shared->lanes;
    struct hwt_lane *lane = lanes->shared;
    if (!worker->shared->one_thread ||
        (lane->soonest >= until && hwt_stream_backlog(&lane->pending) < hwt_lane_backlog(lanes)))
        return false;
    lane->soonest = HWT_NEVER;
    lane->last = NULL;
    begin_drain(worker);
    size_t filed = read_stream(worker, &lane->pending, read_pending_single, SIZE_MAX);
    if (worker->wheel.hints >= worker->sweep_at)
        (void)hwt_worker_sweep(worker, filed, false);
    return true;
}

void hwt_worker_read_own(struct hwt_worker *worker)
{
    struct hwt_lane *lane = worker->shared->lanes.shared;
    begin_drain(worker);
    read_stream(worker, &lane->cancelled, read_cancelled, SIZE_MAX);
}

void hwt_worker_read(struct hwt_worker *worker)
{
    struct hwt_shared *shared = worker->shared;
    if (shared->one_thread) {
        uint64_t until = hwt_ticks_instant(&worker->wheel.ticks, worker->limit);
        (void)hwt_worker_read_single(worker, until);
        hwt_worker_read_own(worker);
    } else {
        read_all_streams(worker);
    }
    /* Acquire: the entries of all threads that have set it. */
    if (atomic_load_explicit(&shared->rescan_needed, memory_order_relaxed) &&
        atomic_exchange_explicit(&shared->rescan_needed, false, memory_order_acquire))
        rescan(worker);
}

void hwt_worker_read_dismissed(struct hwt_worker *worker, struct hwt_stream *dismissed,
                               bool cancelled)
{
    read_records read = cancelled ? read_cancelled : read_pending;
    begin_drain(worker);
    while (dismissed) {
        struct hwt_stream *next = dismissed->next_listed;
        read_stream(worker, dismissed, read, SIZE_MAX);
        dismissed = next;
    }
}

/* Cancelled timeouts that are to be told do not wait until all that is due has run. It reads no more
 * than KEEP_UP_MAX of them, so that running goes on. */
void hwt_worker_keep_up(struct hwt_worker *worker)
{
    struct hwt_lanes *lanes = &worker->shared->lanes;
    begin_drain(worker);
    if (worker->shared->one_thread)
        read_stream(worker, &lanes->shared->cancelled, read_cancelled, KEEP_UP_MAX);
    else
        read_streams(worker, true, hwt_streams_receive(&lanes->cancelled), KEEP_UP_MAX);
    hwt_worker_has_kept_up(worker, hwt_time_reached_about(&worker->shared->time));
}
