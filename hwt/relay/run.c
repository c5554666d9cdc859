/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hwt/relay/http.h"
#include "hwt/relay/log.h"
#include "hwt/relay/metrics.h"
#include "hwt/relay/open.h"
#include "hwt/relay/shard.h"

/* A shard's thread. `stop` is readable from the moment at which all are to drain. */
struct worker {
    const struct relay_config *config;
    unsigned number;
    int stop;
    uint64_t life;
    atomic_bool *failed; /* set before the process is told to end, read after all have ended */
    hwt_delay *store;
    struct relay_engine *engine;
    pthread_mutex_t lock; /* while the shard is set, or looked at by another thread */
    struct relay_shard *shard;
    bool ends; /* `stop` was seen */
    pthread_t thread;
};

/* Until a descriptor is readable, or `ends` is seen for the first time. */
static void wait_for(struct worker *worker, int fd, int other, uint64_t time)
{
    struct pollfd fds[] = { { .fd = worker->stop, .events = POLLIN },
                            { .fd = fd, .events = POLLIN },
                            { .fd = other, .events = POLLIN } };
    uint64_t ms = time / 1000000 + 1;

    if (worker->ends)
        fds[0].fd = -1; /* it stays readable */
    poll(fds, 3, ms > 60000 ? 60000 : (int)ms);
    worker->ends = worker->ends || (fds[0].revents & POLLIN) != 0;
}

static int open_store(struct worker *worker)
{
    hwt_delay_options options = relay_shard_store(worker->config);
    char path[4096];
    int r;

    if ((size_t)snprintf(path, sizeof(path), "%s/%u", worker->config->state, worker->number) >=
        sizeof(path))
        return -ENAMETOOLONG;
    r = hwt_delay_open(path, &options, &worker->store);
    if (r < 0)
        relay_log(worker->number, RELAY_ERROR "%s: %s%s", path, strerror(-r),
                  r == -EBADMSG ? "; see hwt-delay check" : "");
    return r;
}

static int open_shard(struct worker *worker)
{
    int r;

    pthread_mutex_lock(&worker->lock);
    r = relay_shard_open(worker->config, worker->number, worker->engine, worker->store,
                         worker->life++, &worker->shard);
    pthread_mutex_unlock(&worker->lock);
    if (r < 0)
        relay_log(worker->number, RELAY_ERROR "the store is none of a relay: %s", strerror(-r));
    return r;
}

/* Until it is over, or fails. */
static int drive(struct worker *worker)
{
    struct relay_shard *shard = worker->shard;
    struct relay_engine *engine = worker->engine;
    int r = 0;

    for (;;) {
        engine->calls->clear(engine);
        r = relay_shard_step(shard);
        if (r < 0 || shard->over)
            return r;
        wait_for(worker, engine->calls->fd(engine),
                 relay_shard_takes(shard) ? hwt_delay_fd(worker->store) : -1,
                 relay_shard_wait(shard));
        if (worker->ends)
            relay_shard_drain(shard);
    }
}

/* Until it returns, the metrics may be of this shard. */
static void close_shard(struct worker *worker)
{
    struct relay_shard *shard = worker->shard;

    pthread_mutex_lock(&worker->lock);
    worker->shard = NULL;
    pthread_mutex_unlock(&worker->lock);
    relay_shard_close(shard);
}

static void say_shards(struct worker *worker)
{
    char fault[RELAY_ENTRY_MAX];

    relay_engine_shards_fault(worker->config, worker->engine, fault);
    if (*fault)
        relay_log(worker->number, RELAY_ERROR "%s", fault);
}

/* From the opening of the store to its end. */
static int live(struct worker *worker)
{
    int r = open_store(worker);

    if (r < 0)
        return r;
    while (!worker->engine && !worker->ends)
        if (relay_engine_open(worker->config, worker->number, &worker->engine) < 0)
            wait_for(worker, -1, -1, HWT_SEC(1));
    if (worker->engine && worker->number == 0)
        say_shards(worker);
    if (worker->engine)
        r = open_shard(worker);
    if (worker->engine && r == 0) {
        r = drive(worker);
        close_shard(worker);
    }
    if (hwt_delay_close(worker->store) < 0 && r == 0)
        r = -EIO;
    return r;
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    int r = 0;

    while (r == 0 && !worker->ends)
        r = live(worker);
    if (worker->engine)
        worker->engine->calls->close(worker->engine);
    relay_log(worker->number, r < 0 ? RELAY_ERROR "ended by an error" : RELAY_INFO "ended");
    if (r < 0) {
        atomic_store(worker->failed, true);
        kill(getpid(), SIGTERM); /* so that the others drain */
    }
    return NULL;
}

