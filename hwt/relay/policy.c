/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/policy.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* It changes with the code below, and with the headers that are known. */
enum { VERSION = 1 };

size_t relay_policy_pattern(const struct relay_config *config, const char *target)
{
    size_t i = 0;

    while (i < config->targets.count && !relay_pattern_matches(config->targets.word[i], target))
        i++;
    return i;
}

static int judge_size(const struct relay_config *config, const struct relay_limits *limits,
                      const struct relay_case *judged, char reason[RELAY_REASON_MAX])
{
    uint64_t headers = relay_fields_size(judged->fields, judged->fields_count);
    uint64_t size = headers + judged->payload_size;

    if (size > config->message_max)
        relay_refuse(reason, "it has %" PRIu64 " bytes, more than message_max, which is %" PRIu64,
                     size, config->message_max);
    else if (!relay_fits(limits->message, size))
        relay_refuse(reason,
                     "it has %" PRIu64 " bytes, and with %d more the broker takes %" PRIu64
                     " at most",
                     size, RELAY_ROOM, limits->message);
    else if (!relay_fits(limits->headers, headers))
        relay_refuse(reason,
                     "it has %" PRIu64
                     " bytes of headers, and with %d more the broker takes %" PRIu64 " at most",
                     headers, RELAY_ROOM, limits->headers);
    else
        return 0;
    return -EMSGSIZE;
}

int relay_policy_judge(const struct relay_config *config, const struct relay_limits *limits,
                       const struct relay_case *judged, char reason[RELAY_REASON_MAX])
{
    for (size_t i = 0; i < judged->fields_count; i++)
        if (relay_field_is_hwt(&judged->fields[i]))
            return relay_refuse(reason, "there is no header %.60s", judged->fields[i].name);
    if (relay_policy_pattern(config, judged->target) == config->targets.count) {
        relay_refuse(reason, "Hwt-Target is not one that the relay may publish to: %.60s",
                     judged->target);
        return -EPERM;
    }
    return judge_size(config, limits, judged, reason);
}

/* Of a text and a number, whatever others there are. */
static uint64_t hash(const char *text, uint64_t number)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ number;

    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return (hash ^ hash >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
}

uint64_t relay_policy_hash(const struct relay_config *config)
{
    uint64_t sum = hash("version", VERSION) + hash("message_max", config->message_max) +
                   hash("attempts", config->attempts);

    for (size_t i = 0; i < config->targets.count; i++)
        sum += hash(config->targets.word[i], 0); /* in any order */
    return sum > 0 ? sum : 1;
}
