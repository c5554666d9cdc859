/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Copies of a store that is used, of one that another owns, and such as do not end. */

#include <pthread.h>
#include <sys/wait.h>

#include "tests/delay/support/delay_fixture.h"
#include "hwt/delay/whole.h"

#define DAY HWT_SEC(86400)
#define DIED 77

static hwt_delay *store;
static char copy_directory[sizeof(store_directory) + 8];

/* ---- a system that counts, fails, and looks at what is not flushed ---- */

enum { FILES = 1024 };

static struct {
    bool watching;
    uint64_t calls, at;       /* the call that fails; 0: none */
    int error;                /* DIED: the process ends */
    bool dirty[FILES], names; /* not flushed */
    unsigned renames;
    void (*slot_read)(void); /* it is opened to be copied */
    void (*slot_made)(void); /* in the copy */
} watch;

static int watched(void)
{
    if (!watch.watching || ++watch.calls != watch.at)
        return 0;
    if (watch.error == DIED)
        _exit(DIED);
    return watch.error;
}

static void call_once(void (**function)(void))
{
    void (*call)(void) = *function;
    *function = NULL;
    watch.watching = false;
    if (call)
        call();
    watch.watching = true;
}

static int open_watched(void *data, int directory, const char *name, int flags)
{
    int r = watched();
    int file = r < 0 ? r : hwt_delay_real_system.open(data, directory, name, flags);
    if (!watch.watching || file < 0)
        return file;
    watch.names = watch.names || (flags & O_CREAT);
    if (strncmp(name, "slot-", 5) == 0)
        call_once(flags & O_CREAT ? &watch.slot_made : &watch.slot_read);
    return file;
}

static int64_t write_watched(void *data, int file, const void *bytes, size_t size, uint64_t offset)
{
    int r = watched();
    if (watch.watching && file < FILES)
        watch.dirty[file] = true;
    return r < 0 ? r : hwt_delay_real_system.write(data, file, bytes, size, offset);
}

static int sync_watched(void *data, int file)
{
    int r = watched();
    if (watch.watching && file < FILES)
        watch.dirty[file] = false;
    return r < 0 ? r : hwt_delay_real_system.sync(data, file);
}

static int sync_directory_watched(void *data, int directory)
{
    int r = watched();
    if (watch.watching)
        watch.names = false;
    return r < 0 ? r : hwt_delay_real_system.sync_directory(data, directory);
}

/* When it becomes a store, all the rest is on the disk. */
static int rename_watched(void *data, int directory, const char *from, const char *to)
{
    int r = watched();
    if (watch.watching) {
        watch.renames++;
        ck_assert_str_eq(to, "store");
        for (int i = 0; i < FILES; i++)
            ck_assert(!watch.dirty[i]);
        ck_assert(!watch.names);
        watch.names = true;
    }
    return r < 0 ? r : hwt_delay_real_system.rename(data, directory, from, to);
}

static const struct hwt_delay_system *watched_system(void)
{
    static struct hwt_delay_system system;
    system = hwt_delay_real_system;
    system.open = open_watched;
    system.write = write_watched;
    system.sync = sync_watched;
    system.sync_directory = sync_directory_watched;
    system.rename = rename_watched;
    return &system;
}

/* ---- stores and their copies ---- */

static void remove_all(const char *directory)
{
    char command[sizeof(copy_directory) + 16];
    snprintf(command, sizeof(command), "rm -rf '%s'", directory);
    ck_assert_int_eq(system(command), 0);
}

/* In memory, where there is such a file system: what is called counts here, not what it costs. */
static void choose_directories(void)
{
    if (access("/dev/shm", W_OK) == 0)
        snprintf(store_directory, sizeof(store_directory), "/dev/shm/delay-test-%d", (int)getpid());
    else
        make_directory_name();
    snprintf(copy_directory, sizeof(copy_directory), "%s-copy", store_directory);
}

