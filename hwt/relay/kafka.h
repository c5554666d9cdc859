/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_RELAY_KAFKA_H
#define HWT_RELAY_KAFKA_H

/* The engine on Apache Kafka. The names of topics are in hwt-relay-protocol(5). */

#include "hwt/relay/config.h"
#include "hwt/relay/engine.h"

/*
 * Connects, and looks whether the topics are there.
 *
 * -EHOSTUNREACH, or another one: it did not work, which was logged, and may be tried again
 */
int relay_kafka_open(const struct relay_config *config, unsigned shard,
                     struct relay_engine **ret_engine);

/* The partition of a key, as Java's producers find it. */
unsigned relay_kafka_shard(const char *key, unsigned shards);

#endif
