/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Chunks of records. See stream.h. */

#include "hwt/core/stream.h"

#include <errno.h>
#include <stdlib.h>

#include "hwt/base/barrier.h"

#define COMPACT_MIN 2 /* chunks */

_Static_assert(sizeof(struct hwt_chunk) <= 1024, "a chunk is a KiB");

static struct hwt_chunk *make_chunk(void)
{
    struct hwt_chunk *chunk = malloc(sizeof(*chunk));
    if (!chunk)
        return NULL;
    atomic_init(&chunk->next, NULL);
    atomic_init(&chunk->used, 0);
    return chunk;
}

int hwt_stream_init(struct hwt_stream *stream, bool fences)
{
    struct hwt_chunk *chunk = make_chunk();
    if (!chunk)
        return -ENOMEM;
    stream->tail = stream->head = chunk;
    atomic_init(&stream->fences, fences);
    atomic_init(&stream->chunks, 1);
    stream->compact_at = COMPACT_MIN;
    atomic_init(&stream->chunks_read, 0);
    return 0;
}

void hwt_stream_destroy(struct hwt_stream *stream)
{
    struct hwt_chunk *chunk = stream->head;
    while (chunk) {
        struct hwt_chunk *next = atomic_load_explicit(&chunk->next, memory_order_relaxed);
        free(chunk);
        chunk = next;
    }
    free(atomic_load_explicit(&stream->spare, memory_order_relaxed));
}

/* Either end: a chunk that is read comes back to the producer, one at a time. */
static void give_back(struct hwt_stream *stream, struct hwt_chunk *chunk)
{
    atomic_store_explicit(&chunk->next, NULL, memory_order_relaxed);
    atomic_store_explicit(&chunk->used, 0, memory_order_relaxed);
    HWT_MEET(SPARE);
    /* Release: the two above. Acquire: what the last owner of the other one wrote. */
    free(atomic_exchange_explicit(&stream->spare, chunk, memory_order_acq_rel));
}

/* ---- the producer ---- */

/* Where the next record that stays goes. It never overtakes the one that is read. */
struct place {
    struct hwt_chunk *chunk;
    uint32_t at;
    uint32_t chunks;
};

static void put(struct place *to, const struct hwt_record *record)
{
    if (to->at == HWT_CHUNK_RECORDS) {
        to->chunk = atomic_load_explicit(&to->chunk->next, memory_order_relaxed);
        to->at = 0;
        to->chunks++;
    }
    to->chunk->records[to->at++] = *record;
}

static void set_chunks(struct hwt_stream *stream, uint32_t chunks)
{
    atomic_store_explicit(&stream->chunks, chunks, memory_order_relaxed);
}

/* Everything behind `to` is empty. */
static void cut(struct hwt_stream *stream, const struct place *to)
{
    struct hwt_chunk *chunk = atomic_load_explicit(&to->chunk->next, memory_order_relaxed);
    atomic_store_explicit(&to->chunk->next, NULL, memory_order_relaxed);
    hwt_a_fork_may_come();
    while (chunk) {
        struct hwt_chunk *next = atomic_load_explicit(&chunk->next, memory_order_relaxed);
        give_back(stream, chunk);
        chunk = next;
    }
    HWT_MEET(CUT);
    stream->tail = to->chunk;
    stream->at = to->at;
    set_chunks(stream,
               atomic_load_explicit(&stream->chunks_read, memory_order_relaxed) + to->chunks);
    /* Relaxed: the release of the claim publishes it. */
    atomic_store_explicit(&to->chunk->used, to->at, memory_order_relaxed);
}

/* Moves together what stays, and returns how many records that is. */
static uint64_t pack(struct place *to, const struct hwt_stream *stream,
                     struct hwt_stream_filter filter)
{
    uint64_t kept = 0;
    struct hwt_chunk *from = stream->head;
    for (uint32_t at = stream->read; from; at = 0) {
        uint32_t used = atomic_load_explicit(&from->used, memory_order_relaxed);
        for (; at < used; at++) {
            HWT_MEET(COMPACT);
            if (!filter.stays(filter.data, &from->records[at]))
                continue;
            put(to, &from->records[at]);
            kept++;
        }
        from = atomic_load_explicit(&from->next, memory_order_relaxed);
    }
    return kept;
}

/* False: nothing was kept though it should have been. */
static bool compact(struct hwt_stream *stream, struct hwt_stream_filter filter)
{
    if (!hwt_stream_claim(stream))
        return true;
    struct place to = { stream->head, stream->read, 1 };
    bool all = pack(&to, stream, filter) <= filter.most;
    if (!all)
        to = (struct place){ stream->head, stream->read, 1 };
    cut(stream, &to);
    stream->compact_at = 2 * to.chunks > COMPACT_MIN ? 2 * to.chunks : COMPACT_MIN;
    hwt_stream_release(stream);
    return all;
}

bool hwt_stream_grow(struct hwt_stream *stream, struct hwt_stream_filter filter)
{
    if (hwt_stream_backlog(stream) >= stream->compact_at) {
        if (!compact(stream, filter))
            return false;
        if (stream->at < HWT_CHUNK_RECORDS)
            return true;
    }
    /* Acquire: it is empty. */
    struct hwt_chunk *chunk =
        atomic_exchange_explicit(&stream->spare, NULL, memory_order_acquire);
    if (!chunk)
        chunk = make_chunk();
    if (!chunk)
        return false;
    HWT_MEET(CHUNK);
    /* Release: the chunk. */
    atomic_store_explicit(&stream->tail->next, chunk, memory_order_release);
    stream->tail = chunk;
    stream->at = 0;
    set_chunks(stream, atomic_load_explicit(&stream->chunks, memory_order_relaxed) + 1);
    return true;
}

/* ---- the worker ---- */

uint32_t hwt_stream_peek(struct hwt_stream *stream, const struct hwt_record **ret_records)
{
    if (stream->read == HWT_CHUNK_RECORDS) {
        /* Acquire: the chunk. */
        struct hwt_chunk *read = stream->head;
        struct hwt_chunk *next = atomic_load_explicit(&read->next, memory_order_acquire);
        if (!next)
            return 0;
        stream->head = next;
        stream->read = 0;
        atomic_fetch_add_explicit(&stream->chunks_read, 1, memory_order_relaxed);
        hwt_a_fork_may_come();
        give_back(stream, read);
    }
    *ret_records = &stream->head->records[stream->read];
    /* Acquire: the records. Seq_cst: after the worker has closed the gate, or taken the stream off
     * its list. */
    return atomic_load_explicit(&stream->head->used, memory_order_seq_cst) - stream->read;
}

bool hwt_stream_is_used(const struct hwt_stream *stream)
{
    return hwt_stream_backlog(stream) > 1 ||
           atomic_load_explicit(&stream->head->used, memory_order_acquire) != stream->read;
}

size_t hwt_stream_bytes(const struct hwt_stream *stream)
{
    /* Two more: the one that is read, and the spare. */
    return (hwt_stream_backlog(stream) + 1) * sizeof(struct hwt_chunk);
}
