/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What many slot files, a large slot and cancelled messages cost: bytes read for each byte that is
 * delivered or visited, the time to open, puts and takes beside a store of few files, disk beside
 * what is pending. The clock is set, so that hours of absence take seconds. See --help.
 */

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "hwt/delay/system.h"

enum { BATCH = 100, PAYLOAD = 1000 };

static uint64_t ahead; /* of the machine's clocks */
static uint64_t bytes_read;
static struct hwt_delay_system counted;
static char directory[4096];

static _Noreturn void die(const char *what, int64_t error)
{
    fprintf(stderr, "delay_backlog: %s: %s\n", what, strerror((int)-error));
    exit(1);
}

static int64_t check(const char *what, int64_t r)
{
    if (r < 0)
        die(what, r);
    return r;
}

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
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
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

static void remove_store(void)
{
    char command[sizeof(directory) + 16];
    snprintf(command, sizeof(command), "rm -rf '%s'", directory);
    if (system(command) != 0)
        die("rm", -EIO);
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

static uint64_t files_of(hwt_delay *store)
{
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    check("stats", hwt_delay_get_stats(store, &stats));
    return stats.files;
}

static void drain(uint64_t slots)
{
    remove_store();
    hwt_delay *store = open_store(UINT64_C(64) << 20, UINT64_C(16) << 20);
    leave(store, slots, 110);
    uint64_t files = files_of(store);
    hwt_delay_close(store);
    store = open_store(UINT64_C(1) << 20, 0);
    ahead += HWT_MIN(1);
    double start = seconds(CLOCK_MONOTONIC);
    uint64_t sum = take(store, UINT64_MAX);
    printf("backlog of %" PRIu64 " slots: %.2f bytes read a byte, %.1f s\n", files,
           (double)bytes_read / (double)(sum * PAYLOAD), seconds(CLOCK_MONOTONIC) - start);
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
        remove_store();
        hwt_delay *store = open_store(UINT64_C(128) << 20, UINT64_C(64) << 20);
        leave(store, slots[i], (size_t)(i == 0 ? 100000 / few : 13));
        hwt_delay_close(store);
        ahead += HWT_SEC(30);
        double start = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
        store = open_store(UINT64_C(128) << 20, 0);
        double opened = seconds(CLOCK_MONOTONIC) - start;
        cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
        uint64_t files = files_of(store);
        pace(store, &puts[i], &takes[i]);
        printf("%" PRIu64
               " slot files: open %.3f s (%.3f of the processor), %.0f puts a second of the\n"
               "  processor, %.0f takes and dones\n",
               files, opened, cpu, puts[i], takes[i]);
        hwt_delay_close(store);
    }
    printf("beside few files: puts %.2f, takes and dones %.2f\n", puts[1] / puts[0],
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
    remove_store();
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
    printf("visit of %.0f MB in %u runs: %.2f bytes read a byte\n", (double)sum / 1e6, runs,
           (double)bytes_read / (double)sum);
    hwt_delay_close(store);
}

/* Of each ten messages nine are cancelled, some time after they were put. */
static void cancelled(void)
{
    static uint64_t dues[50000];
    const size_t many = sizeof(dues) / sizeof(dues[0]);
    static unsigned char payload[200];
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    remove_store();
    hwt_delay *store = open_store(UINT64_C(16) << 20, UINT64_C(1) << 20);
    for (uint64_t i = 0; i < 4 * many; i++) {
        uint64_t at = i % many;
        if (i >= many && i % 10 > 0)
            hwt_delay_cancel(store, dues[at], &(uint64_t){ i - many }, sizeof(i));
        dues[at] = realtime(NULL) + HWT_SEC(86400) + i % 1000 * HWT_SEC(60);
        check("put", hwt_delay_put(store,
                                   &(hwt_delay_message){ .due = dues[at],
                                                         .id = &i,
                                                         .id_size = sizeof(i),
                                                         .payload = payload,
                                                         .payload_size = sizeof(payload) },
                                   1));
        ahead += HWT_MS(100);
    }
    for (int i = 0; i < 20; i++)
        check("checkpoint", hwt_delay_checkpoint(store));
    check("stats", hwt_delay_get_stats(store, &stats));
    printf("nine of ten cancelled: %.2f bytes of slots a byte pending, %.2f written a byte put\n",
           (double)(stats.disk - (UINT64_C(3) << 20)) / (double)(stats.pending * sizeof(payload)),
           (double)(stats.log_bytes + stats.slot_bytes) / (double)(4 * many * sizeof(payload)));
    hwt_delay_close(store);
}

static _Noreturn void usage(int status)
{
    fputs(
        "Usage: delay_backlog [--directory DIR] [--quick]\n\n"
        "Measures backlogs of 400 and 4000 slots and a visit with 1 MiB of memory, 8000 slot "
        "files\n"
        "beside 10, and cancelled messages, in DIR/hwt-delay-backlog, which is removed before and\n"
        "after. DIR is the current directory; on one in memory, flushes cost nothing.\n\n"
        "  --quick  400 and 1000 slots, and 1000 files\n"
        "  --help   this text\n\n"
        "Exit status: 0; 1 if it could not run; 2 for a bad option.\n",
        status ? stderr : stdout);
    exit(status);
}

int main(int argc, char **argv)
{
    static const struct option options[] = { { "directory", required_argument, NULL, 'd' },
                                             { "quick", no_argument, NULL, 'q' },
                                             { "help", no_argument, NULL, 'h' },
                                             { 0 } };
    const char *in = ".";
    bool quick = false;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'd')
            in = optarg;
        else if (c == 'q')
            quick = true;
        else
            usage(c == 'h' ? 0 : 2);
    }
    if (optind < argc || strlen(in) > sizeof(directory) - 64 || strchr(in, '\''))
        usage(2);
    snprintf(directory, sizeof(directory), "%s/hwt-delay-backlog", in);
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
    remove_store();
    return 0;
}
