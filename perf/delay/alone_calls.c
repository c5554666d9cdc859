/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What an event loop and a process of many queues rely on: changes in batches of a thousand, the longest
 * call of a producer that does not wait, threads and disk of a hundred empty stores.
 */

#include "alone.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { BATCH = 1000, MANY = 200000, PAYLOAD = 200, STORES = 100, SECONDS = 3 };

static hwt_delay_change changes[BATCH];
static hwt_delay_message messages[BATCH];
static uint64_t ids[BATCH];
static const unsigned char payload[PAYLOAD];

static hwt_delay *open_store(const char *name)
{
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    char path[sizeof(directory) + 32];
    hwt_delay *store;
    options.flags = HWT_DELAY_CREATE | HWT_DELAY_NO_WAIT;
    options.leased_max = MANY;
    options.memory = UINT64_C(1) << 30;
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    check(path, hwt_delay_open(path, &options, &store));
    return store;
}

static hwt_delay_message message(uint64_t due, uint64_t *id)
{
    return (hwt_delay_message){
        .due = due, .id = id, .id_size = sizeof(*id), .payload = payload, .payload_size = PAYLOAD
    };
}

/* ---- batches ---- */

static void put_all(hwt_delay *store, uint64_t due)
{
    for (uint64_t i = 0; i < MANY; i += BATCH) {
        for (uint64_t j = 0; j < BATCH; j++) {
            ids[j] = i + j;
            messages[j] = message(due, &ids[j]);
        }
        check("put", hwt_delay_put(store, messages, BATCH));
    }
}

static void take_all(hwt_delay *store, uint64_t *leases)
{
    for (size_t count = 0; count < MANY;) {
        const hwt_delay_message *taken;
        int64_t n = check("take", hwt_delay_take(store, BATCH, HWT_SEC(10), &taken));
        check("take", n == 0 ? -ETIMEDOUT : 0);
        for (int64_t i = 0; i < n; i++)
            leases[count++] = taken[i].lease;
        hwt_delay_free(taken);
    }
}

/* Changes in a second, each batch on the disk before the next. */
static void apply_all(hwt_delay *store, const char *metric, uint32_t op, const uint64_t *leases,
                      uint64_t due)
{
    uint64_t start = now_ns();
    for (uint64_t i = 0; i < MANY; i += BATCH) {
        for (uint64_t j = 0; j < BATCH; j++) {
            ids[j] = i + j;
            changes[j] = (hwt_delay_change){ .op = op,
                                             .lease = leases ? leases[i + j] : 0,
                                             .due = due,
                                             .id = &ids[j],
                                             .id_size = sizeof(ids[j]) };
        }
        check(metric, hwt_delay_apply(store, changes, BATCH, NULL));
    }
    printf("%s %.0f\n", metric, MANY / ((double)(now_ns() - start) / 1e9));
}

static void batches(void)
{
    uint64_t *leases = calloc(MANY, sizeof(*leases));
    check("memory", leases ? 0 : -ENOMEM);
    hwt_delay *store = open_store("batches");
    put_all(store, 1);
    take_all(store, leases);
    apply_all(store, "batch_retry_s", HWT_DELAY_OP_RETRY, leases, 2);
    take_all(store, leases);
    apply_all(store, "batch_done_s", HWT_DELAY_OP_DONE, leases, 0);
    const uint64_t later = hwt_delay_now(store) + HWT_MIN(6000);
    put_all(store, later);
    apply_all(store, "batch_cancel_s", HWT_DELAY_OP_CANCEL, NULL, later);
    check("close", hwt_delay_close(store));
    free(leases);
}

/* ---- a producer that does not wait ---- */

static void ignore(int result, void *arg)
{
    (void)result;
    (void)arg;
}

static uint64_t preemptions(void)
{
    struct rusage its;
    getrusage(RUSAGE_THREAD, &its);
    return (uint64_t)its.ru_nivcsw;
}

