/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Each transition of the state word, from states made by hand.
 *
 * timeout.c is included, so that a move can be stopped between its beginning and its end; the
 * linker then leaves out the library's own.
 */

#include "timeout_fixture.h"

#include "hwt/timeout.c"

static struct room room;

static void open_room(void)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = 1000;
    options.max_pending = 1000;
    room_open_with(&room, NOW, options);
    room.timer->reserved = 100; /* for those made by hand */
    runs = cancels = 0;
}

static void close_room(void)
{
    ck_assert_uint_eq(room.timer->worker.transit, 0);
    room_close(&room);
}

static struct hwt_entry *make(uint64_t word)
{
    return make_entry(&room, word);
}

static void expect_pushed(struct hwt_entry *pending, struct hwt_entry *on_cancelled)
{
    expect_queues(&room, pending, on_cancelled);
}

/* ---- the worker's ---- */

START_TEST(noting_a_move_clears_moved_and_nothing_else)
{
    for (uint64_t word = 0; word < 256; word++) {
        struct hwt_entry *entry = make(word);
        ck_assert_uint_eq(hwt_timeout_note(entry) & 0xff, word & ~(uint64_t)MOVED);
        expect(entry, word & ~(uint64_t)MOVED);
    }
}
END_TEST

START_TEST(arming_fails_when_the_state_has_changed_since_it_was_noted)
{
    static const uint64_t changed[] = { QUEUED | MOVING, QUEUED | MOVED, CANCELLED };
    for (size_t i = 0; i < sizeof(changed) / sizeof(*changed); i++) {
        struct hwt_entry *entry = make(QUEUED);
        uint64_t state = hwt_timeout_note(entry);
        entry->state = GENERATION << HWT_GENERATION_SHIFT | changed[i];
        ck_assert(!hwt_timeout_arm(entry, state));
        expect(entry, changed[i]);
    }
    struct hwt_entry *entry = make(QUEUED | MOVING); /* a move under way goes on */
    ck_assert(hwt_timeout_arm(entry, hwt_timeout_note(entry)));
    expect(entry, ARMED | MOVING);
}
END_TEST

START_TEST(what_rearmed_itself_is_armed_unless_the_state_has_changed_since_it_was_noted)
{
    static const struct {
        uint64_t noted, found, after; /* 0: refused */
    } again[] = {
        { RUNNING | REARMED, RUNNING | REARMED, ARMED | REARMED },
        { RUNNING | REARMED | MOVED, RUNNING | REARMED, ARMED | REARMED },
        { RUNNING | REARMED | MOVING, RUNNING | REARMED | MOVING, ARMED | REARMED | MOVING },
        { RUNNING | REARMED, RUNNING | REARMED | BARRED, 0 },
        { RUNNING | REARMED, RUNNING | REARMED | BARRED | WAITED, 0 },
        { RUNNING | REARMED, RUNNING | REARMED | MOVING, 0 },
        { RUNNING | REARMED, RUNNING | REARMED | MOVED, 0 },
        { RUNNING | REARMED | MOVING, RUNNING | REARMED | MOVED, 0 },
    };
    for (size_t i = 0; i < sizeof(again) / sizeof(*again); i++) {
        struct hwt_entry *entry = make(again[i].noted);
        uint64_t state = hwt_timeout_note(entry);
        entry->state = GENERATION << HWT_GENERATION_SHIFT | again[i].found;
        ck_assert(hwt_timeout_arm_again(entry, state) == (again[i].after != 0));
        expect(entry, again[i].after ? again[i].after : again[i].found);
        expect_pushed(NULL, NULL);
    }
}
END_TEST

START_TEST(disarming_takes_an_armed_one_only)
{
    for (uint64_t phase = NEW; phase <= ABANDONED; phase++) {
        struct hwt_entry *entry = make(phase | MOVING);
        ck_assert(hwt_timeout_disarm(entry) == (phase == ARMED));
        expect(entry, (phase == ARMED ? QUEUED : phase) | MOVING);
    }
    expect_pushed(NULL, NULL);
}
END_TEST

