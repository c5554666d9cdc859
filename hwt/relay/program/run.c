/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/program/program.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hwt/relay/program/http.h"
#include "hwt/relay/log.h"
#include "hwt/relay/program/metrics.h"
#include "hwt/relay/program/notify.h"
#include "hwt/relay/program/worker.h"

/* A loop that has not turned for so long is taken to stand still for good: no call of a broker waits so long. With a
 * watchdog it is half of the time of that. */
#define STILL_MAX HWT_SEC(60)

/* A configuration that was read anew. Settings that it does not take are as before, so their texts stay. */
struct reloaded {
    struct relay_config config;
    struct reloaded *before;
};

struct relay {
    const char *path; /* of the configuration */
    struct relay_process process;
    struct relay_worker workers[RELAY_SHARDS_MAX];
    struct reloaded *reloaded; /* the newest one; NULL: none */
    uint64_t started;          /* workers; the main thread's own */
    uint64_t watchdog;         /* ns; 0: there is none */
    bool is_up;                /* all stores have been opened, which the service manager knows */
    char said[256];            /* to it, of the state */
};

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

/* ---- What is served. A shard that ends meanwhile waits for it ---- */

static char *make_metrics(void *arg, bool *ret_well)
{
    struct relay *relay = arg;
    struct relay_metrics shards[RELAY_SHARDS_MAX];
    size_t count = 0;
    char *page;

    (void)ret_well;
    for (unsigned i = 0; i < RELAY_SHARDS_MAX; i++) {
        struct relay_worker *worker = &relay->workers[i];
        pthread_mutex_lock(&worker->lock);
        if (worker->begun)
            shards[count++] =
                (struct relay_metrics){ .shard = i,
                                        .counts = worker->shard ? &worker->shard->counts : NULL,
                                        .store = worker->store,
                                        .errors = &worker->errors,
                                        .unready = relay_worker_unready(worker) };
    }
    page = relay_metrics_page(relay->workers[0].config, shards, count);
    for (unsigned i = 0; i < RELAY_SHARDS_MAX; i++)
        pthread_mutex_unlock(&relay->workers[i].lock);
    return page;
}

static char *make_ready(void *arg, bool *ret_well)
{
    struct relay *relay = arg;
    char text[RELAY_SHARDS_MAX * 128] = "";
    size_t length = 0;

    for (unsigned i = 0; i < RELAY_SHARDS_MAX; i++) {
        struct relay_worker *worker = &relay->workers[i];
        pthread_mutex_lock(&worker->lock);
        enum relay_unready unready = worker->begun ? relay_worker_unready(worker) : RELAY_READY;
        pthread_mutex_unlock(&worker->lock);
        if (unready != RELAY_READY)
            length += (size_t)snprintf(text + length, sizeof(text) - length, "shard %u: %s\n", i,
                                       relay_whys[unready].text);
    }
    *ret_well = length == 0;
    return strdup(length > 0 ? text : "ready\n");
}

/* The first shard whose loop stands still, and for how long; or 0. */
static uint64_t find_still(const struct relay *relay, unsigned *ret_shard)
{
    const uint64_t most = relay->watchdog > 0 ? relay->watchdog / 2 : STILL_MAX;

    for (unsigned i = 0; i < RELAY_SHARDS_MAX; i++) {
        uint64_t still = relay_worker_still(&relay->workers[i]);
        *ret_shard = i;
        if (still > most)
            return still;
    }
    return 0;
}

static char *make_health(void *arg, bool *ret_well)
{
    char text[128] = "well\n";
    unsigned shard;
    uint64_t still = find_still(arg, &shard);

    *ret_well = still == 0;
    if (still > 0)
        snprintf(text, sizeof(text), "shard %u has stood still for %" PRIu64 " s\n", shard,
                 still / HWT_SEC(1));
    return strdup(text);
}

static const struct relay_http_page pages[] = {
    { "/metrics", make_metrics },
    { "/readyz", make_ready },
    { "/healthz", make_health },
    { NULL, NULL },
};

/* ---- What the service manager hears ---- */

/* Whether all stores were open at a moment. */
static bool are_open(const struct relay *relay)
{
    for (uint64_t i = 0; i < relay->started; i++)
        if (relay_count_get(&relay->workers[i].turned) == 0)
            return false;
    return true;
}

/* How many shards it owns, and why it is not ready for the first one that is not. */
static void write_state(struct relay *relay, char *state, size_t room)
{
    enum relay_unready why = RELAY_READY;
    unsigned owned = 0;

    for (uint64_t i = 0; i < relay->started; i++) {
        struct relay_worker *worker = &relay->workers[i];
        pthread_mutex_lock(&worker->lock);
        owned += worker->shard && relay_count_get(&worker->shard->counts.owns) > 0;
        if (why == RELAY_READY)
            why = relay_worker_unready(worker);
        pthread_mutex_unlock(&worker->lock);
    }
    snprintf(state, room, "owns %u of %" PRIu64 " shards; %s", owned, relay->started,
             relay_whys[why].text);
}

/* The watchdog hears of it only while each shard's loop turns. */
static void tell_manager(struct relay *relay)
{
    char state[sizeof(relay->said)];
    unsigned shard;

    if (!relay->is_up && are_open(relay)) {
        relay->is_up = true;
        relay_notify("READY=1");
    }
    write_state(relay, state, sizeof(state));
    if (strcmp(state, relay->said) != 0)
        relay_notify("STATUS=%s", strcpy(relay->said, state));
    if (relay->watchdog > 0 && find_still(relay, &shard) == 0)
        relay_notify("WATCHDOG=1");
}

