/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Lanes: order, snapshots, a producer stopped half-way, and several of them at once. More is in
 * test_lane_salvage.c and, whose lane is whose, in test_lane_threads.c. */

#include <sched.h>

#include "room_fixture.h"

enum { MANY = 1000 };

static struct room room;
static struct hwt_entry *entries[MANY];

static void open_room(void)
{
    room_open(&room, 0, HWT_MS(1), 8);
    room_take_all(&room, entries, MANY);
}

static void close_room(void)
{
    room_close(&room);
}

/* The two queues of a lane, by the same names. */
struct queue {
    void (*push)(struct hwt_lane *lane, struct hwt_entry *entry);
    bool (*splice)(struct hwt_lane *lane);
    struct hwt_entry *(*pop)(struct hwt_lane *lane, bool *ret_stalled);
};

static const struct queue queues[] = {
    { hwt_lane_push_pending, hwt_lane_splice_pending, hwt_lane_pop_drained },
    { hwt_lane_push_cancelled, hwt_lane_splice_cancelled, hwt_lane_pop_reaped },
};

static hwt_mpsc_tail *tail_of(int queue, struct hwt_lane *lane)
{
    return queue == 0 ? &lane->pending_tail : &lane->cancelled_tail;
}

static void expect(const struct queue *queue, struct hwt_lane *lane, struct hwt_entry *entry)
{
    bool stalled = true;
    must(queue->pop(lane, &stalled) == entry);
    must(!stalled);
}

static void expect_stalled(const struct queue *queue, struct hwt_lane *lane)
{
    bool stalled = false;
    must(queue->pop(lane, &stalled) == NULL);
    must(stalled);
}

/* ---- a thread and its lane ---- */

START_TEST(there_are_lanes_with_an_owner_shared_ones_and_one_for_the_worker)
{
    uint32_t owned = hwt_lanes_owned(), count = owned + HWT_LANES_SHARED;
    ck_assert_uint_ge(owned, 16);
    ck_assert_uint_le(owned, 64);
    ck_assert_uint_eq(room.timer->lanes_owned, owned);
    ck_assert_uint_eq(room.timer->lane_count, count);
    for (uint32_t i = 0; i <= count; i++) {
        struct hwt_lane *lane = &room.timer->lanes[i];
        ck_assert_uint_eq((uintptr_t)lane % HWT_CACHE_LINE, 0);
        ck_assert(lane->shared == (i >= owned));
        expect(&queues[0], lane, NULL);
        expect(&queues[1], lane, NULL);
        ck_assert(hwt_lane_is_empty(lane));
    }
}
END_TEST

START_TEST(what_the_owner_the_producers_and_the_worker_write_is_on_lines_of_its_own)
{
    uintptr_t counters = (uintptr_t)&room.lane->given, ready = (uintptr_t)&room.lane->ready[0];
    uintptr_t pushed = (uintptr_t)&room.lane->pending_tail;
    uintptr_t popped = (uintptr_t)&room.lane->pending_head;
    ck_assert_uint_eq(pushed % HWT_CACHE_LINE, 0);
    ck_assert_uint_eq(popped % HWT_CACHE_LINE, 0);
    ck_assert_uint_lt(counters, pushed);
    ck_assert_uint_lt(ready, pushed);
    ck_assert_uint_lt((uintptr_t)&room.lane->free, popped);
}
END_TEST

START_TEST(a_thread_keeps_to_its_lane)
{
    for (int i = 0; i < 100; i++)
        must(hwt_lane_own(room.timer) == room.lane);
}
END_TEST

/* ---- one thread ---- */

START_TEST(what_was_pushed_first_is_popped_first)
{
    const struct queue *queue = &queues[_i];
    for (int i = 0; i < MANY; i++)
        queue->push(room.lane, entries[i]);
    must(queue->splice(room.lane));
    for (int i = 0; i < MANY; i++)
        expect(queue, room.lane, entries[i]);
    expect(queue, room.lane, NULL);
}
END_TEST

START_TEST(nothing_is_popped_before_it_was_spliced)
{
    const struct queue *queue = &queues[_i];
    must(queue->splice(room.lane)); /* there is nothing to take: no stall */
    queue->push(room.lane, entries[0]);
    expect(queue, room.lane, NULL);
    must(queue->splice(room.lane));
    queue->push(room.lane, entries[1]);
    expect(queue, room.lane, entries[0]);
    expect(queue, room.lane, NULL);
    must(queue->splice(room.lane));
    expect(queue, room.lane, entries[1]);
    expect(queue, room.lane, NULL);
}
END_TEST

