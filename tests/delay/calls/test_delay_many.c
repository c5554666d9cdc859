/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Many stores in a process: what they cost, and that none waits for another one's disk or callback; and
 * when the jobs of their threads run.
 *
 * The disk is the real one behind a door for each store: a call of the kind that is held stands
 * there. What must go on meanwhile is waited for; nothing is decided by time.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "children.h"
#include "hwt/delay/whole.h"
#include "kit.h"

enum { STORES = 100, THREADS_MAX = 7, HELD = 4 };

/* ---- doors ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

struct door {
    bool closed;
    unsigned standing; /* threads */
};

static void pass(struct door *door)
{
    pthread_mutex_lock(&lock);
    door->standing++;
    pthread_cond_broadcast(&changed);
    while (door->closed)
        pthread_cond_wait(&changed, &lock);
    door->standing--;
    pthread_mutex_unlock(&lock);
}

static void set_door(struct door *door, bool closed)
{
    pthread_mutex_lock(&lock);
    door->closed = closed;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void await_standing(struct door *door)
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
    _Atomic int told; /* callbacks */
};

static char directory[64];
static struct one ones[STORES];

static int sync_file(void *data, int file)
{
    pass(&((struct one *)data)->syncs);
    return hwt_delay_real_system.sync(NULL, file);
}

static int open_file(void *data, int at, const char *name, int flags)
{
    if (strncmp(name, "slot-", 5) == 0)
        pass(&((struct one *)data)->slots);
    return hwt_delay_real_system.open(NULL, at, name, flags);
}

static int open_one(struct one *one)
{
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    options.flags = HWT_DELAY_CREATE;
    options.payload_max = 8192;
    options.memory = 1 << 20;
    options.segment_size = 64 << 10;
    return hwt_delay_open_on(one->path, &options, &one->system, false, &one->store);
}

static void begin(void)
{
    strcpy(directory, "/tmp/hwt-many-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    memset(ones, 0, sizeof(ones));
    for (int i = 0; i < STORES; i++) {
        ones[i].system = hwt_delay_real_system;
        ones[i].system.data = &ones[i];
        ones[i].system.sync = sync_file;
        ones[i].system.open = open_file;
        snprintf(ones[i].path, sizeof(ones[i].path), "%s/%d", directory, i);
    }
}

static void end(void)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", directory);
    ck_assert_int_eq(system(command), 0);
}

static void open_many(int count)
{
    for (int i = 0; i < count; i++)
        ck_assert_int_eq(open_one(&ones[i]), 0);
}

static void close_one(struct one *one)
{
    ck_assert_int_eq(hwt_delay_close(one->store), 0);
    one->store = NULL;
}

static hwt_delay_message message_of(struct one *one, uint64_t delay, const uint32_t *id)
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

static void put(struct one *one, uint64_t delay, uint32_t id)
{
    const hwt_delay_message message = message_of(one, delay, &id);
    must(hwt_delay_put(one->store, &message, 1) == 0);
}

static void note_told(int result, void *arg)
{
    struct one *one = arg;
    must(result == 0);
    one->told++;
}

static void put_async(struct one *one, uint32_t id, hwt_delay_durable durable)
{
    const hwt_delay_message message = message_of(one, HWT_MIN(60), &id);
    must(hwt_delay_put_async(one->store, &message, 1, durable, one) == 0);
}

static void await_told(struct one *one, int count)
{
    while (one->told < count)
        usleep(200);
}

static void take_and_finish(struct one *one)
{
    const hwt_delay_message *taken;
    must(hwt_delay_take(one->store, 1, HWT_NEVER, &taken) == 1);
    must(hwt_delay_done(one->store, &taken->lease, 1) == 1);
    hwt_delay_free(taken);
}

/* ---- what a process has ---- */

static int entries(const char *path)
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
static int threads(void)
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
static void await_no_threads(void)
{
    while (threads() > 0)
        usleep(1000);
}

static int descriptors(void)
{
    return entries("/proc/self/fd");
}

static uint64_t disk_of(const char *path)
{
    uint64_t bytes = 0;
    DIR *stream = opendir(path);
    const struct dirent *entry;
    struct stat status;
    ck_assert_ptr_nonnull(stream);
    while ((entry = readdir(stream))) {
        if (strcmp(entry->d_name, "..") == 0)
            continue;
        ck_assert_int_eq(fstatat(dirfd(stream), entry->d_name, &status, 0), 0);
        bytes += (uint64_t)status.st_blocks * 512;
    }
    closedir(stream);
    return bytes;
}

