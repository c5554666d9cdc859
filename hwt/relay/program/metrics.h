/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_RELAY_METRICS_H
#define HWT_RELAY_METRICS_H

/* The metrics of a relay, in Prometheus' text exposition format, version 0.0.4. */

#include <hwt/hwt.h>
#include <hwt/delay.h>

#include "hwt/relay/config.h"
#include "hwt/relay/program/calls.h"
#include "hwt/relay/counts.h"

struct relay_metrics {
    unsigned shard;
    const struct relay_counts *counts; /* NULL: it does not run now, and has no store */
    hwt_delay *store;
    const struct relay_errors *errors;
    enum relay_unready unready;
};

/* Allocated. NULL: no memory. */
char *relay_metrics_page(const struct relay_config *config, const struct relay_metrics *shards,
                         size_t count);

#endif
