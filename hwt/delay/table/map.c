/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Maps hold nodes by a hash, in about as many buckets as there are nodes, so that a node is
 * found in one step.
 *
 * An insertion divides two buckets at most, until there are as many as nodes. A removal joins
 * two at most, unless there are less than twice as many as nodes. So no call moves all nodes
 * while others wait for the lock. Buckets 0 to 15 are in the map itself. Each further part is
 * allocated when its first bucket is used. If there is no memory for a part, the buckets stay as
 * they are and get fuller.
 *
 * Ids come from anywhere, so somebody may try to choose them for one bucket. The hash is
 * SipHash-1-3 with a secret of the process as its key. Many nodes may have one hash (origins.c), so
 * each knows what points to it, and a removal does not look for it.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "hwt/delay/disk/system.h"
#include "hwt/delay/table/map.h"

/* ---- the hash ---- */

static uint64_t secret[2];

/* If there is no randomness, it stays 0, and the maps are right all the same. */
static void make_secret(void)
{
    (void)hwt_delay_real_system.random(hwt_delay_real_system.data, secret, sizeof(secret));
}

static uint64_t rotate(uint64_t word, unsigned by)
{
    return word << by | word >> (64 - by);
}

static void mix(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32) + v[3];
    v[2] += v[1];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

static void add_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    mix(v);
    v[0] ^= word;
}

/* The last word has what is left of the id, and in its highest byte the id's size. */
uint64_t hwt_delay_hash(uint64_t due, const void *id, size_t id_size)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const unsigned char *bytes = id;
    pthread_once(&once, make_secret);
    uint64_t v[4] = { secret[0] ^ UINT64_C(0x736f6d6570736575),
                      secret[1] ^ UINT64_C(0x646f72616e646f6d),
                      secret[0] ^ UINT64_C(0x6c7967656e657261),
                      secret[1] ^ UINT64_C(0x7465646279746573) };
    uint64_t word = 0, last = (uint64_t)id_size << 56;
    size_t i = 0;
    add_word(v, due);
    for (; i + sizeof(word) <= id_size; i += sizeof(word)) {
        memcpy(&word, bytes + i, sizeof(word));
        add_word(v, word);
    }
    for (unsigned shift = 0; i < id_size; i++, shift += 8)
        last |= (uint64_t)bytes[i] << shift;
    add_word(v, last);
    v[2] ^= 0xff;
    for (int round = 0; round < 3; round++)
        mix(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* ---- buckets ---- */

/* The highest power of two that is not above n, which is not 0. */
static size_t power_of(size_t n)
{
    return (SIZE_MAX >> 1 ^ SIZE_MAX) >> __builtin_clzl(n);
}

/* The part that a bucket is in, which is none of the first ones. */
static unsigned part_of(size_t index)
{
    return (unsigned)__builtin_ctzl(power_of(index) / HWT_DELAY_MAP_LEAST);
}

static struct hwt_delay_node **bucket_at(const struct hwt_delay_map *map, size_t index)
{
    if (index < HWT_DELAY_MAP_LEAST)
        return (struct hwt_delay_node **)&map->first[index];
    return &map->parts[part_of(index)][index - power_of(index)];
}

/* Half of the hashes of a bucket are for the one that divides it, once that is there. */
static struct hwt_delay_node **bucket_of(const struct hwt_delay_map *map, uint64_t hash)
{
    size_t half = power_of(map->buckets - 1), index = (size_t)hash & (2 * half - 1);
    return bucket_at(map, index < map->buckets ? index : index - half);
}

void hwt_delay_map_init(struct hwt_delay_map *map)
{
    *map = (struct hwt_delay_map){ .buckets = HWT_DELAY_MAP_LEAST };
}

void hwt_delay_map_clear(struct hwt_delay_map *map)
{
    for (size_t i = HWT_DELAY_MAP_LEAST; i < map->buckets; i *= 2)
        free(map->parts[part_of(i)]);
    hwt_delay_map_init(map);
}

struct hwt_delay_node *hwt_delay_map_bucket(const struct hwt_delay_map *map, uint64_t hash)
{
    return *bucket_of(map, hash);
}

void hwt_delay_map_prefetch_bucket(const struct hwt_delay_map *map, uint64_t hash)
{
    __builtin_prefetch(bucket_of(map, hash), 1);
}

void hwt_delay_map_prefetch_node(const struct hwt_delay_map *map, uint64_t hash)
{
    __builtin_prefetch(*bucket_of(map, hash), 1);
}

/* The two that a removal writes to. */
void hwt_delay_map_prefetch_around(const struct hwt_delay_node *node)
{
    __builtin_prefetch(node->at, 1);
    __builtin_prefetch(node->next, 1);
}

static void link_node(struct hwt_delay_node **bucket, struct hwt_delay_node *node)
{
    node->next = *bucket;
    node->at = bucket;
    if (node->next)
        node->next->at = &node->next;
    *bucket = node;
}

static void unlink_node(struct hwt_delay_node *node)
{
    *node->at = node->next;
    if (node->next)
        node->next->at = node->at;
}

/* One bucket more, with half of the nodes of another one. False: there is no memory. */
static bool divide(struct hwt_delay_map *map)
{
    const size_t index = map->buckets, half = power_of(index);
    if (index == half) {
        unsigned part = part_of(index);
        struct hwt_delay_node **buckets =
            part < HWT_DELAY_MAP_PARTS ? malloc(half * sizeof(struct hwt_delay_node *)) : NULL;
        if (!buckets)
            return false;
        map->parts[part] = buckets;
    }
    struct hwt_delay_node **to = bucket_at(map, index), *node, *next;
    *to = NULL;
    for (node = *bucket_at(map, index - half); node; node = next) {
        next = node->next;
        if (node->hash & half) {
            unlink_node(node);
            link_node(to, node);
        }
    }
    map->buckets++;
    return true;
}

/* One bucket less: its nodes go to the one that they came from. */
static void join(struct hwt_delay_map *map)
{
    const size_t index = map->buckets - 1, half = power_of(index);
    struct hwt_delay_node **from = bucket_at(map, index), **to = bucket_at(map, index - half);
    struct hwt_delay_node *node;
    while ((node = *from)) {
        unlink_node(node);
        link_node(to, node);
    }
    map->buckets--;
    if (index != half)
        return;
    free(map->parts[part_of(index)]);
    map->parts[part_of(index)] = NULL;
}

void hwt_delay_map_insert(struct hwt_delay_map *map, struct hwt_delay_node *node)
{
    link_node(bucket_of(map, node->hash), node);
    map->count++;
    for (int i = 0; i < 2 && map->buckets < map->count && divide(map); i++)
        continue;
}

void hwt_delay_map_remove(struct hwt_delay_map *map, struct hwt_delay_node *node)
{
    unlink_node(node);
    map->count--;
    for (int i = 0; i < 2 && map->buckets / 2 > map->count && map->buckets > HWT_DELAY_MAP_LEAST;
         i++)
        join(map);
}
