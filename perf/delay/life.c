/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "life.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../rules.h"
#include "hwt/delay/open/open.h"

#define LEASE HWT_SEC(5)

_Noreturn void die(const char *what, int error)
{
    fprintf(stderr, "delay_life: %s: %s\n", what, strerror(-error));
    _exit(1);
}

/* What chance decides about a message: the same in each life. */
uint64_t hash_of(const struct run *run, uint64_t number, uint64_t what)
{
    uint64_t state = run->options.seed ^ (what << 56);

    state = splitmix(&state) ^ number;
    return splitmix(&state);
}

void id_of(uint64_t number, char id[ID_SIZE + 1])
{
    snprintf(id, ID_SIZE + 1, "order-%010" PRIu64, number % UINT64_C(10000000000));
}

void payload_of(const struct run *run, uint64_t number, unsigned char *payload)
{
    uint64_t state = hash_of(run, number, 5);

    for (uint64_t i = 0; i < run->options.payload; i += 8) {
        uint64_t random = splitmix(&state), left = run->options.payload - i;
        memcpy(payload + i, &random, left < 8 ? left : 8);
    }
}

/* ---- the ledger ---- */

static struct shared *ledger_make(const struct options *options)
{
    size_t size = sizeof(struct shared) + options->messages * sizeof(struct entry);
    struct shared *shared =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (shared == MAP_FAILED)
        die("memory for the ledger", -errno);
    return shared;
}

/* A kill may come between an entry and its counter. */
static void ledger_recount(struct shared *shared, const struct options *options)
{
    uint64_t acknowledged = 0, delivered = 0, cancelled = 0;

    for (uint64_t i = 0; i < options->messages; i++) {
        const struct entry *e = &shared->entries[i];
        acknowledged += e->put == GRANTED;
        delivered += e->deliveries > 0;
        cancelled += e->deliveries == 0 && e->cancel == GRANTED;
    }
    atomic_store(&shared->acknowledged, acknowledged);
    atomic_store(&shared->delivered, delivered);
    atomic_store(&shared->cancelled, cancelled);
}

static void raise_to(counter *c, uint64_t value)
{
    uint64_t old = counted(c);

    while (old < value && !atomic_compare_exchange_weak_explicit(
                              c, &old, value, memory_order_relaxed, memory_order_relaxed))
        ;
}

/* ---- the child ---- */

/* The clock that the consumer moves. */
static uint64_t moved_clock(void *data)
{
    struct run *run = data;

    return read_clock(CLOCK_REALTIME) + counted(&run->shared->clock_offset);
}

/* The real system, with that clock. Only the clock's functions look at `data`. */
static struct hwt_delay_system system_of(struct run *run)
{
    struct hwt_delay_system system = hwt_delay_real_system;

    system.data = run;
    system.realtime = moved_clock;
    return system;
}

static void publish_counts(struct run *run)
{
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    struct store_counts *now = &run->shared->now;
    int r = hwt_delay_get_stats(run->store, &stats);

    if (r < 0)
        die("get_stats", r);
    atomic_store(&now->syncs, stats.syncs);
    atomic_store(&now->commits, stats.commits);
    atomic_store(&now->log_bytes, stats.log_bytes);
    atomic_store(&now->slot_bytes, stats.slot_bytes);
    atomic_store(&now->checkpoints, stats.checkpoints);
    atomic_store(&now->replayed, stats.replayed);
    atomic_store(&now->cut, stats.cut);
    atomic_store(&now->clock_leaps, stats.clock_leaps);
    atomic_store(&run->shared->pending, stats.pending);
}

static void *publish_main(void *run)
{
    for (;;) {
        publish_counts(run);
        nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
    }
    return NULL;
}

static void begin_thread(pthread_t *thread, void *(*function)(void *), void *arg)
{
    int error = pthread_create(thread, NULL, function, arg);

    if (error != 0)
        die("a thread", -error);
}

static _Noreturn void live(struct run *run)
{
    struct hwt_delay_system system = system_of(run);
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    struct producer *producers = calloc(run->options.threads, sizeof(*producers));
    pthread_t *threads = calloc(run->options.threads + 1, sizeof(*threads));
    uint64_t begin = read_clock(CLOCK_MONOTONIC);

    if (!producers || !threads)
        die("a life", -ENOMEM);
    options.flags = HWT_DELAY_CREATE;
    options.lease = LEASE;
    int r = hwt_delay_open_on(run->path, &options, &system, false, &run->store);
    if (r < 0)
        die("open", r);
    raise_to(&run->shared->opening_max, read_clock(CLOCK_MONOTONIC) - begin);
    run->opened = hwt_delay_now(run->store);
    begin_thread(&threads[run->options.threads], publish_main, run);
    for (uint64_t i = 0; i < run->options.threads; i++) {
        producers[i] = (struct producer){ run, i };
        begin_thread(&threads[i], producer_main, &producers[i]);
    }
    consume(run);
    for (uint64_t i = 0; i < run->options.threads; i++)
        pthread_join(threads[i], NULL);
    pthread_cancel(threads[run->options.threads]);
    pthread_join(threads[run->options.threads], NULL);
    r = hwt_delay_checkpoint(run->store);
    if (r < 0)
        die("checkpoint", r);
    publish_counts(run);
    hwt_delay_close(run->store);
    _exit(0);
}

/* ---- the parent ---- */

