/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef SHIM_WFCQUEUE_H
#define SHIM_WFCQUEUE_H

/* liburcu's queue, its nonblocking half, in C11 atomics: what GenMC can read. Its orders are at
 * most those that hwt/base/queue.h gives it. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define caa_container_of(pointer, type, member)                                                    \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))
#define caa_cpu_relax() ((void)0)

struct cds_wfcq_node {
    _Atomic(struct cds_wfcq_node *) next;
};

struct __cds_wfcq_head {
    struct cds_wfcq_node node;
};

struct cds_wfcq_tail {
    _Atomic(struct cds_wfcq_node *) p;
};

#define CDS_WFCQ_WOULDBLOCK ((struct cds_wfcq_node *)1)

static inline void __cds_wfcq_init(struct __cds_wfcq_head *head, struct cds_wfcq_tail *tail)
{
    atomic_init(&head->node.next, NULL);
    atomic_init(&tail->p, &head->node);
}

static inline void cds_wfcq_node_init(struct cds_wfcq_node *node)
{
    atomic_store_explicit(&node->next, NULL, memory_order_relaxed);
}

static inline bool cds_wfcq_enqueue(struct __cds_wfcq_head *head, struct cds_wfcq_tail *tail,
                                    struct cds_wfcq_node *node)
{
    struct cds_wfcq_node *before = atomic_exchange(&tail->p, node);
    atomic_store_explicit(&before->next, node, memory_order_release);
    return before != &head->node;
}

static inline struct cds_wfcq_node *__cds_wfcq_dequeue_nonblocking(struct __cds_wfcq_head *head,
                                                                   struct cds_wfcq_tail *tail)
{
    struct cds_wfcq_node *node = atomic_load_explicit(&head->node.next, memory_order_acquire);
    if (!node)
        return atomic_load_explicit(&tail->p, memory_order_relaxed) == &head->node
                   ? NULL
                   : CDS_WFCQ_WOULDBLOCK;
    struct cds_wfcq_node *next = atomic_load_explicit(&node->next, memory_order_acquire);
    if (!next) {
        struct cds_wfcq_node *seen = node;
        atomic_store_explicit(&head->node.next, NULL, memory_order_relaxed);
        if (atomic_compare_exchange_strong(&tail->p, &seen, &head->node))
            return node;
        next = atomic_load_explicit(&node->next, memory_order_acquire);
        if (!next) {
            atomic_store_explicit(&head->node.next, node, memory_order_relaxed);
            return CDS_WFCQ_WOULDBLOCK;
        }
    }
    atomic_store_explicit(&head->node.next, next, memory_order_relaxed);
    return node;
}

#endif
