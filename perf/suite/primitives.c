/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What this processor takes for what a timer for threads is made of. Machines differ more in
 * these than in anything else.
 */

#include "kit.h"

#include <pthread.h>
#include <stdatomic.h>

#define LINE 128
#define BATCH 1000
#define TRIPS 100000

static _Alignas(LINE) _Atomic uint64_t word;
static _Alignas(LINE) volatile uint64_t plain;

static void add_locked(void)
{
    atomic_fetch_add_explicit(&word, 1, memory_order_relaxed);
}

static void exchange_if_equal(void)
{
    uint64_t expected = atomic_load_explicit(&word, memory_order_relaxed);

    atomic_compare_exchange_strong(&word, &expected, expected + 1);
}

static void store_and_fence(void)
{
    plain = plain + 1;
    atomic_thread_fence(memory_order_seq_cst);
}

static void store_plain(void)
{
    plain = plain + 1;
}

static void read_the_clock(void)
{
    plain = now_ns();
}

#ifdef __GCC_HAVE_SYNC_COMPARE_AND_SWAP_16
__extension__ typedef unsigned __int128 wide;

static wide pair __attribute__((aligned(16)));

static void exchange_pair(void)
{
    wide expected = pair;

    __sync_bool_compare_and_swap(&pair, expected, expected + 1);
}
#endif

/* Nanoseconds of one, by the best of many batches: neighbours only make it slower. */
static double best(void (*operation)(void), double seconds)
{
    uint64_t end = now_ns() + (uint64_t)(seconds * 1e9), least = UINT64_MAX, now;

    do {
        uint64_t begin = now_ns();
        for (int i = 0; i < BATCH; i++)
            operation();
        now = now_ns();
        least = now - begin < least ? now - begin : least;
    } while (now < end);
    return (double)least / BATCH;
}

/* ---- A line that goes to the other core and comes back ---- */

static _Alignas(LINE) _Atomic uint64_t ping;
static _Alignas(LINE) _Atomic uint64_t pong;

static void *answer(void *unused)
{
    (void)unused;
    for (uint64_t i = 1; i <= TRIPS; i++) {
        while (atomic_load_explicit(&ping, memory_order_acquire) < i)
            ;
        atomic_store_explicit(&pong, i, memory_order_release);
    }
    return NULL;
}

static double round_trip(void)
{
    pthread_t thread;
    uint64_t least = UINT64_MAX;

    int r = pthread_create(&thread, NULL, answer, NULL);
    if (r != 0)
        die("pthread_create", r);
    for (uint64_t i = 1; i <= TRIPS;) {
        uint64_t begin = now_ns();
        for (uint64_t last = i + BATCH; i < last; i++) {
            atomic_store_explicit(&ping, i, memory_order_release);
            while (atomic_load_explicit(&pong, memory_order_acquire) < i)
                ;
        }
        uint64_t took = now_ns() - begin;
        least = took < least ? took : least;
    }
    pthread_join(thread, NULL);
    return (double)least / BATCH;
}

static void run_primitives(const struct options *options)
{
    double seconds = options->seconds / 6;

    metric("store_ns", best(store_plain, seconds));
    metric("locked_add_ns", best(add_locked, seconds));
    metric("cmpxchg_ns", best(exchange_if_equal, seconds));
#ifdef __GCC_HAVE_SYNC_COMPARE_AND_SWAP_16
    metric("cmpxchg16b_ns", best(exchange_pair, seconds));
#endif
    metric("store_fence_ns", best(store_and_fence, seconds));
    metric("clock_ns", best(read_the_clock, seconds));
    metric("core_to_core_and_back_ns", round_trip());
}

int main(int argc, char **argv)
{
    static const struct workload workloads[] = {
        { "primitives", run_primitives, 0, 0.6, 0 },
        { 0 },
    };

    return contend(argc, argv, workloads);
}
