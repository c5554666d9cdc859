/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Runs a timer for a long time, as hard as it goes, with things going wrong, and watches
 * memory and lateness.
 *
 *     soak [--seconds N] [--threads N] [--executor] [--seed N]
 *
 * Every timeout must end exactly once and none may start early; resident memory must not grow
 * from the second quarter of the time to the last. Prints a line every ten seconds. The exit
 * status is 0, 1 if something of this does not hold, 2 for misuse.
 *
 * What goes wrong, in turn: no memory can be mapped for a while; 200000 timeouts fall on one
 * instant; a child is forked, which destroys its copy; a hundred threads come and go. (Whoever
 * runs this may stop and continue the process besides.)
 */

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <hwt/hwt.h>

enum { WINDOW = 2000, HERD = 200000, PASSERS = 100, SAMPLES_MAX = 1 << 20 };

struct request {
    _Atomic uint64_t deadline;
    _Atomic uint32_t ends; /* 0: not ended yet */
    bool used;
    bool told; /* its task has a `cancelled` */
    hwt_timeout timeout;
};

struct producer {
    uint64_t random;
    _Atomic bool *over; /* or, if NULL, so many operations: */
    uint64_t operations;
    struct request *requests;
};

static hwt_timer *timer;
static _Atomic uint64_t early, twice, refused, broken, operations;

