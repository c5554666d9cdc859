/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_LANE_H
#define HWT_LANE_H

/*
 * Lanes. A lane is one producer thread's part of a timer. A thread has a number for its life (see
 * base/thread.h), and by the number it has a lane in every timer, made at its first call. Writing
 * there takes no locked operation. A lane stays for the next thread of that number. It has
 *
 *   pending    stream of timeouts that were added, moved earlier or re-armed; the worker files them
 *   cancelled  stream of timeouts that were cancelled and are to be told; the worker calls
 *              `cancelled`
 *   cache      free entries
 *   counters   of what its threads did; read by any thread
 *
 * Some threads share one lane, under a lock for the time of a call: those without a number (because
 * there are more than HWT_THREADS_MAX, or because they are at their very end), and those for whose
 * lane there is no memory. With HWT_ONE_THREAD that lane is the only one, and is not locked.
 *
 * WHICH CALLS MAY OVERLAP, on the lanes of one timer
 *
 *                         make  publish  thread_ends  push  ask_back  receive  lane_at
 *     enter, make          N       N          N        N       A         -        M
 *     publish                      N          N        N       -         S        M
 *     thread_ends                             N        N       A         S        M
 *     streams_push                                     Q       -         Q        -
 *     lanes_ask_back                                           W         W        -
 *     streams_receive, dismiss                                           W        -
 *     lane_at, count, bytes                                                       -
 *
 *     N  at once for two threads, because each has a number, and so a lane of its own; those
 *        without a number take shared_lock in turn. The next thread of a number sees what the last
 *        one did (see base/thread.h)
 *     M  `made` is released and acquired: a lane is whole when it is found, and stays
 *     A  `own` has a lane or NULL, relaxed: a thread that overlooks NULL gives back at a later call
 *     S  as in stream.h: publish() is append() and grow(), and the worker reads
 *     Q  liburcu's queue: any number of threads push, one pops
 *     W  not at once: they are the worker's
 *     -  they touch nothing in common, or numbers only
 *
 * The worker finds the lanes that have something by two queues of streams, liburcu's: pending and
 * cancelled. A stream stays on the worker's list until the worker is about to sleep for long. If a
 * thread is half-way through a push, or compacts, the worker looks at all lanes instead.
 */

#include <pthread.h>

#include "hwt/base/barrier.h"
#include "hwt/base/thread.h"
#include "hwt/inbox/gate.h"
#include "hwt/inbox/stream.h"
#include "hwt/pool/pool.h"

struct hwt_lane {
    struct hwt_cache cache;
    _Atomic uint64_t added;
    _Atomic uint64_t cancelled_count;
    _Atomic uint64_t rescheduled;
    _Atomic uint64_t rejected;
    bool locked; /* by shared_lock, while a thread uses it */
    bool ended;  /* its thread has, and no other has its number yet */
    /* With one thread. */
    uint64_t soonest;             /* no timeout with an unread pending record is due earlier */
    const struct hwt_entry *last; /* the last pending record's, if it is unread; else NULL */
    struct hwt_stream pending;
    struct hwt_stream cancelled;
};

/* Streams of one kind. */
struct hwt_streams {
    _Alignas(64) hwt_queue_tail tail; /* of the queue: producers */
    _Alignas(64) hwt_queue_head head; /* the worker, and the list too */
    struct hwt_stream *listed;        /* in the order in which they were pushed */
    struct hwt_stream **last_listed;
};

struct hwt_lanes {
    struct hwt_pool *pool;
    struct hwt_gate *gate;
    /* Two arrays by the threads' numbers, in the pool's mapping. `own` is for the lane's thread;
     * NULL: it has none yet, or it is asked to give back. `made` is for any thread: each lane, once
     * it is made. */
    _Atomic(struct hwt_lane *) *own, *made;
    struct hwt_lane *shared;
    pthread_mutex_t shared_lock;
    uint32_t backlog;      /* frozen: chunks that the worker reads within a tick */
    _Atomic uint32_t end;  /* the highest number that has a lane */
    _Atomic uint32_t used; /* lanes whose threads live: they share what may be unread */
    struct hwt_streams pending;
    struct hwt_streams cancelled;
};

