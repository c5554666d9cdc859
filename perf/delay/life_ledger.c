/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "life.h"

#include <errno.h>
#include <math.h>
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

void lateness_add(struct shared *shared, uint64_t ns)
{
    uint64_t slot = ns;

    if (ns >= 16) {
        uint64_t log = 63 - (uint64_t)__builtin_clzll(ns);
        slot = (log - 3) * 16 + (ns >> (log - 4)) % 16;
    }
    count(&shared->lateness[slot], 1);
    count(&shared->punctual, 1);
    raise_to(&shared->lateness_max, ns);
}

uint64_t lateness_at(const struct shared *shared, double part)
{
    uint64_t below = 0, wanted = (uint64_t)ceil((double)counted(&shared->punctual) * part);

    for (uint64_t i = 0; i < LATENESS_SLOTS; i++) {
        below += counted(&shared->lateness[i]);
        if (below >= wanted && wanted > 0)
            return i < 16 ? i : (UINT64_C(17) + i % 16) << (i / 16 - 1);
    }
    return 0;
}
