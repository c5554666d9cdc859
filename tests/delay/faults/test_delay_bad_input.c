/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a store is given that it should not be: directories that are none, ids, payloads, times. */

#include "tests/delay/support/simulated.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <linux/magic.h>

#include "hwt/delay/disk/format.h"

static char directory[64], path[128];

static void make_directory(void)
{
    strcpy(directory, "/tmp/hwt-delay-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/store", directory);
}

static void remove_directory(void)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", directory);
    ck_assert_int_eq(system(command), 0);
}

static hwt_delay_options small_options(uint32_t flags)
{
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    options.flags = flags;
    options.payload_max = 8192;
    options.segment_size = 1 << 16;
    options.memory = 1 << 20;
    return options;
}

static int open_flags(const char *where, uint32_t flags, hwt_delay **ret_store)
{
    hwt_delay_options options = small_options(flags);
    return hwt_delay_open(where, &options, ret_store);
}

static hwt_delay *open_new(void)
{
    hwt_delay *store;
    ck_assert_int_eq(open_flags(path, HWT_DELAY_CREATE, &store), 0);
    return store;
}

static void put_one(hwt_delay *store, uint64_t due)
{
    const hwt_delay_message message = {
        .due = due, .id = "one", .id_size = 3, .payload = "x", .payload_size = 1
    };
    ck_assert_int_eq(hwt_delay_put(store, &message, 1), 0);
}

static int count_one(const hwt_delay_message *message, void *count)
{
    (void)message;
    ++*(unsigned *)count;
    return 0;
}

static void write_file(const char *name, const char *text)
{
    char file[256];
    snprintf(file, sizeof(file), "%s/%s", path, name);
    FILE *stream = fopen(file, "w");
    ck_assert_ptr_nonnull(stream);
    fputs(text, stream);
    fclose(stream);
}

/* ---- directories ---- */

START_TEST(test_no_directory)
{
    hwt_delay *const nothing = (hwt_delay *)directory, *store = nothing;
    char above[256];
    ck_assert_int_eq(open_flags(path, 0, &store), -ENOENT);
    ck_assert_int_eq(open_flags(path, HWT_DELAY_READ_ONLY, &store), -ENOENT);
    snprintf(above, sizeof(above), "%s/none/store", directory);
    ck_assert_int_eq(open_flags(above, HWT_DELAY_CREATE, &store), -ENOENT);
    ck_assert_int_eq(access(path, F_OK), -1);
    ck_assert_ptr_eq(store, nothing);
}
END_TEST

START_TEST(test_an_empty_directory)
{
    hwt_delay *store;
    ck_assert_int_eq(mkdir(path, 0777), 0);
    ck_assert_int_eq(open_flags(path, 0, &store), -ENOENT);
    ck_assert_int_eq(open_flags(path, HWT_DELAY_CREATE, &store), 0);
    hwt_delay_close(store);
    ck_assert_int_eq(open_flags(path, 0, &store), 0);
    hwt_delay_close(store);
}
END_TEST