START_TEST(a_snapshot_goes_behind_what_is_left_of_the_one_before)
{
    const struct queue *queue = &queues[_i];
    for (int i = 0; i < 30; i++) {
        queue->push(room.lane, entries[i]);
        if (i % 10 == 9)
            must(queue->splice(room.lane));
        if (i % 10 == 4 && i > 10)
            expect(queue, room.lane, entries[i / 10 - 1]);
    }
    for (int i = 2; i < 30; i++)
        expect(queue, room.lane, entries[i]);
    expect(queue, room.lane, NULL);
}
END_TEST

START_TEST(an_entry_can_be_pushed_again_once_it_was_popped)
{
    const struct queue *queue = &queues[_i];
    for (int i = 0; i < 100; i++) {
        queue->push(room.lane, entries[0]);
        must(queue->splice(room.lane));
        expect(queue, room.lane, entries[0]);
    }
    expect(queue, room.lane, NULL);
}
END_TEST

START_TEST(the_queues_of_a_lane_are_apart)
{
    queues[0].push(room.lane, entries[0]);
    queues[1].push(room.lane, entries[1]);
    queues[0].push(room_lane(&room, 1), entries[2]);
    must(queues[0].splice(room.lane));
    expect(&queues[0], room.lane, entries[0]);
    expect(&queues[0], room.lane, NULL);
    expect(&queues[1], room.lane, NULL);
    must(queues[1].splice(room.lane));
    expect(&queues[1], room.lane, entries[1]);
}
END_TEST

/* ---- a push that stopped half-way ---- */

START_TEST(nothing_can_be_taken_while_the_first_push_is_half_done)
{
    const struct queue *queue = &queues[_i];
    hwt_mpsc_node *before = half_push(tail_of(_i, room.lane), entries[0]);
    queue->push(room.lane, entries[1]);
    must(!queue->splice(room.lane));
    must(!queue->splice(room.lane));
    expect(queue, room.lane, NULL);
    finish_push(before, entries[0]);
    must(queue->splice(room.lane));
    expect(queue, room.lane, entries[0]);
    expect(queue, room.lane, entries[1]);
    expect(queue, room.lane, NULL);
}
END_TEST

START_TEST(a_snapshot_is_popped_up_to_the_push_that_is_half_done)
{
    const struct queue *queue = &queues[_i];
    for (int i = 0; i < 3; i++)
        queue->push(room.lane, entries[i]);
    hwt_mpsc_node *before = half_push(tail_of(_i, room.lane), entries[3]);
    queue->push(room.lane, entries[4]);
    must(queue->splice(room.lane));
    /* The last one before the gap stays too: its successor is wanted to let it go. */
    expect(queue, room.lane, entries[0]);
    expect(queue, room.lane, entries[1]);
    expect_stalled(queue, room.lane);
    expect_stalled(queue, room.lane);
    finish_push(before, entries[3]);
    for (int i = 2; i < 5; i++)
        expect(queue, room.lane, entries[i]);
    expect(queue, room.lane, NULL);
}
END_TEST

START_TEST(what_is_pushed_behind_a_gap_comes_after_it)
{
    const struct queue *queue = &queues[_i];
    queue->push(room.lane, entries[0]);
    hwt_mpsc_node *before = half_push(tail_of(_i, room.lane), entries[1]);
    must(queue->splice(room.lane));
    expect_stalled(queue, room.lane);
    queue->push(room.lane, entries[2]);
    must(queue->splice(room.lane));
    expect_stalled(queue, room.lane);
    finish_push(before, entries[1]);
    for (int i = 0; i < 3; i++)
        expect(queue, room.lane, entries[i]);
    expect(queue, room.lane, NULL);
}
END_TEST

START_TEST(a_stalled_lane_does_not_stall_another)
{
    const struct queue *queue = &queues[_i];
    struct hwt_lane *other = room_lane(&room, 1);
    hwt_mpsc_node *before = half_push(tail_of(_i, other), entries[0]);
    queue->push(room.lane, entries[1]);
    must(!queue->splice(other));
    must(queue->splice(room.lane));
    expect(queue, room.lane, entries[1]);
    finish_push(before, entries[0]);
    must(queue->splice(other));
    expect(queue, other, entries[0]);
}
END_TEST

/* ---- whether there is anything ---- */

START_TEST(a_lane_is_empty_when_all_its_pending_ones_are_popped)
{
    must(hwt_lane_is_empty(room.lane));
    queues[1].push(room.lane, entries[0]); /* is cancelled, not pending */
    must(hwt_lane_is_empty(room.lane));
    for (int i = 1; i < 4; i++) {
        queues[0].push(room.lane, entries[i]);
        must(!hwt_lane_is_empty(room.lane));
    }
    must(queues[0].splice(room.lane));
    for (int i = 1; i < 4; i++) {
        must(!hwt_lane_is_empty(room.lane));
        expect(&queues[0], room.lane, entries[i]);
    }
    must(hwt_lane_is_empty(room.lane));
}
END_TEST

