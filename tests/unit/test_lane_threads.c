/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Whose lane is whose: the threads' numbers, from their first call to their end. */

#include <limits.h>
#include <semaphore.h>

#include "room_fixture.h"

enum { NUMBERS = 64, BEYOND = 24 };

static struct room room;

static void open_room(void)
{
    room_open(&room, 0, HWT_MS(1), 8);
}

static void close_room(void)
{
    room_close(&room);
}

/* A thread that has called hwt and stays until it is let go. */
struct guest {
    pthread_t thread;
    sem_t came, go;
    uint32_t number;
    struct hwt_lane *lane;
};

static void *stay(void *data)
{
    struct guest *guest = data;
    guest->lane = hwt_lane_own(room.timer);
    guest->number = hwt_thread_number;
    sem_post(&guest->came);
    sem_wait(&guest->go);
    if (hwt_lane_own(room.timer) != guest->lane || hwt_thread_number != guest->number)
        guest->number = 0;
    return NULL;
}

static void invite(struct guest *guest)
{
    sem_init(&guest->came, 0, 0);
    sem_init(&guest->go, 0, 0);
    guest->thread = spawn(stay, guest);
    while (sem_wait(&guest->came) != 0)
        must(errno == EINTR);
}

/* It must have kept its number and its lane. */
static void see_off(struct guest *guest)
{
    sem_post(&guest->go);
    join(guest->thread);
    ck_assert_uint_ne(guest->number, 0);
    sem_destroy(&guest->came);
    sem_destroy(&guest->go);
}

static bool owns(const struct guest *guest)
{
    return guest->lane == &room.timer->lanes[guest->number - 1] && !guest->lane->shared;
}

/* ---- numbers ---- */

START_TEST(a_thread_has_a_number_from_its_first_call_on)
{
    ck_assert_uint_eq(hwt_thread_number, 1); /* this one's was to open the room */
    ck_assert_ptr_eq(room.lane, &room.timer->lanes[0]);
    ck_assert(!room.lane->shared);
}
END_TEST

START_TEST(a_number_is_the_least_that_is_free)
{
    struct guest guests[10], late[3];
    for (uint32_t i = 0; i < 10; i++) {
        invite(&guests[i]);
        ck_assert_uint_eq(guests[i].number, i + 2);
    }
    see_off(&guests[6]);
    see_off(&guests[2]);
    for (int i = 0; i < 3; i++)
        invite(&late[i]);
    ck_assert_uint_eq(late[0].number, guests[2].number);
    ck_assert_uint_eq(late[1].number, guests[6].number);
    ck_assert_uint_eq(late[2].number, 12);
    ck_assert_ptr_eq(late[0].lane, guests[2].lane);
    for (int i = 0; i < 3; i++)
        see_off(&late[i]);
    for (int i = 0; i < 10; i++) {
        if (i != 6 && i != 2)
            see_off(&guests[i]);
    }
}
END_TEST

START_TEST(a_number_is_the_same_in_every_timer)
{
    struct room other;
    struct guest guest;
    room_open(&other, 0, HWT_MS(1), 8);
    invite(&guest);
    ck_assert_uint_eq(other.lane - other.timer->lanes, room.lane - room.timer->lanes);
    ck_assert_uint_eq(guest.number, 2);
    see_off(&guest);
    room_close(&other);
}
END_TEST

static void *never_call(void *data)
{
    *(uint32_t *)data = hwt_thread_number;
    return NULL;
}

START_TEST(a_thread_that_never_calls_takes_none)
{
    struct guest guest;
    uint32_t number = 4711;
    join(spawn(never_call, &number));
    ck_assert_uint_eq(number, 0);
    invite(&guest);
    ck_assert_uint_eq(guest.number, 2);
    see_off(&guest);
}
END_TEST

/* ---- many threads ---- */

START_TEST(a_thousand_threads_one_after_the_other_have_the_same_lane)
{
    for (int i = 0; i < 1000; i++) {
        struct guest guest;
        invite(&guest);
        must(guest.number == 2 && owns(&guest));
        see_off(&guest);
    }
}
END_TEST

START_TEST(a_thousand_threads_a_few_at_a_time_all_own_their_lane)
{
    enum { FEW = 8 };
    for (int i = 0; i < 1000 / FEW; i++) {
        struct guest guests[FEW];
        uint64_t numbers = 0;
        for (int k = 0; k < FEW; k++) {
            invite(&guests[k]);
            must(guests[k].number <= FEW + 1 && owns(&guests[k]));
            numbers |= UINT64_C(1) << guests[k].number;
        }
        must(numbers == (UINT64_C(1) << (FEW + 2)) - 4); /* 2 to FEW + 1 */
        for (int k = 0; k < FEW; k++)
            see_off(&guests[(k * 3 + i) % FEW]);
    }
}
END_TEST

static void *take_a_number(void *data)
{
    (void)data;
    return hwt_lane_own(room.timer);
}