START_TEST(test_a_directory_with_other_things)
{
    hwt_delay *store;
    ck_assert_int_eq(mkdir(path, 0777), 0);
    write_file("letter.txt", "Dear reader,");
    ck_assert_int_eq(open_flags(path, 0, &store), -ENOENT);
    ck_assert_int_eq(open_flags(path, HWT_DELAY_SALVAGE, &store), -ENOENT);
    ck_assert_int_eq(open_flags(path, HWT_DELAY_CREATE, &store), -ENOTEMPTY);
    char command[256];
    snprintf(command, sizeof(command), "test \"$(ls -A %s)\" = letter.txt", path);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

START_TEST(test_a_file_and_no_directory)
{
    hwt_delay *store;
    char file[256];
    ck_assert_int_eq(mkdir(path, 0777), 0);
    write_file("letter.txt", "Dear reader,");
    snprintf(file, sizeof(file), "%s/letter.txt", path);
    ck_assert_int_eq(open_flags(file, 0, &store), -ENOTDIR);
    ck_assert_int_eq(open_flags(file, HWT_DELAY_CREATE, &store), -ENOTDIR);
}
END_TEST

START_TEST(test_a_store_in_use)
{
    hwt_delay *store = open_new(), *other;
    unsigned count = 0;
    put_one(store, 5);
    ck_assert_int_eq(open_flags(path, 0, &other), -EBUSY);
    ck_assert_int_eq(open_flags(path, HWT_DELAY_CREATE, &other), -EBUSY);
    ck_assert_int_eq(open_flags(path, HWT_DELAY_SALVAGE, &other), -EBUSY);
    pid_t child = fork();
    if (child == 0)
        _exit(-open_flags(path, 0, &other));
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == EBUSY);
    /* Others may look. */
    ck_assert_int_eq(open_flags(path, HWT_DELAY_READ_ONLY, &other), 0);
    ck_assert_int_eq(hwt_delay_visit(other, 0, HWT_NEVER, count_one, &count), 0);
    ck_assert_uint_eq(count, 1);
    hwt_delay_close(other);
    put_one(store, 6);
    hwt_delay_close(store);
    ck_assert_int_eq(open_flags(path, 0, &store), 0);
    hwt_delay_close(store);
}
END_TEST

/* A child that was forked has the store's descriptors, too. */
START_TEST(test_a_child_that_goes_on)
{
    hwt_delay *store = open_new();
    int wait[2], status;
    char byte;
    ck_assert_int_eq(pipe(wait), 0);
    pid_t child = fork();
    if (child == 0) {
        close(wait[1]);
        _exit((int)read(wait[0], &byte, 1));
    }
    hwt_delay_close(store);
    int r = open_flags(path, 0, &store);
    close(wait[1]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    close(wait[0]);
    ck_assert_int_eq(r, 0);
    hwt_delay_close(store);
}
END_TEST

START_TEST(test_read_only_changes_nothing)
{
    hwt_delay *store = open_new();
    const hwt_delay_message message = { .due = 7, .id = "two", .id_size = 3 }, *taken;
    uint64_t lease = 1;
    char sums[512];
    put_one(store, 5);
    hwt_delay_close(store);
    snprintf(sums, sizeof(sums), "cd %s && md5sum * >%s/sums && ls >%s/names", path, directory,
             directory);
    ck_assert_int_eq(system(sums), 0);

    ck_assert_int_eq(open_flags(path, HWT_DELAY_READ_ONLY, &store), 0);
    ck_assert_int_eq(hwt_delay_put(store, &message, 1), -EROFS);
    ck_assert_int_eq(hwt_delay_cancel(store, 5, "one", 3), -EROFS);
    ck_assert_int_eq(hwt_delay_replace(store, 5, "one", 3, &message), -EROFS);
    ck_assert_int_eq(hwt_delay_take(store, 1, 0, &taken), -EROFS);
    ck_assert_int_eq(hwt_delay_done(store, &lease, 1), -EROFS);
    ck_assert_int_eq(hwt_delay_retry(store, lease, 8), -EROFS);
    ck_assert_int_eq(hwt_delay_extend(store, lease, 8), -EROFS);
    ck_assert_int_eq(hwt_delay_accept_clock(store), -EROFS);
    ck_assert_int_eq(hwt_delay_checkpoint(store), -EROFS);
    hwt_delay_close(store);

    snprintf(sums, sizeof(sums), "cd %s && md5sum --quiet -c %s/sums && ls | cmp - %s/names", path,
             directory, directory);
    ck_assert_int_eq(system(sums), 0);
}
END_TEST

START_TEST(test_tmpfs_is_not_durable)
{
    struct statfs status;
    char command[128];
    hwt_delay *store = open_new();
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    ck_assert_int_eq(statfs(directory, &status), 0);
    ck_assert_int_eq(hwt_delay_get_stats(store, &stats), 0);
    ck_assert_uint_eq(stats.not_durable, status.f_type == TMPFS_MAGIC);
    hwt_delay_close(store);
    if (statfs("/dev/shm", &status) != 0 || status.f_type != TMPFS_MAGIC)
        return;
    char shared[] = "/dev/shm/hwt-delay-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(shared));
    int r = open_flags(shared, HWT_DELAY_CREATE, &store);
    snprintf(command, sizeof(command), "rm -rf %s", shared);
    ck_assert_int_eq(system(command), 0);
    ck_assert_int_eq(r, 0);
    ck_assert_int_eq(hwt_delay_get_stats(store, &stats), 0);
    ck_assert_uint_eq(stats.not_durable, 1);
    hwt_delay_close(store);
}
END_TEST

/* ---- another format ---- */

static struct disk_file *set_version(struct simulated *s, const char *name, size_t at,
                                     uint32_t version)
{
    struct disk_file *file = disk_find(s->disk, name);
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(hwt_delay_get32(disk_seen(file) + at), HWT_DELAY_VERSION);
    disk_flip(file, at, (unsigned char)(HWT_DELAY_VERSION ^ version));
    return file;
}

static const char *const versions[] = { "store", "log.1", "checkpoint" };

static struct disk_file *make_with_version(struct simulated *s, int i, uint32_t version)
{
    static const size_t at[] = { HWT_DELAY_STORE_VERSION, HWT_DELAY_SEGMENT_VERSION,
                                 HWT_DELAY_CHECKPOINT_VERSION };
    simulated_new(s);
    simulated_open(s);
    ck_assert_int_eq(simulated_put(s, 5, 1, 10), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s->store), 0);
    simulated_close(s);
    return set_version(s, versions[i], at[i], version);
}