START_TEST(a_lane_with_a_push_half_done_is_not_empty)
{
    hwt_mpsc_node *before = half_push(&room.lane->pending_tail, entries[0]);
    must(!hwt_lane_is_empty(room.lane));
    finish_push(before, entries[0]);
    must(!hwt_lane_is_empty(room.lane));
}
END_TEST

/* ---- several producers ---- */

enum { PRODUCERS = 4, EACH = 20000 };

struct producer {
    const struct queue *queue;
    struct hwt_lane *lane;
    struct hwt_entry **own; /* tagged by producer and index */
    _Atomic bool *go;
};

static void *produce(void *data)
{
    struct producer *producer = data;
    while (!atomic_load(producer->go))
        sched_yield();
    for (int i = 0; i < EACH; i++)
        producer->queue->push(producer->lane, producer->own[i]);
    return NULL;
}

/* Pops what is there, and ticks it off: each producer's are in order. */
static size_t consume(const struct queue *queue, struct hwt_lane *lane, uintptr_t *next)
{
    size_t n = 0;
    struct hwt_entry *entry;
    bool stalled;
    queue->splice(lane);
    while ((entry = queue->pop(lane, &stalled)) != NULL) {
        uintptr_t tag = (uintptr_t)entry->arg;
        must(next[tag / EACH]++ == tag % EACH);
        n++;
    }
    return n;
}

START_TEST(none_of_several_producers_is_lost_doubled_or_out_of_order)
{
    static struct hwt_entry *own[PRODUCERS * EACH];
    struct producer producers[PRODUCERS];
    pthread_t threads[PRODUCERS];
    uintptr_t next[PRODUCERS] = { 0 };
    _Atomic bool go = false;
    room_take_all(&room, own, PRODUCERS * EACH);
    for (uintptr_t i = 0; i < PRODUCERS * EACH; i++)
        own[i]->arg = (void *)i;
    for (int i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct producer){ &queues[_i], room.lane, &own[i * EACH], &go };
        threads[i] = spawn(produce, &producers[i]);
    }
    atomic_store(&go, true);
    for (size_t n = 0; n < PRODUCERS * EACH;)
        n += consume(&queues[_i], room.lane, next);
    for (int i = 0; i < PRODUCERS; i++) {
        join(threads[i]);
        must(next[i] == EACH);
    }
    must(consume(&queues[_i], room.lane, next) == 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lane");
    TCase *own = room_case(suite, "own", open_room, close_room);
    tcase_add_test(own, there_are_lanes_with_an_owner_shared_ones_and_one_for_the_worker);
    tcase_add_test(own, what_the_owner_the_producers_and_the_worker_write_is_on_lines_of_its_own);
    tcase_add_test(own, a_thread_keeps_to_its_lane);
    TCase *order = room_case(suite, "order", open_room, close_room);
    tcase_add_loop_test(order, what_was_pushed_first_is_popped_first, 0, 2);
    tcase_add_loop_test(order, nothing_is_popped_before_it_was_spliced, 0, 2);
    tcase_add_loop_test(order, a_snapshot_goes_behind_what_is_left_of_the_one_before, 0, 2);
    tcase_add_loop_test(order, an_entry_can_be_pushed_again_once_it_was_popped, 0, 2);
    tcase_add_test(order, the_queues_of_a_lane_are_apart);
    TCase *stall = room_case(suite, "stall", open_room, close_room);
    tcase_add_loop_test(stall, nothing_can_be_taken_while_the_first_push_is_half_done, 0, 2);
    tcase_add_loop_test(stall, a_snapshot_is_popped_up_to_the_push_that_is_half_done, 0, 2);
    tcase_add_loop_test(stall, what_is_pushed_behind_a_gap_comes_after_it, 0, 2);
    tcase_add_loop_test(stall, a_stalled_lane_does_not_stall_another, 0, 2);
    TCase *empty = room_case(suite, "empty", open_room, close_room);
    tcase_add_test(empty, a_lane_is_empty_when_all_its_pending_ones_are_popped);
    tcase_add_test(empty, a_lane_with_a_push_half_done_is_not_empty);
    TCase *threads = room_case(suite, "threads", open_room, close_room);
    tcase_add_loop_test(threads, none_of_several_producers_is_lost_doubled_or_out_of_order, 0, 2);
    return run_suite(suite);
}