static void die(const char *what, int error)
{
    fprintf(stderr, "soak: %s: %s\n", what, strerror(error < 0 ? -error : error));
    exit(1);
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

/* ---- requests ---- */

static void end(struct request *request)
{
    if (atomic_fetch_add(&request->ends, 1) != 0)
        atomic_fetch_add(&twice, 1);
}

static void run(hwt_timeout timeout, void *arg)
{
    struct request *request = arg;
    (void)timeout;
    if (hwt_timer_now(timer) < atomic_load(&request->deadline))
        atomic_fetch_add(&early, 1);
    end(request);
}

static void cancelled(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    end(arg);
}

static void unprocessed(const hwt_task *task, void *arg, uint64_t remaining, void *data)
{
    (void)task;
    (void)remaining;
    (void)data;
    end(arg);
}

static const hwt_task quiet_task = { .run = run };
static const hwt_task telling_task = { .run = run, .cancelled = cancelled };

static void begin(struct request *request, uint64_t delay)
{
    const hwt_task *task = request->told ? &telling_task : &quiet_task;
    uint64_t deadline = hwt_timer_now(timer) + delay;
    atomic_store(&request->deadline, deadline);
    atomic_store(&request->ends, 0);
    int r = hwt_timer_new_timeout_at(timer, task, request, deadline, &request->timeout);
    request->used = r == 0;
    if (r == -ENOMEM)
        atomic_fetch_add(&refused, 1);
    else if (r < 0)
        atomic_fetch_add(&broken, 1);
}

static void give_up(struct request *request)
{
    if (!hwt_timeout_cancel(request->timeout))
        return;
    if (!request->told)
        end(request);
}

static void push_back(struct request *request, uint64_t delay)
{
    uint64_t deadline = hwt_timer_now(timer) + delay;
    if (deadline > atomic_load(&request->deadline) &&
        hwt_timeout_reschedule_at(request->timeout, deadline))
        atomic_store(&request->deadline, deadline);
}

static void *produce(void *arg)
{
    struct producer *producer = arg;
    uint64_t n = 0;
    while (producer->over ? !atomic_load(producer->over) : n < producer->operations) {
        uint64_t random = next_random(&producer->random);
        struct request *request = &producer->requests[random % WINDOW];
        uint64_t delay =
            next_random(&producer->random) % (random & 1 << 20 ? HWT_MS(5) : HWT_SEC(5));
        if (!request->used || atomic_load(&request->ends) > 0) {
            request->told = random >> 40 & 1;
            begin(request, delay);
        } else if (random >> 50 & 1) {
            push_back(request, delay);
        } else {
            give_up(request);
        }
        if (++n % 4096 == 0)
            atomic_fetch_add(&operations, 4096);
    }
    return NULL;
}

static struct request *make_requests(size_t n)
{
    struct request *requests = calloc(n, sizeof(*requests));
    if (!requests)
        die("calloc", ENOMEM);
    return requests;
}

/* How many have not ended once the timer is stopped. */
static uint64_t lost(const struct request *requests, size_t n)
{
    uint64_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += requests[i].used && atomic_load(&requests[i].ends) != 1;
    return count;
}

/* ---- what goes wrong ---- */

static size_t resident(void)
{
    unsigned long size, pages;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%lu %lu", &size, &pages) != 2)
        die("/proc/self/statm", errno);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void sleep_ms(long ms)
{
    struct timespec time = { ms / 1000, ms % 1000 * 1000000 };
    while (nanosleep(&time, &time) < 0 && errno == EINTR)
        ;
}

static void take_memory_away(void)
{
    struct rlimit before, none;
    if (getrlimit(RLIMIT_AS, &before) < 0)
        die("getrlimit", errno);
    none = before;
    none.rlim_cur = 1;
    if (setrlimit(RLIMIT_AS, &none) < 0)
        die("setrlimit", errno);
    sleep_ms(300);
    if (setrlimit(RLIMIT_AS, &before) < 0)
        die("setrlimit", errno);
}

static struct request *herd;

static void let_a_herd_loose(void)
{
    for (size_t i = 0; i < HERD; i++) {
        if (!herd[i].used || atomic_load(&herd[i].ends) > 0)
            begin(&herd[i], HWT_SEC(1));
    }
}

static void fork_a_child(void)
{
    pid_t child = fork();
    if (child < 0)
        die("fork", errno);
    if (child == 0) {
        hwt_timer_destroy(timer);
        _exit(0);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status != 0)
        atomic_fetch_add(&broken, 1);
}

static struct request *passers_by;

static void let_threads_pass(uint64_t *random)
{
    for (int i = 0; i < PASSERS; i++) {
        struct producer passer = { next_random(random), NULL, 500, passers_by };
        pthread_t thread;
        if (pthread_create(&thread, NULL, produce, &passer) == 0)
            pthread_join(thread, NULL);
    }
}

static void go_wrong(uint64_t turn, uint64_t *random)
{
    switch (turn % 4) {
    case 0:
        take_memory_away();
        break;
    case 1:
        let_a_herd_loose();
        break;
    case 2:
        fork_a_child();
        break;
    case 3:
        let_threads_pass(random);
        break;
    }
}

/* ---- watching ---- */

static void report(uint64_t second)
{
    static uint64_t operations_before;
    uint64_t now = atomic_load(&operations);
    hwt_stats stats = HWT_STATS_INIT;
    hwt_timer_stats(timer, &stats);
    uint64_t runs = 0, to_p999 = stats.expired - stats.expired / 1000;
    unsigned p999 = 0;
    while (p999 < 63 && (runs += stats.lateness[p999]) < to_p999)
        p999++;
    printf("%5" PRIu64 " s: %.2f Mops/s, %.1f MB resident, %.1f MB held, %" PRIu64
           " pending, %" PRIu64 " runs, late below %.3g ms at 99.9 %% (max %.3g), %" PRIu64
           " refused for want of memory\n",
           second, (double)(now - operations_before) / 1e7, (double)resident() / 1e6,
           (double)stats.memory / 1e6, stats.pending, stats.expired,
           (double)(UINT64_C(2) << p999) / 1e6, (double)stats.lateness_max / 1e6,
           atomic_load(&refused));
    fflush(stdout);
    operations_before = now;
}

static int by_size(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

static size_t median(const size_t *from, size_t n)
{
    size_t *sorted = malloc(n * sizeof(*sorted));
    if (!sorted)
        die("malloc", ENOMEM);
    memcpy(sorted, from, n * sizeof(*sorted));
    qsort(sorted, n, sizeof(*sorted), by_size);
    size_t middle = sorted[n / 2];
    free(sorted);
    return middle;
}

static bool has_grown(const size_t *samples, size_t n)
{
    size_t quarter = n / 4;
    if (quarter == 0)
        return false;
    size_t before = median(samples + quarter, quarter),
           after = median(samples + 3 * quarter, quarter);
    printf("resident: %.1f MB in the second quarter, %.1f MB in the last\n", (double)before / 1e6,
           (double)after / 1e6);
    return after > before + before / 10 + (8 << 20);
}

/* An executor of detached threads would only test pthread_create(): one thread, one place. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void (*work)(void *);
    void *arg;
} desk = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, NULL };

static int to_a_thread(void *data, void (*work)(void *), void *work_arg)
{
    (void)data;
    pthread_mutex_lock(&desk.lock);
    bool busy = desk.work != NULL;
    if (!busy) {
        desk.work = work;
        desk.arg = work_arg;
        pthread_cond_signal(&desk.changed);
    }
    pthread_mutex_unlock(&desk.lock);
    return busy ? -EBUSY : 0;
}

static void *serve_desk(void *arg)
{
    (void)arg;
    for (;;) {
        pthread_mutex_lock(&desk.lock);
        while (!desk.work)
            pthread_cond_wait(&desk.changed, &desk.lock);
        void (*work)(void *) = desk.work;
        void *work_arg = desk.arg;
        desk.work = NULL;
        pthread_mutex_unlock(&desk.lock);
        work(work_arg);
    }
    return NULL;
}

struct options {
    uint64_t seconds, threads, seed;
    bool executor;
};

static uint64_t number(const char *option, const char *text)
{
    char *rest;
    errno = 0;
    uint64_t value = strtoull(text, &rest, 10);
    if (errno || *rest || rest == text || *text == '-' || value == 0) {
        fprintf(stderr, "soak: --%s %s is not a number from 1\n", option, text);
        exit(2);
    }
    return value;
}

static struct options read_options(int argc, char **argv)
{
    static const struct option known[] = { { "seconds", required_argument, NULL, 's' },
                                           { "threads", required_argument, NULL, 't' },
                                           { "seed", required_argument, NULL, 'r' },
                                           { "executor", no_argument, NULL, 'e' },
                                           { NULL, 0, NULL, 0 } };
    struct options options = { 60, 2, (uint64_t)time(NULL), false };
    int c;
    while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (c) {
        case 's':
            options.seconds = number("seconds", optarg);
            break;
        case 't':
            options.threads = number("threads", optarg);
            break;
        case 'r':
            options.seed = number("seed", optarg);
            break;
        case 'e':
            options.executor = true;
            break;
        default:
            exit(2);
        }
    }
    if (optind < argc || options.seconds > SAMPLES_MAX || options.threads > 1000) {
        fprintf(stderr, "soak: [--seconds N] [--threads N] [--executor] [--seed N]\n");
        exit(2);
    }
    return options;
}

static void open_timer(bool executor)
{
    hwt_options o = HWT_OPTIONS_INIT;
    pthread_t thread;
    o.tick_duration = HWT_MS(1);
    if (executor) {
        o.executor = to_a_thread;
        if (pthread_create(&thread, NULL, serve_desk, NULL) != 0)
            die("pthread_create", EAGAIN);
    }
    int r = hwt_timer_create(&o, &timer);
    if (r < 0)
        die("hwt_timer_create", r);
}

int main(int argc, char **argv)
{
    struct options options = read_options(argc, argv);
    uint64_t random = options.seed * 2654435761 + 1;
    pthread_t *threads = calloc(options.threads, sizeof(*threads));
    struct producer *producers = calloc(options.threads, sizeof(*producers));
    size_t *samples = calloc(options.seconds, sizeof(*samples));
    static _Atomic bool over;
    if (!threads || !producers || !samples)
        die("calloc", ENOMEM);
    printf("seed: %" PRIu64 "\n", options.seed);
    herd = make_requests(HERD);
    passers_by = make_requests(WINDOW);
    open_timer(options.executor);
    for (uint64_t i = 0; i < options.threads; i++) {
        producers[i] = (struct producer){ next_random(&random), &over, 0, make_requests(WINDOW) };
        int r = pthread_create(&threads[i], NULL, produce, &producers[i]);
        if (r != 0)
            die("pthread_create", r);
    }
    for (uint64_t second = 0; second < options.seconds; second++) {
        if (second % 5 == 4)
            go_wrong(second / 5, &random);
        sleep_ms(1000);
        samples[second] = resident();
        if (second % 10 == 9)
            report(second + 1);
    }
    atomic_store(&over, true);
    uint64_t missing = 0;
    for (uint64_t i = 0; i < options.threads; i++)
        pthread_join(threads[i], NULL);
    int64_t left = hwt_timer_stop(timer, unprocessed, NULL);
    for (uint64_t i = 0; i < options.threads; i++)
        missing += lost(producers[i].requests, WINDOW);
    missing += lost(herd, HERD) + lost(passers_by, WINDOW);
    report(options.seconds);
    bool grown = has_grown(samples, options.seconds);
    printf("%" PRId64 " left over by stop, %" PRIu64 " lost, %" PRIu64 " early, %" PRIu64
           " ended twice, %" PRIu64 " other mistakes%s\n",
           left, missing, atomic_load(&early), atomic_load(&twice), atomic_load(&broken),
           grown ? ", memory has grown" : "");
    return left < 0 || missing || early || twice || broken || grown;
}
