/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "life.h"

#include <errno.h>
#include <sys/mman.h>

struct shared *ledger_make(const struct options *options)
{
    size_t size = sizeof(struct shared) + options->messages * sizeof(struct entry);
    struct shared *shared =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (shared == MAP_FAILED)
        die("memory for the ledger", -errno);
    return shared;
}

/* A kill may come between an entry and its counter. */
void ledger_recount(struct shared *shared, const struct options *options)
{
    uint64_t acknowledged = 0, delivered = 0, cancelled = 0;

    for (uint64_t i = 0; i < options->messages; i++) {
        const struct entry *e = &shared->entries[i];
        acknowledged += e->put == GRANTED;
        delivered += e->deliveries > 0;
        cancelled += e->deliveries == 0 && e->cancel == GRANTED;
    }
    atomic_store(&shared->acknowledged, acknowledged);
    atomic_store(&shared->delivered, delivered);
    atomic_store(&shared->cancelled, cancelled);
}

void raise_to(counter *c, uint64_t value)
{
    uint64_t old = counted(c);

    while (old < value && !atomic_compare_exchange_weak_explicit(
                              c, &old, value, memory_order_relaxed, memory_order_relaxed))
        ;
}
