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
void relay_nats_close(struct relay_engine *engine);

/* Readable when a pull or answers may bring something new. It is cleared before they are asked. */
int relay_nats_fd(struct relay_engine *engine);
void relay_nats_clear(struct relay_engine *engine);

/* ---- For commands by hand ---- */

/* Publishes to the delay stream and waits until it is stored there. */
int relay_nats_publish(struct relay_engine *engine, const struct relay_outgoing *message,
                       uint64_t *ret_position);

#endif
