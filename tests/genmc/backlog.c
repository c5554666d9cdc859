/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A reading ends with what was published when it began: how much that is, the worker takes from a
 * number that is not as new as the records. Before a long sleep, it must not miss one for that; and
 * before a short one (-DSHORT) no chunk whose producer wakes it, for there are so many. On
 * hwt/inbox/gate.[ch], lane.h and stream.[ch] as they are, with chunks of two records; the loop is
 * copied from read_stream() in drain.c, the producer's from lane.h.
 *
 * Verified: the worker has read the record that opened a chunk, or will look again, or its producer
 * has ended the sleep.
 */

#include <assert.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

/* They are not called, but to wake. */
#define syscall(...) 0
#define nanosleep(...) 0

#include "hwt/base/futex.c"
#include "hwt/inbox/gate.c"
#include "hwt/inbox/lane.h"

#undef HWT_CHUNK_RECORDS
#define HWT_CHUNK_RECORDS 2

#include "pieces.h"

#include "hwt/inbox/stream.c"

#define FENCED 64

static _Atomic uint32_t slow_path_bits;
static struct hwt_gate gate;
static struct hwt_stream stream;

static bool stays(const void *data, const struct hwt_record *record)
{
    (void)data;
    (void)record;
    return true;
}

static struct hwt_stream_filter filter = { stays, NULL, 100, 100, 0, 0, 0 };

static void *add(void *arg)
{
    (void)arg;
    if (!hwt_stream_grow(&stream, filter))
        return NULL;
    hwt_stream_append(&stream, (struct hwt_record){ 5, 3, 3 });
    hwt_full_barrier();
#ifdef SHORT
    hwt_gate_wake(&gate);
#else
    if (hwt_gate_asks(&gate, 5))
        hwt_gate_wake(&gate);
#endif
    return NULL;
}

static struct hwt_stream_filter nothing; /* GenMC cannot read one that is made here */

int main(void)
{
    pthread_t adder;
    const struct hwt_record *records;
    bool again = false, read = false;
    uint32_t n;
    hwt_stream_init(&stream, NULL);
    (void)hwt_stream_grow(&stream, nothing);
    stream.compact_at = 100;
    hwt_stream_append(&stream, (struct hwt_record){ 20, 1, 1 });
    hwt_stream_append(&stream, (struct hwt_record){ 20, 2, 2 });
    hwt_gate_init(&gate, CLOCK_MONOTONIC, &slow_path_bits, FENCED);
    pthread_create(&adder, NULL, add, NULL);

    hwt_gate_begin(&gate);
#ifndef SHORT
    hwt_gate_close(&gate, 10);
    hwt_gate_barrier(&gate);
#endif
    stream.left = (uint64_t)hwt_stream_backlog(&stream) * HWT_CHUNK_RECORDS;
    while (stream.left > 0 && (n = hwt_stream_peek(&stream, &records)) > 0) {
        read = records[n - 1].id == 3;
        hwt_stream_advance(&stream, n);
        if (n >= stream.left)
            break; /* as if it were 0: GenMC cannot read a saturating difference */
        stream.left -= n;
    }

    pthread_join(adder, NULL);
    assert(read || again || !hwt_gate_is_asleep(&gate));
    return 0;
}
