/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Rewriting, loads, takes, visits, searches and checkpoints of one store at the same time, for
 * ThreadSanitizer. Each producer puts messages for the next seconds and cancels most of them, so slots are
 * rewritten while they are loaded. At the end each message that was not cancelled has come once. See --help.
 */

#include "check_main.h"
#include "hwt/delay.h"

#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { PRODUCERS = 2, BATCH = 40, ROUNDS_MAX = 1 << 16, MISUSE = 2 };

struct id {
    uint32_t producer, number;
};

static hwt_delay *store;
static char directory[200];
static uint64_t rounds = 60, seconds, seed;
static _Atomic uint8_t states[PRODUCERS][(size_t)ROUNDS_MAX * BATCH]; /* 1: pending; 2: taken */
static atomic_bool over;
static atomic_ulong left, taken_count;

static void expect(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "delay_together: %s; the store is in %s\n", what, directory);
    abort();
}

static void open_store(void)
{
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    options.flags = HWT_DELAY_CREATE;
    options.payload_max = 4096;
    options.segment_size = 1 << 18;
    options.memory = 1 << 20;
    expect(hwt_delay_open(directory, &options, &store) == 0, "it is not opened");
}

/* ---- the threads ---- */

static void produce_batch(unsigned producer, uint32_t round, uint64_t *random)
{
    static const char payload[300];
    hwt_delay_message messages[BATCH];
    struct id ids[BATCH];
    for (uint32_t i = 0; i < BATCH; i++) {
        ids[i] = (struct id){ producer, round * BATCH + i };
        messages[i] = (hwt_delay_message){
            .due = hwt_delay_now(store) + HWT_MS(500) + test_random(random) % HWT_SEC(4),
            .id = &ids[i],
            .id_size = sizeof(ids[i]),
            .payload = payload,
            .payload_size = sizeof(payload),
        };
        atomic_store(&states[producer][ids[i].number], 1);
        atomic_fetch_add(&left, 1);
    }
    expect(hwt_delay_put(store, messages, BATCH) == 0, "it is not put");
    for (uint32_t i = 0; i < BATCH; i++) {
        if (test_random(random) % 5 == 0)
            continue;
        int r = hwt_delay_cancel(store, messages[i].due, &ids[i], sizeof(ids[i]));
        expect(r == 0 || r == -EBUSY || r == -ENOENT, "it is not cancelled");
        if (r != 0)
            continue;
        expect(atomic_exchange(&states[producer][ids[i].number], 0) == 1,
               "it came, and was cancelled");
        atomic_fetch_sub(&left, 1);
    }
}

static void *produce(void *arg)
{
    unsigned producer = (unsigned)(uintptr_t)arg;
    uint64_t random = seed + producer, from = hwt_delay_now(store);
    for (uint32_t i = 0; i < ROUNDS_MAX; i++) {
        if (seconds > 0 ? hwt_delay_now(store) - from > HWT_SEC(seconds) : i >= rounds)
            break;
        produce_batch(producer, i, &random);
    }
    return NULL;
}

static void *consume(void *arg)
{
    (void)arg;
    while (!atomic_load(&over)) {
        const hwt_delay_message *taken;
        uint64_t leases[64];
        int64_t n = hwt_delay_take(store, 64, HWT_MS(20), &taken);
        expect(n >= 0, "it is not taken");
        for (int64_t i = 0; i < n; i++) {
            struct id id;
            memcpy(&id, taken[i].id, sizeof(id));
            expect(atomic_exchange(&states[id.producer][id.number], 2) == 1, "it came twice");
            leases[i] = taken[i].lease;
        }
        if (n == 0)
            continue;
        hwt_delay_free(taken);
        expect(hwt_delay_done(store, leases, (size_t)n) == n, "it is not done with");
        atomic_fetch_add(&taken_count, (unsigned long)n);
        atomic_fetch_sub(&left, (unsigned long)n);
    }
    return NULL;
}

static int see(const hwt_delay_message *message, void *last)
{
    expect(message->due >= *(uint64_t *)last, "a visit is not in its order");
    *(uint64_t *)last = message->due;
    return 0;
}

static void *look(void *arg)
{
    (void)arg;
    while (!atomic_load(&over)) {
        const hwt_delay_message *none;
        uint64_t last = 0;
        expect(hwt_delay_visit(store, 0, HWT_NEVER, see, &last) == 0, "a visit fails");
        expect(hwt_delay_look_up(store, "1-x", &none) == -ENOENT, "it has what was never put");
    }
    return NULL;
}

static void *make_checkpoints(void *arg)
{
    (void)arg;
    while (!atomic_load(&over))
        expect(hwt_delay_checkpoint(store) == 0, "a checkpoint fails");
    return NULL;
}

static void run(void)
{
    static void *(*const others[])(void *) = { consume, look, make_checkpoints };
    pthread_t producers[PRODUCERS], threads[3];
    for (uintptr_t i = 0; i < PRODUCERS; i++)
        pthread_create(&producers[i], NULL, produce, (void *)i);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, others[i], NULL);
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(producers[i], NULL);
    while (atomic_load(&left) >
           0) /* all are due within seconds; what is lost ends by the time limit */
        usleep(10000);
    atomic_store(&over, true);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

static uint64_t number(const char *text)
{
    char *end;
    uint64_t n = strtoull(text, &end, 0);
    if (*text && !*end && *text != '-' && n > 0 && n < ROUNDS_MAX)
        return n;
    fprintf(stderr, "delay_together: %s: not such a number; see --help\n", text);
    exit(MISUSE);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "rounds", required_argument, NULL, 'r' },
        { "seconds", required_argument, NULL, 's' },
        { "help", no_argument, NULL, 'h' },
        { 0 },
    };
    const char *above = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'r')
            rounds = number(optarg);
        else if (c == 's')
            seconds = number(optarg);
        else if (c == 'h')
            return puts("Usage: delay_together [--rounds 60 | --seconds N]") < 0;
        else
            return MISUSE;
    }
    seed = test_seed_get(true);
    snprintf(directory, sizeof(directory), "%s/hwt-delay-together-XXXXXX", above);
    expect(mkdtemp(directory) != NULL, "there is no directory");
    open_store();
    run();
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    expect(hwt_delay_get_stats(store, &stats) == 0 && stats.pending == 0, "something is pending");
    printf("%lu taken, %" PRIu64 " checkpoints\n", atomic_load(&taken_count), stats.checkpoints);
    expect(hwt_delay_close(store) == 0, "it is not closed");
    char command[300];
    snprintf(command, sizeof(command), "rm -rf %s", directory);
    return system(command) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