struct waits {
    uint64_t calls, puts, longest;
    uint64_t kept; /* the longest call during which the thread was not preempted */
    uint64_t gap;  /* the longest between two readings of the clock, with nothing in between */
    uint32_t lengths[1000000]; /* of calls, by us */
};

static void note_call(struct waits *waits, uint64_t took, uint64_t preempted)
{
    waits->calls++;
    waits->lengths[took / 1000 < 999999 ? took / 1000 : 999999]++;
    waits->longest = took > waits->longest ? took : waits->longest;
    if (took > waits->kept && preemptions() == preempted)
        waits->kept = took;
}

/* Reads the clock for so long: each gap is the scheduler's, or the machine's. */
static void watch_clock(struct waits *waits, uint64_t duration)
{
    const uint64_t end = now_ns() + duration;
    for (uint64_t before = now_ns(), then = before; then < end; before = then) {
        then = now_ns();
        waits->gap = then - before > waits->gap ? then - before : waits->gap;
    }
}

/* Puts flat out for three seconds. With `beside` it reads the clock after each call, for as long as that took. */
static void put_flat_out(struct waits *waits, const char *name, bool beside)
{
    hwt_delay *store = open_store(name);
    const uint64_t end = now_ns() + HWT_SEC(SECONDS);
    uint64_t id = 0;
    for (uint64_t before = now_ns(); before < end; id++) {
        const hwt_delay_message one = message(hwt_delay_now(store) + HWT_MIN(6000), &id);
        const uint64_t preempted = preemptions();
        before = now_ns();
        int r = hwt_delay_put_async(store, &one, 1, ignore, NULL);
        uint64_t took = now_ns() - before;
        note_call(waits, took, preempted);
        check("put_async", r == -EAGAIN ? 0 : r);
        waits->puts += r == 0;
        if (beside)
            watch_clock(waits, took);
        if (r < 0) /* as a loop does that has other things to do */
            nanosleep(&(struct timespec){ .tv_nsec = (long)HWT_US(100) }, NULL);
    }
    check("close", hwt_delay_close(store));
}

/* The longest call may have been preempted. The longest that was not may have slept for a lock. */
static void without_waiting(void)
{
    static struct waits waits, beside;
    put_flat_out(&waits, "without-waiting", false);
    put_flat_out(&beside, "beside", true);
    uint64_t above = 0, at = 999999;
    while (at > 0 && (above += waits.lengths[at]) <= waits.calls / 10000)
        at--;
    printf("nowait_max_us %.0f\nnowait_kept_max_us %.0f\nnowait_gap_us %.0f\n",
           (double)waits.longest / 1e3, (double)waits.kept / 1e3, (double)beside.gap / 1e3);
    printf("nowait_p9999_us %" PRIu64 "\nnowait_puts_s %" PRIu64 "\n", at, waits.puts / SECONDS);
}

/* ---- many stores ---- */

static unsigned count_threads(void)
{
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");
    check("/proc/self/task", tasks ? 0 : -errno);
    for (const struct dirent *entry; (entry = readdir(tasks));)
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

static void many_stores(void)
{
    hwt_delay *stores[STORES];
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    char path[sizeof(directory) + 32];
    uint64_t disk = 0;
    options.flags = HWT_DELAY_CREATE;
    unsigned before = count_threads();
    for (int i = 0; i < STORES; i++) {
        snprintf(path, sizeof(path), "%s/%d", directory, i);
        check(path, hwt_delay_open(path, &options, &stores[i]));
        disk += disk_bytes(path);
    }
    printf("stores_threads %u\nstores_disk_mb %.1f\n", count_threads() - before,
           (double)disk / 1048576);
    for (int i = 0; i < STORES; i++)
        check("close", hwt_delay_close(stores[i]));
}

void measure_calls(bool quick)
{
    (void)quick;
    check(directory, mkdir(directory, 0700) < 0 ? -errno : 0);
    batches();
    without_waiting();
    many_stores();
}
