/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A producer that compacts, a worker that reads, and others that ask how much it is. */

#include <sched.h>

#include "stream_fixture.h"

enum { RECORDS = 400000, WINDOW = 700 };

static _Atomic uint64_t current; /* records before it are out of date */
static _Atomic bool done;
static uint64_t seed;

static bool current_ones_stay(uint64_t deadline)
{
    return deadline >= atomic_load_explicit(&current, memory_order_relaxed) || deadline % 64 == 0;
}

static void *produce(void *data)
{
    uint64_t *random = data;
    while (appended < RECORDS) {
        append(1 + test_random(random) % 50);
        if (appended > WINDOW)
            atomic_store_explicit(&current, appended - WINDOW, memory_order_relaxed);
        if (test_random(random) % 64 == 0)
            sched_yield();
    }
    atomic_store_explicit(&done, true, memory_order_release);
    return NULL;
}

/* Rising, and what must always stay is there. */
static void *consume(void *data)
{
    static uint64_t seen[CHUNK];
    uint64_t *random = data, at = 0;
    for (bool last = false, more = true; more;) {
        last = atomic_load_explicit(&done, memory_order_acquire);
        more = !last;
        if (!hwt_stream_claim(&stream)) {
            more = true;
            continue;
        }
        for (uint32_t n; (n = read_some(seen, CHUNK)) > 0;) {
            for (uint32_t i = 0; i < n; i++) {
                must(seen[i] >= at);
                must(seen[i] <= (at + 63) / 64 * 64);
                at = seen[i] + 1;
            }
            if (test_random(random) % 4 == 0)
                break;
            more = true;
        }
        if (last)
            more |= hwt_stream_is_used(&stream);
        hwt_stream_release(&stream);
        if (test_random(random) % 16 == 0)
            for (uint64_t i = test_random(random) % 20; i > 0; i--)
                sched_yield();
    }
    must(at == appended);
    return NULL;
}

static void *ask_how_much(void *data)
{
    while (!atomic_load_explicit(&done, memory_order_relaxed)) {
        must(hwt_pieces_bytes(&all_pieces) % HWT_PIECES_CHUNK == 0);
        sched_yield();
    }
    return data;
}

static void run(void)
{
    seed = test_seed();
    uint64_t seeds[2] = { test_random(&seed), test_random(&seed) };
    stays = current_ones_stay;
    current = 0;
    done = false;
    pthread_t producer = spawn(produce, &seeds[0]), asker = spawn(ask_how_much, NULL);
    pthread_t consumer = spawn(consume, &seeds[1]);
    join(producer);
    join(consumer);
    join(asker);
}

START_TEST(what_must_stay_is_read_whoever_compacts_meanwhile)
{
    run();
    ck_assert_uint_gt(looked, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stream: threads");
    TCase *threads = unit_case(suite, "threads", open_stream, close_stream);
    tcase_set_timeout(threads, 120);
    tcase_add_loop_test(threads, what_must_stay_is_read_whoever_compacts_meanwhile, 0, 4);
    return run_suite(suite);
}
