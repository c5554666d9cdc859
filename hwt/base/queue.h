/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_QUEUE_H
#define HWT_QUEUE_H

/*
 * The queue of many producers and one consumer: liburcu's wfcqueue, its nonblocking half.
 *
 * Pushing is wait-free: an xchg of the tail, then a store that links the node to the one before.
 * Between the two the queue has a gap. A consumer that comes to it gets HWT_QUEUE_STALLED and comes
 * back later, while liburcu's blocking calls would sleep.
 *
 * Up to 0.14 liburcu's atomics are inline assembly and volatile accesses. No sanitizer sees these,
 * and they say nothing of order to the compiler. So they are mapped to the compiler's builtins.
 * xchg and cmpxchg are seq_cst; a caller that needs a barrier behind one makes it. The store that
 * links releases the node's content to the consumer's load.
 */

#include "hwt/base/sched_point.h"

#if HWT_INLINE_URCU
#define _LGPL_SOURCE
#endif

#include <urcu/arch.h>
#include <urcu/compiler.h>
#include <urcu/system.h>
#include <urcu/uatomic.h>

#if HWT_INLINE_URCU && !defined(CONFIG_RCU_USE_ATOMIC_BUILTINS)
#undef uatomic_xchg
#undef uatomic_cmpxchg
#undef CMM_LOAD_SHARED
#undef CMM_STORE_SHARED
#define uatomic_xchg(address, value) __atomic_exchange_n(address, value, __ATOMIC_SEQ_CST)
#define uatomic_cmpxchg(address, expected, value)                                                  \
    __extension__({                                                                                \
        __typeof__(*(address)) seen_ = (expected);                                                 \
        __atomic_compare_exchange_n(address, &seen_, value, 0, __ATOMIC_SEQ_CST,                   \
                                    __ATOMIC_SEQ_CST);                                             \
        seen_;                                                                                     \
    })
#define CMM_LOAD_SHARED(variable) __atomic_load_n(&(variable), __ATOMIC_ACQUIRE)
#define CMM_STORE_SHARED(variable, value)                                                          \
    (HWT_SCHED_POINT(LINK), __atomic_store_n(&(variable), value, __ATOMIC_RELEASE))
#endif

#include <urcu/wfcqueue.h>

typedef struct cds_wfcq_node hwt_queue_node;
typedef struct __cds_wfcq_head hwt_queue_head; /* the consumer's end */
typedef struct cds_wfcq_tail hwt_queue_tail;   /* the producers' end */

#define HWT_QUEUE_STALLED CDS_WFCQ_WOULDBLOCK

static inline void hwt_queue_init(hwt_queue_head *head, hwt_queue_tail *tail)
{
    __cds_wfcq_init(head, tail);
}

static inline void hwt_queue_push(hwt_queue_head *head, hwt_queue_tail *tail, hwt_queue_node *node)
{
    cds_wfcq_node_init(node);
    HWT_SCHED_POINT(PUSH);
    cds_wfcq_enqueue(head, tail, node);
    HWT_SCHED_POINT(PUSHED);
}

/* Consumer: takes the oldest node. NULL: none. HWT_QUEUE_STALLED: its next is not linked yet. */
static inline hwt_queue_node *hwt_queue_pop(hwt_queue_head *head, hwt_queue_tail *tail)
{
    return __cds_wfcq_dequeue_nonblocking(head, tail);
}

#endif