/* By the process that lives on where a test fails. */
static void remove_directories(void)
{
    remove_all(store_directory);
    remove_all(copy_directory);
}

static void setup(void)
{
    remove_directories();
    memset(&watch, 0, sizeof(watch));
    store = NULL;
}

static void teardown(void)
{
    ck_assert_int_eq(hwt_delay_close(store), 0);
}

static void open_it(bool synchronous)
{
    hwt_delay_options options = small_options();
    ck_assert_int_eq(
        hwt_delay_open_on(store_directory, &options, watched_system(), synchronous, &store), 0);
}

static hwt_delay *look(const char *directory)
{
    hwt_delay *other = NULL;
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    options.flags = HWT_DELAY_READ_ONLY;
    ck_assert_int_eq(hwt_delay_open_on(directory, &options, watched_system(), false, &other), 0);
    return other;
}

static void put_number(uint64_t due, uint32_t number)
{
    char payload[400];
    memset(payload, (int)number, sizeof(payload));
    const hwt_delay_message message = { .due = due,
                                        .id = &number,
                                        .id_size = sizeof(number),
                                        .payload = payload,
                                        .payload_size = sizeof(payload) };
    ck_assert_int_eq(hwt_delay_put(store, &message, 1), 0);
}

enum { NUMBERS = 32000 };

static int count_number(const hwt_delay_message *message, void *data)
{
    uint32_t number;
    memcpy(&number, message->id, sizeof(number));
    bool is_whole = number < NUMBERS;
    for (size_t i = 0; i < message->payload_size; i++)
        is_whole =
            is_whole && ((const unsigned char *)message->payload)[i] == (unsigned char)number;
    if (!is_whole)
        return 1;
    ((unsigned char *)data)[number]++;
    return 0;
}

/* What is pending there, by number; all of it is whole. */
static void list(const char *directory, unsigned char *counts)
{
    hwt_delay *other = look(directory);
    memset(counts, 0, NUMBERS);
    ck_assert_int_eq(hwt_delay_check(other, NULL, NULL), 0);
    ck_assert_int_eq(hwt_delay_visit(other, 0, HWT_NEVER, count_number, counts), 0);
    ck_assert_int_eq(hwt_delay_close(other), 0);
}

static unsigned char counts[NUMBERS];

/* Messages in slots, in the log, leased, done and cancelled. */
static void fill(void)
{
    const hwt_delay_message *taken;
    uint64_t now = hwt_delay_now(store), later = now + DAY;
    for (uint32_t i = 0; i < 20; i++)
        put_number(i < 10 ? now + i : later + i * HWT_SEC(10000), i);
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    for (uint32_t i = 20; i < 40; i++)
        put_number(later + i * HWT_SEC(10000), i);
    uint32_t in_slot = 11, in_log = 21;
    ck_assert_int_eq(hwt_delay_cancel(store, later + 11 * HWT_SEC(10000), &in_slot, 4), 0);
    ck_assert_int_eq(hwt_delay_cancel(store, later + 21 * HWT_SEC(10000), &in_log, 4), 0);
    ck_assert_int_eq(hwt_delay_take(store, 5, HWT_SEC(30), &taken), 5);
    ck_assert_int_eq(hwt_delay_done(store, &taken[0].lease, 1), 1);
    hwt_delay_free(taken);
}

static void expect_filled(const char *directory)
{
    list(directory, counts);
    uint32_t wrong = 0;
    while (wrong < NUMBERS &&
           counts[wrong] == (wrong < 40 && wrong != 0 && wrong != 11 && wrong != 21))
        wrong++;
    ck_assert_msg(wrong == NUMBERS, "%u: %u", wrong, counts[wrong % NUMBERS]);
}

static unsigned files_in(const char *directory)
{
    DIR *stream = opendir(directory);
    unsigned count = 0;
    while (stream && readdir(stream))
        count++;
    if (stream)
        closedir(stream);
    return count > 2 ? count - 2 : 0;
}

