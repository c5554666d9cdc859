/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_DELAY_SUPPORT_EXTENT_FIXTURE_H
#define HWT_TESTS_DELAY_SUPPORT_EXTENT_FIXTURE_H

/* A store on a simulated disk whose log may become long. */

#include "hwt/delay/whole.h"
#include "tests/delay/support/simulated.h"

#define MOST ((uint64_t)2 << 20) /* each segment, and the reserve */

static struct simulated s;

static inline void setup(void)
{
    simulated_new(&s);
    s.options.segment_size = 3 << 20;
    s.options.memory = 16 << 20;
    simulated_open(&s);
}

static inline void teardown(void)
{
    simulated_free(&s);
}

static inline uint64_t length_of(const char *name)
{
    return disk_find(s.disk, name)->seen.size;
}

static inline void put_some(uint32_t from, uint32_t to, uint64_t due)
{
    for (uint32_t i = from; i < to; i++)
        ck_assert_int_eq(simulated_put(&s, due, i, 4000), 0);
}

/* Until the log has a length. How many were put. */
static inline uint32_t put_until(uint64_t extent)
{
    uint32_t count = 0;
    while (length_of("log.0") < extent)
        put_some(count, count + 1, s.realtime), count++;
    ck_assert_uint_eq(simulated_stats(&s).checkpoints, 0);
    return count;
}

#endif
