/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Lanes of threads, the lane that some share, what stays in them, and the lists of streams. lane.c
 * is included, so that its memory can be refused; the linker then leaves out the library's own.
 */

#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

static _Atomic bool refuse_block, refuse_mapping;

static void *may_aligned_alloc(size_t alignment, size_t size)
{
    return refuse_block ? NULL : aligned_alloc(alignment, size);
}

static void *may_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    return refuse_mapping ? MAP_FAILED : mmap(at, size, protection, flags, fd, offset);
}

#define aligned_alloc may_aligned_alloc
#define mmap may_mmap
#include "hwt/core/lane.c"
#undef aligned_alloc
#undef mmap

#include "unit.h"

static struct hwt_pool pool;
static _Atomic uint32_t flags = 1;
static struct hwt_gate gate;
static struct hwt_lanes lanes;
static char owner;

static const hwt_task task = { 0 };

/* Chunks that the worker reads within a tick; the last is as for a tick of minutes. */
static const uint32_t backlogs[] = { 0, 1000, 1 << 30 };
enum { BACKLOGS = 3 };

static void open_lanes_with(uint32_t backlog)
{
    memset(&pool, 0, sizeof(pool));
    memset(&lanes, 0, sizeof(lanes));
    hwt_pool_init(&pool, (hwt_timer *)(void *)&owner);
    hwt_gate_init(&gate, CLOCK_MONOTONIC, &flags, 1);
    must(hwt_lanes_init(&lanes, &pool, &gate, backlog) == 0);
}

static void open_lanes(void)
{
    open_lanes_with(0);
}

static void close_lanes(void)
{
    hwt_lanes_destroy(&lanes);
    hwt_pool_destroy(&pool);
}

static struct hwt_entry *make_pending(struct hwt_lane *lane, uint64_t deadline)
{
    struct hwt_entry *one = hwt_pool_take(&pool, &lane->cache);
    must(one);
    hwt_entry_begin(one, &task, NULL, deadline);
    return one;
}

static bool say_untold(struct hwt_lane *lane, uint32_t id, uint64_t generation)
{
    const struct hwt_record record = { HWT_RECORD_UNTOLD, id, (uint32_t)generation };
    return hwt_lane_say_cancelled(&lanes, lane, record);
}

/* ---- lanes ---- */

static void *enter(void *data)
{
    struct hwt_lane *lane = hwt_lane_enter(&lanes);
    must(hwt_lane_enter(&lanes) == lane || lane->shared);
    hwt_lane_count(&lane->added, 1);
    *(struct hwt_lane **)data = lane;
    hwt_lane_leave(&lanes, lane);
    return NULL;
}

START_TEST(a_thread_has_a_lane_and_the_next_of_its_number_has_the_same)
{
    struct hwt_lane *own, *other, *next;
    ck_assert_uint_eq(hwt_lanes_count(&lanes), 1);
    enter(&own);
    ck_assert(own != lanes.shared && !own->shared);
    join(spawn(enter, &other));
    join(spawn(enter, &next));
    ck_assert(own != other);
    ck_assert_ptr_eq(other, next);
    ck_assert_uint_eq(other->added, 2);
    ck_assert_uint_eq(hwt_lanes_count(&lanes), 3);
    ck_assert_ptr_eq(hwt_lane_at(&lanes, 0), lanes.shared);
    ck_assert_ptr_eq(hwt_lane_at(&lanes, 1), own);
    ck_assert_ptr_eq(hwt_lane_at(&lanes, 2), other);
}
END_TEST

START_TEST(a_lane_that_was_never_made_is_passed_over)
{
    struct hwt_lane *own;
    hwt_thread_take_number();
    hwt_thread_number = 5;
    enter(&own);
    ck_assert_uint_eq(hwt_lanes_count(&lanes), 6);
    for (uint32_t n = 1; n < 5; n++)
        ck_assert_ptr_null(hwt_lane_at(&lanes, n));
    ck_assert_ptr_eq(hwt_lane_at(&lanes, 5), own);
    uint64_t bytes = hwt_lanes_bytes(&lanes);
    ck_assert_uint_ge(bytes, 2 * sizeof(struct hwt_lane) + 4 * sizeof(struct hwt_chunk));
}
END_TEST

