/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Races of the store's threads, forced: a call of the system is held until another has come. */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "hwt/delay/whole.h"
#include "kit.h"

static struct hwt_delay_system held_system;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool hold, reading, may_go; /* a read of a slot */
static int slot_file = -1;
static bool slot_written;
static bool fail, failing; /* making a slot, once the store is being closed */
static hwt_delay *closed;

static bool is_closing(hwt_delay *store)
{
    return hwt_delay_job_is_ended(&store->jobs.all[HWT_DELAY_CHECKPOINT]);
}

/* Too many files are open, and the store is closed meanwhile. */
static bool fails(const char *name, int flags)
{
    pthread_mutex_lock(&lock);
    bool its = fail && strncmp(name, "slot-", 5) == 0 && flags & O_CREAT;
    failing |= its;
    pthread_cond_broadcast(&changed);
    while (its && !closed)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    while (its && !is_closing(closed))
        sched_yield();
    return its;
}

static int open_file(void *data, int directory, const char *name, int flags)
{
    if (fails(name, flags))
        return -EMFILE;
    int file = hwt_delay_real_system.open(data, directory, name, flags);
    pthread_mutex_lock(&lock);
    if (file == slot_file)
        slot_file = -1; /* that one was closed: the number is another file's now */
    if (strncmp(name, "slot-", 5) == 0 && !(flags & O_CREAT))
        slot_file = file;
    if (strncmp(name, "slot-", 5) == 0 && flags & O_CREAT) {
        slot_written = true;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return file;
}

static int64_t read_file(void *data, int file, void *buffer, size_t size, uint64_t offset)
{
    pthread_mutex_lock(&lock);
    if (hold && file == slot_file) {
        hold = false;
        reading = true;
        pthread_cond_broadcast(&changed);
        while (!may_go)
            pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
    return hwt_delay_real_system.read(data, file, buffer, size, offset);
}

/* ---- a checkpoint that lets others have the lock ---- */

static _Thread_local bool is_checkpointer, is_taker;
static void (*meanwhile)(void); /* called once, by the thread that makes the checkpoint */
static atomic_bool looked, returned;
static _Atomic uint64_t passed; /* by the clock */
static bool await_taker;        /* before a slot is deleted */

int __real_sched_yield(void);
int __wrap_sched_yield(void);

int __wrap_sched_yield(void)
{
    void (*then)(void) = is_checkpointer ? meanwhile : NULL;
    if (!then)
        return __real_sched_yield();
    meanwhile = NULL;
    then();
    return 0;
}

static uint64_t realtime(void *data)
{
    looked = looked || is_taker;
    return hwt_delay_real_system.realtime(data) + passed;
}

static uint64_t boottime(void *data)
{
    return hwt_delay_real_system.boottime(data) + passed;
}

static int unlink_file(void *data, int at, const char *name)
{
    while (await_taker && !returned)
        sched_yield();
    return hwt_delay_real_system.unlink(data, at, name);
}

static char directory[64];

static void begin(void)
{
    strcpy(directory, "/tmp/hwt-delay-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    held_system = hwt_delay_real_system;
    held_system.open = open_file;
    held_system.read = read_file;
    held_system.unlink = unlink_file;
    held_system.realtime = realtime;
    held_system.boottime = boottime;
}

static void end(void)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", directory);
    ck_assert_int_eq(system(command), 0);
}

static hwt_delay *open_store(void)
{
    hwt_delay *store;
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    options.flags = HWT_DELAY_CREATE;
    options.payload_max = 8192;
    options.segment_size = 1 << 17;
    options.memory = 1 << 20;
    ck_assert_int_eq(hwt_delay_open_on(directory, &options, &held_system, false, &store), 0);
    return store;
}

static void put(hwt_delay *store, uint64_t due, char id)
{
    const hwt_delay_message message = { .due = due, .id = &id, .id_size = 1 };
    ck_assert_int_eq(hwt_delay_put(store, &message, 1), 0);
}

static void *make_checkpoint(void *store)
{
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    return NULL;
}

static void take_and_finish(hwt_delay *store)
{
    const hwt_delay_message *taken;
    ck_assert_int_eq(hwt_delay_take(store, 1, HWT_SEC(10), &taken), 1);
    ck_assert_int_eq(hwt_delay_done(store, &taken->lease, 1), 1);
    hwt_delay_free(taken);
}

static int count_one(const hwt_delay_message *message, void *count)
{
    (void)message;
    ++*(unsigned *)count;
    return 0;
}

/*
 * A slot is made by a checkpoint while a thread that loads passes the time of the slot. Its
 * messages are taken out of memory and done with. They do not come back out of the slot.
 */
START_TEST(test_a_slot_made_while_loading)
{
    hwt_delay *store = open_store();
    uint64_t now = hwt_delay_now(store);
    struct timespec until;
    unsigned count = 0;
    put(store, now - HWT_SEC(20), 'a');
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    hwt_delay_close(store);

    pthread_mutex_lock(&lock);
    hold = true;
    slot_written = false;
    pthread_mutex_unlock(&lock);
    store = open_store(); /* its loader reads the slot of 'a' */
    pthread_mutex_lock(&lock);
    while (!reading)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    put(store, now - HWT_SEC(10), 'b');
    pthread_t thread = spawn(make_checkpoint, store);
    /* Until the slot of 'b' is made; or it waits for the loader, and this goes on. */
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    pthread_mutex_lock(&lock);
    while (!slot_written && pthread_cond_timedwait(&changed, &lock, &until) != ETIMEDOUT)
        ;
    may_go = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    join(thread);

    take_and_finish(store);
    take_and_finish(store);
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    hwt_delay_close(store);
    store = open_store();
    ck_assert_int_eq(hwt_delay_visit(store, 0, HWT_NEVER, count_one, &count), 0);
    ck_assert_uint_eq(count, 0);
    hwt_delay_close(store);
}
END_TEST

static void ignore(int result, void *arg)
{
    (void)result;
    (void)arg;
}

/* It does not wait for room, which the checkpoint that stands would have to make. */
static void put_if_there_is_room(hwt_delay *store, uint64_t due, char id)
{
    const hwt_delay_message message = { .due = due, .id = &id, .id_size = 1 };
    hwt_delay_change change = { .op = HWT_DELAY_OP_PUT, .message = &message };
    hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
    batch.flags = HWT_DELAY_NO_WAIT;
    batch.durable = ignore;
    int r = hwt_delay_apply(store, &change, 1, &batch);
    ck_assert(r == 0 || r == -EAGAIN);
}

/* A checkpoint is under way, and fails when the store is closed. */
START_TEST(test_closing_beside_a_checkpoint_that_fails)
{
    hwt_delay *store = open_store();
    char id = 0;
    bool begun = false;
    fail = true;
    while (!begun) {
        put_if_there_is_room(store, hwt_delay_now(store) + HWT_SEC(5000), id++);
        pthread_mutex_lock(&lock);
        begun = failing;
        pthread_mutex_unlock(&lock);
    }
    pthread_mutex_lock(&lock);
    closed = store;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    hwt_delay_close(store);
    fail = false;
    closed = NULL;
    store = open_store();
    hwt_delay_close(store);
}
END_TEST

static hwt_delay *yielding;
static pthread_t taker;

static void *take_nothing(void *arg)
{
    const hwt_delay_message *taken;
    (void)arg;
    is_taker = true;
    ck_assert_int_eq(hwt_delay_take(yielding, 1, 0, &taken), 0);
    returned = true;
    return NULL;
}

/* Comes back when the taker waits to load. */
static void start_taker(void)
{
    taker = spawn(take_nothing, NULL);
    while (!looked)
        sched_yield();
    pthread_mutex_lock(&yielding->lock); /* it has looked at the clock under it */
    pthread_mutex_unlock(&yielding->lock);
}

/* Who waits to load while a checkpoint changes the table does not wait until slots are deleted. */
START_TEST(test_a_taker_does_not_wait_until_slots_are_deleted)
{
    enum { MANY = HWT_DELAY_CHUNK + 10 };
    static hwt_delay_message messages[MANY];
    static uint16_t ids[MANY];
    yielding = open_store();
    uint64_t now = hwt_delay_now(yielding);
    put(yielding, now - HWT_SEC(20), 'a');
    ck_assert_int_eq(hwt_delay_checkpoint(yielding), 0);
    for (uint16_t i = 0; i < MANY; i++) {
        ids[i] = i;
        messages[i] = (hwt_delay_message){ .due = now + HWT_MIN(60), .id = &ids[i], .id_size = 2 };
    }
    ck_assert_int_eq(hwt_delay_put(yielding, messages, MANY), 0);
    take_and_finish(yielding); /* its slot is deleted by the next checkpoint */
    passed = HWT_SEC(10);      /* what comes next is to be loaded */
    is_checkpointer = await_taker = true;
    meanwhile = start_taker;
    ck_assert_int_eq(hwt_delay_checkpoint(yielding), 0);
    is_checkpointer = await_taker = false;
    ck_assert(!meanwhile);
    join(taker);
    hwt_delay_close(yielding);
}
END_TEST

static atomic_bool enough;

/* Ends the leases that are over. */
static void *end_leases(void *store)
{
    while (!enough)
        ck_assert_int_eq(hwt_delay_extend(store, UINT64_MAX, 0), -ENOENT);
    return NULL;
}

/* Messages are copied out without the lock, and meanwhile their leases end. What a take says of them is as it
 * was when they were leased. ThreadSanitizer sees it if the copy reads what then changes. */
START_TEST(test_leases_that_end_while_their_messages_are_copied)
{
    enum { MANY = 30, PAYLOAD = 4000 };
    static char payload[PAYLOAD];
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    hwt_delay *store;
    options.flags = HWT_DELAY_CREATE;
    options.lease = 1;
    ck_assert_int_eq(hwt_delay_open_on(directory, &options, &held_system, false, &store), 0);
    for (unsigned char i = 0; i < MANY; i++) {
        const hwt_delay_message message = {
            .id = &i, .id_size = 1, .payload = payload, .payload_size = PAYLOAD
        };
        ck_assert_int_eq(hwt_delay_put(store, &message, 1), 0);
    }
    enough = false;
    pthread_t ender = spawn(end_leases, store);
    for (unsigned i = 0; i < 200; i++) {
        const hwt_delay_message *taken;
        int64_t n = hwt_delay_take(store, MANY, 0, &taken);
        ck_assert_int_ge(n, 0);
        for (int64_t j = 0; j < n; j++)
            ck_assert_uint_eq(taken[j].deliveries, taken[j].expired + 1);
        if (n > 0)
            hwt_delay_free(taken);
    }
    enough = true;
    join(ender);
    hwt_delay_close(store);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_races");
    TCase *tcase = tcase_create("races");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, test_a_slot_made_while_loading);
    tcase_add_test(tcase, test_closing_beside_a_checkpoint_that_fails);
    tcase_add_test(tcase, test_a_taker_does_not_wait_until_slots_are_deleted);
    tcase_add_test(tcase, test_leases_that_end_while_their_messages_are_copied);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