/* The pool has room for two pointers for each number: HWT_LANE_SEATS_SIZE besides its slabs. */
#define HWT_LANE_SEATS ((size_t)HWT_THREAD_NONE + 1)
#define HWT_LANE_SEATS_SIZE (2 * HWT_LANE_SEATS * sizeof(void *))

int hwt_lanes_init(struct hwt_lanes *lanes, struct hwt_pool *pool, struct hwt_gate *gate,
                   uint32_t backlog, bool one_thread);

/* Makes the calling thread's lane, or gives back what it is asked for, or locks the shared one. */
struct hwt_lane *hwt_lane_make(struct hwt_lanes *lanes);

/* Worker: asks all threads to give back the free entries that they keep. Each does so at its next
 * call, or when it ends, and then wakes the worker. */
void hwt_lanes_ask_back(struct hwt_lanes *lanes);

/* A thread that ends calls this: it gives back its free entries and its spare chunks. */
void hwt_lane_thread_ends(struct hwt_lanes *lanes);

/* The calling thread's own lane. NULL: hwt_lane_make() has something to do, or there is none. */
static inline struct hwt_lane *hwt_lane_own(const struct hwt_lanes *lanes)
{
    /* Relaxed: this thread has made it, or the last one of its number. */
    return atomic_load_explicit(&lanes->own[hwt_thread_number], memory_order_relaxed);
}

/* The calling thread's lane, until hwt_lane_leave(). */
static inline struct hwt_lane *hwt_lane_enter(struct hwt_lanes *lanes)
{
    struct hwt_lane *lane = hwt_lane_own(lanes);
    return __builtin_expect(lane != NULL, 1) ? lane : hwt_lane_make(lanes);
}

static inline void hwt_lane_leave(struct hwt_lanes *lanes, struct hwt_lane *lane)
{
    if (__builtin_expect(lane->locked, 0))
        pthread_mutex_unlock(&lanes->shared_lock);
}

/* For a look at all lanes: the n-th (NULL: it was never made), and how many there can be. */
struct hwt_lane *hwt_lane_at(const struct hwt_lanes *lanes, uint32_t n);
uint32_t hwt_lanes_count(const struct hwt_lanes *lanes);

/* Whether an unread record must stay; `data` is the pool. See stream.h. With one thread the
 * deadline of a pending record does not matter. */
bool hwt_pending_stays(const void *data, const struct hwt_record *record);
bool hwt_single_stays(const void *data, const struct hwt_record *record);
bool hwt_cancelled_stays(const void *data, const struct hwt_record *record);

/* The producer begins a chunk; see hwt_stream_grow(). */
bool hwt_lane_grow(struct hwt_lanes *lanes, struct hwt_stream *stream, hwt_stream_stays stays);

/* Producer, after an append: pushes the stream on the queue. */
void hwt_streams_push(struct hwt_streams *streams, struct hwt_stream *stream);

static inline void hwt_streams_list(struct hwt_streams *streams, struct hwt_stream *stream)
{
    if (__builtin_expect(!hwt_stream_is_listed(stream), 0))
        hwt_streams_push(streams, stream);
}

/* A producer that has begun a chunk wakes the worker when this many chunks are not read. A pending
 * stream may have the lane's part of `backlog`, because the producer compacts it while the worker
 * sleeps. */
#define HWT_BACKLOG 64 /* chunks: 4000 records */
#define HWT_BACKLOG_MAX 4096
uint32_t hwt_lane_backlog(const struct hwt_lanes *lanes);
void hwt_lane_check_backlog(struct hwt_lanes *lanes, const struct hwt_streams *streams,
                            const struct hwt_stream *stream);

/* Producer, after it has appended a cancelled record: whether it is far ahead of the worker. It is
 * told so only with the first record of every HWT_BACKLOG-th chunk. */
#define HWT_FAR_AHEAD (8 * HWT_BACKLOG) /* chunks */
static inline bool hwt_lane_is_far_ahead(const struct hwt_lane *lane)
{
    if (!hwt_stream_has_begun_chunk(&lane->cancelled))
        return false;
    uint32_t chunks = hwt_stream_backlog(&lane->cancelled);
    return chunks >= HWT_FAR_AHEAD && chunks % HWT_BACKLOG == 0;
}