START_TEST(a_thread_without_a_number_has_the_shared_lane_while_it_is_there)
{
    hwt_thread_number = HWT_THREAD_NONE;
    struct hwt_lane *lane = hwt_lane_enter(&lanes);
    ck_assert_ptr_eq(lane, lanes.shared);
    ck_assert(lane->shared);
    ck_assert_int_eq(pthread_mutex_trylock(&lanes.shared_lock), EBUSY);
    hwt_lane_leave(&lanes, lane);
    ck_assert_int_eq(pthread_mutex_trylock(&lanes.shared_lock), 0);
    pthread_mutex_unlock(&lanes.shared_lock);
    ck_assert_uint_eq(hwt_lanes_count(&lanes), 1);
}
END_TEST

START_TEST(without_memory_for_a_lane_the_shared_one_is_used_until_there_is_some)
{
    struct hwt_lane *own;
    refuse_block = true;
    for (int i = 0; i < 3; i++) {
        struct hwt_lane *lane = hwt_lane_enter(&lanes);
        ck_assert_ptr_eq(lane, lanes.shared);
        ck_assert_int_eq(pthread_mutex_trylock(&lanes.shared_lock), EBUSY);
        hwt_lane_leave(&lanes, lane);
    }
    ck_assert_uint_eq(hwt_lanes_count(&lanes), 1);
    refuse_block = false;
    enter(&own);
    ck_assert_ptr_ne(own, lanes.shared);
}
END_TEST

START_TEST(without_memory_to_begin_nothing_is_held)
{
    struct hwt_lanes other;
    memset(&other, 0, sizeof(other));
    refuse_mapping = true;
    ck_assert_int_eq(hwt_lanes_init(&other, &pool, &gate, 0), -ENOMEM);
    refuse_mapping = false;
    refuse_block = true;
    ck_assert_int_eq(hwt_lanes_init(&other, &pool, &gate, 0), -ENOMEM);
    refuse_block = false;
}
END_TEST

enum { THREADS = 4, TIMES = 3000 };

static void *share(void *data)
{
    hwt_thread_number = HWT_THREAD_NONE;
    for (int i = 0; i < TIMES; i++) {
        struct hwt_lane *lane = hwt_lane_enter(&lanes);
        must(lane == lanes.shared);
        struct hwt_entry *one = make_pending(lane, 1);
        must(hwt_lane_say_pending(&lanes, lane, 1, hwt_entry_id(one), 1));
        hwt_lane_count(&lane->added, 1);
        hwt_lane_leave(&lanes, lane);
    }
    return data;
}

/* Reads all that is listed; how many records of one kind. */
static uint32_t read_listed(struct hwt_streams *streams)
{
    const struct hwt_record *records;
    uint32_t sum = 0, n;
    must(hwt_streams_gather(streams));
    for (struct hwt_stream *s = streams->listed; s; s = s->next_listed) {
        must(hwt_stream_claim(s));
        while ((n = hwt_stream_peek(s, &records)) > 0) {
            hwt_stream_advance(s, n);
            sum += n;
        }
        hwt_stream_release(s);
    }
    return sum;
}

START_TEST(what_threads_say_on_the_shared_lane_is_all_there)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        threads[i] = spawn(share, NULL);
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    ck_assert_uint_eq(lanes.shared->added, THREADS * TIMES);
    ck_assert_uint_eq(read_listed(&lanes.pending), THREADS * TIMES);
}
END_TEST

/* ---- what stays ---- */

static bool pending_stays(struct hwt_entry *one, uint64_t state, uint64_t generation, uint64_t said)
{
    const struct hwt_record record = { said, hwt_entry_id(one), (uint32_t)generation };
    atomic_store(&one->word.first, state);
    return hwt_pending_stays(&pool, &record);
}

START_TEST(a_pending_record_stays_while_its_timeout_is_pending)
{
    const uint64_t generation = (UINT64_C(7) << 32) + 3; /* of which a record has the low half */
    const uint64_t first = generation << HWT_GENERATION_SHIFT;
    struct hwt_entry *one = make_pending(lanes.shared, 1000);
    ck_assert(pending_stays(one, first | HWT_PHASE_PENDING, 3, 1000));
    ck_assert(pending_stays(one, first | HWT_PHASE_PENDING | HWT_RAN, 3, 1000));
    ck_assert(!pending_stays(one, first | HWT_PHASE_PENDING | HWT_HANDED, 3, 1000));
    ck_assert(!pending_stays(one, first | HWT_PHASE_PENDING, 2, 1000));
    ck_assert(!pending_stays(one, first | HWT_PHASE_PENDING, 4, 1000));
    ck_assert(pending_stays(one, first | HWT_PHASE_PENDING, 3, 999));   /* moved later since */
    ck_assert(!pending_stays(one, first | HWT_PHASE_PENDING, 3, 1001)); /* another says earlier */
    for (unsigned phase = 0; phase < 7; phase++) {
        if (phase != HWT_PHASE_PENDING)
            ck_assert(!pending_stays(one, first | phase, 3, 1000));
    }
}
END_TEST

