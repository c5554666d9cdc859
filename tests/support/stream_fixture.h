/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_STREAM_FIXTURE_H
#define HWT_TESTS_STREAM_FIXTURE_H

/*
 * A stream of records with rising deadlines. stream.c is included, so that its memory can be
 * refused; the linker then leaves out the library's own.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "pieces_kit.h"

static struct hwt_pieces all_pieces;
static _Atomic bool refuse; /* what is free serves in any case */
static _Atomic uint64_t chunks_made, chunks_freed;

static inline bool is_refused(void)
{
    return refuse && hwt_stack_count(&all_pieces.chunks) == 0;
}

static inline void *may_take(struct hwt_pieces *from, unsigned kind)
{
    void *piece = is_refused() ? NULL : hwt_pieces_take(from, kind);
    chunks_made += piece != NULL;
    return piece;
}

static inline void *may_map(struct hwt_pieces *from, size_t size)
{
    return is_refused() ? NULL : hwt_pieces_map(from, size);
}

static inline void count_give(struct hwt_pieces *to, void *piece)
{
    chunks_freed++;
    hwt_pieces_give(to, piece);
}

static inline void count_give_chunk(struct hwt_pieces *to, void *piece)
{
    chunks_freed++;
    hwt_pieces_give_chunk(to, piece);
}

#define hwt_pieces_take may_take
#define hwt_pieces_give count_give
#define hwt_pieces_give_chunk count_give_chunk
#define hwt_pieces_map may_map
#include "hwt/inbox/stream.c"
#undef hwt_pieces_take
#undef hwt_pieces_give
#undef hwt_pieces_give_chunk
#undef hwt_pieces_map

#include "unit.h"

enum { CHUNK = HWT_CHUNK_RECORDS };

static struct hwt_stream stream;
static uint64_t appended;

/* Whether the record of that deadline must stay: the test's own rule. */
static bool (*stays)(uint64_t deadline);
static uint64_t looked;     /* how often that was asked */
static uint64_t most;       /* so many can be worth staying */
static uint64_t ids;        /* there are so many */
static uint32_t room, wide; /* chunks; see the filter */

static inline uint32_t id_of(uint64_t deadline)
{
    return (uint32_t)(deadline * 3 % ids);
}

static inline bool ask(const void *data, const struct hwt_record *record)
{
    must(data == &stays);
    must(record->id == id_of(record->deadline));
    must(record->generation == (uint32_t)(record->deadline >> 3));
    looked++;
    return stays(record->deadline);
}

static inline bool all_stay(uint64_t deadline)
{
    (void)deadline;
    return true;
}

static inline bool none_stays(uint64_t deadline)
{
    (void)deadline;
    return false;
}

static inline void open_stream(void)
{
    memset(&stream, 0, sizeof(stream));
    pieces_open(&all_pieces);
    refuse = false;
    chunks_made = chunks_freed = 0;
    appended = looked = 0;
    stays = all_stay;
    most = UINT64_MAX;
    room = 0;
    wide = UINT32_MAX;
    ids = UINT32_MAX;
    hwt_stream_init(&stream, &all_pieces);
}

static inline void close_stream(void)
{
    hwt_pieces_destroy(&all_pieces);
}

/* As lane.h does it. */
static inline bool try_append(void)
{
    const struct hwt_stream_filter filter = { ask, &stays, most, ids, 0, room, wide };
    uint64_t deadline = appended;
    if (hwt_stream_is_full(&stream) && !hwt_stream_grow(&stream, filter))
        return false;
    hwt_stream_append(&stream,
                      (struct hwt_record){ deadline, id_of(deadline), (uint32_t)(deadline >> 3) });
    appended++;
    return true;
}

static inline void append(uint64_t n)
{
    while (n-- > 0)
        must(try_append());
}

/* Reads up to `max` records into `seen`, and returns how many. */
static inline uint32_t read_some(uint64_t *seen, uint32_t max)
{
    const struct hwt_record *records;
    uint32_t n = hwt_stream_peek(&stream, &records);
    n = n < max ? n : max;
    for (uint32_t i = 0; i < n; i++) {
        must(records[i].id == id_of(records[i].deadline));
        must(records[i].generation == (uint32_t)(records[i].deadline >> 3));
        seen[i] = records[i].deadline;
    }
    hwt_stream_advance(&stream, n);
    return n;
}

#endif