/* One process a state directory. Its id is asked for by `drain`, through the lock. */
static int take_lock(const struct relay_config *config)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    char path[4096];
    int fd;

    if (mkdir(config->state, 0750) < 0 && errno != EEXIST)
        return fail("%s: %s", config->state, strerror(errno)), -1;
    snprintf(path, sizeof(path), "%s/%s", config->state, LOCK_FILE);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
    if (fd < 0)
        return fail("%s: %s", path, strerror(errno)), -1;
    if (fcntl(fd, F_SETLK, &lock) < 0) {
        fail("%s: another relay uses this state", config->state);
        close(fd);
        return -1;
    }
    return fd;
}

/* How many shards the file wants now. One with mistakes, which are said, wants none. */
static uint64_t read_shards(const char *path)
{
    struct relay_config config;
    uint64_t shards;

    if (relay_config_read(path, &config) < 0)
        return 0;
    shards = config.shards;
    relay_config_free(&config);
    return shards;
}

/* Until a signal ends it; SIGHUP begins the shards that the file has more. */
static int run_workers(struct worker *workers, const struct request *request,
                       const sigset_t *signals)
{
    const uint64_t one = 1;
    uint64_t started = 0, count = request->config->shards;
    int signal = SIGHUP, r = 0;

    while (r == 0 && signal == SIGHUP) {
        for (; started < count && r == 0; started += r == 0)
            r = pthread_create(&workers[started].thread, NULL, work, &workers[started]);
        if (r == 0)
            sigwait(signals, &signal);
        if (r == 0 && signal == SIGHUP)
            count = read_shards(request->path);
    }
    if (r != 0)
        fail("no thread: %s", strerror(r));
    if (write(workers[0].stop, &one, sizeof(one)) < 0)
        abort(); /* a counter of 0 takes 1 */
    for (uint64_t i = 0; i < started; i++)
        pthread_join(workers[i].thread, NULL);
    return r;
}

/* A shard that ends meanwhile waits for this. */
static char *make_page(void *arg)
{
    struct worker *workers = arg;
    struct relay_metrics shards[RELAY_SHARDS_MAX] = { { 0 } };
    size_t count = 0;
    char *page;

    for (unsigned i = 0; i < RELAY_SHARDS_MAX; i++) {
        pthread_mutex_lock(&workers[i].lock);
        if (workers[i].shard)
            shards[count++] = (struct relay_metrics){ .shard = workers[i].number,
                                                      .counts = &workers[i].shard->counts,
                                                      .store = workers[i].store };
    }
    page = relay_metrics_page(workers[0].config, shards, count);
    for (unsigned i = 0; i < RELAY_SHARDS_MAX; i++)
        pthread_mutex_unlock(&workers[i].lock);
    return page;
}

/* With the metrics beside them, if they are wanted. */
static int run_watched(struct worker *workers, const struct request *request,
                       const sigset_t *signals)
{
    const struct relay_config *config = request->config;
    struct relay_http http;
    int r = 0;

    if (*config->metrics)
        r = relay_http_begin(&http, config->metrics, make_page, workers);
    if (r < 0)
        return fail("metrics: cannot listen at %s: %s", config->metrics, strerror(-r));
    r = run_workers(workers, request, signals);
    if (*config->metrics)
        relay_http_end(&http);
    return r;
}

int command_run(const struct request *request)
{
    struct worker workers[RELAY_SHARDS_MAX] = { { 0 } };
    atomic_bool failed = false;
    sigset_t signals;
    uint64_t life = 0;
    int lock, stop, r;

    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL); /* before the lock tells others where to send one */
    relay_log_begin();
    lock = take_lock(request->config);
    if (lock < 0)
        return FAILED;
    stop = eventfd(0, EFD_CLOEXEC);
    if (stop < 0 || getrandom(&life, sizeof(life), 0) != (ssize_t)sizeof(life))
        return fail("the system refuses: %s", strerror(errno));
    for (unsigned i = 0; i < RELAY_SHARDS_MAX; i++)
        workers[i] = (struct worker){
            .config = request->config,
            .number = i,
            .stop = stop,
            .life = life,
            .failed = &failed,
            .lock = PTHREAD_MUTEX_INITIALIZER,
        };
    r = run_watched(workers, request, &signals);
    close(stop);
    close(lock);
    return r == 0 && !atomic_load(&failed) ? 0 : FAILED;
}
