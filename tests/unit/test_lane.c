/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Lanes of threads, the lane that some share, and the lists of streams. lane.c is included, so that
 * its memory can be refused; the linker then leaves out the library's own.
 */

#include <stdbool.h>

#include "hwt/base/pieces.h"

static _Atomic bool refuse_block;

static void *may_take(struct hwt_pieces *from, unsigned kind)
{
    return refuse_block ? NULL : hwt_pieces_take(from, kind);
}

#define hwt_pieces_take may_take
#include "hwt/inbox/lane.c"
#undef hwt_pieces_take

#include "lane_fixture.h"

/* ---- lanes ---- */

START_TEST(a_thread_has_a_lane_and_the_next_of_its_number_has_the_same)
{
    struct hwt_lane *own, *other, *next;
    ck_assert_uint_eq(hwt_lanes_count(&lanes), 1);
    enter(&own);
    ck_assert(own != lanes.shared && !own->locked);
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
    uint32_t number = hwt_thread_take_number();
    hwt_thread_number = 5;
    enter(&own);
    hwt_thread_number = number; /* the next case may be on this thread, too */
    ck_assert_uint_eq(hwt_lanes_count(&lanes), 6);
    for (uint32_t n = 1; n < 5; n++)
        ck_assert_ptr_null(hwt_lane_at(&lanes, n));
    ck_assert_ptr_eq(hwt_lane_at(&lanes, 5), own);
    ck_assert_uint_ge(hwt_pieces_bytes(&pool.pieces), 2 * sizeof(struct hwt_lane));
}
END_TEST

START_TEST(threads_that_have_ended_have_no_part_of_what_may_be_unread)
{
    enum { NUMBERS = 100 };
    uint32_t number = hwt_thread_take_number();
    struct hwt_lane *lane;
    close_lanes();
    open_lanes_with(HWT_BACKLOG_MAX);
    for (int times = 0; times < 2; times++) {
        ck_assert_uint_eq(hwt_lane_backlog(&lanes), HWT_BACKLOG_MAX);
        for (hwt_thread_number = 1; hwt_thread_number <= NUMBERS; hwt_thread_number++)
            enter(&lane);
        ck_assert_uint_eq(hwt_lane_backlog(&lanes), HWT_BACKLOG);
        for (hwt_thread_number = 1; hwt_thread_number <= NUMBERS; hwt_thread_number++)
            hwt_lane_thread_ends(&lanes);
    }
    hwt_thread_number = number;
}
END_TEST

START_TEST(a_thread_without_a_number_has_the_shared_lane_while_it_is_there)
{
    uint32_t number = hwt_thread_number;
    hwt_thread_number = HWT_THREAD_NONE;
    struct hwt_lane *lane = hwt_lane_enter(&lanes);
    ck_assert_ptr_eq(lane, lanes.shared);
    ck_assert(lane->locked);
    ck_assert_int_eq(pthread_mutex_trylock(&lanes.shared_lock), EBUSY);
    hwt_lane_leave(&lanes, lane);
    ck_assert_int_eq(pthread_mutex_trylock(&lanes.shared_lock), 0);
    pthread_mutex_unlock(&lanes.shared_lock);
    hwt_thread_number = number;
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
    refuse_block = true;
    ck_assert_int_eq(hwt_lanes_init(&other, &pool, &gate, 0, false), -ENOMEM);
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
        must(hwt_lane_publish_pending(&lanes, lane, 1, hwt_entry_id(one), 1));
        hwt_count(&lane->added, 1, false);
        hwt_lane_leave(&lanes, lane);
    }
    return data;
}

/* Reads all that is listed; how many records of one kind. */
static uint32_t read_listed(struct hwt_streams *streams)
{
    const struct hwt_record *records;
    uint32_t sum = 0, n;
    must(hwt_streams_receive(streams));
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

/* ---- the lists ---- */

START_TEST(a_stream_is_listed_once_until_it_is_dismissed)
{
    struct hwt_lane *lane;
    enter(&lane);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 10; i++) {
            struct hwt_entry *one = make_pending(lane, 1);
            must(hwt_lane_publish_pending(&lanes, lane, 1, hwt_entry_id(one), 1));
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
    must(hwt_lane_publish_pending(&lanes, lanes.shared, 1, hwt_entry_id(one), 1));
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
    must(hwt_lane_publish_pending(&lanes, lanes.shared, 1, hwt_entry_id(one), 1));
    ck_assert(!hwt_streams_receive(&lanes.pending));
    ck_assert_ptr_null(lanes.pending.listed);
    __atomic_store_n(&before->next, node, __ATOMIC_RELEASE);
    ck_assert(hwt_streams_receive(&lanes.pending));
    ck_assert_uint_eq(read_listed(&lanes.pending), 1);
    /* In the order of their pushes. */
    ck_assert_ptr_eq(lanes.pending.listed, &lane->pending);
    ck_assert_ptr_eq(lanes.pending.listed->next_listed, &lanes.shared->pending);
}
END_TEST

/* Producers that say, a worker that reads, dismisses and looks once more. */
static _Atomic uint32_t busy;

static void *say_many(void *data)
{
    struct hwt_lane *lane = hwt_lane_enter(&lanes);
    for (int i = 0; i < TIMES; i++) {
        struct hwt_entry *one = make_pending(lane, 1);
        must(hwt_lane_publish_pending(&lanes, lane, 1, hwt_entry_id(one), 1));
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
        while (!hwt_streams_receive(&lanes.pending))
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
    tcase_add_test(making, threads_that_have_ended_have_no_part_of_what_may_be_unread);
    tcase_add_test(making, a_thread_without_a_number_has_the_shared_lane_while_it_is_there);
    tcase_add_test(making, without_memory_for_a_lane_the_shared_one_is_used_until_there_is_some);
    tcase_add_test(making, without_memory_to_begin_nothing_is_held);
    tcase_add_test(making, what_threads_say_on_the_shared_lane_is_all_there);
    TCase *lists = unit_case(suite, "lists", open_lanes, close_lanes);
    tcase_add_test(lists, a_stream_is_listed_once_until_it_is_dismissed);
    tcase_add_test(lists, the_two_kinds_have_lists_of_their_own);
    tcase_add_test(lists, behind_a_push_that_stands_still_nothing_is_listed);
    tcase_add_test(lists,
                   what_is_said_beside_a_dismissal_is_seen_by_the_look_after_it_or_listed_anew);
    return run_suite(suite);
}