START_TEST(it_begins_when_its_deadline_is_before_the_horizon)
{
    for (uint64_t phase = SUBMITTED; phase <= RUNNING; phase++) {
        struct hwt_entry *entry = make(ARMED);
        ck_assert_int_eq(hwt_timeout_begin(entry, DEADLINE, (unsigned)phase), HWT_NOT_DUE);
        expect(entry, ARMED);
        ck_assert_int_eq(hwt_timeout_begin(entry, DEADLINE + 1, (unsigned)phase), HWT_BEGUN);
        expect(entry, phase);
    }
}
END_TEST

START_TEST(that_it_rearmed_itself_is_forgotten_as_its_next_run_begins)
{
    struct hwt_entry *entry = make(ARMED | REARMED);
    ck_assert_int_eq(hwt_timeout_begin(entry, DEADLINE + 1, SUBMITTED), HWT_BEGUN);
    expect(entry, SUBMITTED | REARMED);
    ck_assert_int_eq(hwt_timeout_begin_submitted(entry, DEADLINE), HWT_BEGUN);
    expect(entry, RUNNING);
    entry = make(ARMED | REARMED);
    ck_assert_int_eq(hwt_timeout_begin(entry, DEADLINE + 1, RUNNING), HWT_BEGUN);
    expect(entry, RUNNING);
}
END_TEST

START_TEST(it_does_not_begin_while_its_deadline_is_written)
{
    struct hwt_entry *entry = make(ARMED | MOVING | MOVED);
    ck_assert_int_eq(hwt_timeout_begin(entry, HWT_NEVER, RUNNING), HWT_HELD);
    expect(entry, ARMED | MOVING);
    entry->state ^= (uint64_t)MOVING | MOVED;
    entry->deadline = LATER;
    ck_assert_int_eq(hwt_timeout_begin(entry, LATER, RUNNING), HWT_NOT_DUE);
    expect(entry, ARMED);
}
END_TEST

START_TEST(what_is_not_armed_comes_through_a_queue)
{
    for (uint64_t phase = NEW; phase <= ABANDONED; phase++) {
        struct hwt_entry *entry = make(phase);
        if (phase == ARMED)
            continue;
        ck_assert_int_eq(hwt_timeout_begin(entry, HWT_NEVER, RUNNING), HWT_ELSEWHERE);
        expect(entry, phase);
    }
}
END_TEST

START_TEST(what_was_handed_over_begins_unless_it_was_moved_or_cancelled)
{
    struct hwt_entry *entry = make(SUBMITTED | MOVED);
    ck_assert_int_eq(hwt_timeout_begin_submitted(entry, DEADLINE - 1), HWT_NOT_DUE);
    expect(entry, SUBMITTED);
    ck_assert_int_eq(hwt_timeout_begin_submitted(entry, DEADLINE), HWT_BEGUN);
    expect(entry, RUNNING);
    entry = make(SUBMITTED | MOVING);
    ck_assert_int_eq(hwt_timeout_begin_submitted(entry, HWT_NEVER), HWT_HELD);
    expect(entry, SUBMITTED | MOVING);
    entry = make(CANCELLED);
    ck_assert_int_eq(hwt_timeout_begin_submitted(entry, HWT_NEVER), HWT_DEAD);
    expect(entry, CANCELLED);
}
END_TEST

START_TEST(what_was_handed_over_too_early_goes_back_to_the_queue)
{
    struct hwt_entry *entry = make(SUBMITTED | MOVING);
    ck_assert(hwt_timeout_requeue(room.timer, entry));
    expect(entry, QUEUED | MOVING);
    expect_pushed(entry, NULL);
    entry = make(CANCELLED);
    ck_assert(!hwt_timeout_requeue(room.timer, entry));
    expect(entry, CANCELLED);
    expect_pushed(NULL, NULL);
}
END_TEST

