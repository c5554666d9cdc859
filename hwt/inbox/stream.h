/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_STREAM_H
#define HWT_STREAM_H

/*
 * A stream of records from one producer thread to the worker: in chunks, read in order.
 *
 * A record only says "look at this timeout". The entry alone says what is true. So a record that is
 * out of date does no harm, it may be left out if its timeout has changed, and the same one may
 * come twice.
 *
 *     deadline    of a pending record: file the timeout for that instant; else nothing
 *     id          of the entry
 *     generation  the low 32 bits; see HWT_RENEWAL
 *
 * GROUND RULES
 *
 *   tail, at, compact_at              the producer
 *   head, read                        the claimer: the worker reads, the producer compacts
 *   a record                          the producer, before `used` is past it; with one thread the
 *                                     last one may be replaced
 *   used, next, first                 the producer; release: the records before it, the chunk. A
 *                                     compaction's are relaxed, for `claimed` publishes them
 *   chunks, chunks_read               the producer; the claimer: relaxed, their difference
 *                                     is how much one reading is for
 *   claimed                           set by the claimer: exchange, acquire; cleared with release:
 *                                     head and read pass from one to the other
 *   own_spare                         the producer: empty chunks that its compactions have left.
 *                                     Others come from the pieces, and go there when they were read
 *   listed                            set by the producer, which then pushes the stream on its
 *                                     queue; cleared by the worker, release, when it has left its
 *                                     list
 *
 * WHICH CALLS MAY OVERLAP, on one stream
 *
 *                     append  grow  free_spare  peek  release  is_used
 *     append            P      P        P        1       1        1
 *     grow                     P        P        C       1        1
 *     free_spare                        P        -       -        -
 *     peek, advance                              W       W        W
 *     claim, release                                     W        W
 *     is_used                                                     W
 *
 *     P  not at once: they are the producer's, and there is one at a time. A lane passes from
 *        thread to thread by a number or by a lock, see lane.h
 *     W  not at once: they are the worker's
 *     1  `used`, `next` and `first` are released by the one and acquired by the other; is_used(),
 *        backlog() and is_listed() read numbers and follow nothing
 *     C  by the claim: which of the two has it touches head, read and what is not read. The other
 *        does without: grow() does not compact, the worker comes again
 *     -  they touch nothing in common
 *
 * A thread that keeps the worker from working may call is_used() instead of the worker.
 *
 * Nobody waits for `claimed`. A worker that finds it taken comes back in a tick. A producer that
 * finds it taken does without compaction.
 *
 * COMPACTION. A producer may outrun the worker, or have a worker that sleeps, or none. It looks
 * through the records that were not read, leaves out those that are out of date and moves the rest
 * together. So the records that wait are bounded by the timeouts that are pending. The next
 * compaction comes when the backlog is one and a half times what the last one left, or one and a
 * third, if that was very much; or later, by as many chunks as the filter allows. A timeout that is
 * moved to and fro has several records that stay. If there are more of them than entries, only the
 * first record of each id stays.
 *
 * THE LOOK AT `listed` and at the gate comes after the record is published. The worker looks at the
 * records after it has changed `listed` and the gate. So one of the two sees the other. That wants
 * a full barrier on both sides; see gate.h for how the producer does without.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hwt/base/assert.h"
#include "hwt/base/queue.h"
#include "hwt/base/pieces.h"

#define HWT_CHUNK_RECORDS 62

struct hwt_record {
    uint64_t deadline;
    uint32_t id;
    uint32_t generation;
};

struct hwt_chunk {
    _Atomic(struct hwt_chunk *) next;
    _Atomic uint32_t used; /* where the records end */
    struct hwt_record records[HWT_CHUNK_RECORDS];
};

/* `used`, `at` and `read` count bytes from where the chunk begins: `used` and `at` to where the
 * next record is written, `read` to the next one that is read. */
#define HWT_CHUNK_FIRST ((uint32_t)offsetof(struct hwt_chunk, records))
#define HWT_CHUNK_END (HWT_CHUNK_FIRST + HWT_CHUNK_RECORDS * (uint32_t)sizeof(struct hwt_record))

static inline struct hwt_record *hwt_chunk_record(struct hwt_chunk *chunk, uint32_t at)
{
    return (struct hwt_record *)(void *)((char *)chunk + at);
}