/* Each version keeps the place of the version and of the checksum, from the second one on. */
static void assert_is_refused(uint32_t version, int error)
{
    for (int i = 0; i < 3; i++) {
        struct simulated s;
        struct disk_file *file = make_with_version(&s, i, version);
        const unsigned char *store = disk_seen(disk_find(s.disk, "store"));
        uint64_t key = i == 2 ? hwt_delay_get64(store + HWT_DELAY_STORE_KEY) : 0;
        uint64_t size = i == 0 ? HWT_DELAY_STORE_SIZE : HWT_DELAY_SEGMENT_SIZE;
        if (i == 2)
            size = HWT_DELAY_CHECKPOINT_SIZE +
                   hwt_delay_get64(disk_seen(file) + HWT_DELAY_CHECKPOINT_LENGTH);
        unsigned char crc[4];
        hwt_delay_set32(crc, hwt_delay_crc(key, disk_seen(file) + HWT_DELAY_STORE_VERSION,
                                           size - HWT_DELAY_STORE_VERSION));
        for (size_t b = 0; b < sizeof(crc); b++)
            disk_flip(file, HWT_DELAY_STORE_CRC + b,
                      disk_seen(file)[HWT_DELAY_STORE_CRC + b] ^ crc[b]);
        static const uint32_t flags[] = { 0, HWT_DELAY_CREATE, HWT_DELAY_READ_ONLY,
                                          HWT_DELAY_SALVAGE };
        for (size_t f = 0; f < 4; f++) {
            s.options.flags = flags[f];
            simulated_begin(&s);
            ck_assert_int_eq(simulated_try_open(&s), error);
        }
        simulated_free(&s);
    }
}

START_TEST(test_a_later_format)
{
    assert_is_refused(HWT_DELAY_VERSION + 1, -ENOTSUP);
}
END_TEST

/* The formats before this one are no damage either. */
START_TEST(test_the_format_before)
{
    assert_is_refused(HWT_DELAY_VERSION - 1, -EPROTONOSUPPORT);
}
END_TEST

/* A flipped bit makes no later release out of this one. */
START_TEST(test_a_damaged_version)
{
    for (int i = 0; i < 3; i++) {
        struct simulated s;
        make_with_version(&s, i, HWT_DELAY_VERSION + 1);
        static const uint32_t flags[] = { 0, HWT_DELAY_CREATE, HWT_DELAY_READ_ONLY };
        for (size_t f = 0; f < 3; f++) {
            s.options.flags = flags[f];
            simulated_begin(&s);
            ck_assert_int_eq(simulated_try_open(&s), -EBADMSG);
        }
        s.options.flags = HWT_DELAY_SALVAGE;
        simulated_begin(&s);
        ck_assert_int_eq(simulated_try_open(&s), 0);
        ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 1);
        simulated_free(&s);
    }
}
END_TEST