START_TEST(the_end_of_a_run_depends_on_what_happened_in_it)
{
    static const struct {
        uint64_t before, after;
        enum hwt_finished finished;
    } ends[] = {
        { RUNNING, EXPIRED, HWT_ENDED },
        { RUNNING | WAITED, EXPIRED, HWT_ENDED },
        { RUNNING | BARRED, EXPIRED, HWT_ENDED },
        { RUNNING | BARRED | WAITED, EXPIRED, HWT_ENDED },
        { RUNNING | REARMED, QUEUED | REARMED, HWT_AGAIN },
        { RUNNING | REARMED | WAITED | MOVED, QUEUED | REARMED | MOVED, HWT_AGAIN },
        { RUNNING | REARMED | MOVING, QUEUED | REARMED | MOVING, HWT_AGAIN },
        { RUNNING | REARMED | BARRED, CANCELLED | REARMED, HWT_DROPPED },
        { RUNNING | REARMED | BARRED | WAITED | MOVING, CANCELLED | REARMED | MOVING, HWT_DROPPED },
    };
    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
        struct hwt_entry *entry = make(ends[i].before);
        ck_assert_int_eq(hwt_timeout_finish(room.timer, entry), ends[i].finished);
        expect(entry, ends[i].after);
        expect_pushed(ends[i].finished == HWT_AGAIN ? entry : NULL, NULL);
    }
}
END_TEST

START_TEST(stop_ends_what_is_pending_and_nothing_else)
{
    for (uint64_t word = 0; word < 256; word++) {
        struct hwt_entry *entry = make(word);
        bool pending = hwt_state_pending(word);
        ck_assert(hwt_timeout_abandon(entry) == pending);
        expect(entry, pending ? hwt_with_phase(word, CANCELLED) : word);
    }
}
END_TEST

/* ---- adding ---- */

START_TEST(what_is_pushed_while_the_timer_stops_is_withdrawn)
{
    hwt_timeout timeout;
    must(hwt_timer_new_timeout_at(room.timer, &counted, NULL, DEADLINE, &timeout) == 0);
    uint64_t state = timeout.entry->state;
    must(hwt_timeout_withdraw(timeout.entry, state));
    must(!hwt_timeout_withdraw(timeout.entry, state));
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_GONE);
    must(!hwt_timeout_cancel(timeout));
    /* It is in the queue yet. Where the worker finds it, it goes back unnoticed. */
    hwt_timer_advance(room.timer, NOW);
    ck_assert_int_eq(cancels, 0);
    must(room_has_back(&room, timeout.entry));
}
END_TEST

START_TEST(what_stop_has_found_already_is_not_withdrawn)
{
    hwt_timeout timeout;
    must(hwt_timer_new_timeout_at(room.timer, &counted, NULL, DEADLINE, &timeout) == 0);
    uint64_t state = timeout.entry->state;
    must(hwt_timeout_abandon(timeout.entry));
    must(!hwt_timeout_withdraw(timeout.entry, state));
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_CANCELLED);
}
END_TEST

/* ---- cancelling ---- */

