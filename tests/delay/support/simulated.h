/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_DELAY_SUPPORT_SIMULATED_H
#define HWT_TESTS_DELAY_SUPPORT_SIMULATED_H

/* A store on a simulated disk with a set clock, for tests of one thing at a time. */

#include <errno.h>
#include <string.h>

#include "tests/delay/support/disk.h"
#include "kit.h"

#define SIMULATED_START UINT64_C(1800000000000000000)

enum { SIMULATED_SEGMENT = 65536, SIMULATED_IDS = 4096 };

struct simulated {
    struct disk *disk;
    struct process process;
    hwt_delay *store;
    hwt_delay_options options;
    uint64_t realtime, boottime, random;
};

static inline void simulated_new(struct simulated *s)
{
    memset(s, 0, sizeof(*s));
    s->disk = disk_new();
    s->realtime = SIMULATED_START;
    s->boottime = HWT_SEC(100);
    hwt_delay_options_init(&s->options, sizeof(hwt_delay_options));
    s->options.flags = HWT_DELAY_CREATE;
    s->options.payload_max = 8192;
    s->options.segment_size = SIMULATED_SEGMENT;
    s->options.memory = 1 << 20;
}

static inline void simulated_begin(struct simulated *s)
{
    process_start(&s->process, s->disk, &s->realtime, &s->boottime);
    s->process.random = &s->random;
}

static inline int simulated_try_open(struct simulated *s)
{
    int r = hwt_delay_open_on("store", &s->options, &s->process.system, true, &s->store);
    if (r != 0) {
        s->store = NULL;
        process_end(&s->process);
    }
    return r;
}

static inline void simulated_open(struct simulated *s)
{
    simulated_begin(s);
    ck_assert_int_eq(simulated_try_open(s), 0);
}

static inline void simulated_close(struct simulated *s)
{
    if (!s->store)
        return;
    hwt_delay_close(s->store);
    s->store = NULL;
    process_end(&s->process);
}

static inline void simulated_kill(struct simulated *s)
{
    s->process.dead = true;
    simulated_close(s);
}

static inline void simulated_free(struct simulated *s)
{
    simulated_close(s);
    disk_free(s->disk);
}

static inline void simulated_advance(struct simulated *s, uint64_t by)
{
    s->realtime += by;
    s->boottime += by;
}

/* Message number i: its id, and a payload of that size that follows from both. */
static inline int simulated_put(struct simulated *s, uint64_t due, uint32_t i, uint32_t size)
{
    unsigned char payload[8192];
    memset(payload, (int)(i * 7 + 1), size);
    const hwt_delay_message message = {
        .due = due,
        .id = &i,
        .id_size = sizeof(i),
        .payload = payload,
        .payload_size = size,
    };
    return hwt_delay_put(s->store, &message, 1);
}

static inline uint32_t simulated_number(const hwt_delay_message *message)
{
    uint32_t i;
    must(message->id_size == sizeof(i));
    memcpy(&i, message->id, sizeof(i));
    for (size_t at = 0; at < message->payload_size; at++)
        must(((const unsigned char *)message->payload)[at] == (unsigned char)(i * 7 + 1));
    return i;
}

/* Takes what is due, up to `max`, and is done with it; counts each number. Negative: the error. */
static inline int64_t simulated_deliver(struct simulated *s, size_t max, unsigned *counts)
{
    int64_t sum = 0;
    uint64_t last = 0;
    while ((size_t)sum < max) {
        const hwt_delay_message *taken;
        int64_t n = hwt_delay_take(s->store, max - (size_t)sum, 0, &taken);
        if (n <= 0)
            return n < 0 ? n : sum;
        for (int64_t i = 0; i < n; i++) {
            must(taken[i].due <= s->realtime && taken[i].due >= last);
            last = taken[i].due;
            uint32_t number = simulated_number(&taken[i]);
            must(number < SIMULATED_IDS);
            if (counts)
                counts[number]++;
            must(hwt_delay_done(s->store, &taken[i].lease, 1) == 1);
        }
        hwt_delay_free(taken);
        sum += n;
    }
    return sum;
}

static inline int simulated_list_one(const hwt_delay_message *message, void *counts)
{
    uint32_t number = simulated_number(message);
    must(number < SIMULATED_IDS);
    ((unsigned *)counts)[number]++;
    return 0;
}

/* What visit shows, counted by number. */
static inline int simulated_list(struct simulated *s, unsigned *counts)
{
    return hwt_delay_visit(s->store, 0, HWT_NEVER, simulated_list_one, counts);
}

static inline hwt_delay_stats simulated_stats(struct simulated *s)
{
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    ck_assert_int_eq(hwt_delay_get_stats(s->store, &stats), 0);
    return stats;
}

#endif
