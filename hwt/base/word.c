/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Exchanges of two words for machines that have no instruction for that. See word.h. */

#include "hwt/base/word.h"

#ifdef HWT_WORD_LOCKS

#include <sched.h>

#define LOCKS 64

static atomic_flag locks[LOCKS];

static atomic_flag *lock_for(const struct hwt_word *word)
{
    atomic_flag *lock = &locks[(uintptr_t)word / sizeof(*word) % LOCKS];
    while (atomic_flag_test_and_set_explicit(lock, memory_order_acquire))
        sched_yield();
    return lock;
}

void hwt_word_renew_locks(void)
{
    for (unsigned i = 0; i < LOCKS; i++)
        atomic_flag_clear_explicit(&locks[i], memory_order_relaxed);
}

bool hwt_word_exchange(struct hwt_word *word, uint64_t first, uint64_t second, uint64_t new_first,
                       uint64_t new_second)
{
    atomic_flag *lock = lock_for(word);
    bool same = atomic_load_explicit(&word->first, memory_order_seq_cst) == first &&
                atomic_load_explicit(&word->second, memory_order_seq_cst) == second;
    if (same) {
        /* `second` is stored before `first`: a reader of the new `first` sees the `second` that
         * belongs to it. */
        atomic_store_explicit(&word->second, new_second, memory_order_seq_cst);
        atomic_store_explicit(&word->first, new_first, memory_order_seq_cst);
    }
    atomic_flag_clear_explicit(lock, memory_order_release);
    return same;
}

bool hwt_word_exchange_first(struct hwt_word *word, uint64_t first, uint64_t new_first)
{
    atomic_flag *lock = lock_for(word);
    bool same = atomic_load_explicit(&word->first, memory_order_seq_cst) == first;
    if (same)
        atomic_store_explicit(&word->first, new_first, memory_order_seq_cst);
    atomic_flag_clear_explicit(lock, memory_order_release);
    return same;
}

#endif