/* Each begins while others end. */
START_TEST(threads_that_come_and_go_at_once_lose_no_number)
{
    pthread_t threads[NUMBERS / 4];
    struct guest guest;
    for (int i = 0; i < 100; i++) {
        for (size_t k = 0; k < NUMBERS / 4; k++)
            threads[k] = spawn(take_a_number, NULL);
        for (size_t k = 0; k < NUMBERS / 4; k++)
            join(threads[k]);
    }
    invite(&guest);
    ck_assert_uint_eq(guest.number, 2);
    see_off(&guest);
}
END_TEST

/* This thread has number 1, its guests those from 2 on. */
START_TEST(those_beyond_the_lanes_with_an_owner_share_the_others_evenly)
{
    struct guest guests[NUMBERS + BEYOND], late;
    unsigned sharing[HWT_LANES_SHARED] = { 0 };
    uint32_t owned = room.timer->lanes_owned;
    for (uint32_t i = 0; i < NUMBERS + BEYOND; i++) {
        invite(&guests[i]);
        if (guests[i].number <= owned) {
            ck_assert(owns(&guests[i]));
            ck_assert_uint_eq(guests[i].number, i + 2);
        } else {
            ck_assert(guests[i].lane->shared);
            ck_assert_uint_eq(i + 2 > NUMBERS, guests[i].number > NUMBERS);
            size_t lane = (size_t)(guests[i].lane - &room.timer->lanes[owned]);
            ck_assert_uint_lt(lane, HWT_LANES_SHARED);
            sharing[lane]++;
        }
    }
    for (size_t i = 0; i < HWT_LANES_SHARED; i++)
        ck_assert_uint_ge(sharing[i], (NUMBERS + BEYOND - owned) / HWT_LANES_SHARED);

    /* Once one with a number has ended the next has its lane; those that share go on sharing. */
    see_off(&guests[5]);
    invite(&late);
    ck_assert_uint_eq(late.number, 7);
    ck_assert(owns(&late));
    see_off(&late);
    for (int i = 0; i < NUMBERS + BEYOND; i++) {
        if (i != 5)
            see_off(&guests[i]);
    }
    invite(&late);
    ck_assert_uint_eq(late.number, 2);
    see_off(&late);
}
END_TEST

/* ---- a thread that calls after it has given its number back ---- */

static void nothing(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
}

static const hwt_task quiet = { nothing, NULL };

static pthread_key_t key; /* later than the library's: its destructor is called after that */

struct leaver {
    unsigned rounds; /* in which the destructor is to be called once more */
    unsigned calls, with_lane, refused;
};

static void call_when_leaving(void *data)
{
    struct leaver *leaver = data;
    leaver->calls++;
    leaver->refused += hwt_timer_new_timeout(room.timer, &quiet, NULL, HWT_NEVER, NULL) != 0;
    leaver->with_lane += !hwt_lane_own(room.timer)->shared;
    if (leaver->calls < leaver->rounds)
        pthread_setspecific(key, data);
}

static void *leave(void *data)
{
    must(hwt_timer_new_timeout(room.timer, &quiet, NULL, HWT_NEVER, NULL) == 0);
    must(pthread_setspecific(key, data) == 0);
    return NULL;
}

/* Each loop: in so many rounds of destructors, up to all that there are. */
START_TEST(a_destructor_may_call_when_the_number_is_given_back)
{
    struct guest guest;
    ck_assert_int_eq(pthread_key_create(&key, call_when_leaving), 0);
    for (uint64_t i = 1; i <= 100; i++) {
        struct leaver leaver = { .rounds = (unsigned)_i };
        join(spawn(leave, &leaver));
        must(leaver.calls == (unsigned)_i && leaver.refused == 0);
        must(leaver.with_lane == 0); /* that had been given back before the first of them */
        must(hwt_timer_pending(room.timer) == i * ((unsigned)_i + 1));
    }
    invite(&guest);
    ck_assert_uint_eq(guest.number, 2);
    see_off(&guest);
    ck_assert_int_eq(pthread_key_delete(key), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lane_threads");
    TCase *numbers = room_case(suite, "numbers", open_room, close_room);
    tcase_add_test(numbers, a_thread_has_a_number_from_its_first_call_on);
    tcase_add_test(numbers, a_number_is_the_least_that_is_free);
    tcase_add_test(numbers, a_number_is_the_same_in_every_timer);
    tcase_add_test(numbers, a_thread_that_never_calls_takes_none);
    TCase *many = room_case(suite, "many", open_room, close_room);
    tcase_add_test(many, a_thousand_threads_one_after_the_other_have_the_same_lane);
    tcase_add_test(many, a_thousand_threads_a_few_at_a_time_all_own_their_lane);
    tcase_add_test(many, threads_that_come_and_go_at_once_lose_no_number);
    tcase_add_test(many, those_beyond_the_lanes_with_an_owner_share_the_others_evenly);
    TCase *leaving = room_case(suite, "leaving", open_room, close_room);
    tcase_add_loop_test(leaving, a_destructor_may_call_when_the_number_is_given_back, 1,
                        PTHREAD_DESTRUCTOR_ITERATIONS);
    return run_suite(suite);
}
