/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_RELAY_NATS_H
#define HWT_RELAY_NATS_H

/* The engine on NATS JetStream. The names of streams and subjects are in hwt-relay-protocol(5). */

#include "hwt/relay/config.h"
#include "hwt/relay/engine.h"

/*
 * Connects, and makes the streams and the bucket that are not there yet.
 *
 * -EHOSTUNREACH, or another one: it did not work, which was logged, and may be tried again
 */
int relay_nats_open(const struct relay_config *config, unsigned shard,
                    struct relay_engine **ret_engine);
/* As partition() of the server: FNV-1a of the key. */
unsigned relay_nats_shard(const char *key, unsigned shards);
void relay_nats_close(struct relay_engine *engine);

#endif