START_TEST(a_cancelled_record_stays_until_its_entry_is_used_again)
{
    const uint64_t generation = (UINT64_C(7) << 32) + 3;
    struct hwt_entry *one = make_pending(lanes.shared, 1000);
    const struct hwt_record record = { HWT_RECORD_UNTOLD, hwt_entry_id(one), 3 };
    for (unsigned phase = 0; phase < 7; phase++) {
        atomic_store(&one->word.first, generation << HWT_GENERATION_SHIFT | phase);
        ck_assert(hwt_cancelled_stays(&pool, &record));
        atomic_store(&one->word.first, (generation + 1) << HWT_GENERATION_SHIFT | phase);
        ck_assert(!hwt_cancelled_stays(&pool, &record));
    }
}
END_TEST

static void say_all(struct hwt_lane *lane, struct hwt_entry *one)
{
    uint64_t state = hwt_entry_state(one), generation = hwt_generation(state);
    must(hwt_lane_say_pending(&lanes, lane, 1000, hwt_entry_id(one), generation));
    must(hwt_word_exchange_first(&one->word, state, hwt_with_phase(state, HWT_PHASE_UNTOLD)));
    must(say_untold(lane, hwt_entry_id(one), generation));
    hwt_pool_give(&pool, &lane->cache, one);
}

/* What comes and goes with nobody to read it: the worker is not woken for it either. */
START_TEST(what_is_said_is_bounded_by_what_is_pending)
{
    struct hwt_lane *lane;
    close_lanes();
    open_lanes_with(backlogs[_i]);
    enter(&lane);
    for (uint64_t i = 0; i < 100000; i++)
        say_all(lane, make_pending(lane, 1000));
    ck_assert_uint_le(hwt_stream_backlog(&lane->pending), 2 + HWT_BACKLOG);
    ck_assert_uint_le(hwt_stream_backlog(&lane->cancelled), 2 + HWT_BACKLOG);
}
END_TEST

/* Ten thousand are pending at any time, each for a little while. Where a tick is long enough to
 * read them in, the worker is not woken; else soon. */
START_TEST(what_is_soon_cancelled_is_left_out_without_the_worker)
{
    enum { WINDOW = 10000 };
    static struct hwt_entry *window[WINDOW];
    struct hwt_lane *lane;
    close_lanes();
    open_lanes_with(backlogs[_i]);
    enter(&lane);
    hwt_gate_close(&gate, UINT64_MAX);
    for (uint64_t i = 0; i < 20 * WINDOW && atomic_load(&gate.asleep); i++) {
        struct hwt_entry *one = window[i % WINDOW];
        if (i >= WINDOW) {
            uint64_t state = hwt_entry_state(one);
            must(hwt_word_exchange_first(&one->word, state,
                                         hwt_pending_to(state, HWT_PHASE_CANCELLED)));
            hwt_pool_give(&pool, &lane->cache, one);
        }
        window[i % WINDOW] = one = make_pending(lane, 1000);
        must(hwt_lane_say_pending(&lanes, lane, 1000, hwt_entry_id(one),
                                  hwt_generation(hwt_entry_state(one))));
        ck_assert_uint_le(hwt_stream_backlog(&lane->pending), 512);
    }
    ck_assert_int_eq(atomic_load(&gate.asleep), _i > 0);
}
END_TEST

/* The same timeout again and again: more records than there are entries. */
START_TEST(where_more_is_said_than_there_are_entries_that_is_told)
{
    struct hwt_lane *lane;
    enter(&lane);
    struct hwt_entry *one = make_pending(lane, 1000);
    uint64_t said = 0;
    while (hwt_lane_say_pending(&lanes, lane, 1000, hwt_entry_id(one), 1))
        must(said++ < 8 * HWT_SLAB_ENTRIES);
    ck_assert_uint_ge(said, HWT_SLAB_ENTRIES);
    ck_assert(hwt_lane_say_pending(&lanes, lane, 1000, hwt_entry_id(one), 1));
}
END_TEST

