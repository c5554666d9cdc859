/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Salvage: what was cancelled while it was pending goes to an adder, all else to the worker. */

#include "room_fixture.h"

enum { MANY = 100, CROWD = 20000 };

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

static void nothing(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
}

static const hwt_task quiet = { nothing, NULL }, telling = { nothing, nothing };

enum kind { DEAD, LIVE, MOVING, TELLS, MET }; /* only the first is salvaged */

static void push_kind(struct hwt_entry *entry, enum kind kind)
{
    uint64_t word = kind == LIVE ? HWT_PHASE_QUEUED : HWT_PHASE_CANCELLED;
    hwt_entry_set_task(entry, kind == TELLS ? &telling : &quiet);
    entry->slot = kind == MET ? HWT_SLOT_NONE : HWT_SLOT_FRESH;
    entry->state = UINT64_C(1) << HWT_GENERATION_SHIFT | word | (kind == MOVING ? HWT_MOVING : 0);
    hwt_lane_push_pending(room.lane, entry);
}

static void expect_drained(const struct hwt_entry *entry)
{
    bool stalled = true;
    must(hwt_lane_pop_drained(room.lane, &stalled) == entry);
    must(!stalled);
}

static size_t salvage(size_t max, size_t patience, struct hwt_entry **batch)
{
    size_t n = hwt_lane_salvage(room.lane, batch, max, patience);
    must(n <= max);
    must(!room.lane->consuming);
    return n;
}

START_TEST(salvage_takes_what_was_cancelled_in_order_and_no_more_than_it_may)
{
    struct hwt_entry *batch[MANY];
    ck_assert_uint_eq(salvage(10, 10, batch), 0);
    for (int i = 0; i < 100; i++)
        push_kind(entries[i], DEAD);
    ck_assert_uint_eq(salvage(0, 10, batch), 0);
    ck_assert_uint_eq(salvage(10, 0, batch), 0);
    for (int i = 0; i < 100; i += 20) {
        ck_assert_uint_eq(salvage(20, 1, batch), 20);
        ck_assert_mem_eq(batch, &entries[i], 20 * sizeof(*batch));
    }
    ck_assert_uint_eq(salvage(20, 1, batch), 0);
    ck_assert(hwt_lane_is_empty(room.lane));
}
END_TEST

START_TEST(salvage_leaves_what_the_worker_has_to_see_to_the_worker_in_order)
{
    static const enum kind kinds[] = { LIVE, MOVING, TELLS, MET };
    struct hwt_entry *batch[MANY];
    for (int i = 0; i < 8; i++)
        push_kind(entries[i], i % 2 ? DEAD : kinds[i / 2]);
    ck_assert_uint_eq(salvage(MANY, MANY, batch), 4);
    hwt_lane_push_pending(room.lane, entries[8]); /* behind those that were passed over */
    must(hwt_lane_splice_pending(room.lane));
    for (int i = 0; i < 4; i++) {
        must(batch[i] == entries[2 * i + 1]);
        expect_drained(entries[2 * i]);
    }
    expect_drained(entries[8]);
    expect_drained(NULL);
}
END_TEST

/* Each loop: so many others are in front of the one that could be had. */
START_TEST(salvage_gives_up_when_it_has_met_as_many_others_as_it_has_patience)
{
    struct hwt_entry *batch[1];
    for (int i = 0; i < _i; i++)
        push_kind(entries[i], LIVE);
    push_kind(entries[_i], DEAD);
    for (int i = 0; i < _i; i++) /* a live one each time, as long as there is one */
        ck_assert_uint_eq(salvage(1, 1, batch), 0);
    ck_assert_uint_eq(salvage(1, 1, batch), 1);
    must(hwt_lane_splice_pending(room.lane));
    for (int i = 0; i < _i; i++)
        expect_drained(entries[i]);

    for (int i = 0; i < _i; i++)
        push_kind(entries[i], LIVE);
    push_kind(entries[_i], DEAD);
    if (_i > 0)
        ck_assert_uint_eq(salvage(1, (size_t)_i, batch), 0);
    ck_assert_uint_eq(salvage(1, 1, batch), 1);
}
END_TEST

START_TEST(salvage_and_the_worker_do_without_where_the_other_consumes)
{
    struct hwt_entry *batch[1];
    push_kind(entries[0], DEAD);
    room.lane->consuming = true;
    ck_assert_uint_eq(hwt_lane_salvage(room.lane, batch, 1, 1), 0);
    ck_assert(!hwt_lane_splice_pending(room.lane));
    ck_assert(room.lane->consuming);
    room.lane->consuming = false;
    ck_assert_uint_eq(salvage(1, 1, batch), 1);
    ck_assert_ptr_eq(batch[0], entries[0]);
}
END_TEST

