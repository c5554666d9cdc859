/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Time, chance, and what tests do. */

#include "tests/relay/fake_inside.h"

#include <stdarg.h>
#include <string.h>

#include "hwt/relay/log.h"

enum { LOGGED = 256, LINE = 512 };
static char logged[LOGGED][LINE]; /* the newest lines */
static size_t logged_count;

static bool talks(void)
{
    static int talks = -1;

    if (talks < 0) {
        const char *verbosity = getenv("CK_VERBOSITY");
        talks = verbosity && strcmp(verbosity, "verbose") == 0;
    }
    return talks;
}

void relay_log(unsigned shard, const char *format, ...)
{
    char *line = logged[logged_count++ % LOGGED];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, LINE, format, arguments);
    va_end(arguments);
    if (talks())
        printf("%u: %s\n", shard, line);
}

unsigned fake_logged(const char *text)
{
    unsigned count = 0;

    for (size_t i = 0; i < logged_count && i < LOGGED; i++)
        count += strstr(logged[i], text) != NULL;
    return count;
}

uint64_t fake_draw(struct fake *fake, uint64_t below)
{
    return test_random(&fake->random) % below;
}

bool fake_happens(struct fake *fake, unsigned kind, uint64_t rarity)
{
    if (!fake->faults || fake_draw(fake, rarity) != 0)
        return false;
    fake->made[kind]++;
    return true;
}

/* The broker's and the clocks' faults. */
static void make_trouble(struct fake *fake)
{
    struct fake_replica *replica = &fake->replicas[fake_draw(fake, FAKE_REPLICAS)];

    if (!fake->keeps && fake_happens(fake, FAULT_TAIL, 300))
        fake_lose_tail(fake, 1 + fake_draw(fake, 4));
    if (!fake->keeps && fake_happens(fake, FAULT_ANEW, 1000))
        fake_stream_anew(fake);
    if (fake_happens(fake, FAULT_CLOCK, 200))
        replica->ahead = fake_draw(fake, 2 * FAKE_WRONG) - FAKE_WRONG;
    else if (fake->faults && fake_draw(fake, 100) == 0)
        replica->ahead = 0;
}

void fake_step(struct fake *fake)
{
    uint64_t passes = fake_draw(fake, fake->pace);
    unsigned first = (unsigned)fake_draw(fake, FAKE_REPLICAS);

    fake->realtime += passes;
    fake->boottime += passes;
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        if (fake->replicas[i].fake)
            fake_set_clock(&fake->replicas[i]);
    fake_arrive_late(fake);
    make_trouble(fake);
    if (fake->between)
        fake->between(fake);
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        if (fake->replicas[(first + i) % FAKE_REPLICAS].fake)
            fake_replica_step(&fake->replicas[(first + i) % FAKE_REPLICAS]);
}

void fake_begin(struct fake *fake, uint64_t seed, unsigned replicas)
{
    static const char *const names[FAKE_REPLICAS] = { "a", "b", "c" };

    memset(fake, 0, sizeof(*fake));
    logged_count = 0;
    fake->random = seed;
    fake->realtime = FAKE_START;
    fake->pace = HWT_MS(50);
    fake->boottime = HWT_SEC(100);
    fake->incarnation = FAKE_START;
    for (unsigned i = 0; i < replicas; i++) {
        struct fake_replica *replica = &fake->replicas[i];
        replica->engine.calls = &fake_calls;
        replica->fake = fake;
        replica->number = i;
        replica->disk = disk_new();
        replica->config = (struct relay_config){ .space = "shop",
                                                 .replica = names[i],
                                                 .targets = { { "t.>" }, 1 },
                                                 .shards = 1,
                                                 .lease = FAKE_LEASE,
                                                 .clock_bound = FAKE_BOUND,
                                                 .attempts = 6,
                                                 .message_max = 4096 };
        memcpy(replica->config.replicas.word, names, sizeof(names));
        replica->config.replicas.count = replicas;
    }
}

void fake_end(struct fake *fake)
{
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        if (fake->replicas[i].fake) {
            fake_stop(&fake->replicas[i]);
            disk_free(fake->replicas[i].disk);
        }
    for (size_t i = 0; i < fake->late_count; i++)
        free(fake->late[i].message);
    fake_end_list(&fake->stream);
    fake_end_list(&fake->targets);
    fake_end_list(&fake->dead);
}

/* ---- What tests do ---- */

void fake_run(struct fake *fake, uint64_t time)
{
    uint64_t end = fake->boottime + time;
    while (fake->boottime < end)
        fake_step(fake);
}

void fake_put(struct fake *fake, uint64_t due, const char *key, const char *payload)
{
    char text[RELAY_DUE_ROOM];
    relay_due_write(due, text);
    fake_publish(fake, payload,
                 (const char *const[]){ "Hwt-Due", text, "Hwt-Target", "t.a",
                                        key ? "Hwt-Key" : NULL, key, NULL });
}

struct fake_replica *fake_owner(struct fake *fake)
{
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        if (fake->replicas[i].shard && fake->replicas[i].shard->role == RELAY_OWNS)
            return &fake->replicas[i];
    return NULL;
}

unsigned fake_arrived(const struct fake *fake, const char *payload)
{
    unsigned count = 0;
    for (size_t i = 0; i < fake->targets.count; i++)
        count += strcmp(fake->targets.messages[i]->payload, payload) == 0;
    return count;
}

void fake_put_some(struct fake *fake, unsigned from, unsigned count, uint64_t due)
{
    for (unsigned i = from; i < from + count; i++) {
        char text[16];
        snprintf(text, sizeof(text), "m%u", i);
        fake_put(fake, due + i, i % 2 == 0 ? text : NULL, text);
        fake_run(fake, HWT_MS(100));
    }
}

void fake_check_arrived(const struct fake *fake, unsigned count)
{
    ck_assert_uint_eq(fake->targets.count, count);
    for (unsigned i = 0; i < count; i++) {
        char text[16];
        snprintf(text, sizeof(text), "m%u", i);
        ck_assert_uint_eq(fake_arrived(fake, text), 1);
    }
    ck_assert_uint_eq(fake->repeats, 0);
}

void fake_check_empty(const struct fake *fake)
{
    for (unsigned i = 0; i < FAKE_REPLICAS; i++) {
        hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
        if (!fake->replicas[i].shard)
            continue;
        ck_assert_int_eq(hwt_delay_get_stats(fake->replicas[i].store, &stats), 0);
        ck_assert_uint_eq(stats.next, HWT_NEVER);
    }
}
