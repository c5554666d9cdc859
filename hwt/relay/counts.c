/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/counts.h"

#include <hwt/hwt.h>

const uint64_t relay_late_ends[RELAY_LATE_BUCKETS] = {
    HWT_MS(1),   HWT_MS(2),   HWT_MS(5),   HWT_MS(10),   HWT_MS(20), HWT_MS(50),
    HWT_MS(100), HWT_MS(200), HWT_MS(500), HWT_SEC(1),   HWT_SEC(2), HWT_SEC(5),
    HWT_SEC(10), HWT_SEC(30), HWT_SEC(60), HWT_SEC(300),
};

const struct relay_why relay_whys[RELAY_UNREADY] = {
    [RELAY_READY] = { "-", "ready" },
    [RELAY_OPENS] = { "opens", "its store is being opened, or closed" },
    [RELAY_NO_BROKER] = { "broker", "the broker does not answer, or refuses; see the log" },
    [RELAY_UNKNOWN_STREAM] = { "stream", "it has not compared the stream with what it has read" },
    [RELAY_BEHIND] = { "behind", "it has not read all of the stream within the last lease" },
    [RELAY_SHORT] = { "short", "its disk is full, or it is short of memory or files" },
    [RELAY_WRONG_CLOCK] = { "clock", "its clock is not the broker's, or was not compared yet" },
    [RELAY_IS_CATCHING_UP] = { "catches-up", "it has taken the shard, and reads what is missing" },
    [RELAY_IS_DRAINED] = { "drained", "it is drained" },
};

void relay_count_lateness(struct relay_counts *counts, uint64_t lateness)
{
    unsigned i = 0;

    while (i < RELAY_LATE_BUCKETS && lateness > relay_late_ends[i])
        i++;
    relay_count_add(&counts->lateness[i], 1);
    relay_count_add(&counts->lateness_sum, lateness);
}
