/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* This project's store. Its clock is the one that workloads set. */

#include "compare.h"

#include <stdlib.h>
#include <string.h>

#include "hwt/delay/open/open.h"

static struct hwt_delay_system watched;
static hwt_delay *store;

static uint64_t read_set_clock(void *data)
{
    (void)data;
    return clock_now();
}

static int check(const char *what, int64_t result)
{
    if (result < 0)
        die("%s: %s", what, strerror((int)-result));
    return (int)result;
}

static void open_store(const char *directory)
{
    hwt_delay_options opening = HWT_DELAY_OPTIONS_INIT;

    opening.flags = HWT_DELAY_CREATE;
    watched = hwt_delay_real_system;
    if (atomic_load(&set_clock) != 0)
        watched.realtime = watched.boottime = read_set_clock;
    check("open", hwt_delay_open_on(directory, &opening, &watched, false, &store));
}

static void close_store(void)
{
    hwt_delay_close(store);
}

static void put(void *handle, const struct message *messages, size_t count)
{
    hwt_delay_message *own = calloc(count, sizeof(*own));

    (void)handle;
    for (size_t i = 0; i < count; i++)
        own[i] = (hwt_delay_message){
            .due = messages[i].due,
            .id = messages[i].id,
            .id_size = ID_SIZE,
            .payload = messages[i].payload,
            .payload_size = messages[i].payload_size,
        };
    check("put", hwt_delay_put(store, own, count));
    free(own);
}

/*
 * In real time it waits a while. On a set clock there is nothing to wait for, but that a file of
 * what is due is being read: then it waits for that.
 */
static int64_t take_some(size_t max, uint64_t now, const hwt_delay_message **ret_taken)
{
    bool real = atomic_load(&set_clock) == 0;
    int64_t n = hwt_delay_take(store, max, real ? HWT_MS(20) : 0, ret_taken);

    while (n == 0 && !real && hwt_delay_next(store) <= now)
        n = hwt_delay_take(store, max, HWT_MS(10), ret_taken);
    return check("take", n);
}

static size_t take(void *handle, uint64_t now, size_t max, taken_function taken, void *arg)
{
    const hwt_delay_message *messages;
    int64_t n = take_some(max, now, &messages);

    (void)handle;
    if (n == 0)
        return 0;
    uint64_t *leases = calloc((size_t)n, sizeof(*leases));
    for (int64_t i = 0; i < n; i++) {
        leases[i] = messages[i].lease;
        if (taken)
            taken(messages[i].due, arg);
    }
    hwt_delay_free(messages);
    if (check("done", hwt_delay_done(store, leases, (size_t)n)) != n)
        die("a lease ended before its time");
    free(leases);
    return (size_t)n;
}

static uint64_t checkpoints(void)
{
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;

    check("stats", hwt_delay_get_stats(store, &stats));
    return stats.checkpoints;
}

const struct contender contender = {
    .name = "hwt",
    .open = open_store,
    .close = close_store,
    .put = put,
    .take = take,
    .waits = true,
    .checkpoints = checkpoints,
};