START_TEST(a_cancel_does_what_the_phase_asks_for)
{
    static const struct {
        uint64_t before, after;
        bool answer, pushed;
    } cancels_of[] = {
        { NEW, NEW, false, false },
        { QUEUED, CANCELLED, true, false },
        { QUEUED | MOVED, CANCELLED | MOVED, true, false },
        { QUEUED | MOVING, CANCELLED | MOVING, true, false },
        { ARMED, CANCELLED, true, true },
        { ARMED | MOVING, CANCELLED | MOVING, true, true },
        { SUBMITTED, CANCELLED, true, false },
        { RUNNING, RUNNING | BARRED, false, false },
        { RUNNING | WAITED, RUNNING | WAITED | BARRED, false, false },
        { RUNNING | BARRED, RUNNING | BARRED, false, false },
        { RUNNING | REARMED, RUNNING | REARMED | BARRED, true, false },
        { RUNNING | REARMED | BARRED, RUNNING | REARMED | BARRED, false, false },
        { EXPIRED, EXPIRED, false, false },
        { CANCELLED, CANCELLED, false, false },
        { ABANDONED | MOVING, ABANDONED | MOVING, false, false },
    };
    for (size_t i = 0; i < sizeof(cancels_of) / sizeof(*cancels_of); i++) {
        struct hwt_entry *entry = make(cancels_of[i].before);
        hwt_timeout other = { entry, GENERATION + 1 };
        uint64_t before = room.lane->cancelled, reserved = room.timer->reserved;
        ck_assert(!hwt_timeout_cancel(other));
        expect(entry, cancels_of[i].before);
        ck_assert(hwt_timeout_cancel(hwt_handle(entry)) == cancels_of[i].answer);
        expect(entry, cancels_of[i].after);
        ck_assert(!hwt_timeout_cancel(hwt_handle(entry))); /* once */
        expect_pushed(NULL, cancels_of[i].pushed ? entry : NULL);
        ck_assert_uint_eq(room.lane->cancelled, before + cancels_of[i].answer);
        ck_assert_uint_eq(room.timer->reserved, reserved - cancels_of[i].answer);
    }
}
END_TEST

/* ---- moving ---- */

START_TEST(a_move_does_what_phase_and_direction_ask_for)
{
    static const struct {
        uint64_t before, later, earlier; /* 0: refused */
    } moves[] = {
        { NEW, 0, 0 },
        { QUEUED, QUEUED | MOVED, QUEUED | MOVED },
        { ARMED, ARMED | MOVED, QUEUED | MOVED }, /* to earlier, the worker must know */
        { ARMED | MOVED, ARMED | MOVED, QUEUED | MOVED },
        { SUBMITTED, SUBMITTED | MOVED, SUBMITTED | MOVED },
        { RUNNING, 0, 0 }, /* not by another thread */
        { RUNNING | REARMED, RUNNING | REARMED | MOVED, RUNNING | REARMED | MOVED },
        { RUNNING | REARMED | BARRED, 0, 0 },
        { EXPIRED, 0, 0 },
        { CANCELLED, 0, 0 },
        { ABANDONED | MOVING, 0, 0 },
    };
    for (size_t i = 0; i < 2 * sizeof(moves) / sizeof(*moves); i++) {
        struct hwt_entry *entry = make(moves[i / 2].before);
        uint64_t to = i % 2 ? EARLIER : LATER;
        uint64_t after = i % 2 ? moves[i / 2].earlier : moves[i / 2].later;
        bool pushed = hwt_phase(moves[i / 2].before) == ARMED && hwt_phase(after) == QUEUED;
        hwt_timeout other = { entry, GENERATION - 1 };
        ck_assert(!hwt_timeout_reschedule_at(other, to));
        expect(entry, moves[i / 2].before);
        ck_assert(hwt_timeout_reschedule_at(hwt_handle(entry), to) == (after != 0));
        expect(entry, after != 0 ? after : moves[i / 2].before);
        ck_assert_uint_eq(entry->deadline, after != 0 ? to : DEADLINE);
        expect_pushed(pushed ? entry : NULL, NULL);
    }
}
END_TEST

/* A move that has begun; `state` is what the mover knows of it. */
struct moving {
    struct hwt_entry *entry;
    uint64_t state;
};

static enum move begin(struct moving *moving, struct hwt_entry *entry)
{
    *moving = (struct moving){ entry, load(entry) };
    return begin_move(hwt_handle(entry), &moving->state);
}

static void end(const struct moving *moving, uint64_t deadline, bool earlier)
{
    end_move(room.timer, moving->entry, moving->state, deadline, earlier);
}