/* ---- a hundred ---- */

static void close_at_random(void)
{
    static uint64_t seed;
    seed = test_seed_choose();
    printf("seed %" PRIu64 "\n", seed);
    for (int left = STORES; left > 0; left--) {
        int n = (int)(test_random(&seed) % (uint64_t)left);
        for (int i = 0; i < STORES; i++) {
            if (!ones[i].store || n-- > 0)
                continue;
            close_one(&ones[i]);
            break;
        }
    }
}

START_TEST(test_a_hundred_stores_cost_little)
{
    int before = descriptors();
    uint64_t disk = 0;
    open_many(STORES);
    for (int i = 0; i < STORES; i++)
        disk += disk_of(ones[i].path);
    ck_assert_uint_le(disk, UINT64_C(100) << 20);
    for (int i = 0; i < STORES; i++) {
        ck_assert_int_ge(hwt_delay_fd(ones[i].store), 0);
        put(&ones[i], 0, 1);
        put_async(&ones[i], 2, note_told);
        take_and_finish(&ones[i]);
    }
    for (int i = 0; i < STORES; i++)
        await_told(&ones[i], 1);
    ck_assert_int_le(threads(), THREADS_MAX);
    ck_assert_int_le(descriptors(), before + 6 * STORES);
    printf("%d threads, %d descriptors, %" PRIu64 " bytes of disk when empty\n", threads(),
           descriptors(), disk);
    close_at_random();
    await_no_threads();
    ck_assert_int_eq(descriptors(), before);
}
END_TEST

static _Atomic bool enough;

/* One store for each of these threads: opened, used and closed again and again. */
static void *live(void *arg)
{
    struct one *one = arg;
    for (uint32_t i = 0; !enough || i < 3; i++) {
        must(open_one(one) == 0);
        put_async(one, i, note_told);
        put(one, 0, i);
        take_and_finish(one);
        if (i % 2 == 0)
            must(hwt_delay_checkpoint(one->store) == 0);
        must(hwt_delay_close(one->store) == 0);
        must(one->told == (int)i + 1);
    }
    return NULL;
}

START_TEST(test_stores_come_and_go_beside_others)
{
    pthread_t lives[6];
    for (int i = 0; i < 6; i++)
        lives[i] = spawn(live, &ones[i]);
    for (int i = 6; i < 26; i++) {
        ck_assert_int_eq(open_one(&ones[i]), 0);
        put_async(&ones[i], 1, note_told);
    }
    for (int i = 25; i >= 6; i--) {
        close_one(&ones[i]);
        ck_assert_int_eq(ones[i].told, 1);
    }
    enough = true;
    for (int i = 0; i < 6; i++)
        join(lives[i]);
    await_no_threads();
}
END_TEST

/* ---- one that stands still ---- */

/* All that a store does: as long as others are held, too. */
static void expect_to_work(struct one *one)
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

START_TEST(test_disks_that_stand_still_hold_nobody_else)
{
    open_many(HELD + 2);
    for (int i = 0; i < HELD; i++) {
        set_door(&ones[i].syncs, true);
        put_async(&ones[i], 1, note_told);
    }
    for (int i = 0; i < HELD; i++)
        await_standing(&ones[i].syncs);
    expect_to_work(&ones[HELD]);
    for (int i = 0; i < HELD; i++) {
        ck_assert_int_eq(ones[i].told, 0);
        set_door(&ones[i].syncs, false);
    }
    for (int i = 0; i < HELD + 2; i++)
        close_one(&ones[i]);
    for (int i = 0; i < HELD; i++)
        ck_assert_int_eq(ones[i].told, 1);
}
END_TEST

/* The first slot of each cannot be made: the thread that makes the checkpoint stands. */
START_TEST(test_checkpoints_that_stand_still_hold_nobody_else)
{
    open_many(HELD + 1);
    for (int i = 0; i < HELD; i++) {
        set_door(&ones[i].slots, true);
        for (uint32_t n = 0; n < 6; n++)
            put(&ones[i], HWT_MIN(60), n);
    }
    for (int i = 0; i < HELD; i++)
        await_standing(&ones[i].slots);
    expect_to_work(&ones[HELD]);
    for (int i = 0; i < HELD; i++)
        set_door(&ones[i].slots, false);
    for (int i = 0; i <= HELD; i++)
        close_one(&ones[i]);
}
END_TEST