START_TEST(test_the_first_format)
{
    static const uint32_t flags[] = { 0, HWT_DELAY_CREATE, HWT_DELAY_READ_ONLY, HWT_DELAY_SALVAGE };
    struct simulated s;
    simulated_new(&s);
    simulated_open(&s);
    simulated_close(&s);
    struct disk_file *file = disk_find(s.disk, "store");
    for (size_t b = 0; b < 8; b++)
        disk_flip(file, b, disk_seen(file)[b] ^ (unsigned char)(HWT_DELAY_MAGIC_STORE_1 >> 8 * b));
    for (size_t f = 0; f < 4; f++) {
        s.options.flags = flags[f];
        simulated_begin(&s);
        ck_assert_int_eq(simulated_try_open(&s), -EPROTONOSUPPORT);
    }
    simulated_free(&s);
}
END_TEST

/* ---- options ---- */

START_TEST(test_options_out_of_range)
{
    static const struct {
        size_t at;
        bool wide;
        uint64_t value;
        int answer;
    } tries[] = {
        { offsetof(hwt_delay_options, flags), false, 1u << 31, -EINVAL },
        { offsetof(hwt_delay_options, flags), false, HWT_DELAY_READ_ONLY | 1, -EINVAL },
        { offsetof(hwt_delay_options, flags), false, HWT_DELAY_READ_ONLY | 4, -EINVAL },
        { offsetof(hwt_delay_options, payload_max), false, (16u << 20) + 1, -EINVAL },
        { offsetof(hwt_delay_options, payload_max), false, 8193, -EINVAL }, /* an eighth */
        { offsetof(hwt_delay_options, memory), true, (1 << 20) - 1, -EINVAL },
        { offsetof(hwt_delay_options, segment_size), true, (1 << 16) - 1, -EINVAL },
        { offsetof(hwt_delay_options, size), true, sizeof(hwt_delay_options) - 1, -EINVAL },
        { offsetof(hwt_delay_options, size), true, 0, -EINVAL },
        { offsetof(hwt_delay_options, size), true, 8, -EINVAL },
    };
    for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
        hwt_delay_options options = small_options(HWT_DELAY_CREATE);
        unsigned char *at = (unsigned char *)&options + tries[i].at;
        uint32_t narrow = (uint32_t)tries[i].value;
        hwt_delay *store;
        memcpy(at, tries[i].wide ? (const void *)&tries[i].value : &narrow, tries[i].wide ? 8 : 4);
        int r = hwt_delay_open(path, &options, &store);
        ck_assert_msg(r == tries[i].answer, "try %zu: %d", i, r);
        ck_assert_int_eq(access(path, F_OK), -1);
    }
    ck_assert_int_eq(hwt_delay_open(NULL, NULL, NULL), -EINVAL);
}
END_TEST

/* ---- messages ---- */

START_TEST(test_ids_of_all_sizes)
{
    static const unsigned char id[256] = { 0 };
    static const size_t good[] = { 1, 255 }, bad[] = { 0, 256, SIZE_MAX };
    struct simulated s;
    const hwt_delay_message *taken;
    simulated_new(&s);
    simulated_open(&s);
    for (size_t i = 0; i < 3; i++) {
        const hwt_delay_message message = { .due = 5, .id = id, .id_size = bad[i] };
        ck_assert_int_eq(hwt_delay_put(s.store, &message, 1), -EINVAL);
        ck_assert_int_eq(hwt_delay_cancel(s.store, 5, id, bad[i]), -EINVAL);
        ck_assert_int_eq(hwt_delay_replace(s.store, 5, id, bad[i], &message), -EINVAL);
    }
    for (size_t i = 0; i < 2; i++) {
        const hwt_delay_message message = { .due = 5, .id = id, .id_size = good[i] };
        ck_assert_int_eq(hwt_delay_put(s.store, &message, 1), 0);
    }
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_close(&s);
    simulated_open(&s);
    ck_assert_int_eq(hwt_delay_take(s.store, 9, 0, &taken), 2);
    for (size_t i = 0; i < 2; i++) {
        ck_assert_uint_eq(taken[i].id_size, good[i]);
        ck_assert_mem_eq(taken[i].id, id, good[i]);
    }
    hwt_delay_free(taken);
    simulated_free(&s);
}
END_TEST

