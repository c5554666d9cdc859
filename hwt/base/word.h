/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_WORD_H
#define HWT_WORD_H

/*
 * Two words of 64 bits that are exchanged together, or the first of them alone.
 *
 * x86-64 and 64-bit ARM have an instruction for it. Elsewhere, and under ThreadSanitizer, which
 * does not know it, an exchange takes one of a few spin locks, and then nothing is lock-free: once
 * other threads can see a word, only the functions here change it.
 *
 * Either half may be read on its own with atomic_load_explicit(). Two reads may come from before
 * and after an exchange: an exchange of both fails then.
 *
 * An exchange that succeeds is seq_cst; one that fails has read nothing that counts.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct hwt_word {
    _Alignas(16) _Atomic uint64_t first;
    _Atomic uint64_t second;
};

#if defined(__SANITIZE_THREAD__)
#define HWT_WORD_LOCKS 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HWT_WORD_LOCKS 1
#endif
#endif
#if !defined(HWT_WORD_LOCKS) && !defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_16)
#define HWT_WORD_LOCKS 1
#endif

#ifdef HWT_WORD_LOCKS

bool hwt_word_exchange(struct hwt_word *word, uint64_t first, uint64_t second, uint64_t new_first,
                       uint64_t new_second);
bool hwt_word_exchange_first(struct hwt_word *word, uint64_t first, uint64_t new_first);

/* In a child of fork(): no thread has a lock. */
void hwt_word_renew_locks(void);

#else

static inline void hwt_word_renew_locks(void)
{
}

__extension__ typedef unsigned __int128 __attribute__((may_alias)) hwt_both;

static inline bool hwt_word_exchange(struct hwt_word *word, uint64_t first, uint64_t second,
                                     uint64_t new_first, uint64_t new_second)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    hwt_both seen = (hwt_both)second << 64 | first;
    hwt_both next = (hwt_both)new_second << 64 | new_first;
#else
    hwt_both seen = (hwt_both)first << 64 | second;
    hwt_both next = (hwt_both)new_first << 64 | new_second;
#endif
    return __sync_bool_compare_and_swap((hwt_both *)(void *)word, seen, next);
}

static inline bool hwt_word_exchange_first(struct hwt_word *word, uint64_t first,
                                           uint64_t new_first)
{
    return atomic_compare_exchange_strong_explicit(&word->first, &first, new_first,
                                                   memory_order_seq_cst, memory_order_relaxed);
}

#endif

#endif
