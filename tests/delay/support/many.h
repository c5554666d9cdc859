/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_DELAY_SUPPORT_MANY_H
#define HWT_TESTS_DELAY_SUPPORT_MANY_H

/*
 * Many stores in a process. The disk is the real one behind a door for each store: a call of the kind that is held
 * stands there. What must go on meanwhile is waited for; nothing is decided by time.
 */

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hwt/delay/whole.h"
#include "kit.h"

enum { STORES = 100 };

/* ---- doors ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

struct door {
    bool closed;
    unsigned standing; /* threads */
};

static inline void pass(struct door *door)
{
    pthread_mutex_lock(&lock);
    door->standing++;
    pthread_cond_broadcast(&changed);
    while (door->closed)
        pthread_cond_wait(&changed, &lock);
    door->standing--;
    pthread_mutex_unlock(&lock);
}

static inline void set_door(struct door *door, bool closed)
{
    pthread_mutex_lock(&lock);
    door->closed = closed;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static inline void await_standing(struct door *door)
{
    pthread_mutex_lock(&lock);
    while (door->standing == 0)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

/* ---- stores ---- */

struct one {
    struct hwt_delay_system system;
    struct door syncs, slots; /* flushes; making and reading of slots */
    char path[96];
    hwt_delay *store;
    _Atomic int told;        /* callbacks */
    _Atomic uint64_t passed; /* by its clocks, besides the real time */
};

static char directory[64];
static struct one ones[STORES];

static inline int sync_file(void *data, int file)
{
    pass(&((struct one *)data)->syncs);
    return hwt_delay_real_system.sync(NULL, file);
}

static inline int open_file(void *data, int at, const char *name, int flags)
{
    if (strncmp(name, "slot-", 5) == 0)
        pass(&((struct one *)data)->slots);
    return hwt_delay_real_system.open(NULL, at, name, flags);
}

static inline uint64_t realtime(void *data)
{
    return hwt_delay_real_system.realtime(NULL) + ((struct one *)data)->passed;
}

static inline uint64_t boottime(void *data)
{
    return hwt_delay_real_system.boottime(NULL) + ((struct one *)data)->passed;
}

static inline int open_one(struct one *one)
{
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    options.flags = HWT_DELAY_CREATE;
    options.payload_max = 8192;
    options.memory = 1 << 20;
    options.segment_size = 64 << 10;
    return hwt_delay_open_on(one->path, &options, &one->system, false, &one->store);
}

static inline void begin(void)
{
    strcpy(directory, "/tmp/hwt-many-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    memset(ones, 0, sizeof(ones));
    for (int i = 0; i < STORES; i++) {
        ones[i].system = hwt_delay_real_system;
        ones[i].system.data = &ones[i];
        ones[i].system.sync = sync_file;
        ones[i].system.open = open_file;
        ones[i].system.realtime = realtime;
        ones[i].system.boottime = boottime;
        snprintf(ones[i].path, sizeof(ones[i].path), "%s/%d", directory, i);
    }
}

static inline void end(void)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", directory);
    ck_assert_int_eq(system(command), 0);
}

static inline void open_many(int count)
{
    for (int i = 0; i < count; i++)
        ck_assert_int_eq(open_one(&ones[i]), 0);
}

static inline void close_one(struct one *one)
{
    ck_assert_int_eq(hwt_delay_close(one->store), 0);
    one->store = NULL;
}

static inline hwt_delay_message message_of(struct one *one, uint64_t delay, const uint32_t *id)
{
    static const char payload[4000];
    return (hwt_delay_message){
        .due = hwt_delay_now(one->store) + delay,
        .id = id,
        .id_size = sizeof(*id),
        .payload = payload,
        .payload_size = sizeof(payload),
    };
}

static inline void put(struct one *one, uint64_t delay, uint32_t id)
{
    const hwt_delay_message message = message_of(one, delay, &id);
    must(hwt_delay_put(one->store, &message, 1) == 0);
}

static inline void note_told(int result, void *arg)
{
    struct one *one = arg;
    must(result == 0);
    one->told++;
}

static inline void put_async(struct one *one, uint32_t id, hwt_delay_durable durable)
{
    const hwt_delay_message message = message_of(one, HWT_MIN(60), &id);
    must(hwt_delay_put_async(one->store, &message, 1, durable, one) == 0);
}

static inline void await_told(struct one *one, int count)
{
    while (one->told < count)
        usleep(200);
}

static inline void take_and_finish(struct one *one)
{
    const hwt_delay_message *taken;
    must(hwt_delay_take(one->store, 1, HWT_NEVER, &taken) == 1);
    must(hwt_delay_done(one->store, &taken->lease, 1) == 1);
    hwt_delay_free(taken);
}

/* ---- what a process has ---- */

static inline int entries(const char *path)
{
    DIR *stream = opendir(path);
    int count = 0;
    ck_assert_ptr_nonnull(stream);
    while (readdir(stream))
        count++;
    closedir(stream);
    return count - 2;
}

/* Of the stores: a sanitizer has some of its own. */
static inline int threads(void)
{
    DIR *stream = opendir("/proc/self/task");
    const struct dirent *entry;
    int count = 0;
    ck_assert_ptr_nonnull(stream);
    while ((entry = readdir(stream))) {
        char path[300], name[16] = "";
        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        if (file && fgets(name, sizeof(name), file))
            count += strcmp(name, "hwt-delay\n") == 0;
        if (file)
            fclose(file);
    }
    closedir(stream);
    return count;
}

/* One that was joined may be there for an instant. */
static inline void await_no_threads(void)
{
    while (threads() > 0)
        usleep(1000);
}

static inline int descriptors(void)
{
    return entries("/proc/self/fd");
}

/* ---- what a store does ---- */

/* All that a store does: as long as others are held, too. */
static inline void expect_to_work(struct one *one)
{
    int told = one->told;
    put(one, 0, 1);
    put_async(one, 2, note_told);
    await_told(one, told + 1);
    take_and_finish(one);
    for (uint32_t i = 0; i < 40; i++) /* more than the log has room for, so a checkpoint is made */
        put(one, HWT_MIN(60), 1000 + i);
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    must(hwt_delay_get_stats(one->store, &stats) == 0);
    must(stats.checkpoints > 0);
    close_one(one);
    must(open_one(one) == 0);
}

static struct door callbacks;

static inline void stand(int result, void *arg)
{
    pass(&callbacks);
    note_told(result, arg);
}

#endif
