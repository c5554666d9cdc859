/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A stream, on hwt/inbox/stream.[ch] as they are, with chunks of two records: append and peek over
 * the end of a chunk, chunks that come back and are used again, and, with -DCOMPACTS, a producer
 * that compacts beside the worker. GenMC itself finds races on records, head and read, and chunks
 * that are used after they were freed.
 */

#include <assert.h>
#include <pthread.h>

#include "hwt/inbox/stream.h"

#undef HWT_CHUNK_RECORDS
#define HWT_CHUNK_RECORDS 2

#include "pieces.h"

#include "hwt/inbox/stream.c"

#ifndef RECORDS
#define RECORDS 3
#endif
#ifndef LOOKS
#define LOOKS 2
#endif

static struct hwt_stream stream;
static uint32_t last;

static bool stays(const void *data, const struct hwt_record *record)
{
    (void)data;
    return record->id != 1;
}

static void *produce(void *arg)
{
    struct hwt_stream_filter filter = { stays, NULL, 100, 100, 0, 0, 0 };
    (void)arg;
    for (uint32_t i = 1; i <= RECORDS; i++) {
        if (stream.at == HWT_CHUNK_END && !hwt_stream_grow(&stream, filter))
            return NULL;
        hwt_stream_append(&stream, (struct hwt_record){ i, i, i });
    }
    return NULL;
}

static void look(void)
{
    const struct hwt_record *records;
    uint32_t n;
    if (!hwt_stream_claim(&stream))
        return;
    while ((n = hwt_stream_peek(&stream, &records)) > 0) {
        for (uint32_t i = 0; i < n; i++) {
            assert(records[i].id > last && records[i].deadline == records[i].id);
            last = records[i].id;
        }
        hwt_stream_advance(&stream, n);
    }
    hwt_stream_release(&stream);
}

static struct hwt_stream_filter nothing; /* GenMC cannot read one that is made here */

int main(void)
{
    pthread_t producer;
    hwt_stream_init(&stream, NULL);
    (void)hwt_stream_grow(&stream, nothing);
#ifndef COMPACTS
    stream.compact_at = 100;
#endif
    pthread_create(&producer, NULL, produce, NULL);
    for (int i = 0; i < LOOKS; i++)
        look();
    pthread_join(producer, NULL);
    look();
    assert(last == RECORDS);
    return 0;
}
