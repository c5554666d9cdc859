/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Threads that sleep until their frame is done: who is woken, by whom, and with which answer. The leader also passes a point
 * when all is decided, and before it wakes the others.
 */

#include <semaphore.h>
#include <signal.h>

#include "kit.h"
#include "tests/delay/support/leading.h"

enum { PLAYERS = 3 };

void __real_hwt_delay_turns_wake(hwt_delay *its, uint64_t frame);
void __wrap_hwt_delay_turns_wake(hwt_delay *its, uint64_t frame);

void __wrap_hwt_delay_turns_wake(hwt_delay *its, uint64_t frame)
{
    held_pass("before it wakes");
    __real_hwt_delay_turns_wake(its, frame);
}

/* One that leads at once stands there at its fifth point, one that was woken at its seventh. */
static void begin_at_waking(struct player *player, bool slept)
{
    player_begin(player, put, 0, slept ? 7 : 5);
}

static void begin_asleep(struct player *player, uint64_t steps)
{
    player_begin(player, put, 0, steps);
    must(player_await(player, true) == WAITS);
}

/* Others that put now wait for the next frame. */
static void begin_leading(struct player *player)
{
    begin_at_sync(player, false);
    must(player_await(player, false) == STANDS);
    ck_assert_str_eq(player->point, "before a sync");
}

static void end_with(struct player *player, int expected)
{
    player_end(player);
    ck_assert_int_eq(player->operation, expected);
}

static _Atomic int told_result;
static _Atomic unsigned told;

static void begin_with_ground(void)
{
    leader = GOES_ON;
    told = 0;
    begin();
    do_part(put, 0);
}

/* ---- who is woken ---- */

static struct player *await_one_that_stands(struct player *players)
{
    for (int i = 0;; i = (i + 1) % PLAYERS) {
        if (player_await(&players[i], true) == STANDS)
            return &players[i];
        sched_yield();
    }
}

/* Nor does the leader need it once more. */
START_TEST(those_whose_frame_is_done_return_without_the_lock)
{
    struct player first, players[PLAYERS];
    begin_with_ground();
    begin_leading(&first);
    for (int i = 0; i < PLAYERS; i++) {
        begin_at_waking(&players[i], true);
        must(player_await(&players[i], true) == WAITS);
    }
    end_with(&first, 0);
    struct player *leads = await_one_that_stands(players);
    ck_assert_str_eq(leads->point, "before it wakes");
    pthread_mutex_lock(&store->lock);
    player_let_go(leads);
    for (int i = 0; i < PLAYERS; i++)
        end_with(&players[i], 0);
    pthread_mutex_unlock(&store->lock);
    ck_assert_uint_eq(commits(), 3);
    end(0);
}
END_TEST

/*
 *   late leads a frame, with asleep
 *   stands before it wakes
 *                                      second leads the next
 *                                                               third sleeps, on the word that asleep is on
 *                                      wakes one on that word, maybe asleep
 *   wakes all on it
 *                                                               leads
 */
START_TEST(a_leader_that_is_late_wakes_those_that_came_meanwhile)
{
    struct player late, asleep, second, third;
    begin_with_ground();
    leader = LINGERS;
    expect_callers(2);
    begin_at_waking(&late, false);
    must(player_await(&late, true) == WAITS);
    player_begin(&asleep, put, 0, 0);
    must(player_await(&late, false) == STANDS);
    ck_assert_str_eq(late.point, "before it wakes");
    tell_leaders(GOES_ON);
    begin_leading(&second);
    begin_asleep(&third, 0);
    end_with(&second, 0);
    end_with(&late, 0);
    end_with(&third, 0);
    end_with(&asleep, 0);
    ck_assert_uint_eq(commits(), 4);
    end(0);
}
END_TEST

