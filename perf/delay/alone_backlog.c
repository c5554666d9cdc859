/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What many slot files, a large slot and cancelled messages cost: bytes read for each byte that is
 * delivered or visited, the time to open, puts and takes beside a store of few files, disk beside
 * what is pending. The clock is set, so that hours of absence take seconds.
 */

#include "alone.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "hwt/delay/open/open.h"

enum { BATCH = 100, PAYLOAD = 1000, CANCELLED_PAYLOAD = 200 };

static uint64_t ahead; /* of the machine's clocks */
static uint64_t bytes_read;
static struct hwt_delay_system counted;

static int64_t read_counted(void *data, int file, void *buffer, size_t size, uint64_t offset)
{
    int64_t n = hwt_delay_real_system.read(data, file, buffer, size, offset);
    bytes_read += n > 0 ? (uint64_t)n : 0;
    return n;
}

static uint64_t realtime(void *data)
{
    return hwt_delay_real_system.realtime(data) + ahead;
}

static uint64_t boottime(void *data)
{
    return hwt_delay_real_system.boottime(data) + ahead;
}

static double seconds(clockid_t clock)
{
    return (double)read_clock(clock) / 1e9;
}

static hwt_delay *open_store(uint64_t memory, uint64_t segment)
{
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    hwt_delay *store;
    options.flags = HWT_DELAY_CREATE;
    options.memory = memory;
    options.segment_size = segment;
    options.payload_max = 8192;
    check("open", hwt_delay_open_on(directory, &options, &counted, true, &store));
    bytes_read = 0;
    return store;
}

/* Ids of eight bytes, so that each message is another. */
static void put(hwt_delay *store, uint64_t due, uint64_t step, size_t count)
{
    static unsigned char payload[PAYLOAD];
    static uint64_t number, ids[BATCH];
    hwt_delay_message messages[BATCH];
    for (size_t i = 0; i < count; i++) {
        ids[i] = number++;
        messages[i] = (hwt_delay_message){ .due = due + i * step,
                                           .id = &ids[i],
                                           .id_size = sizeof(ids[i]),
                                           .payload = payload,
                                           .payload_size = sizeof(payload) };
    }
    check("put", hwt_delay_put(store, messages, count));
}

/* Up to `most` messages. */
static uint64_t take(hwt_delay *store, uint64_t most)
{
    const hwt_delay_message *taken;
    uint64_t leases[BATCH], sum = 0;
    int64_t n;
    while (sum < most && (n = check("take", hwt_delay_take(store, BATCH, 0, &taken))) > 0) {
        for (int64_t i = 0; i < n; i++)
            leases[i] = taken[i].lease;
        hwt_delay_free(taken);
        check("done", hwt_delay_done(store, leases, (size_t)n));
        sum += (uint64_t)n;
    }
    return sum;
}

/* Nobody takes for `slots` seconds: a slot of a second each. */
static void leave(hwt_delay *store, uint64_t slots, size_t each)
{
    for (uint64_t i = 0; i < slots; i++) {
        for (size_t left = each; left > 0; left -= left < BATCH ? left : BATCH)
            put(store, realtime(NULL) + HWT_SEC(10), HWT_US(100), left < BATCH ? left : BATCH);
        ahead += UINT64_C(1) << 30;
        if (i % 5 == 4) /* before they are due: what is late goes to longer slots */
            check("checkpoint", hwt_delay_checkpoint(store));
    }
    check("checkpoint", hwt_delay_checkpoint(store));
}

/* Else what is measured is something else. */
static void expect_files(hwt_delay *store, uint64_t slots)
{
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    check("stats", hwt_delay_get_stats(store, &stats));
    if (stats.files < slots) {
        fprintf(stderr, "delay_alone: only %" PRIu64 " slot files\n", stats.files);
        exit(1);
    }
}

static void drain(uint64_t slots)
{
    run("rm -rf");
    hwt_delay *store = open_store(UINT64_C(64) << 20, UINT64_C(16) << 20);
    leave(store, slots, 110);
    expect_files(store, slots);
    hwt_delay_close(store);
    store = open_store(UINT64_C(1) << 20, 0);
    ahead += HWT_MIN(1);
    uint64_t sum = take(store, UINT64_MAX);
    printf("backlog_%" PRIu64 "_per_byte %.2f\n", slots,
           (double)bytes_read / (double)(sum * PAYLOAD));
    hwt_delay_close(store);
}

/* Puts a second for far times, and takes with done of what is overdue; seconds of the processor, so
 * that what else the machine does matters little. */
