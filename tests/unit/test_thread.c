/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Numbers for threads: the least that is free, once at a time, and free again at the end. */

#include "hwt/base/thread.h"

#include "children.h"
#include "unit.h"

static uint32_t own_number(void)
{
    return hwt_thread_number != 0 ? hwt_thread_number : hwt_thread_take_number();
}

/* A thread that takes its number, and ends when it is told. */
struct holder {
    pthread_t thread;
    shared_count number;
    shared_count end;
};

static void *hold(void *data)
{
    struct holder *holder = data;
    holder->number = own_number();
    must(await_count(&holder->end, 1));
    return NULL;
}

static uint32_t begin(struct holder *holder)
{
    *holder = (struct holder){ .number = 0 };
    holder->thread = spawn(hold, holder);
    must(await_count(&holder->number, 1));
    return (uint32_t)holder->number;
}

static void end(struct holder *holder)
{
    holder->end = 1;
    join(holder->thread);
}

START_TEST(a_thread_has_the_least_number_that_is_free_until_it_ends)
{
    struct holder a, b, c;
    ck_assert_uint_eq(hwt_thread_number, 0);
    ck_assert_uint_eq(own_number(), 1);
    ck_assert_uint_eq(begin(&a), 2);
    ck_assert_uint_eq(begin(&b), 3);
    end(&a);
    ck_assert_uint_eq(begin(&a), 2);
    ck_assert_uint_eq(begin(&c), 4);
    end(&b);
    end(&a);
    ck_assert_uint_eq(begin(&a), 2);
    ck_assert_uint_eq(begin(&b), 3);
    end(&a);
    end(&b);
    end(&c);
    ck_assert_uint_eq(hwt_thread_number, 1);
}
END_TEST

/* In a child process: the numbers are all taken by one thread, and stay so. */
static void take_all(void *data)
{
    (void)data;
    for (uint32_t n = 1; n <= HWT_THREADS_MAX; n++)
        child_must(hwt_thread_take_number() == n);
    for (int i = 0; i < 3; i++) {
        child_must(hwt_thread_take_number() == HWT_THREAD_NONE);
        child_must(hwt_thread_number == HWT_THREAD_NONE);
    }
}

START_TEST(there_are_8192_numbers)
{
    expect_well("all numbers", take_all, NULL);
}
END_TEST

/* In a child, whose thread then takes more than one. */
static void expect_others_free(void *data)
{
    uint32_t own = *(uint32_t *)data;
    child_must(hwt_thread_number == own);
    for (uint32_t n = 1; n < 10; n++) {
        if (n != own)
            child_must(hwt_thread_take_number() == n);
    }
}

static void *fork_with_the_third(void *data)
{
    uint32_t own = own_number();
    must(own == 3);
    expect_well("a child of a thread", expect_others_free, &own);
    return data;
}

START_TEST(in_the_child_of_a_fork_only_the_number_of_its_thread_is_taken)
{
    struct holder a, b;
    uint32_t own = own_number();
    begin(&a);
    pthread_t third = spawn(fork_with_the_third, NULL);
    join(third);
    begin(&b);
    expect_well("a child of many", expect_others_free, &own);
    end(&a);
    end(&b);
}
END_TEST

static void expect_all_free(void *data)
{
    (void)data;
    child_must(hwt_thread_number == 0);
    child_must(own_number() == 1);
}

START_TEST(a_child_of_a_thread_without_a_number_has_all_free)
{
    struct holder a;
    begin(&a);
    ck_assert_uint_eq(hwt_thread_number, 0);
    expect_well("a child without a number", expect_all_free, NULL);
    end(&a);
}
END_TEST

/* ---- at a thread's end ---- */

static pthread_key_t late;
static uint32_t seen_late;

static void look_late(void *data)
{
    (void)data;
    seen_late = hwt_thread_number;
}

static void *number_then_end(void *data)
{
    uint32_t *number = data;
    *number = own_number();
    must(pthread_setspecific(late, number) == 0);
    return NULL;
}

/* The library's own destructor was made before those of the program. */
START_TEST(a_destructor_of_the_same_thread_finds_its_number)
{
    uint32_t number = 0;
    must(pthread_key_create(&late, look_late) == 0);
    own_number();
    join(spawn(number_then_end, &number));
    ck_assert_uint_eq(number, 2);
    ck_assert_uint_eq(seen_late, number);
    struct holder next;
    ck_assert_uint_eq(begin(&next), 2);
    end(&next);
    pthread_key_delete(late);
}
END_TEST

static void take_late(void *data)
{
    (void)data;
    seen_late = own_number();
}

static void *end_without_a_number(void *data)
{
    must(pthread_setspecific(late, data) == 0);
    return NULL;
}

START_TEST(a_number_that_a_destructor_took_is_given_back_too)
{
    must(pthread_key_create(&late, take_late) == 0);
    own_number();
    for (int i = 0; i < 3; i++) {
        seen_late = 0;
        join(spawn(end_without_a_number, &late));
        ck_assert_uint_eq(seen_late, 2);
    }
    pthread_key_delete(late);
}
END_TEST

/* ---- many at once ---- */

enum { THREADS = 6, LIVES = 300 };

static _Atomic bool in_use[THREADS * 2 + 2];
static uint64_t written[THREADS * 2 + 2]; /* by who has the number: one after the other */

static void *live_fast(void *data)
{
    uint32_t number = own_number();
    must(number >= 1 && number < THREADS * 2 + 2);
    must(!atomic_exchange_explicit(&in_use[number], true, memory_order_relaxed));
    written[number]++;
    must(atomic_exchange_explicit(&in_use[number], false, memory_order_relaxed));
    return data;
}

static void *beget(void *data)
{
    for (int i = 0; i < LIVES; i++)
        join(spawn(live_fast, NULL));
    return data;
}

START_TEST(a_number_passes_from_thread_to_thread_with_all_that_was_done_under_it)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        threads[i] = spawn(beget, NULL);
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    uint64_t sum = 0;
    for (int i = 0; i < THREADS * 2 + 2; i++)
        sum += written[i];
    ck_assert_uint_eq(sum, THREADS * LIVES);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("thread");
    TCase *numbers = unit_case(suite, "numbers", NULL, NULL);
    tcase_add_test(numbers, a_thread_has_the_least_number_that_is_free_until_it_ends);
    tcase_add_test(numbers, there_are_8192_numbers);
    tcase_add_test(numbers, in_the_child_of_a_fork_only_the_number_of_its_thread_is_taken);
    tcase_add_test(numbers, a_child_of_a_thread_without_a_number_has_all_free);
    TCase *at_end = unit_case(suite, "ends", NULL, NULL);
    tcase_add_test(at_end, a_destructor_of_the_same_thread_finds_its_number);
    tcase_add_test(at_end, a_number_that_a_destructor_took_is_given_back_too);
    tcase_add_test(at_end, a_number_passes_from_thread_to_thread_with_all_that_was_done_under_it);
    return run_suite(suite);
}
