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

static _Atomic bool refuse;
static _Atomic uint64_t chunks_made, chunks_freed;

static inline void *may_malloc(size_t size)
{
    void *memory = refuse ? NULL : malloc(size);
    chunks_made += memory != NULL;
    return memory;
}

static inline void *may_calloc(size_t count, size_t size)
{
    void *memory = refuse ? NULL : calloc(count, size);
    chunks_made += memory != NULL; /* it is freed as chunks are */
    return memory;
}

static inline void count_free(void *memory)
{
    chunks_freed += memory != NULL;
    free(memory);
}

#define malloc may_malloc
#define calloc may_calloc
#define free count_free
#include "hwt/inbox/stream.c"
#undef malloc
#undef calloc
#undef free

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
    refuse = false;
    chunks_made = chunks_freed = 0;
    appended = looked = 0;
    stays = all_stay;
    most = UINT64_MAX;
    room = 0;
    wide = UINT32_MAX;
    ids = UINT32_MAX;
    hwt_stream_init(&stream);
}

static inline void close_stream(void)
{
    hwt_stream_destroy(&stream);
    must(chunks_made == chunks_freed);
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
