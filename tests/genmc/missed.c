/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A producer that compacts, and a worker that finds its stream claimed and goes to sleep; on
 * hwt/inbox/stream.[ch] as they are. The worker has read the stream, or is woken; also where it had
 * missed the stream once before (-DAGAIN).
 */

#include <assert.h>
#include <pthread.h>

#include "hwt/base/barrier.h"
#include "hwt/inbox/stream.h"

#undef HWT_CHUNK_RECORDS
#define HWT_CHUNK_RECORDS 2

#include "hwt/inbox/stream.c"

static struct hwt_stream stream;
static _Atomic uint32_t asleep;
static bool has_read;

static bool stays(const void *data, const struct hwt_record *record)
{
    (void)data;
    (void)record;
    return true;
}

/* As hwt_lane_grow() and hwt_gate_wake(). */
static void wake_if_missed(void)
{
    if (hwt_stream_was_missed(&stream) && atomic_load_explicit(&asleep, memory_order_seq_cst))
        atomic_store_explicit(&asleep, 0, memory_order_relaxed);
}

static void *produce(void *arg)
{
    const struct hwt_stream_filter filter = { stays, NULL, 100, 100, 0, 0, 0 };
#ifdef AGAIN
    wake_if_missed();
#endif
    (void)compact(&stream, filter);
    wake_if_missed();
    return arg;
}

static struct hwt_stream_filter nothing; /* GenMC cannot read one that is made here */

int main(void)
{
    pthread_t producer;
    hwt_stream_init(&stream);
    (void)hwt_stream_grow(&stream, nothing);
    hwt_stream_append(&stream, (struct hwt_record){ 1, 1, 1 });
#ifdef AGAIN
    atomic_store_explicit(&stream.missed, true, memory_order_relaxed);
#endif
    pthread_create(&producer, NULL, produce, NULL);
    atomic_store_explicit(&asleep, 1, memory_order_release); /* as hwt_gate_begin() */
    hwt_full_barrier();
    if (hwt_stream_claim(&stream) || hwt_stream_claim_or_miss(&stream)) {
        has_read = true;
        hwt_stream_release(&stream);
    }
    pthread_join(producer, NULL);
    assert(has_read || !asleep);
    return 0;
}