/* ---- one at a time ---- */

START_TEST(a_copy_has_what_the_store_has)
{
    open_it(_i == 0);
    fill();
    watch.watching = true;
    ck_assert_int_eq(hwt_delay_copy(store, copy_directory), 0);
    watch.watching = false;
    ck_assert_uint_eq(watch.renames, 1);
    ck_assert(!watch.names);
    put_number(hwt_delay_now(store) + DAY, 50); /* the two have nothing to do with each other */
    expect_filled(copy_directory);
    ck_assert_int_eq(hwt_delay_copy(store, copy_directory), -ENOTEMPTY);
    ck_assert_int_eq(hwt_delay_copy(store, store_directory), -ENOTEMPTY);
    expect_filled(copy_directory);
    /* What was leased is pending there, and it goes on from there. */
    hwt_delay *other;
    hwt_delay_options options = small_options();
    const hwt_delay_message *taken;
    ck_assert_int_eq(hwt_delay_open(copy_directory, &options, &other), 0);
    ck_assert_int_eq(hwt_delay_take(other, 20, 0, &taken), 9);
    hwt_delay_free(taken);
    ck_assert_int_eq(hwt_delay_close(other), 0);
}
END_TEST

START_TEST(a_copy_of_what_another_owns)
{
    open_it(false);
    fill();
    hwt_delay *other = look(store_directory);
    put_number(hwt_delay_now(store) + DAY, 50); /* after it was opened */
    ck_assert_int_eq(hwt_delay_copy(other, copy_directory), 0);
    expect_filled(copy_directory);
    remove_all(copy_directory);
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    ck_assert_int_eq(hwt_delay_copy(other, copy_directory), -ESTALE);
    ck_assert_uint_eq(files_in(copy_directory), 0);
    ck_assert_int_eq(hwt_delay_close(other), 0);
    other = look(store_directory);
    ck_assert_int_eq(hwt_delay_copy(other, copy_directory), 0);
    ck_assert_int_eq(hwt_delay_close(other), 0);
    list(copy_directory, counts);
    ck_assert_uint_eq(counts[50], 1);
}
END_TEST

static void make_a_checkpoint(void)
{
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
}

/* Frames of the log may be written over from then on. */
START_TEST(a_copy_beside_a_checkpoint_of_the_owner)
{
    open_it(true);
    fill();
    hwt_delay *other = look(store_directory);
    watch.slot_read = make_a_checkpoint;
    watch.watching = true;
    ck_assert_int_eq(hwt_delay_copy(other, copy_directory), -ESTALE);
    watch.watching = false;
    ck_assert(!watch.slot_read);
    ck_assert_uint_eq(files_in(copy_directory), 0);
    ck_assert_int_eq(hwt_delay_close(other), 0);
}
END_TEST

START_TEST(a_copy_of_a_store_that_was_closed)
{
    open_it(false);
    fill();
    ck_assert_int_eq(hwt_delay_close(store), 0);
    store = look(store_directory);
    ck_assert_int_eq(hwt_delay_copy(store, copy_directory), 0);
    expect_filled(copy_directory);
}
END_TEST

START_TEST(a_copy_that_cannot_be_made)
{
    open_it(true);
    ck_assert_int_eq(hwt_delay_copy(NULL, copy_directory), -EINVAL);
    ck_assert_int_eq(hwt_delay_copy(store, NULL), -EINVAL);
    ck_assert_int_eq(hwt_delay_copy(store, "no/such/place"), -ENOENT);
    ck_assert_int_eq(hwt_delay_copy(store, "/dev/null"), -ENOTDIR);
}
END_TEST

/* What the store is done with while it is copied, the copy still has; the store then loses it. */
static void deliver_all(void)
{
    const hwt_delay_message *taken;
    int64_t n;
    while ((n = hwt_delay_take(store, 100, 0, &taken)) > 0) {
        for (int64_t i = 0; i < n; i++)
            ck_assert_int_eq(hwt_delay_done(store, &taken[i].lease, 1), 1);
        hwt_delay_free(taken);
    }
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
}

