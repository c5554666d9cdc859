/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Numbers for threads. See thread.h. */

#include "hwt/base/thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "hwt/base/process.h"
#include "hwt/base/sched_point.h"

#define BITS 64
#define WORDS (HWT_THREADS_MAX / BITS)
#define ROUNDS 2 /* of a thread's destructors in which it has its number */

HWT_THREAD_LOCAL uint32_t hwt_thread_number;
void (*_Atomic hwt_thread_ends)(void);

static _Atomic uint64_t taken[WORDS]; /* bit n of word w: number w * 64 + n + 1 */
static pthread_key_t at_thread_end;
static bool has_thread_end;

static void give_number_back(uint32_t number)
{
    uint32_t bit = number - 1;
    hwt_thread_number = HWT_THREAD_NONE;
    HWT_SCHED_POINT(NUMBER_GIVE);
    /* Release: what the thread did with its number. */
    atomic_fetch_and_explicit(&taken[bit / BITS], ~((uint64_t)1 << bit % BITS),
                              memory_order_release);
}

static bool set_value(uint32_t number, uint32_t rounds)
{
    return pthread_setspecific(at_thread_end, (void *)(uintptr_t)(number * ROUNDS + rounds)) == 0;
}

/* Runs in a round of a thread's destructors, and gives the number back in the second one: the
 * program's destructors, which mostly run once, may call in the first one. In a destructor that runs
 * after this, the thread has no number. */
static void thread_ends(void *value)
{
    uint32_t number = (uint32_t)(uintptr_t)value / ROUNDS, rounds = (uintptr_t)value % ROUNDS + 1;
    void (*ends)(void) = atomic_load_explicit(&hwt_thread_ends, memory_order_relaxed);
    if (rounds < ROUNDS && set_value(number, rounds))
        return;
    if (ends && hwt_thread_number == number)
        ends();
    give_number_back(number);
}

void hwt_thread_forget_others(void)
{
    uint32_t own = hwt_thread_number;
    for (uint32_t w = 0; w < WORDS; w++)
        atomic_store_explicit(&taken[w], 0, memory_order_relaxed);
    if (own != 0 && own != HWT_THREAD_NONE)
        atomic_store_explicit(&taken[(own - 1) / BITS], (uint64_t)1 << (own - 1) % BITS,
                              memory_order_relaxed);
}

void hwt_thread_begin(void)
{
    has_thread_end = pthread_key_create(&at_thread_end, thread_ends) == 0;
}

/* Runs when the library is unloaded, so that threads that end later do not call it. */
__attribute__((destructor)) static void end(void)
{
    if (has_thread_end)
        pthread_key_delete(at_thread_end);
}

static uint32_t take_in_word(uint32_t w)
{
    uint64_t seen = atomic_load_explicit(&taken[w], memory_order_relaxed);
    while (seen != UINT64_MAX) {
        uint32_t bit = (uint32_t)__builtin_ctzll(~seen);
        HWT_SCHED_POINT(NUMBER_TAKE);
        /* Acquire: what the last thread did with the number. */
        if (atomic_compare_exchange_weak_explicit(&taken[w], &seen, seen | (uint64_t)1 << bit,
                                                  memory_order_acquire, memory_order_relaxed))
            return w * BITS + bit + 1;
    }
    return 0;
}

uint32_t hwt_thread_take_number(void)
{
    uint32_t number = 0;
    hwt_process_enter();
    for (uint32_t w = 0; w < WORDS && number == 0 && has_thread_end; w++)
        number = take_in_word(w);
    if (number != 0 && !set_value(number, 0)) {
        give_number_back(number);
        number = 0;
    }
    return hwt_thread_number = number != 0 ? number : HWT_THREAD_NONE;
}
