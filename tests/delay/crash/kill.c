/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * kill -9, again and again, of a process with many threads that puts, cancels, takes and is done,
 * on a real file system. What it was answered is noted in memory that outlives it. After each kill
 * the store is opened and compared: what was acknowledged is there, what was cancelled or done with
 * is not, and a batch is there as a whole or not at all. While it runs: nothing is handed over
 * early, after its cancel, or after it was done with. See --help.
 */

#include "check_main.h"
#include "hwt/delay.h"

#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { PRODUCERS = 6, CONSUMERS = 2, BATCH = 4, BATCHES = 8192, MESSAGES = BATCH * BATCHES };
enum { MISUSE = 2, FAR = 4 };

/* Where a message is. Its own thread writes it, but for TAKEN to DONE, which the consumer does. */
enum state { UNUSED, PUTTING, PUT, CANCELLING, CANCELLED, FINISHING, FINISHED };

struct table {
    _Atomic int state[PRODUCERS][MESSAGES];
    uint64_t due[PRODUCERS][MESSAGES];
    atomic_uint next[PRODUCERS]; /* batches */
    atomic_ulong taken, cancelled;
    atomic_int wrong;
    char what[200];
};

struct id {
    uint32_t producer, number;
};

static struct table *table;
static hwt_delay *store;
static char directory[200];
static uint64_t seed;

static void wrong(const char *what, struct id id)
{
    if (atomic_exchange(&table->wrong, 1) == 0)
        snprintf(table->what, sizeof(table->what), "%s: message %u of producer %u", what, id.number,
                 id.producer);
}

static void open_store(uint32_t flags)
{
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    options.flags = flags;
    options.payload_max = 4096;
    options.segment_size = 1 << 18; /* checkpoints all the time */
    options.memory = 2 << 20;
    int r = hwt_delay_open(directory, &options, &store);
    if (r != 0) {
        fprintf(stderr, "delay_kill: open: %s\n", strerror(-r));
        exit(EXIT_FAILURE);
    }
}

/* ---- the process that is killed ---- */

static void put_batch(unsigned producer, unsigned batch, uint64_t *random)
{
    static const char payload[4096];
    hwt_delay_message messages[BATCH];
    struct id ids[BATCH];
    for (unsigned i = 0; i < BATCH; i++) {
        uint64_t number = test_random(random), late = number % HWT_SEC(1);
        ids[i] = (struct id){ producer, batch * BATCH + i };
        if ((number >> 40) % FAR == 0)
            late = HWT_SEC(3600) + number % HWT_SEC(86400);
        table->due[producer][ids[i].number] = hwt_delay_now(store) + late;
        messages[i] = (hwt_delay_message){
            .due = table->due[producer][ids[i].number],
            .id = &ids[i],
            .id_size = sizeof(ids[i]),
            .payload = payload,
            .payload_size = (number >> 48) % 600,
        };
        atomic_store(&table->state[producer][ids[i].number], PUTTING);
    }
    if (hwt_delay_put(store, messages, BATCH) != 0)
        wrong("put failed", ids[0]);
    for (unsigned i = 0; i < BATCH; i++) {
        int putting = PUTTING; /* or a consumer has had it */
        atomic_compare_exchange_strong(&table->state[producer][ids[i].number], &putting, PUT);
    }
}

static void cancel_one(struct id id)
{
    int put = PUT;
    _Atomic int *state = &table->state[id.producer][id.number];
    if (!atomic_compare_exchange_strong(state, &put, CANCELLING))
        return;
    int r = hwt_delay_cancel(store, table->due[id.producer][id.number], &id, sizeof(id));
    int cancelling = CANCELLING; /* or a consumer has it by now */
    if (r == 0 && atomic_compare_exchange_strong(state, &cancelling, CANCELLED))
        atomic_fetch_add(&table->cancelled, 1);
    else if (r == -EBUSY || r == -ENOENT)
        atomic_compare_exchange_strong(state, &cancelling, PUT);
    else if (r != 0)
        wrong("cancel failed", id);
}

static void *produce(void *arg)
{
    unsigned producer = (unsigned)(uintptr_t)arg;
    uint64_t random = seed + producer;
    for (;;) {
        unsigned batch = atomic_fetch_add(&table->next[producer], 1);
        if (batch >= BATCHES)
            return NULL;
        put_batch(producer, batch, &random);
        unsigned old = (unsigned)(test_random(&random) % (batch * BATCH + BATCH));
        cancel_one((struct id){ producer, old });
    }
}

static void *consume(void *arg)
{
    (void)arg;
    while (atomic_load(&table->wrong) == 0) {
        const hwt_delay_message *taken;
        int64_t n = hwt_delay_take(store, 20, HWT_MS(50), &taken);
        if (n < 0)
            wrong("take failed", (struct id){ 0, (uint32_t)-n });
        for (int64_t i = 0; i < n; i++) {
            struct id id;
            memcpy(&id, taken[i].id, sizeof(id));
            _Atomic int *state = &table->state[id.producer][id.number];
            int old = atomic_exchange(state, FINISHING);
            if (old == CANCELLED || old == FINISHED || old == UNUSED)
                wrong(old == CANCELLED ? "handed over after its cancel" : "handed over twice", id);
            if (taken[i].due > hwt_delay_now(store))
                wrong("handed over early", id);
            if (hwt_delay_done(store, &taken[i].lease, 1) != 1)
                wrong("done failed", id);
            atomic_store(state, FINISHED);
            atomic_fetch_add(&table->taken, 1);
        }
        if (n > 0)
            hwt_delay_free(taken);
    }
    return NULL;
}