START_TEST(slots_stay_until_they_are_copied)
{
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    open_it(true);
    uint64_t now = hwt_delay_now(store);
    for (uint32_t i = 0; i < 20; i++)
        put_number(now - HWT_SEC(1000) * i, i);
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    unsigned before = files_in(store_directory);
    watch.slot_made = deliver_all;
    watch.watching = true;
    ck_assert_int_eq(hwt_delay_copy(store, copy_directory), 0);
    watch.watching = false;
    ck_assert(!watch.slot_made);
    list(copy_directory, counts);
    for (uint32_t i = 0; i < 20; i++)
        ck_assert_uint_eq(counts[i], 1);
    ck_assert_int_eq(hwt_delay_get_stats(store, &stats), 0);
    ck_assert_uint_eq(stats.pending, 0);
    ck_assert_uint_lt(files_in(store_directory), before);
}
END_TEST

/* ---- such as do not end ---- */

static void expect_no_store(uint64_t at)
{
    hwt_delay *other = NULL;
    hwt_delay_options options = small_options();
    int made = hwt_delay_open(copy_directory, &options, &other);
    ck_assert_msg(made == -ENOTEMPTY || made == -EBADMSG, "call %u: made: %d", (unsigned)at, made);
    options.flags = 0;
    int found = hwt_delay_open(copy_directory, &options, &other);
    ck_assert_msg(found == -ENOENT, "call %u: found: %d", (unsigned)at, found);
}

/* The process ends in each of its calls in turn. */
START_TEST(a_copy_that_did_not_end_is_no_store)
{
    open_it(true);
    fill();
    ck_assert_int_eq(hwt_delay_close(store), 0);
    store = NULL;
    int status = 0;
    uint64_t at = 0, stores = 0;
    do {
        remove_all(copy_directory);
        pid_t child = fork();
        if (child == 0) {
            open_it(true);
            watch.watching = true;
            watch.at = at + 1;
            watch.error = DIED;
            _exit(hwt_delay_copy(store, copy_directory) == 0 ? 0 : 1);
        }
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFEXITED(status) && (WEXITSTATUS(status) == DIED || WEXITSTATUS(status) == 0));
        if (access(copy_directory, F_OK) != 0)
            continue;
        char file[sizeof(copy_directory) + 8];
        snprintf(file, sizeof(file), "%s/store", copy_directory);
        if (access(file, F_OK) == 0) {
            expect_filled(copy_directory);
            stores++;
        } else if (files_in(copy_directory) > 0) {
            expect_no_store(at);
        }
    } while (at++, WEXITSTATUS(status) == DIED);
    ck_assert_uint_gt(at, 30);
    ck_assert_uint_ge(stores, 1);
    ck_assert_uint_le(stores, 3);
}
END_TEST

/* Each of its calls fails in turn: nothing is left, the store goes on, and the next copy is made. */
START_TEST(a_copy_that_fails_leaves_nothing)
{
    static const int errors[] = { -EIO, -ENOSPC, -EMFILE };
    open_it(true);
    fill();
    int r;
    uint64_t at = 1;
    do {
        watch.calls = 0;
        watch.at = at++;
        watch.error = errors[_i];
        watch.watching = true;
        r = hwt_delay_copy(store, copy_directory);
        watch.watching = false;
        ck_assert(r == 0 || r == errors[_i]);
        if (r < 0)
            ck_assert_uint_eq(files_in(copy_directory), 0);
    } while (r < 0);
    ck_assert_uint_gt(at, 30);
    expect_filled(copy_directory);
    expect_filled(store_directory);
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
}
END_TEST

/* ---- beside others ---- */

enum { PRODUCERS = 3, EACH = 8000 };

