/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/shard.h"

#include <string.h>

/* A pattern that stays keeps what was counted for it. The others hear soon of the policy. */
void relay_shard_configure(struct relay_shard *shard, const struct relay_config *config)
{
    const struct relay_words *before = &shard->config->targets;
    uint64_t counted[RELAY_WORDS_MAX] = { 0 };

    for (size_t i = 0; i < config->targets.count; i++)
        for (size_t n = 0; n < before->count; n++)
            if (strcmp(config->targets.word[i], before->word[n]) == 0)
                counted[i] = relay_count_get(&shard->counts.failures_of[n]);
    for (size_t i = 0; i < RELAY_WORDS_MAX; i++)
        relay_count_set(&shard->counts.failures_of[i], counted[i]);
    shard->config = config;
    shard->report_at = 0;
}

enum relay_unready relay_shard_unready(const struct relay_shard *shard)
{
    if (shard->drains)
        return RELAY_IS_DRAINED;
    if (!shard->knows_stream)
        return RELAY_UNKNOWN_STREAM;
    if (shard->role == RELAY_CATCHES_UP)
        return RELAY_IS_CATCHING_UP;
    if (!relay_stores(shard))
        return RELAY_SHORT;
    if (!relay_is_near(shard))
        return RELAY_BEHIND;
    return shard->clock_agrees ? RELAY_READY : RELAY_WRONG_CLOCK;
}

static void count_state(struct relay_shard *shard)
{
    struct relay_counts *counts = &shard->counts;

    relay_count_set(&counts->oldest_due,
                    shard->flights_count > 0 ? shard->flights[0].message->due : 0);
    relay_count_set(&counts->catches_up, shard->role == RELAY_CATCHES_UP);
    relay_count_set(&counts->unready, relay_shard_unready(shard));
    relay_count_set(&counts->lease_from, shard->role == RELAY_FOLLOWS ? 0 : shard->lease_from);
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