static void tell_reload(bool begins)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    if (begins)
        relay_notify("RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
                     (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000);
    else
        relay_notify("READY=1");
}

/* ---- The main thread ---- */

static void begin_more(struct relay *relay)
{
    uint64_t wanted = atomic_load(&relay->process.config)->shards;

    for (; relay->started < wanted; relay->started++) {
        int r = relay_worker_begin(&relay->workers[relay->started]);
        if (r < 0) {
            relay_log(RELAY_NO_SHARD, RELAY_ERROR "no thread: %s", strerror(-r));
            atomic_store(&relay->process.failed, true);
            kill(getpid(), SIGTERM);
            return;
        }
    }
}

static void tell_all(struct relay *relay)
{
    for (uint64_t i = 0; i < relay->started; i++)
        relay_worker_tell(&relay->workers[i]);
}

static void say_differs(const char *name, void *taken)
{
    bool *any = taken;

    if (strcmp(name, "targets") == 0 || strcmp(name, "shards") == 0)
        *any = true;
    else
        relay_log(RELAY_NO_SHARD, "%s has changed, which is not taken before a new start", name);
}

/* Of a configuration that was changed, `targets` and more `shards` are taken. */
static void reload(struct relay *relay)
{
    const struct relay_config *now = atomic_load(&relay->process.config);
    struct reloaded *fresh = calloc(1, sizeof(*fresh));
    struct relay_config taken = *now;
    bool any = false;

    if (!fresh || relay_config_read(relay->path, &fresh->config) < 0) {
        relay_log(RELAY_NO_SHARD, "%s cannot be read, so nothing of it is taken", relay->path);
        free(fresh);
        return;
    }
    relay_config_compare(now, &fresh->config, say_differs, &any);
    if (fresh->config.shards < now->shards)
        relay_log(RELAY_NO_SHARD, "shards is lowered, which is not taken before a new start");
    else
        taken.shards = fresh->config.shards;
    taken.targets = fresh->config.targets;
    taken.text = fresh->config.text;
    *fresh = (struct reloaded){ taken, relay->reloaded };
    relay->reloaded = fresh;
    atomic_store(&relay->process.config, &fresh->config);
    relay_log(RELAY_NO_SHARD, RELAY_NOTICE "%s was read again: %s", relay->path,
              any ? "its targets and shards are taken" : "targets and shards are as before");
    tell_all(relay);
    begin_more(relay);
}

/* Until a signal ends it. */
static void wait_for_end(struct relay *relay, const sigset_t *signals)
{
    const uint64_t turn =
        relay_min(HWT_SEC(1), relay->watchdog > 0 ? relay->watchdog / 4 : HWT_SEC(1));
    const struct timespec time = { .tv_sec = (time_t)(turn / HWT_SEC(1)),
                                   .tv_nsec = (long)(turn % HWT_SEC(1)) };
    int signal;

    begin_more(relay);
    for (;;) {
        tell_manager(relay);
        signal = sigtimedwait(signals, NULL, &time);
        if (signal > 0 && signal != SIGHUP)
            return;
        if (signal != SIGHUP)
            continue;
        tell_reload(true);
        reload(relay);
        tell_reload(false);
    }
}

static int serve(struct relay *relay, const sigset_t *signals)
{
    const char *address = atomic_load(&relay->process.config)->metrics;
    struct relay_http http;
    int r = 0;

    if (*address)
        r = relay_http_begin(&http, address, pages, relay);
    if (r < 0)
        return fail("metrics: cannot listen at %s: %s", address, strerror(-r));
    wait_for_end(relay, signals);
    relay_notify("STOPPING=1\nSTATUS=drains");
    atomic_store(&relay->process.ends, true);
    tell_all(relay);
    for (unsigned i = 0; i < RELAY_SHARDS_MAX; i++)
        relay_worker_end(&relay->workers[i]);
    if (*address)
        relay_http_end(&http);
    return atomic_load(&relay->process.failed) ? FAILED : 0;
}

static void free_reloaded(struct relay *relay)
{
    while (relay->reloaded) {
        struct reloaded *before = relay->reloaded->before;
        relay_config_free(&relay->reloaded->config);
        free(relay->reloaded);
        relay->reloaded = before;
    }
}

int command_run(const struct request *request)
{
    static struct relay relay; /* one a process; its workers are large */
    sigset_t signals;
    uint64_t life = 0;
    int lock, r;

    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL); /* before the lock tells others where to send one */
    relay_log_begin();
    lock = take_lock(request->config);
    if (lock < 0)
        return FAILED;
    if (getrandom(&life, sizeof(life), 0) != (ssize_t)sizeof(life))
        return fail("the system refuses: %s", strerror(errno));
    relay.path = request->path;
    relay.watchdog = relay_notify_watchdog();
    atomic_store(&relay.process.config, request->config);
    for (unsigned i = 0; i < RELAY_SHARDS_MAX; i++) {
        r = relay_worker_init(&relay.workers[i], &relay.process, i, life);
        if (r < 0)
            return fail("the system refuses: %s", strerror(-r));
    }
    r = serve(&relay, &signals);
    free_reloaded(&relay);
    close(lock);
    return r;
}
