/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_RELAY_OPEN_H
#define HWT_RELAY_OPEN_H

/* The engines that this program was built with. */

#include "hwt/relay/config.h"
#include "hwt/relay/engine.h"

/* NULL; or why the engine of a configuration cannot be had. */
const char *relay_engine_fault(const struct relay_config *config);

/*
 * Opens the engine of a shard, as the configuration chooses it.
 *
 * -EHOSTUNREACH, or another one: it did not work, which was logged, and may be tried again
 */
int relay_engine_open(const struct relay_config *config, unsigned shard,
                      struct relay_engine **ret_engine);

/* The shard of a key, as the producers of that broker find it. */
unsigned relay_engine_shard(const struct relay_config *config, const char *key);
/* Whether some producers find another one, by the partitioner of their library. */
bool relay_engine_scatters(const struct relay_config *config);

/* "", or what is wrong if the broker has more shards than the configuration. */
void relay_engine_shards_fault(const struct relay_config *config, const struct relay_engine *engine,
                               char ret_fault[RELAY_ENTRY_MAX]);

#endif