/* What is due in two seconds and in a slot is loaded: the thread that loads stands. */
START_TEST(test_loads_that_stand_still_hold_nobody_else)
{
    open_many(HELD + 1);
    for (int i = 0; i < HELD; i++) {
        put(&ones[i], HWT_SEC(4), 1);
        ck_assert_int_eq(hwt_delay_checkpoint(ones[i].store), 0);
        set_door(&ones[i].slots, true);
    }
    for (int i = 0; i < HELD; i++)
        await_standing(&ones[i].slots);
    put(&ones[HELD], HWT_SEC(3), 3);
    ck_assert_int_eq(hwt_delay_checkpoint(ones[HELD].store), 0);
    take_and_finish(&ones[HELD]);
    expect_to_work(&ones[HELD]);
    for (int i = 0; i < HELD; i++) {
        set_door(&ones[i].slots, false);
        take_and_finish(&ones[i]);
    }
    for (int i = 0; i <= HELD; i++)
        close_one(&ones[i]);
}
END_TEST

static struct door callbacks;

static void stand(int result, void *arg)
{
    pass(&callbacks);
    note_told(result, arg);
}

START_TEST(test_callbacks_that_do_not_return_hold_nobody_else)
{
    open_many(HELD + 1);
    set_door(&callbacks, true);
    for (int i = 0; i < HELD; i++)
        put_async(&ones[i], 1, stand);
    pthread_mutex_lock(&lock);
    while (callbacks.standing < HELD)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    expect_to_work(&ones[HELD]);
    set_door(&callbacks, false);
    for (int i = 0; i < HELD; i++)
        await_told(&ones[i], 1);
    while (threads() > THREADS_MAX) /* those that are too many end */
        usleep(1000);
    for (int i = 0; i <= HELD; i++)
        close_one(&ones[i]);
    await_no_threads();
}
END_TEST

/* ---- threads ---- */

static atomic_int threads_to_pass = INT32_MAX;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *arg)
{
    if (atomic_fetch_sub(&threads_to_pass, 1) <= 0)
        return EAGAIN;
    return __real_pthread_create(thread, attributes, run, arg);
}

START_TEST(test_without_threads_a_store_is_not_opened)
{
    int before = descriptors();
    for (int n = 0; n < 4; n++) {
        threads_to_pass = n;
        ck_assert_int_eq(open_one(&ones[0]), -EAGAIN);
        await_no_threads();
        ck_assert_int_eq(descriptors(), before);
    }
    threads_to_pass = 4;
    open_many(2);
    expect_to_work(&ones[0]);
    expect_to_work(&ones[1]);
    threads_to_pass = INT32_MAX;
    close_one(&ones[0]);
    close_one(&ones[1]);
}
END_TEST

/* More threads are refused at first: what waits for one has it once there is one. */
START_TEST(test_threads_that_are_refused_are_asked_for_again)
{
    threads_to_pass = 4;
    open_many(3);
    set_door(&callbacks, true);
    put_async(&ones[0], 1, stand);
    await_standing(&callbacks);
    put_async(&ones[1], 1, note_told);
    while (threads_to_pass > -1) /* it was refused */
        usleep(1000);
    ck_assert_int_eq(ones[1].told, 0);
    threads_to_pass = INT32_MAX;
    await_told(&ones[1], 1);
    set_door(&callbacks, false);
    for (int i = 0; i < 3; i++)
        close_one(&ones[i]);
}
END_TEST

static sigset_t blocked;

static void try_to_end(int result, void *arg)
{
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    pthread_cancel(pthread_self());
    pthread_testcancel();
    note_told(result, arg);
}

START_TEST(test_threads_block_signals_and_cannot_be_cancelled)
{
    static const int raised[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS };
    open_many(1);
    put_async(&ones[0], 1, try_to_end);
    await_told(&ones[0], 1);
    put_async(&ones[0], 2, note_told);
    close_one(&ones[0]);
    ck_assert_int_eq(ones[0].told, 2);
    for (int i = 1; i < 32; i++) {
        bool may = i == SIGKILL || i == SIGSTOP;
        for (size_t n = 0; n < sizeof(raised) / sizeof(*raised); n++)
            may = may || raised[n] == i;
        ck_assert_int_eq(sigismember(&blocked, i), !may);
    }
}
END_TEST

