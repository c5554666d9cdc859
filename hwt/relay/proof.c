/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/proof.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "hwt/relay/log.h"

static uint64_t turn(uint64_t word, int bits)
{
    return word << bits | word >> (64 - bits);
}

static void mix(uint64_t v[4], int rounds)
{
    while (rounds-- > 0) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = turn(v[1], 13) ^ v[0];
        v[3] = turn(v[3], 16) ^ v[2];
        v[0] = turn(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = turn(v[1], 17) ^ v[2];
        v[3] = turn(v[3], 21) ^ v[0];
        v[2] = turn(v[2], 32);
    }
}

uint64_t relay_keyed_hash(const uint64_t secret[2], const void *bytes, size_t size)
{
    uint64_t v[4] = { secret[0] ^ UINT64_C(0x736f6d6570736575),
                      secret[1] ^ UINT64_C(0x646f72616e646f6d),
                      secret[0] ^ UINT64_C(0x6c7967656e657261),
                      secret[1] ^ UINT64_C(0x7465646279746573) };
    const unsigned char *at = bytes;

    for (size_t done = 0; done <= size; done += 8) {
        uint64_t word = 0;
        for (size_t i = 0; i < 8 && done + i < size; i++)
            word |= (uint64_t)at[done + i] << 8 * i;
        if (size - done < 8)
            word |= (uint64_t)size << 56;
        v[3] ^= word;
        mix(v, 2);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    mix(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* Of parts, by the hashes of them. */
static uint64_t hash_parts(const struct relay_shard *shard, const struct relay_field *parts,
                           size_t count, const struct relay_record *payload)
{
    uint64_t hashes[8] = { 0 };

    for (size_t i = 0; i < count; i++)
        hashes[i] = relay_keyed_hash(shard->secret, parts[i].value, strlen(parts[i].value));
    if (payload)
        hashes[count++] = relay_keyed_hash(shard->secret, payload->payload, payload->payload_size);
    return relay_keyed_hash(shard->secret, hashes, count * sizeof(hashes[0]));
}

/* Reads the shard's secret, or makes it. If what is there cannot be read, this process has one of its own. */
static int learn_secret(struct relay_shard *shard)
{
    const struct relay_engine_calls *calls = shard->engine->calls;
    char name[RELAY_ENTRY_MAX], text[RELAY_ENTRY_MAX];
    uint64_t revision;
    int r;

    if (shard->knows_secret)
        return 0;
    snprintf(name, sizeof(name), "secret.%u", shard->number);
    r = calls->read(shard->engine, name, text, &revision);
    if (r < 0)
        return r;
    if (*text && relay_secret_read(text, shard->secret) == 0) {
        shard->knows_secret = true;
        return 0;
    }
    if (getrandom(shard->secret, sizeof(shard->secret), 0) != (ssize_t)sizeof(shard->secret))
        return -EAGAIN;
    if (*text) {
        relay_log(shard->number, RELAY_ERROR "the entry %s is none of a relay", name);
        shard->knows_secret = true;
        return 0;
    }
    relay_secret_write(shard->secret, text);
    r = calls->swap(shard->engine, name, revision, text, &revision);
    return r < 0 ? r
                 : -EAGAIN; /* it is read, since another one may have made it at the same time */
}

int relay_prove(struct relay_shard *shard, const struct relay_record *record, uint64_t due,
                struct relay_proof *ret_proof)
{
    char when[24], attempt[24];
    const struct relay_field parts[] = { { "Hwt-Id", record->id },
                                         { "Hwt-Attempt", attempt },
                                         { "Hwt-Due", when },
                                         { "Hwt-Target", record->target } };
    int r = learn_secret(shard);

    if (r < 0)
        return r;
    snprintf(attempt, sizeof(attempt), "%" PRIu64, record->attempt);
    snprintf(when, sizeof(when), "%" PRIu64, due);
    snprintf(ret_proof->whole, sizeof(ret_proof->whole), "%016" PRIx64,
             hash_parts(shard, parts, 4, record));
    snprintf(ret_proof->id, sizeof(ret_proof->id), "%016" PRIx64,
             hash_parts(shard, parts, 2, NULL));
    return 0;
}

int relay_believe(struct relay_shard *shard, uint64_t due, struct relay_record *record,
                  char id[RELAY_ENTRY_MAX])
{
    const struct relay_field *last = record->fields + record->fields_count;
    struct relay_proof proof;
    const char *given;
    int r;

    if (record->fields_count == 0 || strcmp((--last)->name, "Hwt-Source") != 0)
        return 0;
    r = relay_prove(shard, record, due, &proof);
    if (r < 0)
        return r;
    record->fields_count--;
    given = strrchr(last->value, ':');
    if (given && strcmp(given + 1, proof.whole) == 0)
        return 0;
    relay_own_id(shard, record, id);
    record->id = id;
    record->attempt = 0;
    return 0;
}
