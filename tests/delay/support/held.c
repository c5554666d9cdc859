/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Players, and the seam's functions for them. See held.h. */

#include "tests/delay/support/held.h"

#include <errno.h>
#include <time.h>

#include "kit.h"

static const time_t patience = 60; /* seconds in which anything would have happened */

_Atomic uint64_t held_realtime, held_boottime;
bool held_sleep_is_a_point;
_Atomic unsigned held_sleeps;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t disk_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local struct player *self;
static struct hwt_delay_system inner;

int __real_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);

void __real_hwt_delay_sleep_on(_Atomic uint32_t *word, uint32_t seen);
void __wrap_hwt_delay_sleep_on(_Atomic uint32_t *word, uint32_t seen);

/* ---- players ---- */

static void set_state(enum player_state state)
{
    pthread_mutex_lock(&lock);
    self->state = state;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    if (self)
        set_state(WAITS);
    int r = __real_pthread_cond_wait(cond, mutex);
    if (self)
        set_state(GOES);
    return r;
}

void __wrap_hwt_delay_sleep_on(_Atomic uint32_t *word, uint32_t seen)
{
    if (held_sleep_is_a_point)
        held_pass("before it sleeps");
    if (self)
        set_state(WAITS);
    /* Relaxed: it orders nothing between the threads that are looked at. */
    atomic_fetch_add_explicit(&held_sleeps, 1, memory_order_relaxed);
    __real_hwt_delay_sleep_on(word, seen);
    if (self)
        set_state(GOES);
    if (held_sleep_is_a_point)
        held_pass("behind its sleep");
}

void held_pass(const char *point)
{
    if (!self)
        return;
    pthread_mutex_lock(&lock);
    self->point = point;
    if (self->steps > 0 && --self->steps == 0) {
        self->state = STANDS;
        pthread_cond_broadcast(&changed);
        while (self->state == STANDS)
            __real_pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
}

static void *play(void *arg)
{
    self = arg;
    self->part(self);
    set_state(RETURNED);
    return NULL;
}

void player_begin(struct player *player, void (*part)(struct player *player), int operation,
                  uint64_t steps)
{
    *player = (struct player){ .part = part, .operation = operation, .steps = steps };
    player->point = "the beginning";
    player->thread = spawn(play, player);
}

enum player_state player_await(struct player *player, bool or_waits)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += patience;
    pthread_mutex_lock(&lock);
    while (player->state == GOES || (player->state == WAITS && !or_waits)) {
        if (pthread_cond_timedwait(&changed, &lock, &until) == ETIMEDOUT)
            ck_abort_msg("a thread goes on for ever; it was last %s", player->point);
    }
    enum player_state state = player->state;
    pthread_mutex_unlock(&lock);
    return state;
}

void player_let_go(struct player *player)
{
    pthread_mutex_lock(&lock);
    player->steps = 0;
    if (player->state == STANDS)
        player->state = GOES;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

void player_end(struct player *player)
{
    player_let_go(player);
    must(player_await(player, false) == RETURNED);
    join(player->thread);
}

/* ---- the seam ---- */

static _Thread_local bool inside;

bool held_is_inside(void)
{
    return inside;
}

void held_kill(struct process *process)
{
    pthread_mutex_lock(&disk_lock);
    process->dead = true;
    pthread_mutex_unlock(&disk_lock);
}

void held_fail(struct process *process, enum disk_call call)
{
    pthread_mutex_lock(&disk_lock);
    process->fail_with = -EIO;
    process->fail_only = 1u << call;
    process->fail_at = process->calls + 1;
    process->fail_count = 1;
    pthread_mutex_unlock(&disk_lock);
}

static void enter(const char *point)
{
    held_pass(point);
    pthread_mutex_lock(&disk_lock);
    inside = true;
}

static int64_t leave(const char *point, int64_t r)
{
    inside = false;
    pthread_mutex_unlock(&disk_lock);
    held_pass(point);
    return r;
}

static int open_file(void *data, int directory, const char *name, int flags)
{
    enter("before an open");
    return (int)leave("behind an open", inner.open(data, directory, name, flags));
}

static void close_file(void *data, int file)
{
    pthread_mutex_lock(&disk_lock);
    inner.close(data, file);
    pthread_mutex_unlock(&disk_lock);
}

static int64_t read_file(void *data, int file, void *buffer, size_t size, uint64_t offset)
{
    enter("before a read");
    return leave("behind a read", inner.read(data, file, buffer, size, offset));
}

static int64_t write_file(void *data, int file, const void *bytes, size_t size, uint64_t offset)
{
    enter("before a write");
    return leave("behind a write", inner.write(data, file, bytes, size, offset));
}

static int sync_file(void *data, int file)
{
    enter("before a sync");
    return (int)leave("behind a sync", inner.sync(data, file));
}

static int sync_directory(void *data, int directory)
{
    enter("before the directory's sync");
    return (int)leave("behind the directory's sync", inner.sync_directory(data, directory));
}

static int truncate_file(void *data, int file, uint64_t size)
{
    enter("before a truncate");
    return (int)leave("behind a truncate", inner.truncate(data, file, size));
}

static int allocate(void *data, int file, uint64_t size)
{
    enter("before an allocate");
    return (int)leave("behind an allocate", inner.allocate(data, file, size));
}

static int64_t size_of(void *data, int file)
{
    pthread_mutex_lock(&disk_lock);
    int64_t size = inner.size(data, file);
    pthread_mutex_unlock(&disk_lock);
    return size;
}

static int rename_file(void *data, int directory, const char *from, const char *to)
{
    enter("before a rename");
    return (int)leave("behind a rename", inner.rename(data, directory, from, to));
}

static int unlink_file(void *data, int directory, const char *name)
{
    enter("before an unlink");
    return (int)leave("behind an unlink", inner.unlink(data, directory, name));
}

static uint64_t realtime(void *data)
{
    (void)data;
    return held_realtime;
}

static uint64_t boottime(void *data)
{
    (void)data;
    return held_boottime;
}

void held_clocks(struct process *process)
{
    process->system.realtime = realtime;
    process->system.boottime = boottime;
}

void held_start(struct process *process, struct disk *disk)
{
    static uint64_t none; /* the clocks of this file are read in their place */
    process_start(process, disk, &none, &none);
    inner = process->system;
    struct hwt_delay_system *system = &process->system;
    system->open = open_file;
    system->close = close_file;
    system->read = read_file;
    system->write = write_file;
    system->sync = sync_file;
    system->sync_directory = sync_directory;
    system->truncate = truncate_file;
    system->allocate = allocate;
    system->size = size_of;
    system->rename = rename_file;
    system->unlink = unlink_file;
    held_clocks(process);
}

struct disk *held_crashed(const struct process *process, uint64_t *random)
{
    pthread_mutex_lock(&disk_lock);
    struct disk *left = disk_crashed(process->disk, random);
    pthread_mutex_unlock(&disk_lock);
    return left;
}