/* The child has none of the threads, and its parent's stores are not its own. */
START_TEST(test_a_child_of_a_fork_has_threads_of_its_own)
{
    open_many(2);
    pid_t child = fork();
    if (child == 0) {
        must(open_one(&ones[2]) == 0);
        put_async(&ones[2], 1, note_told);
        await_told(&ones[2], 1);
        put(&ones[2], 0, 2);
        take_and_finish(&ones[2]);
        close_one(&ones[2]);
        await_no_threads();
        _exit(0);
    }
    expect_to_work(&ones[0]);
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close_one(&ones[0]);
    close_one(&ones[1]);
}
END_TEST

/* A job that sets its next time itself, the first time, and returns another one. */
struct timed {
    struct hwt_delay_job job;
    uint64_t set, returned;
    atomic_int runs;
};

static uint64_t run_timed(void *arg)
{
    struct timed *timed = arg;
    if (atomic_fetch_add(&timed->runs, 1) > 0)
        return HWT_NEVER;
    hwt_delay_job_at(&timed->job, timed->set);
    return timed->returned;
}

/* The earlier one counts, whichever that is. */
START_TEST(test_a_job_runs_at_the_earlier_of_two_times)
{
    const uint64_t soon = HWT_MS(1), late = HWT_MIN(60);
    struct timed timed = { .set = _i == 0 ? soon : late, .returned = _i == 0 ? late : soon };
    struct hwt_delay_pool *pool;
    ck_assert_int_eq(hwt_delay_pool_enter(&pool), 0);
    hwt_delay_job_begin(&timed.job, pool, HWT_DELAY_LOAD, run_timed, &timed);
    hwt_delay_job_want(&timed.job);
    while (atomic_load(&timed.runs) < 2)
        usleep(1000);
    hwt_delay_job_end(&timed.job);
    ck_assert_int_eq(timed.runs, 2);
    hwt_delay_pool_leave(pool);
}
END_TEST

/* Where it is set twice from outside, the last one counts. */
START_TEST(test_a_job_runs_at_the_time_set_last)
{
    struct timed timed = { .runs = 1 };
    struct hwt_delay_pool *pool;
    ck_assert_int_eq(hwt_delay_pool_enter(&pool), 0);
    hwt_delay_job_begin(&timed.job, pool, HWT_DELAY_LOAD, run_timed, &timed);
    hwt_delay_job_at(&timed.job, HWT_MIN(60));
    const uint64_t first = timed.job.at;
    hwt_delay_job_at(&timed.job, HWT_MIN(120));
    ck_assert_uint_ge(timed.job.at, first + HWT_MIN(60));
    hwt_delay_job_at(&timed.job, HWT_NEVER);
    ck_assert_uint_eq(timed.job.at, HWT_NEVER);
    hwt_delay_job_at(&timed.job, HWT_MS(1));
    while (atomic_load(&timed.runs) < 2)
        usleep(1000);
    hwt_delay_job_end(&timed.job);
    hwt_delay_pool_leave(pool);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_many");
    TCase *tcase = tcase_create("many");
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, test_a_hundred_stores_cost_little);
    tcase_add_test(tcase, test_stores_come_and_go_beside_others);
    tcase_add_test(tcase, test_disks_that_stand_still_hold_nobody_else);
    tcase_add_test(tcase, test_checkpoints_that_stand_still_hold_nobody_else);
    tcase_add_test(tcase, test_loads_that_stand_still_hold_nobody_else);
    tcase_add_test(tcase, test_callbacks_that_do_not_return_hold_nobody_else);
    tcase_add_test(tcase, test_without_threads_a_store_is_not_opened);
    tcase_add_test(tcase, test_threads_that_are_refused_are_asked_for_again);
    tcase_add_loop_test(tcase, test_a_job_runs_at_the_earlier_of_two_times, 0, 2);
    tcase_add_test(tcase, test_a_job_runs_at_the_time_set_last);
    tcase_add_test(tcase, test_threads_block_signals_and_cannot_be_cancelled);
    if (!WITH_SANITIZER) /* a child of a process with threads may not use one's allocator */
        tcase_add_test(tcase, test_a_child_of_a_fork_has_threads_of_its_own);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
