/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_RELAY_NATS_LIBRARY_H
#define HWT_TESTS_RELAY_NATS_LIBRARY_H

/*
 * Calls of the library of NATS, in place of its own: there is no server, each call is noted, and one of
 * them is refused. The streams and the bucket may be there or not.
 */

#include <nats/nats.h>
#include <stdbool.h>

struct nats_library {
    const char *called[64]; /* in this order */
    unsigned calls, refused_at, objects;
    natsStatus refused_with;
    bool is_there; /* the streams and the bucket are */
    natsConnStatus connection_status;
    const char *info, *bucket,
        *made; /* what the API says of the stream, the bucket's, and one that is made */
    jsClusterInfo leads, has_consumer;
    jsConsumerInfo consumer;
    jsConsumerConfig consumer_config;
    int64_t threshold, batch; /* of the consumer and the request that were asked for last */
    jsPubAck ack;
    unsigned draws, drawn_at; /* consumers; the number of the one that is on the leader's server */
    const char *found; /* what the leader says of the first message at a position or behind it */
};

extern struct nats_library nats_library;

/* Its streams and its consumer are as at the beginning. */
void nats_library_reset(void);

/* The n-th call from now on is refused; 0: none. */
void nats_library_refuse(unsigned at, natsStatus with);

#endif