START_TEST(test_payloads_past_the_limit)
{
    static const unsigned char bytes[8193];
    struct simulated s;
    simulated_new(&s);
    simulated_open(&s);
    hwt_delay_message messages[3] = {
        { .due = 5, .id = "a", .id_size = 1, .payload = bytes, .payload_size = 8193 },
        { .due = 5, .id = "b", .id_size = 1, .payload = bytes, .payload_size = 8192 },
        { .due = 5, .id = "c", .id_size = 1, .payload = bytes, .payload_size = 8192 },
    };
    ck_assert_int_eq(hwt_delay_put(s.store, messages, 1), -EMSGSIZE);
    ck_assert_int_eq(hwt_delay_put(s.store, messages, 3), -EMSGSIZE);
    /* More than a quarter of a segment in all. */
    ck_assert_int_eq(hwt_delay_put(s.store, messages + 1, 2), -EMSGSIZE);
    ck_assert_uint_eq(hwt_delay_next(s.store), HWT_NEVER);
    ck_assert_int_eq(hwt_delay_put(s.store, messages + 1, 1), 0);
    ck_assert_uint_eq(simulated_stats(&s).put, 1);
    simulated_free(&s);
}
END_TEST

/* A store keeps the size of its log: options may allow more than a frame has room for. */
START_TEST(test_messages_that_the_log_has_no_room_for)
{
    static const unsigned char bytes[20000];
    const hwt_delay_message *taken;
    struct simulated s;
    simulated_new(&s);
    simulated_open(&s);
    ck_assert_int_eq(simulated_put(&s, 5, 1, 10), 0);
    simulated_close(&s);
    hwt_delay_options_init(&s.options, sizeof(hwt_delay_options));
    simulated_open(&s);
    hwt_delay_message message = {
        .due = 6, .id = "a", .id_size = 1, .payload = bytes, .payload_size = sizeof(bytes)
    };
    const uint32_t first = 1;
    ck_assert_int_eq(hwt_delay_put(s.store, &message, 1), -EMSGSIZE);
    ck_assert_int_eq(hwt_delay_replace(s.store, 5, &first, sizeof(first), &message), -EMSGSIZE);
    while (hwt_delay_put(s.store, &message, 1) == -EMSGSIZE)
        message.payload_size--;
    ck_assert_uint_gt(message.payload_size, 8192);
    /* What could be put can be retried. */
    ck_assert_int_eq(hwt_delay_take(s.store, 2, 0, &taken), 2);
    ck_assert_uint_eq(taken[1].payload_size, message.payload_size);
    ck_assert_int_eq(hwt_delay_retry(s.store, taken[1].lease, 7), 0);
    hwt_delay_free(taken);
    simulated_free(&s);
}
END_TEST

