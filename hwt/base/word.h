/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_WORD_H
#define HWT_WORD_H

/*
 * Two words of 64 bits that are exchanged together, or the first of them alone.
 *
 * x86-64 and 64-bit ARM have an instruction for that. On other machines, and under ThreadSanitizer,
 * which does not know it, an exchange takes one of a few spin locks. Then nothing is lock-free, and
 * once other threads can see a word, only the functions here may change it.
 *
 * Either half may be read on its own with atomic_load_explicit(). If an exchange comes between two
 * such reads, the halves do not belong together, and an exchange of both fails.
 *
 * An exchange that succeeds is seq_cst. After one that has failed, the caller reads both halves
 * again.
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

/* For a child of fork(), in which no thread holds a lock: unlocks all. */
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