START_TEST(salvage_stops_at_a_push_that_is_half_done)
{
    struct hwt_entry *batch[4];
    push_kind(entries[0], DEAD);
    push_kind(entries[1], DEAD);
    hwt_mpsc_node *before = half_push(&room.lane->pending_tail, entries[2]);
    ck_assert_uint_eq(salvage(4, 4, batch), 1); /* the last before the gap stays too */
    ck_assert_uint_eq(salvage(4, 4, batch), 0);
    finish_push(before, entries[2]);
    ck_assert_uint_eq(salvage(1, 1, batch), 1);
    ck_assert_ptr_eq(batch[0], entries[1]);
}
END_TEST

/* A producer that salvages what it meets, beside the worker that splices. Every third is dead. */
static struct hwt_entry *crowd[CROWD];

static void *produce_and_salvage(void *data)
{
    struct hwt_lane *lane = data;
    struct hwt_entry *batch[8];
    uintptr_t salvaged = 0;
    for (int i = 0; i < CROWD; i++) {
        push_kind(crowd[i], i % 3 ? LIVE : DEAD);
        if (i % 16 == 15) {
            size_t n = hwt_lane_salvage(lane, batch, 8, 4);
            salvaged += n;
            while (n-- > 0) { /* nobody else gets them */
                if (atomic_exchange(&batch[n]->deadline, 1) != 0)
                    return (void *)UINTPTR_MAX;
            }
        }
    }
    return (void *)salvaged;
}

START_TEST(what_is_salvaged_beside_the_worker_is_nobody_elses_and_the_rest_is_in_order)
{
    uintptr_t next = 0, dead = 0, popped = 0;
    void *salvaged = NULL;
    bool stalled, ended = false;
    room_take_all(&room, crowd, CROWD);
    for (uintptr_t i = 0; i < CROWD; i++) {
        crowd[i]->arg = (void *)i;
        crowd[i]->deadline = 0;
    }
    pthread_t thread = spawn(produce_and_salvage, room.lane);
    for (;;) {
        struct hwt_entry *entry;
        hwt_lane_splice_pending(room.lane);
        while ((entry = hwt_lane_pop_drained(room.lane, &stalled)) != NULL) {
            must((uintptr_t)entry->arg >= next);
            next = (uintptr_t)entry->arg + 1;
            must(atomic_exchange(&entry->deadline, 1) == 0);
            dead += next % 3 == 1;
            popped++;
        }
        if (ended)
            break;
        ended = pthread_tryjoin_np(thread, &salvaged) == 0;
    }
    ck_assert_uint_eq((uintptr_t)salvaged + popped, CROWD);
    ck_assert_uint_eq((uintptr_t)salvaged + dead, (CROWD + 2) / 3);
}
END_TEST

/* One that says so while an entry is in a salvager's hands, or races with him, is wrong. */
START_TEST(a_lane_in_which_there_is_a_live_one_is_never_empty_though_it_is_salvaged)
{
    struct hwt_entry *entry;
    void *salvaged;
    bool stalled;
    room_take_all(&room, crowd, CROWD);
    for (int i = 0; i < CROWD; i++)
        crowd[i]->deadline = 0;
    push_kind(entries[0], LIVE);
    pthread_t thread = spawn(produce_and_salvage, room.lane);
    while (pthread_tryjoin_np(thread, &salvaged) != 0)
        must(!hwt_lane_is_empty(room.lane));
    ck_assert_uint_ne((uintptr_t)salvaged, UINTPTR_MAX);
    must(hwt_lane_splice_pending(room.lane));
    must(hwt_lane_pop_drained(room.lane, &stalled) == entries[0]);
    while ((entry = hwt_lane_pop_drained(room.lane, &stalled)) != NULL)
        ;
    ck_assert(hwt_lane_is_empty(room.lane));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lane_salvage");
    TCase *one = room_case(suite, "one", open_room, close_room);
    tcase_add_test(one, salvage_takes_what_was_cancelled_in_order_and_no_more_than_it_may);
    tcase_add_test(one, salvage_leaves_what_the_worker_has_to_see_to_the_worker_in_order);
    tcase_add_loop_test(one, salvage_gives_up_when_it_has_met_as_many_others_as_it_has_patience, 0,
                        4);
    tcase_add_test(one, salvage_and_the_worker_do_without_where_the_other_consumes);
    tcase_add_test(one, salvage_stops_at_a_push_that_is_half_done);
    TCase *two = room_case(suite, "two", open_room, close_room);
    tcase_add_test(two,
                   what_is_salvaged_beside_the_worker_is_nobody_elses_and_the_rest_is_in_order);
    tcase_add_test(two, a_lane_in_which_there_is_a_live_one_is_never_empty_though_it_is_salvaged);
    return run_suite(suite);
}
