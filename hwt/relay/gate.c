/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/shard.h"

/*
 * A target that answers nothing holds each message for as long as the engine waits for an answer. So that
 * these do not take the place of all others, and the store's memory, there is a limit of messages under way
 * to one target, and of their bytes. Behind the limit the next ones wait for their turn, as long as answers
 * come; else they go back to the delay stream for later.
 *
 * Only targets with something under way are known here. With an engine whose sends become visible together nothing
 * is known, because it has answers for all at once, and bars targets itself.
 */

enum { UNDER_WAY_MAX = 512, BYTES_MAX = 8 }; /* in longest messages; the store has room for 32 */
#define SILENCE HWT_MS(500)

static uint64_t hash_of(const char *target)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *target; target++)
        hash = (hash ^ (unsigned char)*target) * UINT64_C(0x100000001b3);
    return hash;
}

/* The target's own one, or else a free one; NULL: all are taken. */
static struct relay_gate *find(struct relay_shard *shard, uint64_t hash)
{
    struct relay_gate *free_one = NULL;

    for (size_t i = 0; i < RELAY_GATES; i++) {
        struct relay_gate *gate = &shard->gates[(hash + i) % RELAY_GATES];
        if (gate->under_way > 0 && gate->target == hash)
            return gate;
        if (gate->under_way == 0 && !free_one)
            free_one = gate;
    }
    return free_one;
}

enum relay_turn relay_gate_ask(struct relay_shard *shard, const char *target,
                               struct relay_gate **ret_gate)
{
    const uint64_t hash = hash_of(target), now = relay_clock(shard);
    struct relay_gate *gate = shard->engine->together ? NULL : find(shard, hash);

    *ret_gate = gate;
    if (!gate || (gate->under_way > 0 && gate->under_way < UNDER_WAY_MAX &&
                  gate->bytes < BYTES_MAX * shard->config->message_max))
        return RELAY_GOES;
    if (gate->under_way == 0) {
        *gate = (struct relay_gate){ .target = hash, .heard_at = now };
        return RELAY_GOES;
    }
    return now - gate->heard_at < SILENCE ? RELAY_HAS_TO_WAIT : RELAY_GOES_BACK;
}

void relay_gate_enter(struct relay_gate *gate, struct relay_flight *flight)
{
    flight->gate = gate;
    if (!gate)
        return;
    gate->under_way++;
    gate->bytes += flight->message->payload_size;
}

void relay_gate_leave(struct relay_shard *shard, struct relay_flight *flight, bool heard)
{
    struct relay_gate *gate = flight->gate;

    flight->gate = NULL;
    if (!gate)
        return;
    gate->under_way--;
    gate->bytes -= flight->message->payload_size;
    if (heard)
        gate->heard_at = relay_clock(shard);
}