/* It was woken to lead. Another one has led its frame by then; or does it, and its sync fails or does not. */
START_TEST(one_that_is_woken_late_finds_its_frame_led)
{
    struct player first, woken, other;
    const int expected = _i == 2 ? -EIO : 0;
    begin_with_ground();
    begin_leading(&first);
    begin_asleep(&woken, 2);
    end_with(&first, 0);
    must(player_await(&woken, false) == STANDS);
    ck_assert_str_eq(woken.point, "behind its sleep");
    if (_i == 0) {
        do_part(put, 0);
    } else {
        begin_leading(&other);
        player_let_go(&woken);
        must(player_await(&woken, true) == WAITS);
        if (expected < 0)
            held_fail(&process, DISK_SYNC);
        end_with(&other, expected);
    }
    end_with(&woken, expected);
    ck_assert_uint_eq(commits(), 3);
    end(expected);
}
END_TEST

/* How many wait for a frame. */
static unsigned callers(uint64_t frame)
{
    pthread_mutex_lock(&store->lock);
    unsigned count = store->log.callers[frame & 1];
    pthread_mutex_unlock(&store->lock);
    return count;
}

static _Atomic unsigned signals;

static void count_signal(int number)
{
    (void)number;
    signals++;
}

/* It goes back to sleep, and is still one caller. */
START_TEST(a_signal_ends_no_wait)
{
    const struct sigaction action = { .sa_handler = count_signal };
    struct player first, asleep;
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    begin_with_ground();
    begin_leading(&first);
    begin_asleep(&asleep, 0);
    const unsigned before = held_sleeps;
    while (held_sleeps < before + 3) {
        pthread_kill(asleep.thread, SIGUSR1);
        sched_yield();
    }
    ck_assert_uint_gt(signals, 0);
    ck_assert_int_ne(player_await(&asleep, true), RETURNED);
    ck_assert_uint_eq(callers(3), 1);
    end_with(&first, 0);
    end_with(&asleep, 0);
    ck_assert_uint_eq(commits(), 3);
    end(0);
}
END_TEST

/* It goes on to linger. */
START_TEST(a_wake_up_for_nothing_ends_no_lingering)
{
    struct player lingering;
    begin_with_ground();
    leader = LINGERS;
    expect_callers(2);
    player_begin(&lingering, put, 0, 0);
    must(player_await(&lingering, true) == WAITS);
    pthread_mutex_lock(&store->lock); /* which it has let go of by then */
    pthread_cond_signal(complete);
    pthread_mutex_unlock(&store->lock);
    while (lingered < 2 && player_await(&lingering, true) != RETURNED)
        sched_yield();
    ck_assert_uint_eq(lingered, 2);
    do_part(put, 0);
    end_with(&lingering, 0);
    ck_assert_uint_eq(commits(), 2);
    end(0);
}
END_TEST

/* One lingers, one sleeps. They end after their calls have returned. */
START_TEST(those_that_wait_are_not_cancelled)
{
    struct player lingering, asleep;
    begin_with_ground();
    leader = LINGERS;
    expect_callers(3);
    player_begin(&lingering, put, 0, 0);
    must(player_await(&lingering, true) == WAITS);
    begin_asleep(&asleep, 0);
    must(pthread_cancel(lingering.thread) == 0);
    must(pthread_cancel(asleep.thread) == 0);
    do_part(put, 0);
    end_with(&lingering, 0);
    end_with(&asleep, 0);
    ck_assert_uint_eq(commits(), 2);
    end(0);
}
END_TEST

START_TEST(the_words_may_begin_anew_at_0)
{
    begin_with_ground();
    for (int i = 0; i < 2; i++)
        atomic_store(&store->log.turns[i], UINT32_MAX - 1);
    for (int round = 0; round < 3; round++) {
        struct player first, players[PLAYERS];
        begin_leading(&first);
        for (int i = 0; i < PLAYERS; i++)
            begin_asleep(&players[i], 0);
        end_with(&first, 0);
        for (int i = 0; i < PLAYERS; i++)
            end_with(&players[i], 0);
    }
    ck_assert_uint_eq(commits(), 7);
    ck_assert_uint_eq(store->log.turns[0], 4);
    end(0);
}
END_TEST

/* ---- what is seen ---- */

static int (*sync_inner)(void *data, int file);
static unsigned synced; /* no atomic: the order that the store promises is the only one */

static int sync_noted(void *data, int file)
{
    int r = sync_inner(data, file);
    synced++;
    return r;
}

static unsigned seen;