static void pace(hwt_delay *store, double *ret_puts, double *ret_takes)
{
    const size_t many = 100000;
    double start = seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (size_t i = 0; i < many; i += BATCH)
        put(store, realtime(NULL) + HWT_SEC(7200), HWT_MS(1), BATCH);
    *ret_puts = (double)many / (seconds(CLOCK_PROCESS_CPUTIME_ID) - start);
    start = seconds(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t taken = take(store, many);
    *ret_takes = (double)taken / (seconds(CLOCK_PROCESS_CPUTIME_ID) - start);
}

static void many_files(uint64_t few, uint64_t many)
{
    double puts[2], takes[2];
    const uint64_t slots[2] = { few, many };
    for (int i = 0; i < 2; i++) {
        run("rm -rf");
        hwt_delay *store = open_store(UINT64_C(128) << 20, UINT64_C(64) << 20);
        leave(store, slots[i], (size_t)(i == 0 ? 100000 / few : 13));
        hwt_delay_close(store);
        ahead += HWT_SEC(30);
        double start = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
        store = open_store(UINT64_C(128) << 20, 0);
        double opened = seconds(CLOCK_MONOTONIC) - start;
        cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
        expect_files(store, slots[i]);
        pace(store, &puts[i], &takes[i]);
        if (slots[i] == many)
            printf("files_open_s %.3f\nfiles_open_cpu_s %.3f\n", opened, cpu);
        hwt_delay_close(store);
    }
    printf("files_puts_times %.2f\nfiles_takes_times %.2f\n", puts[1] / puts[0],
           takes[1] / takes[0]);
}

static int count_one(const hwt_delay_message *message, void *sum)
{
    *(uint64_t *)sum += message->payload_size;
    return 0;
}

/* Runs that lie over each other: `runs` rounds over the same times. */
static void visit(unsigned runs)
{
    uint64_t sum = 0;
    run("rm -rf");
    hwt_delay *store = open_store(UINT64_C(256) << 20, UINT64_C(64) << 20);
    uint64_t due = ((realtime(NULL) + HWT_SEC(10800)) >> 38 << 38) + HWT_SEC(1);
    for (unsigned run = 0; run < runs; run++) {
        for (unsigned i = 0; i < 46000 / runs; i += BATCH)
            put(store, due + i * HWT_MS(1), HWT_MS(1) + run, BATCH);
        check("checkpoint", hwt_delay_checkpoint(store));
    }
    hwt_delay_close(store);
    store = open_store(UINT64_C(1) << 20, 0);
    check("visit", hwt_delay_visit(store, 0, HWT_NEVER, count_one, &sum));
    printf("visit%s_per_byte %.2f\n", runs > 1 ? "_runs" : "", (double)bytes_read / (double)sum);
    hwt_delay_close(store);
}

/* A put, and the cancel of the message that was put in its place before; unless that is one of ten. */
static size_t change(uint64_t *id, uint64_t *due, hwt_delay_message *message,
                     hwt_delay_change *changes, size_t many)
{
    static const unsigned char payload[CANCELLED_PAYLOAD];
    static uint64_t cancelled[BATCH];
    uint64_t *old = &cancelled[*id % BATCH];
    size_t count = 0;
    *old = *id - many;
    if (*id >= many && *id % 10 > 0)
        changes[count++] = (hwt_delay_change){ .op = HWT_DELAY_OP_CANCEL,
                                               .flags = HWT_DELAY_MAY_FAIL,
                                               .due = *due,
                                               .id = old,
                                               .id_size = sizeof(*old) };
    *due = realtime(NULL) + HWT_SEC(86400) + *id % 1000 * HWT_SEC(60);
    *message = (hwt_delay_message){ .due = *due,
                                    .id = id,
                                    .id_size = sizeof(*id),
                                    .payload = payload,
                                    .payload_size = CANCELLED_PAYLOAD };
    changes[count++] = (hwt_delay_change){ .op = HWT_DELAY_OP_PUT, .message = message };
    return count;
}

/* Of each ten messages nine are cancelled, some time after they were put. */
static void cancelled(void)
{
    static uint64_t dues[50000], ids[BATCH];
    const size_t many = sizeof(dues) / sizeof(dues[0]);
    hwt_delay_message messages[BATCH];
    hwt_delay_change changes[2 * BATCH];
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    run("rm -rf");
    hwt_delay *store = open_store(UINT64_C(16) << 20, UINT64_C(1) << 20);
    for (uint64_t i = 0; i < 4 * many; i += BATCH) {
        size_t count = 0;
        for (size_t j = 0; j < BATCH; j++) {
            ids[j] = i + j;
            count += change(&ids[j], &dues[(i + j) % many], &messages[j], changes + count, many);
            ahead += HWT_MS(100);
        }
        check("apply", hwt_delay_apply(store, changes, count, NULL));
    }
    for (int i = 0; i < 20; i++)
        check("checkpoint", hwt_delay_checkpoint(store));
    check("stats", hwt_delay_get_stats(store, &stats));
    printf("cancelled_disk_per_byte %.2f\ncancelled_written_per_byte %.2f\n",
           (double)(stats.disk - (UINT64_C(3) << 20)) / (double)(stats.pending * CANCELLED_PAYLOAD),
           (double)(stats.log_bytes + stats.slot_bytes) / (double)(4 * many * CANCELLED_PAYLOAD));
    hwt_delay_close(store);
}

void measure_backlog(bool quick)
{
    counted = hwt_delay_real_system;
    counted.read = read_counted;
    counted.realtime = realtime;
    counted.boottime = boottime;
    drain(400);
    drain(quick ? 1000 : 4000);
    visit(1);
    visit(8);
    many_files(10, quick ? 1000 : 8000);
    cancelled();
}
