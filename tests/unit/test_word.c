/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Two words that are exchanged together. Built twice: as the machine has it, and with locks. */

#include "hwt/base/word.h"

#include <sched.h>

#include "unit.h"

_Static_assert(sizeof(struct hwt_word) == 16 && _Alignof(struct hwt_word) == 16,
               "one operand of the instruction");

static struct hwt_word word;

static void set(uint64_t first, uint64_t second)
{
    atomic_store(&word.first, first);
    atomic_store(&word.second, second);
}

static void expect(uint64_t first, uint64_t second)
{
    ck_assert_uint_eq(atomic_load(&word.first), first);
    ck_assert_uint_eq(atomic_load(&word.second), second);
}

START_TEST(both_are_exchanged_if_both_are_as_expected)
{
    set(1, UINT64_MAX);
    ck_assert(hwt_word_exchange(&word, 1, UINT64_MAX, UINT64_MAX - 1, 2));
    expect(UINT64_MAX - 1, 2);
    ck_assert(hwt_word_exchange(&word, UINT64_MAX - 1, 2, UINT64_MAX - 1, 2));
    expect(UINT64_MAX - 1, 2);
}
END_TEST

START_TEST(neither_is_exchanged_if_one_bit_differs)
{
    set(1, 2);
    for (unsigned bit = 0; bit < 64; bit++) {
        ck_assert(!hwt_word_exchange(&word, 1 ^ UINT64_C(1) << bit, 2, 7, 8));
        ck_assert(!hwt_word_exchange(&word, 1, 2 ^ UINT64_C(1) << bit, 7, 8));
        expect(1, 2);
    }
}
END_TEST

START_TEST(the_first_is_exchanged_alone)
{
    set(5, 6);
    ck_assert(!hwt_word_exchange_first(&word, 6, 7));
    expect(5, 6);
    ck_assert(hwt_word_exchange_first(&word, 5, 7));
    expect(7, 6);
}
END_TEST

/* ---- several threads ---- */

enum { THREADS = 4, TIMES = 20000, WORDS = 3 };

/* Neighbours may share a lock. */
static struct hwt_word words[WORDS];
static uint64_t plain[WORDS]; /* written by who has made the first odd */

static void *count_both(void *data)
{
    for (int i = 0; i < TIMES; i++) {
        struct hwt_word *one = &words[i % WORDS];
        uint64_t first, second;
        do {
            first = atomic_load_explicit(&one->first, memory_order_acquire);
            second = atomic_load_explicit(&one->second, memory_order_acquire);
        } while (!hwt_word_exchange(one, first, second, first + 1, second - 2));
        must(second == -2 * first); /* a pair that an exchange has taken was one */
    }
    return data;
}

START_TEST(no_exchange_of_several_threads_is_lost_or_torn)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        threads[i] = spawn(count_both, NULL);
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    uint64_t sum = 0;
    for (int i = 0; i < WORDS; i++) {
        uint64_t first = atomic_load(&words[i].first);
        ck_assert_uint_eq(atomic_load(&words[i].second), -2 * first);
        sum += first;
    }
    ck_assert_uint_eq(sum, THREADS * TIMES);
}
END_TEST

static void *count_first(void *data)
{
    for (int i = 0; i < TIMES; i++) {
        uint64_t first;
        do {
            first = atomic_load_explicit(&words[0].first, memory_order_acquire);
        } while (!hwt_word_exchange_first(&words[0], first, first + 1));
    }
    return data;
}

static void *count_second(void *data)
{
    for (int i = 0; i < TIMES; i++) {
        uint64_t first, second;
        do {
            first = atomic_load_explicit(&words[0].first, memory_order_acquire);
            second = atomic_load_explicit(&words[0].second, memory_order_acquire);
        } while (!hwt_word_exchange(&words[0], first, second, first, second + 1));
    }
    return data;
}

START_TEST(exchanges_of_the_first_and_of_both_do_not_undo_each_other)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        threads[i] = spawn(i % 2 ? count_second : count_first, NULL);
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    ck_assert_uint_eq(atomic_load(&words[0].first), THREADS / 2 * TIMES);
    ck_assert_uint_eq(atomic_load(&words[0].second), THREADS / 2 * TIMES);
}
END_TEST

/* A lock made of the word: what was written under it is seen by the next one. */
static void *take_turns(void *data)
{
    uint32_t i = 0;
    while (i < TIMES / 4) {
        uint32_t at = i % WORDS;
        uint64_t second = atomic_load_explicit(&words[at].second, memory_order_relaxed);
        if (!hwt_word_exchange(&words[at], 0, second, 1, second + 1)) {
            sched_yield();
            continue;
        }
        plain[at]++;
        must(hwt_word_exchange_first(&words[at], 1, 0));
        i++;
    }
    return data;
}

START_TEST(an_exchange_publishes_what_was_written_before)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        threads[i] = spawn(take_turns, NULL);
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    ck_assert_uint_eq(plain[0] + plain[1] + plain[2], THREADS * (TIMES / 4));
    for (int i = 0; i < WORDS; i++)
        ck_assert_uint_eq(atomic_load(&words[i].second), plain[i]);
}
END_TEST

static void clear(void)
{
    memset(words, 0, sizeof(words));
    memset(plain, 0, sizeof(plain));
}

int main(void)
{
#ifdef HWT_WORD_LOCKS
    Suite *suite = suite_create("word: locks");
#else
    Suite *suite = suite_create("word");
#endif
    TCase *one = unit_case(suite, "one", NULL, NULL);
    tcase_add_test(one, both_are_exchanged_if_both_are_as_expected);
    tcase_add_test(one, neither_is_exchanged_if_one_bit_differs);
    tcase_add_test(one, the_first_is_exchanged_alone);
    TCase *threads = unit_case(suite, "threads", clear, NULL);
    tcase_add_test(threads, no_exchange_of_several_threads_is_lost_or_torn);
    tcase_add_test(threads, exchanges_of_the_first_and_of_both_do_not_undo_each_other);
    tcase_add_test(threads, an_exchange_publishes_what_was_written_before);
    return run_suite(suite);
}
