/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "histogram.h"

#include <math.h>
#include <stdio.h>

enum { EACH = 1 << HISTOGRAM_BITS }; /* slots of a power of two */

/* Relaxed is enough: no other memory goes with a count. */
static uint64_t get(const _Atomic uint64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

static void raise_by(_Atomic uint64_t *count, uint64_t n)
{
    atomic_store_explicit(count, get(count) + n, memory_order_relaxed);
}

static uint64_t slot_of(uint64_t value)
{
    if (value < EACH)
        return value;
    uint64_t log = 63 - (uint64_t)__builtin_clzll(value);
    return ((log - HISTOGRAM_BITS + 1) << HISTOGRAM_BITS) +
           (value >> (log - HISTOGRAM_BITS)) % EACH;
}

static uint64_t slot_end(uint64_t slot)
{
    return slot < EACH ? slot : ((EACH + 1 + slot % EACH) << (slot / EACH - 1)) - 1;
}

static void note_ends(struct histogram *histogram, int64_t least, uint64_t greatest)
{
    if (get(&histogram->total) == 0 || least < atomic_load(&histogram->least))
        atomic_store(&histogram->least, least);
    if (greatest > get(&histogram->greatest))
        atomic_store(&histogram->greatest, greatest);
}

void histogram_add(struct histogram *histogram, int64_t value)
{
    uint64_t late = value > 0 ? (uint64_t)value : 0;

    note_ends(histogram, value, late);
    raise_by(&histogram->counts[slot_of(late)], 1);
    raise_by(&histogram->total, 1);
}

void histogram_merge(struct histogram *to, const struct histogram *from)
{
    if (get(&from->total) == 0)
        return;
    note_ends(to, atomic_load(&from->least), get(&from->greatest));
    for (unsigned i = 0; i < HISTOGRAM_SLOTS; i++)
        raise_by(&to->counts[i], get(&from->counts[i]));
    raise_by(&to->total, get(&from->total));
}

uint64_t histogram_at(const struct histogram *histogram, double part)
{
    uint64_t below = 0, wanted = (uint64_t)ceil((double)get(&histogram->total) * part);
    uint64_t greatest = get(&histogram->greatest);

    for (uint64_t i = 0; i < HISTOGRAM_SLOTS && wanted > 0; i++) {
        below += get(&histogram->counts[i]);
        if (below >= wanted)
            return slot_end(i) < greatest ? slot_end(i) : greatest;
    }
    return greatest;
}

void histogram_print(const struct histogram *histogram, const char *name, const char *unit,
                     double divisor, void (*print)(const char *name, double value))
{
    static const struct {
        const char *name;
        double part;
    } parts[] = { { "p50", 0.5 }, { "p99", 0.99 }, { "p999", 0.999 }, { "max", 1 } };
    char metric[64];

    for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        snprintf(metric, sizeof(metric), "%s%s_%s", name, parts[i].name, unit);
        print(metric, (double)histogram_at(histogram, parts[i].part) / divisor);
    }
}