static void *put_and_look(void *arg)
{
    *(int *)arg = put_some(1, 10);
    seen = synced;
    return NULL;
}

/* Though it does not take the lock again: for ThreadSanitizer. It is no player, for these have a lock in common. */
START_TEST(whoever_slept_sees_all_that_its_leader_did)
{
    struct player lingering;
    int answer = 1;
    begin_with_ground();
    sync_inner = store->disk.system.sync;
    store->disk.system.sync = sync_noted;
    leader = LINGERS;
    expect_callers(2);
    player_begin(&lingering, put, 0, 0);
    must(player_await(&lingering, true) == WAITS);
    const unsigned sleeps = held_sleeps;
    pthread_t asleep = spawn(put_and_look, &answer);
    join(asleep);
    end_with(&lingering, 0);
    ck_assert_uint_gt(held_sleeps, sleeps);
    ck_assert_int_eq(answer, 0);
    ck_assert_uint_eq(seen, 1);
    end(0);
}
END_TEST

/* ---- who does not wait ---- */

static void note_told(int result, void *arg)
{
    (void)arg;
    told_result = result;
    told++;
}

static void put_async(hwt_delay_durable durable)
{
    const hwt_delay_message message = { .due = HWT_SEC(2000), .id = "async", .id_size = 5 };
    int r;
    while ((r = hwt_delay_put_async(store, &message, 1, durable, NULL)) == -EAGAIN)
        sched_yield();
    ck_assert_int_eq(r, 0);
}

static _Atomic unsigned runs; /* of the job that leads for them */

uint64_t __real_hwt_delay_log_commit(void *its);
uint64_t __wrap_hwt_delay_log_commit(void *its);

uint64_t __wrap_hwt_delay_log_commit(void *its)
{
    uint64_t delay = __real_hwt_delay_log_commit(its);
    runs++;
    return delay;
}

/* The job has found a leader, and has gone. Nobody waits for the next frame, nor for the one that is written. */
START_TEST(who_does_not_wait_is_told_though_nobody_comes)
{
    struct player first;
    begin_with_ground();
    begin_leading(&first);
    const unsigned before = runs;
    put_async(note_told);
    while (runs == before)
        usleep(200);
    ck_assert_uint_eq(told, 0);
    end_with(&first, 0);
    while (told == 0)
        usleep(200);
    ck_assert_int_eq(told_result, 0);
    ck_assert_uint_eq(commits(), 3);
    end(0);
}
END_TEST

static sem_t gate;

static void stand(int result, void *arg)
{
    note_told(result, arg);
    while (sem_wait(&gate) < 0)
        continue;
}

static void close_it(struct player *player)
{
    player->operation = hwt_delay_close(store);
}

/* Nothing else happens that could wake it. */
START_TEST(closing_waits_for_the_callback_that_is_under_way)
{
    struct player closing;
    begin_with_ground();
    must(sem_init(&gate, 0, 0) == 0);
    put_async(stand);
    while (told == 0)
        usleep(200);
    player_begin(&closing, close_it, 1, 0);
    must(player_await(&closing, true) == WAITS);
    sem_post(&gate);
    end_with(&closing, 0);
    sem_destroy(&gate);
    process_end(&process);
    disk_free(disk);
}
END_TEST

static _Atomic unsigned order;

static void note_first(int result, void *arg)
{
    (void)result;
    (void)arg;
    order = 10 * order + 1;
}

static void note_second(int result, void *arg)
{
    (void)result;
    (void)arg;
    order = 10 * order + 2;
}

/* Two frames are done before it returns. */
START_TEST(those_that_were_done_meanwhile_are_told_in_their_order)
{
    begin_with_ground();
    order = 0;
    must(sem_init(&gate, 0, 0) == 0);
    put_async(stand);
    while (told == 0)
        usleep(200);
    put_async(note_first);
    do_part(put, 0);
    put_async(note_second);
    do_part(put, 0);
    sem_post(&gate);
    end(0);
    sem_destroy(&gate);
    ck_assert_uint_eq(order, 12);
}
END_TEST

/* ---- a store that is poisoned ---- */

