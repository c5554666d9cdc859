/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Chunks of records. See stream.h. */

#include "hwt/inbox/stream.h"

#include <sys/param.h> /* MIN, MAX */

#define COMPACT_FIRST 2 /* chunks */
#define OWN_SPARE_MIN 4

_Static_assert(sizeof(struct hwt_chunk) <= HWT_PIECES_CHUNK, "a chunk is a piece");

void hwt_stream_init(struct hwt_stream *stream, struct hwt_pieces *pieces)
{
    stream->at = stream->read = HWT_CHUNK_END;
    stream->compact_at = COMPACT_FIRST;
    stream->pieces = pieces;
}

/* The pointer to the chunk after this one; after none, to the first. */
static _Atomic(struct hwt_chunk *) *next_of(struct hwt_stream *stream, struct hwt_chunk *chunk)
{
    return chunk ? &chunk->next : &stream->first;
}

void hwt_stream_free_spare(struct hwt_stream *stream)
{
    while (stream->own_spare) {
        struct hwt_chunk *chunk = stream->own_spare;
        stream->own_spare = atomic_load_explicit(&chunk->next, memory_order_relaxed);
        hwt_pieces_give_chunk(stream->pieces, chunk);
    }
    stream->own_spare_count = 0;
}

/* An empty chunk. NULL: no memory. */
static struct hwt_chunk *take_chunk(struct hwt_stream *stream)
{
    struct hwt_chunk *chunk = stream->own_spare;
    if (chunk) {
        stream->own_spare = atomic_load_explicit(&chunk->next, memory_order_relaxed);
        stream->own_spare_count--;
    } else if (!(chunk = hwt_pieces_take(stream->pieces, HWT_PIECES_CHUNKS))) {
        return NULL;
    }
    atomic_store_explicit(&chunk->next, NULL, memory_order_relaxed);
    atomic_store_explicit(&chunk->used, HWT_CHUNK_FIRST, memory_order_relaxed);
    return chunk;
}

/* After a compaction: some are kept for the chunks to come. */
static void keep_chunk(struct hwt_stream *stream, struct hwt_chunk *chunk, uint32_t most)
{
    if (stream->own_spare_count >= most) {
        hwt_pieces_give_chunk(stream->pieces, chunk);
        return;
    }
    atomic_store_explicit(&chunk->next, stream->own_spare, memory_order_relaxed);
    stream->own_spare = chunk;
    stream->own_spare_count++;
}

/* ---- the producer ---- */

/* The next record that stays is written here. It never overtakes the record that it reads. */
struct cursor {
    struct hwt_chunk *chunk;
    uint32_t at;
    uint32_t chunks;
};

static void put(struct cursor *to, const struct hwt_record *record)
{
    if (to->at == HWT_CHUNK_END) {
        to->chunk = atomic_load_explicit(&to->chunk->next, memory_order_relaxed);
        to->at = HWT_CHUNK_FIRST;
        to->chunks++;
    }
    *hwt_chunk_record(to->chunk, to->at) = *record;
    to->at += (uint32_t)sizeof(*record);
}

static void set_chunks(struct hwt_stream *stream, uint32_t chunks)
{
    /* Relaxed: it publishes nothing. */
    atomic_store_explicit(&stream->chunks, chunks, memory_order_relaxed);
}

/* Ends the stream at `to`, and keeps up to `spare` of the chunks behind. */
static void cut(struct hwt_stream *stream, const struct cursor *to, uint32_t spare)
{
    struct hwt_chunk *chunk = atomic_load_explicit(&to->chunk->next, memory_order_relaxed);
    atomic_store_explicit(&to->chunk->next, NULL, memory_order_relaxed);
    /* Relaxed: the release of the claim publishes it. */
    atomic_store_explicit(&to->chunk->used, to->at, memory_order_relaxed);
    stream->tail = to->chunk;
    stream->at = to->at;
    set_chunks(stream,
               atomic_load_explicit(&stream->chunks_read, memory_order_relaxed) + to->chunks);
    HWT_SCHED_POINT(CUT);
    while (chunk) {
        struct hwt_chunk *next = atomic_load_explicit(&chunk->next, memory_order_relaxed);
        keep_chunk(stream, chunk, spare);
        chunk = next;
    }
}

/* Moves together what stays, and returns how many records that is. */
static uint64_t pack(struct cursor *to, struct hwt_stream_filter filter)
{
    uint64_t kept = 0;
    struct hwt_chunk *from = to->chunk;
    for (uint32_t at = to->at; from; at = HWT_CHUNK_FIRST) {
        uint32_t used = atomic_load_explicit(&from->used, memory_order_relaxed);
        for (; at < used; at += (uint32_t)sizeof(struct hwt_record)) {
            const struct hwt_record *record = hwt_chunk_record(from, at);
            HWT_SCHED_POINT(COMPACT);
            if (!filter.stays(filter.data, record))
                continue;
            put(to, record);
            kept++;
        }
        from = atomic_load_explicit(&from->next, memory_order_relaxed);
    }
    return kept;
}