/* Producer: appends a record to a stream of its lane. False: there is no memory, and the worker
 * must look at the entries. */
static inline bool hwt_lane_publish(struct hwt_lanes *lanes, struct hwt_streams *streams,
                                    struct hwt_stream *stream, struct hwt_record record,
                                    hwt_stream_stays stays)
{
    bool full = hwt_stream_is_full(stream);
    if (__builtin_expect(full, 0) && !hwt_lane_grow(lanes, stream, stays))
        return false;
    hwt_stream_append(stream, record);
    /* The worker cannot make this thread pass a barrier: see gate.h. */
    if (hwt_gate_is_fenced(lanes->gate))
        hwt_full_barrier();
    HWT_SCHED_POINT(APPENDED);
    hwt_streams_list(streams, stream);
    if (__builtin_expect(full, 0))
        hwt_lane_check_backlog(lanes, streams, stream);
    return true;
}

static inline bool hwt_lane_publish_pending(struct hwt_lanes *lanes, struct hwt_lane *lane,
                                            uint64_t deadline, uint32_t id, uint64_t generation)
{
    return hwt_lane_publish(lanes, &lanes->pending, &lane->pending,
                            (struct hwt_record){ deadline, id, (uint32_t)generation },
                            hwt_pending_stays);
}

static inline bool hwt_lane_publish_cancelled(struct hwt_lanes *lanes, struct hwt_lane *lane,
                                              struct hwt_record record)
{
    return hwt_lane_publish(lanes, &lanes->cancelled, &lane->cancelled, record,
                            hwt_cancelled_stays);
}

/* The same two with one thread, which reads them later: nothing is listed or fenced. */
static inline bool hwt_lane_publish_cancelled_single(struct hwt_lanes *lanes, struct hwt_lane *lane,
                                                     struct hwt_record record)
{
    if (hwt_stream_is_full(&lane->cancelled) &&
        !hwt_lane_grow(lanes, &lane->cancelled, hwt_cancelled_stays))
        return false;
    hwt_stream_append(&lane->cancelled, record);
    return true;
}

/* With one thread: a timeout with an unread pending record is due at this instant. */
static inline void hwt_lane_hasten(struct hwt_lane *lane, uint64_t deadline)
{
    if (deadline < lane->soonest)
        lane->soonest = deadline;
}

/* Appends a pending record, for which there is room. Two in a row for one entry become one: a
 * request that arms and cancels one timeout after the other makes them. */
static inline void hwt_lane_append_pending(struct hwt_lane *lane, uint64_t deadline,
                                           const struct hwt_entry *entry, uint64_t generation)
{
    hwt_lane_hasten(lane, deadline);
    if (entry == lane->last) {
        hwt_stream_replace(&lane->pending, deadline, (uint32_t)generation);
        return;
    }
    lane->last = entry;
    hwt_stream_append(&lane->pending,
                      (struct hwt_record){ deadline, hwt_entry_id(entry), (uint32_t)generation });
}

static inline bool hwt_lane_publish_pending_single(struct hwt_lanes *lanes, struct hwt_lane *lane,
                                                   uint64_t deadline, uint32_t id,
                                                   uint64_t generation)
{
    if (hwt_stream_is_full(&lane->pending)) {
        lane->last = NULL;
        if (!hwt_lane_grow(lanes, &lane->pending, hwt_single_stays))
            return false;
    }
    hwt_lane_append_pending(lane, deadline, hwt_pool_entry(lanes->pool, id), generation);
    return true;
}

/* Worker: moves the streams that were pushed from the queue to its list. False: a thread is
 * half-way through a push, so some are not on the list, and the worker must look at all lanes. */
bool hwt_streams_receive(struct hwt_streams *streams);

/* Worker: takes all streams off the list, and returns them, chained by next_listed. After a barrier
 * the worker must read them once more. */
struct hwt_stream *hwt_streams_dismiss(struct hwt_streams *streams);

/* About how many bytes the lanes take, besides pieces. Any thread. */
uint64_t hwt_lanes_bytes(const struct hwt_lanes *lanes);

#endif