/* The frame is not written, and who waits for it, or is about to, or is to be told of it, is told. */
START_TEST(a_lingering_leader_writes_nothing_to_a_poisoned_store)
{
    struct player lingering, asleep, about_to_sleep;
    begin_with_ground();
    leader = LINGERS;
    expect_callers(4);
    player_begin(&lingering, put, 0, 0);
    must(player_await(&lingering, true) == WAITS);
    begin_asleep(&asleep, 0);
    player_begin(&about_to_sleep, put, 0, 1);
    must(player_await(&about_to_sleep, false) == STANDS);
    ck_assert_str_eq(about_to_sleep.point, "before it sleeps");
    put_async(note_told);
    do_part(fail_to_grow, -EIO);
    end_with(&lingering, -EIO);
    end_with(&asleep, -EIO);
    end_with(&about_to_sleep, -EIO);
    do_part(put, -EIO);
    ck_assert_uint_eq(lingered, 1);
    ck_assert_uint_eq(commits(), 1);
    end(-EIO);
    ck_assert_uint_eq(told, 1);
    ck_assert_int_eq(told_result, -EIO);
}
END_TEST

/* The first has lingered and writes; one of those behind it lingers in turn when the store is poisoned. */
START_TEST(two_linger_in_turn_until_the_store_is_poisoned)
{
    struct player first, second, players[2];
    begin_with_ground();
    leader = LINGERS;
    expect_callers(2);
    begin_at_sync(&first, false);
    must(player_await(&first, true) == WAITS);
    player_begin(&second, put, 0, 0);
    must(player_await(&first, false) == STANDS);
    for (int i = 0; i < 2; i++)
        begin_asleep(&players[i], 0);
    end_with(&first, 0);
    end_with(&second, 0);
    while (lingered < 2)
        sched_yield();
    do_part(fail_to_grow, -EIO);
    for (int i = 0; i < 2; i++)
        end_with(&players[i], -EIO);
    do_part(put, -EIO);
    ck_assert_uint_eq(lingered, 2);
    ck_assert_uint_eq(commits(), 2);
    end(-EIO);
}
END_TEST

static void poison(struct player *player)
{
    pthread_mutex_lock(&store->lock);
    hwt_delay_poison(store);
    pthread_mutex_unlock(&store->lock);
    player->operation = -EIO;
}

/* The frame reaches the disk, though the store is poisoned meanwhile. None follows. */
START_TEST(a_frame_that_is_written_when_the_store_is_poisoned)
{
    struct player first, asleep;
    begin_with_ground();
    begin_leading(&first);
    begin_asleep(&asleep, 0);
    do_part(poison, -EIO);
    end_with(&asleep, -EIO);
    end_with(&first, 0);
    do_part(put, -EIO);
    ck_assert_uint_eq(commits(), 2);
    end(-EIO);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_turns");
    TCase *tcase = tcase_create("turns");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, those_whose_frame_is_done_return_without_the_lock);
    tcase_add_test(tcase, a_leader_that_is_late_wakes_those_that_came_meanwhile);
    tcase_add_loop_test(tcase, one_that_is_woken_late_finds_its_frame_led, 0, 3);
    tcase_add_test(tcase, a_signal_ends_no_wait);
    tcase_add_test(tcase, a_wake_up_for_nothing_ends_no_lingering);
    tcase_add_test(tcase, those_that_wait_are_not_cancelled);
    tcase_add_test(tcase, the_words_may_begin_anew_at_0);
    tcase_add_test(tcase, whoever_slept_sees_all_that_its_leader_did);
    tcase_add_test(tcase, who_does_not_wait_is_told_though_nobody_comes);
    tcase_add_test(tcase, closing_waits_for_the_callback_that_is_under_way);
    tcase_add_test(tcase, those_that_were_done_meanwhile_are_told_in_their_order);
    tcase_add_test(tcase, a_lingering_leader_writes_nothing_to_a_poisoned_store);
    tcase_add_test(tcase, two_linger_in_turn_until_the_store_is_poisoned);
    tcase_add_test(tcase, a_frame_that_is_written_when_the_store_is_poisoned);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    held_sleep_is_a_point = true;
    return run_suite(make_suite());
}