START_TEST(of_two_overlapping_moves_the_second_changes_nothing)
{
    static const uint64_t words[] = { QUEUED, ARMED, SUBMITTED, RUNNING | REARMED };
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        struct hwt_entry *entry = make(words[i]);
        struct moving first, second;
        ck_assert_int_eq(begin(&first, entry), MOVE_BEGUN);
        ck_assert_int_eq(begin(&second, entry), MOVE_OVERLAPS);
        ck_assert(hwt_timeout_reschedule_at(hwt_handle(entry), EARLIER));
        ck_assert_uint_eq(entry->deadline, DEADLINE);
        expect(entry, words[i] | MOVING);
        end(&first, LATER, false);
        expect(entry, words[i] | MOVED);
        expect_pushed(NULL, NULL);
    }
}
END_TEST

START_TEST(a_move_that_has_ended_since_the_first_look_overlaps_too)
{
    struct hwt_entry *entry = make(ARMED);
    uint64_t first = load(entry);
    ck_assert(hwt_timeout_reschedule_at(hwt_handle(entry), LATER));
    ck_assert_int_eq(begin_move(hwt_handle(entry), &first), MOVE_OVERLAPS);
    expect(entry, ARMED | MOVED);
    first = load(entry); /* from here on it is another move, though nobody has noted the last */
    ck_assert_int_eq(begin_move(hwt_handle(entry), &first), MOVE_BEGUN);
    expect(entry, ARMED | MOVED | MOVING);
}
END_TEST

static struct moving begin_moving(uint64_t word)
{
    struct moving moving;
    ck_assert_int_eq(begin(&moving, make(word)), MOVE_BEGUN);
    moving.entry->deadline = EARLIER;
    return moving;
}

START_TEST(a_timeout_armed_during_a_move_to_earlier_is_pushed_by_the_mover)
{
    struct moving moving = begin_moving(QUEUED);
    struct hwt_entry *entry = moving.entry;
    ck_assert(hwt_timeout_arm(entry, hwt_timeout_note(entry)));
    end(&moving, EARLIER, true);
    expect(entry, QUEUED | MOVED);
    expect_pushed(entry, NULL);
}
END_TEST

START_TEST(a_move_that_ends_between_noting_and_arming_fails_the_arming)
{
    struct moving moving = begin_moving(QUEUED);
    struct hwt_entry *entry = moving.entry;
    uint64_t state = hwt_timeout_note(entry);
    end(&moving, EARLIER, true);
    ck_assert(!hwt_timeout_arm(entry, state));
    expect(entry, QUEUED | MOVED);
    expect_pushed(NULL, NULL);
}
END_TEST

START_TEST(a_timeout_armed_again_during_a_move_to_earlier_is_pushed_by_the_mover)
{
    struct moving moving = begin_moving(RUNNING | REARMED);
    struct hwt_entry *entry = moving.entry;
    ck_assert(hwt_timeout_arm_again(entry, hwt_timeout_note(entry)));
    end(&moving, EARLIER, true);
    expect(entry, QUEUED | REARMED | MOVED);
    expect_pushed(entry, NULL);
}
END_TEST

START_TEST(a_move_that_outlasts_the_run_that_had_rearmed_is_pushed_once)
{
    struct moving moving = begin_moving(RUNNING | REARMED);
    struct hwt_entry *entry = moving.entry;
    ck_assert_int_eq(hwt_timeout_finish(room.timer, entry), HWT_AGAIN);
    expect(entry, QUEUED | REARMED | MOVING);
    end(&moving, EARLIER, true);
    expect(entry, QUEUED | REARMED | MOVED);
    expect_pushed(entry, NULL);
}
END_TEST

START_TEST(a_move_that_ends_after_the_cancel_leaves_the_push_to_it)
{
    struct moving moving = begin_moving(ARMED);
    struct hwt_entry *entry = moving.entry;
    ck_assert(hwt_timeout_cancel(hwt_handle(entry)));
    end(&moving, EARLIER, true);
    expect(entry, CANCELLED | MOVED);
    expect_pushed(NULL, entry);
    ck_assert(hwt_timeout_discardable(room.timer, entry));
}
END_TEST