struct hwt_stream {
    /* the producer */
    struct hwt_chunk *tail; /* NULL: there was no record yet */
    uint32_t at;
    _Atomic uint32_t chunks;
    uint32_t compact_at;         /* chunks */
    struct hwt_chunk *own_spare; /* chunks that a compaction has left, */
    uint32_t own_spare_count;    /* so many */
    _Atomic bool listed;
    _Atomic(struct hwt_chunk *) first; /* the first of all chunks; it is `next` of none */
    struct hwt_pieces *pieces;         /* frozen: where chunks come from, and go to */
    hwt_queue_node node;
    /* the claimer */
    _Alignas(64) _Atomic bool claimed;
    uint32_t read;          /* in head */
    struct hwt_chunk *head; /* NULL: the worker has not come to `first` yet */
    _Atomic uint32_t chunks_read;
    struct hwt_stream *next_listed; /* the worker's list */
    uint64_t drain_epoch, left;     /* the worker's: this drain still reads so many records */
};

/* The stream is all zero before. It has no chunk until there is a record. Its chunks go when all
 * pieces go. */
void hwt_stream_init(struct hwt_stream *stream, struct hwt_pieces *pieces);

/* Whether an unread record must stay. */
typedef bool (*hwt_stream_stays)(const void *data, const struct hwt_record *record);

struct hwt_stream_filter {
    hwt_stream_stays stays;
    const void *data;
    uint64_t most;  /* entries: no more records are worth staying */
    uint64_t ids;   /* all ids are less than that */
    uint32_t slack; /* so many chunks may come between two compactions in any case, */
    uint32_t room;  /* so many if the last one has left half as many, */
    uint32_t wide;  /* so many if it has left twice as many; and a third of what it has left */
};

/* Producer: begins the next chunk when one is full. False: no memory, and records may have been
 * left out, so the worker must look at the entries. */
bool hwt_stream_grow(struct hwt_stream *stream, struct hwt_stream_filter filter);

/* Producer, when it ends: gives its spare chunks back. */
void hwt_stream_free_spare(struct hwt_stream *stream);

static inline bool hwt_stream_is_full(const struct hwt_stream *stream)
{
    return stream->at == HWT_CHUNK_END;
}

/* Producer: whether the last record is the first of its chunk. */
static inline bool hwt_stream_has_begun_chunk(const struct hwt_stream *stream)
{
    return stream->at == HWT_CHUNK_FIRST + sizeof(struct hwt_record);
}

/* Producer: appends a record, for which there is room. */
static inline void hwt_stream_append(struct hwt_stream *stream, struct hwt_record record)
{
    HWT_ASSERT(!hwt_stream_is_full(stream));
    *hwt_chunk_record(stream->tail, stream->at) = record;
    stream->at += (uint32_t)sizeof(record);
    HWT_SCHED_POINT(APPEND);
    /* Release: the record. The compiler must not move later loads before it: see gate.h. */
    atomic_store_explicit(&stream->tail->used, stream->at, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
}

/* With one thread: changes the last record, which has not been read. */
static inline void hwt_stream_replace(const struct hwt_stream *stream, uint64_t deadline,
                                      uint32_t generation)
{
    struct hwt_record *last = hwt_chunk_record(stream->tail, stream->at) - 1;
    last->deadline = deadline;
    last->generation = generation;
}

/* After a barrier: whether the stream is on the worker's list, or on its way there. Acquire: if it
 * is not, the worker is done with its node. */
static inline bool hwt_stream_is_listed(const struct hwt_stream *stream)
{
    return atomic_load_explicit(&stream->listed, memory_order_acquire);
}

/* How many chunks are not read, about. */
static inline uint32_t hwt_stream_backlog(const struct hwt_stream *stream)
{
    /* Relaxed, both: numbers. One may be older than the other, so the difference may be below 0. */
    uint32_t read = atomic_load_explicit(&stream->chunks_read, memory_order_relaxed);
    uint32_t chunks = atomic_load_explicit(&stream->chunks, memory_order_relaxed);
    return (int32_t)(chunks - read) > 0 ? chunks - read : 0;
}

/* False: another one has claimed it. */
static inline bool hwt_stream_claim(struct hwt_stream *stream)
{
    HWT_SCHED_POINT(CLAIM);
    return !atomic_exchange_explicit(&stream->claimed, true, memory_order_acquire);
}

static inline void hwt_stream_release(struct hwt_stream *stream)
{
    HWT_SCHED_POINT(RELEASE);
    atomic_store_explicit(&stream->claimed, false, memory_order_release);
}

/* Worker, which has claimed the stream: how many records it can read at *ret_records. When it has
 * read them, it calls hwt_stream_advance(). */
uint32_t hwt_stream_peek(struct hwt_stream *stream, const struct hwt_record **ret_records);

static inline void hwt_stream_advance(struct hwt_stream *stream, uint32_t n)
{
    stream->read += n * (uint32_t)sizeof(struct hwt_record);
    HWT_ASSERT(stream->read <= HWT_CHUNK_END);
}

/* Worker, or a thread that keeps it from working: whether anything is unread. */
bool hwt_stream_is_used(const struct hwt_stream *stream);

#endif
