/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_RELAY_CONFIG_H
#define HWT_RELAY_CONFIG_H

/* The configuration file: lines of "name = value"; # begins a comment. See hwt-relay(1). */

#include <stdint.h>

#include "hwt/relay/counts.h"
#include "hwt/relay/watermark.h"

#define RELAY_LEASE_MAX HWT_SEC(60)

enum { RELAY_SHARDS_MAX = 16, RELAY_REPLICAS_MAX = 16 }; /* RELAY_WORDS_MAX is in counts.h */

/* The words of a line; they belong to the configuration. */
struct relay_words {
    const char *word[RELAY_WORDS_MAX];
    size_t count;
};

struct relay_config {
    const char *space;
    const char *engine;          /* "nats" or "kafka" */
    const char *replica;         /* this one */
    struct relay_words replicas; /* all of them */
    struct relay_words servers;
    const char *user, *password, *token, *nkey, *nkey_seed, *credentials; /* ""; or who it is, */
    const char *ca, *certificate, *key;                                   /* and files for TLS */
    const char *api;            /* what subjects of JetStream's API begin with */
    struct relay_words kafka;   /* properties of its client library, as name=value */
    struct relay_words targets; /* patterns */
    const char *state;          /* a directory; the stores are in it */
    uint64_t shards;
    uint64_t copies;      /* of each stream at the broker */
    uint64_t lease;       /* ns */
    uint64_t clock_bound; /* ns */
    uint64_t attempts;
    uint64_t message_max; /* bytes */
    const char *metrics;  /* the address that they are served at; "": they are not */
    char *text;           /* that all the words are parts of */
};

/* 0; or -EINVAL, or what reading has failed with, after it was said on stderr with the line. */
int relay_config_read(const char *path, struct relay_config *ret_config);
void relay_config_free(struct relay_config *config);

/* Says the name of each setting in which they differ. */
void relay_config_compare(const struct relay_config *one, const struct relay_config *other,
                          void (*differs)(const char *name, void *arg), void *arg);

#endif
