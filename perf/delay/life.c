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
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hwt/delay/open/open.h"

#define LEASE HWT_SEC(5)

_Noreturn void die(const char *what, int error)
{
    fprintf(stderr, "delay_life: %s: %s\n", what, strerror(-error));
    _exit(1);
}

uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return HWT_SEC((uint64_t)now.tv_sec) + (uint64_t)now.tv_nsec;
}

/* splitmix64 */
uint64_t random_next(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* What chance decides about a message: the same in each life. */
uint64_t hash_of(const struct run *run, uint64_t number, uint64_t what)
{
    uint64_t state = run->options.seed ^ (what << 56);

    state = random_next(&state) ^ number;
    return random_next(&state);
}

void id_of(uint64_t number, char id[ID_SIZE + 1])
{
    snprintf(id, ID_SIZE + 1, "order-%010" PRIu64, number % UINT64_C(10000000000));
}

void payload_of(const struct run *run, uint64_t number, unsigned char *payload)
{
    uint64_t state = hash_of(run, number, 5);

    for (uint64_t i = 0; i < run->options.payload; i += 8) {
        uint64_t random = random_next(&state), left = run->options.payload - i;
        memcpy(payload + i, &random, left < 8 ? left : 8);
    }
}

/* ---- the child ---- */

/* The clock that the consumer moves. */
static uint64_t moved_clock(void *data)
{
    struct run *run = data;

    return clock_ns(CLOCK_REALTIME) + counted(&run->shared->clock_offset);
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
    uint64_t begin = clock_ns(CLOCK_MONOTONIC);

    if (!producers || !threads)
        die("a life", -ENOMEM);
    options.flags = HWT_DELAY_CREATE;
    options.lease = LEASE;
    int r = hwt_delay_open_on(run->path, &options, &system, false, &run->store);
    if (r < 0)
        die("open", r);
    raise_to(&run->shared->opening_max, clock_ns(CLOCK_MONOTONIC) - begin);
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
    long wait = (long)(random_next(random) % (opening ? 100 : 20));
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

int main(int argc, char **argv)
{
    struct run run = { 0 };
    struct watch watch = { 0 };
    int status;

    options_parse(&run.options, argc, argv);
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
