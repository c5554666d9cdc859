/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_RELAY_POLICY_H
#define HWT_RELAY_POLICY_H

/*
 * What a relay does not send to a target, although the message orders it, by its configuration, its
 * version and its broker. These differ between replicas while they are changed one after the other.
 * So the owner judges a message when it sends it, and nobody does before: all stores hold the same,
 * and what is refused is a dead letter when it is due.
 */

#include "hwt/relay/config.h"

/* A message that would be sent: without the headers that are known. */
struct relay_case {
    const char *target;
    const struct relay_field *fields;
    size_t fields_count;
    size_t payload_size;
};

/* 0; or `reason` says why it is not sent: -EPERM, by its target; -EMSGSIZE; -EINVAL, for a header. */
int relay_policy_judge(const struct relay_config *config, const struct relay_limits *limits,
                       const struct relay_case *judged, char reason[RELAY_REASON_MAX]);

/* The number of the first pattern that has a target; `targets.count`: none has it. */
size_t relay_policy_pattern(const struct relay_config *config, const char *target);

/* Whether so many bytes, and all that the relay adds to them, are within a limit. */
static inline bool relay_fits(uint64_t limit, uint64_t size)
{
    return limit == 0 || (limit >= RELAY_ROOM && size <= limit - RELAY_ROOM);
}

/* Replicas of one hash judge alike, apart from their brokers. It is never 0. */
uint64_t relay_policy_hash(const struct relay_config *config);

#endif