static _Atomic bool over;
static _Atomic uint32_t put_count[PRODUCERS], done_count;
static _Atomic uint64_t longest;

static uint64_t monotonic(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * HWT_SEC(1) + (uint64_t)now.tv_nsec;
}

/* Number p * EACH + i of producer p, due in days. */
static void *produce(void *arg)
{
    uint32_t producer = (uint32_t)(uintptr_t)arg;
    uint64_t due = hwt_delay_now(store) + DAY;
    for (uint32_t i = 0; i < EACH && !over; i++) {
        uint64_t before = monotonic();
        put_number(due + i * HWT_SEC(60), producer * EACH + i);
        uint64_t took = monotonic() - before;
        if (took > longest)
            longest = took;
        put_count[producer] = i + 1;
    }
    return NULL;
}

/* Numbers from PRODUCERS * EACH on are due at once, and done with in their order. */
static void *consume(void *arg)
{
    (void)arg;
    for (uint32_t i = 0; i < EACH && !over; i++) {
        const hwt_delay_message *taken;
        put_number(hwt_delay_now(store), PRODUCERS * EACH + i);
        if (hwt_delay_take(store, 1, HWT_SEC(30), &taken) != 1)
            return &over;
        if (hwt_delay_done(store, &taken->lease, 1) != 1)
            return &over;
        hwt_delay_free(taken);
        done_count = i + 1;
    }
    return NULL;
}

static void copy_and_look(void)
{
    uint32_t put[PRODUCERS], done = done_count;
    for (int p = 0; p < PRODUCERS; p++)
        put[p] = put_count[p];
    ck_assert_int_eq(hwt_delay_copy(store, copy_directory), 0);
    list(copy_directory, counts);
    for (uint32_t p = 0; p < PRODUCERS; p++) {
        uint32_t has = 0;
        while (has < EACH && counts[p * EACH + has] == 1)
            has++;
        ck_assert_uint_ge(has, put[p]);
        /* No holes: it is one moment. */
        ck_assert_ptr_null(memchr(counts + p * EACH + has, 1, EACH - has));
    }
    ck_assert_ptr_null(memchr(counts + PRODUCERS * EACH, 1, done));
    remove_all(copy_directory);
}

START_TEST(a_copy_beside_puts_and_takes)
{
    pthread_t threads[PRODUCERS + 1];
    open_it(false);
    over = false;
    for (uintptr_t p = 0; p < PRODUCERS; p++)
        ck_assert_int_eq(pthread_create(&threads[p], NULL, produce, (void *)p), 0);
    ck_assert_int_eq(pthread_create(&threads[PRODUCERS], NULL, consume, NULL), 0);
    for (int i = 0; i < 4; i++)
        copy_and_look();
    over = true;
    for (int p = 0; p <= PRODUCERS; p++) {
        void *wrong;
        pthread_join(threads[p], &wrong);
        ck_assert_ptr_null(wrong);
    }
    printf("%u put, the longest put took %u ms\n", put_count[0] + put_count[1] + put_count[2],
           (unsigned)(longest / HWT_MS(1)));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_copy");
    TCase *tcase = tcase_create("copy");
    tcase_set_timeout(tcase, 100);
    tcase_add_unchecked_fixture(tcase, choose_directories, remove_directories);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, a_copy_has_what_the_store_has, 0, 2);
    tcase_add_test(tcase, a_copy_of_what_another_owns);
    tcase_add_test(tcase, a_copy_beside_a_checkpoint_of_the_owner);
    tcase_add_test(tcase, a_copy_of_a_store_that_was_closed);
    tcase_add_test(tcase, a_copy_that_cannot_be_made);
    tcase_add_test(tcase, slots_stay_until_they_are_copied);
    tcase_add_test(tcase, a_copy_that_did_not_end_is_no_store);
    tcase_add_loop_test(tcase, a_copy_that_fails_leaves_nothing, 0, 3);
    tcase_add_test(tcase, a_copy_beside_puts_and_takes);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