static void run_until_killed(void)
{
    pthread_t thread;
    open_store(0);
    for (uintptr_t i = 0; i < PRODUCERS; i++)
        pthread_create(&thread, NULL, produce, (void *)i);
    for (int i = 0; i < CONSUMERS; i++)
        pthread_create(&thread, NULL, consume, NULL);
    for (;;)
        pause();
}

/* ---- the process that looks ---- */

static unsigned char found[PRODUCERS][MESSAGES];

static int find_one(const hwt_delay_message *message, void *data)
{
    struct id id;
    (void)data;
    memcpy(&id, message->id, sizeof(id));
    found[id.producer][id.number]++;
    if (message->due != table->due[id.producer][id.number])
        wrong("has another due time", id);
    return 0;
}

static void compare_one(struct id id)
{
    _Atomic int *state = &table->state[id.producer][id.number];
    unsigned times = found[id.producer][id.number];
    int before = atomic_load(state);
    switch (before) {
    case PUT:
        if (times != 1)
            wrong(times ? "is there twice" : "is lost", id);
        return;
    case UNUSED:
    case CANCELLED:
    case FINISHED:
        if (times != 0)
            wrong(before == CANCELLED  ? "is there, and was cancelled"
                  : before == FINISHED ? "is there, and was done with"
                                       : "is there, and was not before",
                  id);
        return;
    default: /* in a call: from now on as it was found */
        if (times > 1)
            wrong("is there twice", id);
        atomic_store(state, times ? PUT : UNUSED);
    }
}

static void compare_batch(uint32_t producer, uint32_t first)
{
    unsigned putting = 0, there = 0;
    for (uint32_t i = first; i < first + BATCH; i++) {
        putting += atomic_load(&table->state[producer][i]) == PUTTING;
        there += found[producer][i];
    }
    if (putting == BATCH && there != 0 && there != BATCH)
        wrong("the batch is there in part", (struct id){ producer, first });
    for (uint32_t i = first; i < first + BATCH; i++)
        compare_one((struct id){ producer, i });
}

static uint64_t look(void)
{
    uint64_t sum = 0;
    memset(found, 0, sizeof(found));
    open_store(0);
    if (hwt_delay_visit(store, 0, HWT_NEVER, find_one, NULL) != 0)
        wrong("visit failed", (struct id){ 0 });
    hwt_delay_close(store);
    for (uint32_t producer = 0; producer < PRODUCERS; producer++) {
        for (uint32_t i = 0; i < MESSAGES; i++)
            sum += found[producer][i];
        for (uint32_t i = 0; i < MESSAGES; i += BATCH)
            compare_batch(producer, i);
    }
    return sum;
}

static void kill_one(uint64_t *random)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        run_until_killed();
    /* Now and then while it opens. */
    usleep((useconds_t)(test_random(random) % 5 == 0 ? test_random(random) % 5000
                                                     : 50000 + test_random(random) % 250000));
    if (child < 0 || kill(child, SIGKILL) != 0 || waitpid(child, NULL, 0) != child)
        exit(EXIT_FAILURE);
}

static uint64_t number(const char *text)
{
    char *end;
    uint64_t n = strtoull(text, &end, 0);
    if (!*text || *end || *text == '-') {
        fprintf(stderr, "delay_kill: %s: not a number; see --help\n", text);
        exit(MISUSE);
    }
    return n;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "kills", required_argument, NULL, 'k' },
        { "directory", required_argument, NULL, 'd' },
        { "seed", required_argument, NULL, 's' },
        { "help", no_argument, NULL, 'h' },
        { 0 },
    };
    uint64_t kills = 10;
    const char *above = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'k')
            kills = number(optarg);
        else if (c == 'd')
            above = optarg;
        else if (c == 's')
            seed = number(optarg);
        else if (c == 'h')
            return puts("Usage: delay_kill [--kills 10] [--directory DIR] [--seed N]") < 0;
        else
            return MISUSE;
    }
    seed = seed ? seed : test_seed_get(true);
    table = mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    snprintf(directory, sizeof(directory), "%s/hwt-delay-kill-XXXXXX", above);
    if (table == MAP_FAILED || !mkdtemp(directory)) {
        perror("delay_kill");
        return MISUSE;
    }
    open_store(HWT_DELAY_CREATE);
    hwt_delay_close(store);

    uint64_t random = seed, pending = 0;
    for (uint64_t i = 0; i < kills && !atomic_load(&table->wrong); i++) {
        seed = test_random(&random);
        kill_one(&random);
        pending = look();
    }
    printf("%" PRIu64 " kills, %lu taken, %lu cancelled, %" PRIu64 " pending\n", kills,
           atomic_load(&table->taken), atomic_load(&table->cancelled), pending);
    if (atomic_load(&table->wrong)) {
        printf("wrong: %s; the store is in %s\n", table->what, directory);
        return EXIT_FAILURE;
    }
    char command[300];
    snprintf(command, sizeof(command), "rm -rf %s", directory);
    return system(command) == 0 && atomic_load(&table->taken) > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