START_TEST(a_great_backlog_wakes_a_worker_that_sleeps)
{
    static const uint32_t wakes[] = { HWT_BACKLOG, 500, HWT_BACKLOG_MAX };
    struct hwt_lane *lane;
    close_lanes();
    open_lanes_with(backlogs[_i]);
    enter(&lane);
    ck_assert_uint_eq(hwt_lanes_count(&lanes), 2);
    hwt_gate_close(&gate, UINT64_MAX);
    uint64_t said = 0;
    for (; atomic_load(&gate.asleep); said++) {
        struct hwt_entry *one = make_pending(lane, 1000);
        must(hwt_lane_say_pending(&lanes, lane, 1000, hwt_entry_id(one), 1));
        must(said < 2 * wakes[_i] * HWT_CHUNK_RECORDS);
    }
    ck_assert_uint_ge(said, (wakes[_i] - 2) * HWT_CHUNK_RECORDS);
    ck_assert_uint_le(said, wakes[_i] * HWT_CHUNK_RECORDS);
    ck_assert(!hwt_gate_is_long(&gate));
}
END_TEST

/* They are to be told soon, whatever the tick. */
START_TEST(a_backlog_of_cancelled_ones_wakes_it_sooner)
{
    struct hwt_lane *lane;
    close_lanes();
    open_lanes_with(backlogs[_i]);
    enter(&lane);
    hwt_gate_begin(&gate); /* a short sleep: nothing else wakes it */
    uint64_t said = 0;
    for (; atomic_load(&gate.asleep); said++) {
        struct hwt_entry *one = make_pending(lane, 1000);
        must(say_untold(lane, hwt_entry_id(one), hwt_generation(hwt_entry_state(one))));
        must(said < 2 * HWT_BACKLOG * HWT_CHUNK_RECORDS);
    }
    ck_assert_uint_ge(said, (HWT_BACKLOG - 2) * HWT_CHUNK_RECORDS);
}
END_TEST

/* ---- the lists ---- */

START_TEST(a_stream_is_listed_once_until_it_is_dismissed)
{
    struct hwt_lane *lane;
    enter(&lane);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 10; i++) {
            struct hwt_entry *one = make_pending(lane, 1);
            must(hwt_lane_say_pending(&lanes, lane, 1, hwt_entry_id(one), 1));
        }
        ck_assert(lane->pending.listed && !lane->cancelled.listed);
        ck_assert_uint_eq(read_listed(&lanes.pending), 10);
        ck_assert_ptr_eq(lanes.pending.listed, &lane->pending);
        ck_assert_ptr_null(lane->pending.next_listed);
        ck_assert_uint_eq(read_listed(&lanes.pending), 0); /* it stays on the list */
        ck_assert_ptr_eq(lanes.pending.listed, &lane->pending);
        ck_assert_ptr_eq(hwt_streams_dismiss(&lanes.pending), &lane->pending);
        ck_assert_ptr_null(lanes.pending.listed);
        ck_assert(!lane->pending.listed);
        ck_assert_ptr_null(hwt_streams_dismiss(&lanes.pending));
    }
}
END_TEST

START_TEST(the_two_kinds_have_lists_of_their_own)
{
    struct hwt_lane *lane;
    enter(&lane);
    struct hwt_entry *one = make_pending(lane, 1);
    must(say_untold(lane, hwt_entry_id(one), 1));
    must(hwt_lane_say_pending(&lanes, lanes.shared, 1, hwt_entry_id(one), 1));
    must(say_untold(lanes.shared, hwt_entry_id(one), 1));
    ck_assert_uint_eq(read_listed(&lanes.pending), 1);
    ck_assert_uint_eq(read_listed(&lanes.cancelled), 2);
    struct hwt_stream *dismissed = hwt_streams_dismiss(&lanes.cancelled);
    ck_assert(dismissed && dismissed->next_listed && !dismissed->next_listed->next_listed);
    ck_assert(lanes.pending.listed == &lanes.shared->pending);
}
END_TEST

