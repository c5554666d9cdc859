/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What hwt/base/barrier.h takes; the first is for fork(), not for threads. */
#include <stdatomic.h>
#define cmm_wmb() ((void)0)
#define cmm_mb() atomic_thread_fence(memory_order_seq_cst)