/* How many chunks come between a compaction that has left `left` chunks and the next one. Each
 * looks at all records, so few compactions save time, and many save memory. */
static uint32_t space_until_next(uint32_t left, struct hwt_stream_filter filter)
{
    uint32_t twice = MIN(2 * left, filter.room), half = MIN((left + 1) / 2, filter.wide);
    return MAX(MAX(twice, filter.slack), MAX(half, (left + 2) / 3));
}

static bool is_first_of_its_id(const void *data, const struct hwt_record *record)
{
    unsigned char *seen = *(unsigned char *const *)data + record->id / 8;
    const unsigned bit = 1u << record->id % 8;
    const bool first = !(*seen & bit);
    *seen = (unsigned char)(*seen | bit);
    return first;
}

/* There are more records than entries, because a timeout that is moved to and fro has many. Any one
 * of them is enough. The first one stays, because its timeout was added there. False: no memory. */
static bool pack_once(struct hwt_pieces *pieces, struct cursor *to, struct hwt_stream_filter filter)
{
    const size_t size = filter.ids / 8 + 1;
    unsigned char *seen = hwt_pieces_map(pieces, size);
    if (!seen)
        return false;
    (void)pack(to, (struct hwt_stream_filter){ .stays = is_first_of_its_id, .data = &seen });
    hwt_pieces_unmap(pieces, seen, size);
    return true;
}

/* The worker's next record. A compaction leaves head and read as they are, so the worker may look
 * without a claim whether there is something. */
static struct cursor beginning_of(const struct hwt_stream *stream)
{
    if (!stream->head)
        return (struct cursor){ atomic_load_explicit(&stream->first, memory_order_relaxed),
                                HWT_CHUNK_FIRST, 1 };
    return (struct cursor){ stream->head, stream->read, 1 };
}

/* Worker: goes on to the next chunk, if there is one. Returns the chunk that it leaves. */
static struct hwt_chunk *next_chunk(struct hwt_stream *stream, bool *ret_some)
{
    /* Acquire: the chunk. */
    struct hwt_chunk *read = stream->head;
    struct hwt_chunk *next = atomic_load_explicit(next_of(stream, read), memory_order_acquire);
    *ret_some = next != NULL;
    if (!next)
        return NULL;
    stream->head = next;
    stream->read = HWT_CHUNK_FIRST;
    if (read)
        atomic_fetch_add_explicit(&stream->chunks_read, 1, memory_order_relaxed);
    return read;
}

/* False: no memory, and records that should have stayed did not. */
static bool compact(struct hwt_stream *stream, struct hwt_stream_filter filter)
{
    bool all = true;
    if (!hwt_stream_claim(stream))
        return true;
    const uint32_t spare = MAX(filter.slack, OWN_SPARE_MIN);
    struct cursor to = beginning_of(stream);
    bool too_many = pack(&to, filter) > filter.most;
    cut(stream, &to, spare);
    if (too_many) {
        to = beginning_of(stream);
        all = pack_once(stream->pieces, &to, filter);
        cut(stream, &to, spare);
    }
    stream->compact_at = to.chunks + space_until_next(to.chunks, filter);
    hwt_stream_release(stream);
    return all;
}

bool hwt_stream_grow(struct hwt_stream *stream, struct hwt_stream_filter filter)
{
    if (hwt_stream_backlog(stream) >= stream->compact_at) {
        if (!compact(stream, filter))
            return false;
        if (stream->at < HWT_CHUNK_END)
            return true;
    }
    struct hwt_chunk *chunk = take_chunk(stream);
    if (!chunk)
        return false;
    HWT_SCHED_POINT(CHUNK);
    /* Release: the chunk. */
    atomic_store_explicit(next_of(stream, stream->tail), chunk, memory_order_release);
    stream->tail = chunk;
    stream->at = HWT_CHUNK_FIRST;
    set_chunks(stream, atomic_load_explicit(&stream->chunks, memory_order_relaxed) + 1);
    return true;
}

/* ---- the worker ---- */

uint32_t hwt_stream_peek(struct hwt_stream *stream, const struct hwt_record **ret_records)
{
    if (stream->read == HWT_CHUNK_END) {
        bool some;
        struct hwt_chunk *read = next_chunk(stream, &some);
        if (!some)
            return 0;
        if (read)
            hwt_pieces_give(stream->pieces, read);
    }
    *ret_records = hwt_chunk_record(stream->head, stream->read);
    /* Acquire: the records. */
    return (atomic_load_explicit(&stream->head->used, memory_order_acquire) - stream->read) /
           (uint32_t)sizeof(struct hwt_record);
}

bool hwt_stream_is_used(const struct hwt_stream *stream)
{
    /* Relaxed, all: nothing is read by them. */
    if (!stream->head)
        return atomic_load_explicit(&stream->first, memory_order_relaxed) != NULL;
    if (stream->read == HWT_CHUNK_END)
        return atomic_load_explicit(&stream->head->next, memory_order_relaxed) != NULL;
    return atomic_load_explicit(&stream->head->used, memory_order_relaxed) != stream->read;
}