/* A push stopped half-way: after the exchange of the tail, before its predecessor links it. */
START_TEST(behind_a_push_that_stands_still_nothing_is_listed)
{
    struct hwt_lane *lane;
    enter(&lane);
    struct hwt_entry *one = make_pending(lane, 1);
    struct cds_wfcq_node *node = &lane->pending.node;
    cds_wfcq_node_init(node);
    struct cds_wfcq_node *before =
        __atomic_exchange_n(&lanes.pending.tail.p, node, __ATOMIC_SEQ_CST);
    must(hwt_lane_say_pending(&lanes, lanes.shared, 1, hwt_entry_id(one), 1));
    ck_assert(!hwt_streams_gather(&lanes.pending));
    ck_assert_ptr_null(lanes.pending.listed);
    __atomic_store_n(&before->next, node, __ATOMIC_RELEASE);
    ck_assert(hwt_streams_gather(&lanes.pending));
    ck_assert_uint_eq(read_listed(&lanes.pending), 1);
    ck_assert_ptr_eq(lanes.pending.listed, &lanes.shared->pending);
    ck_assert_ptr_eq(lanes.pending.listed->next_listed, &lane->pending);
}
END_TEST

/* Producers that say, a worker that reads, dismisses and looks once more. */
static _Atomic uint32_t busy;

static void *say_many(void *data)
{
    struct hwt_lane *lane = hwt_lane_enter(&lanes);
    for (int i = 0; i < TIMES; i++) {
        struct hwt_entry *one = make_pending(lane, 1);
        must(hwt_lane_say_pending(&lanes, lane, 1, hwt_entry_id(one), 1));
    }
    hwt_lane_leave(&lanes, lane);
    busy--;
    return data;
}

static uint32_t read_stream(struct hwt_stream *stream)
{
    const struct hwt_record *records;
    uint32_t sum = 0, n;
    while (!hwt_stream_claim(stream))
        ;
    while ((n = hwt_stream_peek(stream, &records)) > 0) {
        hwt_stream_advance(stream, n);
        sum += n;
    }
    hwt_stream_release(stream);
    return sum;
}

START_TEST(what_is_said_beside_a_dismissal_is_seen_by_the_look_after_it_or_listed_anew)
{
    pthread_t threads[THREADS];
    uint32_t sum = 0;
    busy = THREADS;
    for (int i = 0; i < THREADS; i++)
        threads[i] = spawn(say_many, NULL);
    for (bool last = false; !last;) {
        last = busy == 0;
        while (!hwt_streams_gather(&lanes.pending))
            ; /* a thread is half-way through a push */
        struct hwt_stream *next;
        for (struct hwt_stream *s = hwt_streams_dismiss(&lanes.pending); s; s = next) {
            next = s->next_listed;
            sum += read_stream(s);
        }
    }
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    ck_assert_uint_eq(sum, THREADS * TIMES);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lane");
    TCase *making = unit_case(suite, "lanes", open_lanes, close_lanes);
    tcase_add_test(making, a_thread_has_a_lane_and_the_next_of_its_number_has_the_same);
    tcase_add_test(making, a_lane_that_was_never_made_is_passed_over);
    tcase_add_test(making, a_thread_without_a_number_has_the_shared_lane_while_it_is_there);
    tcase_add_test(making, without_memory_for_a_lane_the_shared_one_is_used_until_there_is_some);
    tcase_add_test(making, without_memory_to_begin_nothing_is_held);
    tcase_add_test(making, what_threads_say_on_the_shared_lane_is_all_there);
    TCase *staying = unit_case(suite, "staying", open_lanes, close_lanes);
    tcase_add_test(staying, a_pending_record_stays_while_its_timeout_is_pending);
    tcase_add_test(staying, a_cancelled_record_stays_until_its_entry_is_used_again);
    tcase_add_loop_test(staying, what_is_said_is_bounded_by_what_is_pending, 0, BACKLOGS);
    tcase_add_loop_test(staying, what_is_soon_cancelled_is_left_out_without_the_worker, 0,
                        BACKLOGS);
    tcase_add_test(staying, where_more_is_said_than_there_are_entries_that_is_told);
    tcase_add_loop_test(staying, a_great_backlog_wakes_a_worker_that_sleeps, 0, BACKLOGS);
    tcase_add_loop_test(staying, a_backlog_of_cancelled_ones_wakes_it_sooner, 0, BACKLOGS);
    TCase *lists = unit_case(suite, "lists", open_lanes, close_lanes);
    tcase_add_test(lists, a_stream_is_listed_once_until_it_is_dismissed);
    tcase_add_test(lists, the_two_kinds_have_lists_of_their_own);
    tcase_add_test(lists, behind_a_push_that_stands_still_nothing_is_listed);
    tcase_add_test(lists,
                   what_is_said_beside_a_dismissal_is_seen_by_the_look_after_it_or_listed_anew);
    return run_suite(suite);
}
