/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/policy.h"

#include <inttypes.h>
#include <string.h>

/* It changes with the code below, and with the headers that are known. */
enum { VERSION = 1 };

static bool is_allowed(const struct relay_words *targets, const char *target)
{
    for (size_t i = 0; i < targets->count; i++)
        if (relay_pattern_matches(targets->word[i], target))
            return true;
    return false;
}

int relay_policy_judge(const struct relay_config *config, const struct relay_limits *limits,
                       const struct relay_case *judged, char reason[RELAY_REASON_MAX])
{
    uint64_t headers = relay_fields_size(judged->fields, judged->fields_count);
    uint64_t size = headers + judged->payload_size;

    for (size_t i = 0; i < judged->fields_count; i++)
        if (relay_field_is_hwt(&judged->fields[i]))
            return relay_refuse(reason, "there is no header %.60s", judged->fields[i].name);
    if (!is_allowed(&config->targets, judged->target))
        return relay_refuse(reason, "Hwt-Target is not one that the relay may publish to: %.60s",
                            judged->target);
    if (size > config->message_max)
        return relay_refuse(reason,
                            "it has %" PRIu64 " bytes, more than message_max, which is %" PRIu64,
                            size, config->message_max);
    if (!relay_fits(limits->message, size))
        return relay_refuse(reason,
                            "it has %" PRIu64 " bytes, and with %d more the broker takes %" PRIu64
                            " at most",
                            size, RELAY_ROOM, limits->message);
    if (!relay_fits(limits->headers, headers))
        return relay_refuse(reason,
                            "it has %" PRIu64
                            " bytes of headers, and with %d more the broker takes %" PRIu64
                            " at most",
                            headers, RELAY_ROOM, limits->headers);
    return 0;
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
