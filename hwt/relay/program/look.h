/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_RELAY_LOOK_H
#define HWT_RELAY_LOOK_H

/* For the commands that look at the stores and at the entries of relays while they run. */

#include <hwt/hwt.h>
#include <hwt/delay.h>

#include "hwt/relay/config.h"
#include "hwt/relay/engine.h"
#include "hwt/relay/watermark.h"

struct request;

enum { LOOKS_MAX = 10 }; /* a store that its relay changes meanwhile is opened so often */

/* Exits with a message if the broker does not answer. */
struct relay_engine *look_open_engine(const struct request *request, unsigned shard);
void look_member_name(unsigned shard, const char *replica, char name[RELAY_ENTRY_MAX]);
int look_read_member(struct relay_engine *engine, unsigned shard, const char *replica,
                     struct relay_member *ret_member, uint64_t *ret_revision);
int look_read_entry(struct relay_engine *engine, unsigned shard, struct relay_entry *ret_entry);

/* A shard's store as it was when it was opened, and how far it had read then. */
struct look {
    const char *state;
    hwt_delay *store;
    struct relay_place place;
};

/* The caller closes ret_look->store. look_explain() says what an error means. */
int look_open_store(const struct relay_config *config, const char *state, unsigned shard,
                    struct look *ret_look);
const char *look_explain(int error);

/* In one line, whatever the bytes are. */
void look_print_escaped(const void *bytes, size_t size);

#endif