/* One that is past is next; the far future waits; the last instant is no time. */
START_TEST(test_all_due_times)
{
    static const uint64_t year_2500 = UINT64_C(16725225600000000000);
    struct simulated s;
    unsigned counts[SIMULATED_IDS] = { 0 };
    simulated_new(&s);
    simulated_open(&s);
    const uint64_t dues[] = {
        0, 1, s.realtime - 1, s.realtime, s.realtime + 1, year_2500, HWT_NEVER - 1
    };
    for (uint32_t i = 0; i < 7; i++)
        ck_assert_int_eq(simulated_put(&s, dues[i], i, 8), 0);
    ck_assert_int_eq(simulated_put(&s, HWT_NEVER, 7, 8), -EINVAL);
    ck_assert_int_eq(hwt_delay_cancel(s.store, HWT_NEVER, "x", 1), -EINVAL);
    if (_i & 1)
        ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    if (_i & 2) {
        simulated_kill(&s);
        simulated_open(&s);
    }
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 4);
    ck_assert_uint_eq(hwt_delay_next(s.store), dues[4]);
    simulated_advance(&s, 1);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 1);
    simulated_advance(&s, year_2500 - s.realtime - 1);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 0);
    simulated_advance(&s, 1);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 1);
    simulated_advance(&s, HWT_NEVER - 2 - s.realtime);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 0);
    simulated_advance(&s, 1);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 1);
    for (unsigned i = 0; i < 7; i++)
        ck_assert_uint_eq(counts[i], 1);
    simulated_free(&s);
}
END_TEST

START_TEST(test_no_store)
{
    const hwt_delay_message message = { .due = 5, .id = "x", .id_size = 1 }, *taken;
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    uint64_t lease = 1;
    ck_assert_int_eq(hwt_delay_put(NULL, &message, 1), -EINVAL);
    ck_assert_int_eq(hwt_delay_put_async(NULL, &message, 1, NULL, NULL), -EINVAL);
    ck_assert_int_eq(hwt_delay_cancel(NULL, 5, "x", 1), -EINVAL);
    ck_assert_int_eq(hwt_delay_replace(NULL, 5, "x", 1, &message), -EINVAL);
    ck_assert_int_eq(hwt_delay_take(NULL, 1, 0, &taken), -EINVAL);
    ck_assert_int_eq(hwt_delay_done(NULL, &lease, 1), -EINVAL);
    ck_assert_int_eq(hwt_delay_retry(NULL, lease, 5), -EINVAL);
    ck_assert_int_eq(hwt_delay_extend(NULL, lease, 5), -EINVAL);
    ck_assert_int_eq(hwt_delay_fd(NULL), -EINVAL);
    ck_assert_int_eq(hwt_delay_accept_clock(NULL), -EINVAL);
    ck_assert_int_eq(hwt_delay_visit(NULL, 0, 1, count_one, NULL), -EINVAL);
    ck_assert_int_eq(hwt_delay_get_stats(NULL, &stats), -EINVAL);
    ck_assert_int_eq(hwt_delay_checkpoint(NULL), -EINVAL);
    ck_assert_int_eq(hwt_delay_check(NULL, NULL, NULL), -EINVAL);
    ck_assert_int_eq(hwt_delay_wake(NULL), -EINVAL);
    ck_assert_uint_eq(hwt_delay_now(NULL), 0);
    hwt_delay_close(NULL);
    hwt_delay_free(NULL);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_bad_input");
    TCase *tcase = tcase_create("directories");
    tcase_set_timeout(tcase, 30);
    tcase_add_checked_fixture(tcase, make_directory, remove_directory);
    tcase_add_test(tcase, test_no_directory);
    tcase_add_test(tcase, test_an_empty_directory);
    tcase_add_test(tcase, test_a_directory_with_other_things);
    tcase_add_test(tcase, test_a_file_and_no_directory);
    tcase_add_test(tcase, test_a_store_in_use);
    tcase_add_test(tcase, test_a_child_that_goes_on);
    tcase_add_test(tcase, test_read_only_changes_nothing);
    tcase_add_test(tcase, test_tmpfs_is_not_durable);
    tcase_add_test(tcase, test_a_later_format);
    tcase_add_test(tcase, test_a_damaged_version);
    tcase_add_test(tcase, test_the_format_before);
    tcase_add_test(tcase, test_the_first_format);
    tcase_add_test(tcase, test_options_out_of_range);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("messages");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, test_ids_of_all_sizes);
    tcase_add_test(tcase, test_payloads_past_the_limit);
    tcase_add_test(tcase, test_messages_that_the_log_has_no_room_for);
    tcase_add_loop_test(tcase, test_all_due_times, 0, 4);
    tcase_add_test(tcase, test_no_store);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
