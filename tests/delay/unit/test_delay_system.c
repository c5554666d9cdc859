/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The real system behind the seam: each function answers with the errno of what has failed. */

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hwt/delay/disk/system.h"
#include "kit.h"

static const struct hwt_delay_system *const real = &hwt_delay_real_system;
static char path[] = "/tmp/hwt-delay-system.XXXXXX";
static int directory;

/* How often a wrapped function is refused, and with what. */
static int refusals, refusal;

static bool is_refused(void)
{
    errno = refusal;
    return refusals > 0 && refusals-- > 0;
}

int __real_fallocate64(int file, int mode, off_t offset, off_t size);
int __wrap_fallocate64(int file, int mode, off_t offset, off_t size);
ssize_t __real_getrandom(void *bytes, size_t size, unsigned flags);
ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags);
DIR *__real_fdopendir(int file);
DIR *__wrap_fdopendir(int file);

int __wrap_fallocate64(int file, int mode, off_t offset, off_t size)
{
    return is_refused() ? -1 : __real_fallocate64(file, mode, offset, size);
}

/* Without an errno it gives too few bytes. */
ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags)
{
    if (is_refused())
        return refusal == 0 ? 1 : -1;
    return __real_getrandom(bytes, size, flags);
}

DIR *__wrap_fdopendir(int file)
{
    return is_refused() ? NULL : __real_fdopendir(file);
}

static void refuse(int times, int with)
{
    refusals = times;
    refusal = with;
}

static void set_up(void)
{
    strcpy(path + sizeof(path) - 7, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(path));
    directory = real->open_directory(NULL, path);
    ck_assert_int_ge(directory, 0);
    refuse(0, 0);
}

static void tear_down(void)
{
    real->unlink(NULL, directory, "a");
    real->unlink(NULL, directory, "b");
    close(directory);
    ck_assert_int_eq(rmdir(path), 0);
}

static int make(const char *name)
{
    int file = real->open(NULL, directory, name, O_RDWR | O_CREAT | O_EXCL);
    ck_assert_int_ge(file, 0);
    return file;
}

static void count(const char *name, void *arg)
{
    ck_assert_str_eq(name, "a");
    ++*(int *)arg;
}

START_TEST(a_descriptor_that_is_not_open_is_refused)
{
    char byte = 0;
    int found = 0;

    ck_assert_int_eq(real->read(NULL, -1, &byte, 1, 0), -EBADF);
    ck_assert_int_eq(real->write(NULL, -1, &byte, 1, 0), -EBADF);
    ck_assert_int_eq(real->sync(NULL, -1), -EBADF);
    ck_assert_int_eq(real->sync_directory(NULL, -1), -EBADF);
    ck_assert_int_eq(real->sync_above(NULL, -1), -EBADF);
    ck_assert_int_eq(real->truncate(NULL, -1, 1), -EBADF);
    ck_assert_int_eq(real->allocate(NULL, -1, 1), -EBADF);
    ck_assert_int_eq(real->size(NULL, -1), -EBADF);
    ck_assert_int_eq(real->lock(NULL, -1), -EBADF);
    ck_assert_int_eq(real->in_memory(NULL, -1), -EBADF);
    ck_assert_int_eq(real->list(NULL, -1, count, &found), -EBADF);
    ck_assert_int_eq(found, 0);
}
END_TEST

START_TEST(names_are_refused_as_the_system_does)
{
    int file = make("a");

    ck_assert_int_eq(real->open(NULL, directory, "a", O_RDWR | O_CREAT | O_EXCL), -EEXIST);
    ck_assert_int_eq(real->open(NULL, directory, "b", O_RDONLY), -ENOENT);
    ck_assert_int_eq(real->rename(NULL, directory, "b", "a"), -ENOENT);
    ck_assert_int_eq(real->unlink(NULL, directory, "b"), -ENOENT);
    ck_assert_int_eq(real->make_directory(NULL, path), -EEXIST);
    ck_assert_int_eq(real->open_directory(NULL, "/dev/null"), -ENOTDIR);
    real->close(NULL, file);
}
END_TEST

START_TEST(a_list_has_all_names_but_its_own_and_the_one_above)
{
    int found = 0, before = dup(directory), after;

    real->close(NULL, make("a"));
    refuse(1, ENOMEM);
    ck_assert_int_eq(real->list(NULL, directory, count, &found), -ENOMEM);
    ck_assert_int_eq(found, 0);
    ck_assert_int_eq(real->list(NULL, directory, count, &found), 0);
    ck_assert_int_eq(found, 1);
    close(before);
    after = dup(directory);
    ck_assert_int_eq(after, before); /* each list has closed what it had opened */
    close(after);
}
END_TEST

START_TEST(room_is_set_aside_where_the_file_system_can)
{
    int file = make("a");

    ck_assert_int_eq(real->allocate(NULL, file, 10000), 0);
    ck_assert_int_eq(real->size(NULL, file), 10000);
    refuse(2, EINTR); /* it is asked again */
    ck_assert_int_eq(real->allocate(NULL, file, 20000), 0);
    ck_assert_int_eq(refusals, 0);
    ck_assert_int_eq(real->size(NULL, file), 20000);
    refuse(1, EOPNOTSUPP);
    ck_assert_int_eq(real->allocate(NULL, file, 30000), 1);
    refuse(1, ENOSYS);
    ck_assert_int_eq(real->allocate(NULL, file, 30000), 1);
    ck_assert_int_eq(real->size(NULL, file), 20000);
    refuse(1, ENOSPC);
    ck_assert_int_eq(real->allocate(NULL, file, 30000), -ENOSPC);
    real->close(NULL, file);
}
END_TEST

START_TEST(random_bytes_come_whole_or_not)
{
    uint64_t bytes = 0;

    refuse(2, EINTR);
    ck_assert_int_eq(real->random(NULL, &bytes, sizeof(bytes)), 0);
    ck_assert_uint_ne(bytes, 0);
    refuse(1, ENOSYS);
    ck_assert_int_eq(real->random(NULL, &bytes, sizeof(bytes)), -ENOSYS);
    refuse(1, 0);
    ck_assert_int_eq(real->random(NULL, &bytes, sizeof(bytes)), -EIO);
}
END_TEST

START_TEST(a_lock_has_one_owner)
{
    int first = make("a"), second = real->open(NULL, directory, "a", O_RDWR);

    ck_assert_int_eq(real->lock(NULL, first), 0);
    ck_assert_int_eq(real->lock(NULL, second), -EBUSY);
    real->unlock(NULL, first);
    ck_assert_int_eq(real->lock(NULL, second), 0);
    real->close(NULL, first);
    real->close(NULL, second);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("delay_system");
    TCase *tcase = tcase_create("system");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_descriptor_that_is_not_open_is_refused);
    tcase_add_test(tcase, names_are_refused_as_the_system_does);
    tcase_add_test(tcase, a_list_has_all_names_but_its_own_and_the_one_above);
    tcase_add_test(tcase, room_is_set_aside_where_the_file_system_can);
    tcase_add_test(tcase, random_bytes_come_whole_or_not);
    tcase_add_test(tcase, a_lock_has_one_owner);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
