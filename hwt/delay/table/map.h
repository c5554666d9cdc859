/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DELAY_TABLE_MAP_H
#define HWT_DELAY_TABLE_MAP_H

/* Nodes by a hash of a due time and an id. See map.c. */

#include <stddef.h>
#include <stdint.h>

struct hwt_delay_node {
    struct hwt_delay_node *next, **at; /* in its bucket: the next one, and what points to it */
    uint64_t hash;
};

enum { HWT_DELAY_MAP_LEAST = 16, HWT_DELAY_MAP_PARTS = 28 };

struct hwt_delay_map {
    size_t count;   /* nodes */
    size_t buckets; /* that are used */
    struct hwt_delay_node *first[HWT_DELAY_MAP_LEAST];
    struct hwt_delay_node **parts[HWT_DELAY_MAP_PARTS]; /* each is as long as all before it */
};

uint64_t hwt_delay_hash(uint64_t due, const void *id, size_t id_size);
void hwt_delay_map_init(struct hwt_delay_map *map);
/* Empties it. The nodes are the caller's. */
void hwt_delay_map_clear(struct hwt_delay_map *map);
/* The first node of a bucket in which all nodes with that hash are; NULL: it is empty. */
struct hwt_delay_node *hwt_delay_map_bucket(const struct hwt_delay_map *map, uint64_t hash);
/* Hints, which have memory brought to the processor's cache: the bucket for a hash; the first node of
 * it, once the bucket is there; what stands around a node that is to be removed. */
void hwt_delay_map_prefetch_bucket(const struct hwt_delay_map *map, uint64_t hash);
void hwt_delay_map_prefetch_node(const struct hwt_delay_map *map, uint64_t hash);
void hwt_delay_map_prefetch_around(const struct hwt_delay_node *node);
/* Needs no memory, but is faster if there is some. */
void hwt_delay_map_insert(struct hwt_delay_map *map, struct hwt_delay_node *node);
/* The node is there. */
void hwt_delay_map_remove(struct hwt_delay_map *map, struct hwt_delay_node *node);

#endif