static pid_t begin_life(struct run *run)
{
    ledger_recount(run->shared, &run->options);
    memset(&run->shared->now, 0, sizeof(run->shared->now));
    run->shared->life++;
    fflush(stdout);
    pid_t child = fork();
    if (child < 0)
        die("fork", -errno);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        live(run);
    }
    return child;
}

static uint64_t progress(const struct run *run)
{
    return counted(&run->shared->acknowledged) + counted(&run->shared->delivered) +
           counted(&run->shared->cancelled);
}

/*
 * When the next kill comes. Every third one follows the last one within a tenth of a second, so
 * that it hits the opening; the others are spread over all of the run, and come some milliseconds
 * after the moment that was chosen.
 */
static bool is_time_to_kill(const struct run *run, const struct watch *watch, uint64_t *random)
{
    uint64_t all = 2 * run->options.messages, kills = run->options.kills;
    bool opening = watch->kills % 3 == 1;

    if (watch->kills >= kills)
        return false;
    if (!opening && progress(run) < all * (watch->kills + 1) / (kills + 1))
        return false;
    long wait = (long)(splitmix(random) % (opening ? 100 : 20));
    nanosleep(&(struct timespec){ 0, wait * 1000000 }, NULL);
    return true;
}

/* Until the child has ended; its zombie is still there. Returns its exit status; -1: killed. */
static int watch_life(struct run *run, struct watch *watch, pid_t child, uint64_t *random)
{
    siginfo_t ended;

    for (;;) {
        ended.si_pid = 0;
        if (waitid(P_PID, (id_t)child, &ended, WEXITED | WNOHANG | WNOWAIT) < 0)
            die("waitid", -errno);
        if (ended.si_pid != 0)
            return ended.si_code == CLD_EXITED ? ended.si_status : 128 + ended.si_status;
        watch_sample(watch, run, child);
        if (is_time_to_kill(run, watch, random)) {
            kill(child, SIGKILL);
            if (waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT) < 0)
                die("waitid", -errno);
            if (ended.si_code != CLD_EXITED)
                return -1;
        } else {
            nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
        }
    }
}

/* Removes what an earlier run has left: a store is one flat directory. */
static void make_room(const char *path)
{
    DIR *stream = opendir(path);
    const struct dirent *entry;

    while (stream && (entry = readdir(stream)))
        if (entry->d_name[0] != '.' && unlinkat(dirfd(stream), entry->d_name, 0) < 0)
            die(path, -errno);
    if (stream)
        closedir(stream);
}

/* ---- the command line ---- */

static void usage(void);

static const struct option_rule rules[] = {
    { "messages", offsetof(struct options, messages), 200000, 100, 1000000000, "messages to put",
      RULE_NUMBER },
    { "threads", offsetof(struct options, threads), 16, 1, 1000, "producers", RULE_NUMBER },
    { "payload", offsetof(struct options, payload), 200, 0, 1 << 20, "bytes in a message",
      RULE_NUMBER },
    { "kills", offsetof(struct options, kills), 6, 0, 1000,
      "times that the process is killed on the way", RULE_NUMBER },
    { "seed", offsetof(struct options, seed), 1, 0, UINT64_MAX,
      "delays, who is cancelled, when to kill, and all else that chance decides", RULE_NUMBER },
    { "directory", offsetof(struct options, directory), 0, 0, 0,
      "the store is made in DIR/hwt-delay-life; what an earlier run left there goes", RULE_TEXT },
};

static const struct option_rules all = {
    .program = "delay_life",
    .all = rules,
    .count = sizeof(rules) / sizeof(rules[0]),
    .usage = usage,
};

static void usage(void)
{
    printf("Usage: delay_life [--option N]... [--directory DIR]\n\n"
           "Puts messages with delays of one second to four weeks into a store, cancels some,\n"
           "takes them, kills the process on the way, and looks whether every promise was kept.\n"
           "When all are put and the near ones have come, the clock is moved, so that the far\n"
           "ones come too. Defaults in brackets.\n\n");
    rules_print(&all);
    printf("  --%-16s this text\n\n", "help");
    printf("Exit status: 0; 1 if a promise was not kept, or if it could not run; 2 for a bad\n"
           "option.\n");
}

int main(int argc, char **argv)
{
    struct run run = { 0 };
    struct watch watch = { 0 };
    int status;

    run.options.directory = ".";
    rules_read(&all, &run.options, argc, argv);
    if (access(run.options.directory, W_OK) < 0) {
        fprintf(stderr, "delay_life: --directory %s: %s\n", run.options.directory, strerror(errno));
        return 2;
    }
    if (asprintf(&run.path, "%s/hwt-delay-life", run.options.directory) < 0)
        die("path", -ENOMEM);
    make_room(run.path);
    run.shared = ledger_make(&run.options);
    uint64_t random = run.options.seed;
    report_head(&run);
    watch_begin(&watch, &run);
    do {
        pid_t child = begin_life(&run);
        status = watch_life(&run, &watch, child, &random);
        watch_end_of_life(&watch, &run, child);
        waitpid(child, NULL, 0);
        watch.kills += status < 0;
    } while (status < 0);
    ledger_recount(run.shared, &run.options);
    if (status != 0)
        printf("\nFAILED: the process ended by itself, with status %d\n", status);
    bool well = report_end(&run, &watch);
    return well && status == 0 ? 0 : 1;
}
