/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef PERF_HISTOGRAM_H
#define PERF_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

/*
 * Times in ns, each known to 1 in 32, the greatest and the least exactly. One that is below 0 counts as 0, but
 * for the least. One thread adds; others may read meanwhile what was added so far, as the memory may be
 * another process's. All zeros are an empty one.
 */

enum { HISTOGRAM_BITS = 5, HISTOGRAM_SLOTS = (65 - HISTOGRAM_BITS) << HISTOGRAM_BITS };

struct histogram {
    _Atomic uint64_t counts[HISTOGRAM_SLOTS], total, greatest;
    _Atomic int64_t least;
};

void histogram_add(struct histogram *histogram, int64_t value);
void histogram_merge(struct histogram *to, const struct histogram *from);

/* So much of all values is at most this; 0: there are none. */
uint64_t histogram_at(const struct histogram *histogram, double part);

/* Metrics of that name and unit: p50, p99, p999, max. */
void histogram_print(const struct histogram *histogram, const char *name, const char *unit,
                     double divisor, void (*print)(const char *name, double value));

#endif
