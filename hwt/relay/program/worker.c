/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/program/worker.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "hwt/relay/log.h"
#include "hwt/relay/open.h"

enum { TURN_MS = 10000 };

static uint64_t boottime(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return HWT_SEC((uint64_t)now.tv_sec) + (uint64_t)now.tv_nsec;
}

/* Until a descriptor is readable, or there are news. */
static void wait_for(struct relay_worker *worker, int fd, int other, uint64_t time)
{
    struct pollfd fds[] = { { .fd = worker->news, .events = POLLIN },
                            { .fd = fd, .events = POLLIN },
                            { .fd = other, .events = POLLIN } };
    uint64_t ms = time / 1000000 + 1, count;

    poll(fds, 3, ms > TURN_MS ? TURN_MS : (int)ms);
    if ((fds[0].revents & POLLIN) != 0 && read(worker->news, &count, sizeof(count)) < 0)
        abort(); /* it is readable */
    worker->ends = atomic_load(&worker->process->ends);
    relay_count_set(&worker->turned, boottime());
}

static int open_store(struct relay_worker *worker)
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

static void open_engine(struct relay_worker *worker)
{
    int r = relay_engine_open(worker->config, worker->number, &worker->engine);

    relay_calls_opened(&worker->errors, r);
    if (r == 0)
        relay_calls_watch(worker->engine, worker->number, &worker->errors);
    else
        wait_for(worker, -1, -1, HWT_SEC(1));
}

static int open_shard(struct relay_worker *worker)
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

/* The counts by patterns belong to the configuration. */
static void take_config(struct relay_worker *worker)
{
    const struct relay_config *config = atomic_load(&worker->process->config);
    char targets[512] = "";

    if (config == worker->config)
        return;
    pthread_mutex_lock(&worker->lock);
    worker->config = config;
    relay_shard_configure(worker->shard, config);
    pthread_mutex_unlock(&worker->lock);
    for (size_t i = 0, length = 0; i < config->targets.count && length < sizeof(targets); i++)
        length += (size_t)snprintf(targets + length, sizeof(targets) - length, " %s",
                                   config->targets.word[i]);
    relay_log(worker->number, RELAY_NOTICE "the targets are now%s", targets);
}

/* Until it is over, or fails. */
static int drive(struct relay_worker *worker)
{
    struct relay_shard *shard = worker->shard;
    struct relay_engine *engine = worker->engine;
    int r = 0;

    for (;;) {
        take_config(worker);
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
static void close_shard(struct relay_worker *worker)
{
    struct relay_shard *shard = worker->shard;

    pthread_mutex_lock(&worker->lock);
    worker->shard = NULL;
    pthread_mutex_unlock(&worker->lock);
    relay_shard_close(shard);
}

static void say_shards(struct relay_worker *worker)
{
    char fault[RELAY_ENTRY_MAX];

    relay_engine_shards_fault(worker->config, worker->engine, fault);
    if (*fault)
        relay_log(worker->number, RELAY_ERROR "%s", fault);
}

/* From the opening of the store to its end. */
static int live(struct relay_worker *worker)
{
    int r = open_store(worker);

    if (relay_is_for_now(r)) {
        wait_for(worker, -1, -1, HWT_SEC(1));
        return 0;
    }
    if (r < 0)
        return r;
    relay_count_set(&worker->turned, boottime());
    while (!worker->engine && !worker->ends)
        open_engine(worker);
    if (worker->engine && worker->number == 0)
        say_shards(worker);
    if (worker->engine)
        r = open_shard(worker);
    if (worker->engine && r == 0) {
        r = drive(worker);
        close_shard(worker);
    }
    relay_count_set(&worker->turned, 0);
    if (hwt_delay_close(worker->store) < 0 && r == 0)
        r = -EIO;
    return r;
}

static void *work(void *arg)
{
    struct relay_worker *worker = arg;
    char name[16];
    int r = 0;

    snprintf(name, sizeof(name), "shard %u", worker->number);
    pthread_setname_np(pthread_self(), name); /* for who looks at the process from outside */
    while (r == 0 && !worker->ends)
        r = live(worker);
    if (worker->engine)
        worker->engine->calls->close(worker->engine);
    relay_log(worker->number, r < 0 ? RELAY_ERROR "ended by an error" : RELAY_INFO "ended");
    if (r < 0) {
        atomic_store(&worker->process->failed, true);
        kill(getpid(), SIGTERM); /* so that the others drain */
    }
    return NULL;
}

int relay_worker_init(struct relay_worker *worker, struct relay_process *process, unsigned number,
                      uint64_t life)
{
    *worker = (struct relay_worker){
        .process = process,
        .config = atomic_load(&process->config),
        .number = number,
        .news = eventfd(0, EFD_CLOEXEC),
        .life = life,
        .lock = PTHREAD_MUTEX_INITIALIZER,
    };
    return worker->news < 0 ? -errno : 0;
}

int relay_worker_begin(struct relay_worker *worker)
{
    int r;

    pthread_mutex_lock(&worker->lock);
    worker->config = atomic_load(&worker->process->config);
    r = pthread_create(&worker->thread, NULL, work, worker);
    worker->begun = r == 0;
    pthread_mutex_unlock(&worker->lock);
    return -r;
}

void relay_worker_tell(struct relay_worker *worker)
{
    const uint64_t one = 1;

    if (write(worker->news, &one, sizeof(one)) < 0)
        abort(); /* a counter takes 1 */
}

void relay_worker_end(struct relay_worker *worker)
{
    if (worker->begun)
        pthread_join(worker->thread, NULL);
    close(worker->news);
}

uint64_t relay_worker_still(const struct relay_worker *worker)
{
    uint64_t turned = relay_count_get(&worker->turned), now = boottime();

    return turned > 0 && now > turned ? now - turned : 0;
}

enum relay_unready relay_worker_unready(const struct relay_worker *worker)
{
    if (relay_calls_fail(&worker->errors))
        return RELAY_NO_BROKER;
    return worker->shard ? (enum relay_unready)relay_count_get(&worker->shard->counts.unready)
                         : RELAY_OPENS;
}
