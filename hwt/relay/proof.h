/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_RELAY_PROOF_H
#define HWT_RELAY_PROOF_H

/*
 * A message that a relay puts into the delay stream once more names the id that its target knows it by, and how often it
 * was sent. A producer can write the same headers. So a relay adds a proof, which is a keyed hash over what the message says, with
 * a secret of the shard that is in an entry of its own at the broker, where no producer reads. The owner looks at the proof
 * when it sends. Without one the id and the attempts are not believed: the message goes by an id of its own.
 */

#include "hwt/relay/shard.h"

/* SipHash-2-4. */
uint64_t relay_keyed_hash(const uint64_t secret[2], const void *bytes, size_t size);

struct relay_proof {
    char whole[17]; /* over all that it says */
    char id[17]; /* over id and attempt alone, so it is the same whoever puts the message again */
};

/* A negative errno: the broker does not answer. */
int relay_prove(struct relay_shard *shard, const struct relay_record *record, uint64_t due,
                struct relay_proof *ret_proof);

/*
 * A record of an order that names an id has its Hwt-Source for a last field, which is taken away. If that is no proof, it gets an
 * id of its own, in `id`, and no attempts. A negative errno likewise.
 */
int relay_believe(struct relay_shard *shard, uint64_t due, struct relay_record *record,
                  char id[RELAY_ENTRY_MAX]);

#endif