START_TEST(what_was_discarded_during_a_move_is_left_to_the_mover)
{
    struct moving moving = begin_moving(QUEUED);
    struct hwt_entry *entry = moving.entry;
    ck_assert(hwt_timeout_cancel(hwt_handle(entry)));
    ck_assert(!hwt_timeout_discardable(room.timer, entry));
    expect(entry, ABANDONED | MOVING);
    ck_assert_uint_eq(entry->slot, HWT_SLOT_TRANSIT);
    ck_assert_uint_eq(room.timer->worker.transit, 1);
    ck_assert(!hwt_timeout_cancel(hwt_handle(entry)));
    ck_assert_int_eq(hwt_timeout_state(hwt_handle(entry)), HWT_CANCELLED);
    end(&moving, EARLIER, true);
    expect(entry, CANCELLED | MOVED);
    ck_assert_int_eq(cancels, 0);
    hwt_timer_advance(room.timer, NOW); /* now it is the worker's, to end */
    ck_assert_int_eq(cancels, 1);
    ck_assert_uint_eq(room.timer->worker.transit, 0);
    ck_assert(room_has_back(&room, entry));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("timeout");
    TCase *worker = room_case(suite, "worker", open_room, close_room);
    tcase_add_test(worker, noting_a_move_clears_moved_and_nothing_else);
    tcase_add_test(worker, arming_fails_when_the_state_has_changed_since_it_was_noted);
    tcase_add_test(worker,
                   what_rearmed_itself_is_armed_unless_the_state_has_changed_since_it_was_noted);
    tcase_add_test(worker, disarming_takes_an_armed_one_only);
    tcase_add_test(worker, it_begins_when_its_deadline_is_before_the_horizon);
    tcase_add_test(worker, that_it_rearmed_itself_is_forgotten_as_its_next_run_begins);
    tcase_add_test(worker, it_does_not_begin_while_its_deadline_is_written);
    tcase_add_test(worker, what_is_not_armed_comes_through_a_queue);
    tcase_add_test(worker, what_was_handed_over_begins_unless_it_was_moved_or_cancelled);
    tcase_add_test(worker, what_was_handed_over_too_early_goes_back_to_the_queue);
    tcase_add_test(worker, the_end_of_a_run_depends_on_what_happened_in_it);
    tcase_add_test(worker, stop_ends_what_is_pending_and_nothing_else);
    TCase *handle = room_case(suite, "handle", open_room, close_room);
    tcase_add_test(handle, what_is_pushed_while_the_timer_stops_is_withdrawn);
    tcase_add_test(handle, what_stop_has_found_already_is_not_withdrawn);
    tcase_add_test(handle, a_cancel_does_what_the_phase_asks_for);
    tcase_add_test(handle, a_move_does_what_phase_and_direction_ask_for);
    TCase *moves = room_case(suite, "moves", open_room, close_room);
    tcase_add_test(moves, of_two_overlapping_moves_the_second_changes_nothing);
    tcase_add_test(moves, a_move_that_has_ended_since_the_first_look_overlaps_too);
    tcase_add_test(moves, a_timeout_armed_again_during_a_move_to_earlier_is_pushed_by_the_mover);
    tcase_add_test(moves, a_timeout_armed_during_a_move_to_earlier_is_pushed_by_the_mover);
    tcase_add_test(moves, a_move_that_ends_between_noting_and_arming_fails_the_arming);
    tcase_add_test(moves, a_move_that_outlasts_the_run_that_had_rearmed_is_pushed_once);
    tcase_add_test(moves, a_move_that_ends_after_the_cancel_leaves_the_push_to_it);
    tcase_add_test(moves, what_was_discarded_during_a_move_is_left_to_the_mover);
    return run_suite(suite);
}
