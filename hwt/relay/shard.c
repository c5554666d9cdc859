/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/shard.h"

static void count_state(struct relay_shard *shard)
{
    struct relay_counts *counts = &shard->counts;

    relay_count_set(&counts->owns, shard->role == RELAY_OWNS);
    relay_count_set(&counts->position, shard->at.position);
    relay_count_set(&counts->watermark_due, shard->entry.watermark.due);
    relay_count_set(&counts->taken, shard->flights_count);
}

int relay_shard_step(struct relay_shard *shard)
{
    int r = relay_agree_step(shard);

    if (r == 0)
        r = relay_lease_step(shard);
    if (shard->over)
        return r;
    if (r == 0 && !shard->drains)
        r = relay_ingest_step(shard);
    if (r == 0)
        r = shard->leads ? relay_take_step(shard) : relay_drop_step(shard);
    if (r == 0)
        r = relay_end_step(shard); /* before the sends, so that nothing covered is sent */
    if (r == 0) {
        relay_send_step(shard);
        r = relay_lease_commit(shard);
    }
    if (r == 0)
        relay_trim_step(shard);
    count_state(shard);
    return r;
}

uint64_t relay_shard_wait(struct relay_shard *shard)
{
    uint64_t now = relay_clock(shard), at = relay_min(shard->look_at, shard->report_at);

    at = relay_min(at, shard->compare_at);
    for (size_t i = 0; i < shard->flights_count; i++)
        if (shard->flights[i].state == RELAY_WAITS && shard->flights[i].not_before > now)
            at = relay_min(at, shard->flights[i].not_before);
    if (shard->ingest_after > now)
        at = relay_min(at, shard->ingest_after);
    return at > now ? at - now : 0;
}

void relay_shard_drain(struct relay_shard *shard)
{
    if (!shard->drains)
        shard->drains_since = relay_clock(shard);
    shard->drains = true;
}
