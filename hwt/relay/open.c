/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/open.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#ifdef RELAY_NATS
#include "hwt/relay/nats.h"
#endif
#ifdef RELAY_KAFKA
#include "hwt/relay/kafka.h"
#endif

static const struct kind {
    const char *name;
    int (*open)(const struct relay_config *config, unsigned shard,
                struct relay_engine **ret_engine);
    unsigned (*shard)(const char *key, unsigned shards);
    bool scatters;
} kinds[] = {
#ifdef RELAY_NATS
    { "nats", relay_nats_open, relay_nats_shard, false },
#endif
#ifdef RELAY_KAFKA
    { "kafka", relay_kafka_open, relay_kafka_shard, true },
#endif
};

static const struct kind *find(const struct relay_config *config)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i].name, config->engine) == 0)
            return &kinds[i];
    return NULL;
}

const char *relay_engine_fault(const struct relay_config *config)
{
    return find(config) ? NULL : "this hwt-relay was built without that engine";
}

int relay_engine_open(const struct relay_config *config, unsigned shard,
                      struct relay_engine **ret_engine)
{
    return find(config)->open(config, shard, ret_engine);
}

unsigned relay_engine_shard(const struct relay_config *config, const char *key)
{
    return find(config)->shard(key, (unsigned)config->shards);
}

bool relay_engine_scatters(const struct relay_config *config)
{
    return find(config)->scatters;
}

void relay_engine_shards_fault(const struct relay_config *config, const struct relay_engine *engine,
                               char ret_fault[RELAY_ENTRY_MAX])
{
    *ret_fault = 0;
    if (engine->shards > config->shards)
        snprintf(ret_fault, RELAY_ENTRY_MAX,
                 "the broker has %" PRIu64
                 " shards, and nothing is forwarded of those from %" PRIu64
                 " on: raise shards to %" PRIu64 "; see hwt-relay(1), To take shards away",
                 engine->shards, config->shards, engine->shards);
}
