/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_DELAY_SUPPORT_FIXTURE_H
#define HWT_TESTS_DELAY_SUPPORT_FIXTURE_H

/*
 * A directory for a store, made anew for each test and removed with all that is in it. It is beside
 * the program, and so below the build folder: a test that fails or is killed leaves its own there.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check_main.h"
#include "hwt/delay.h"

static char store_directory[PATH_MAX];

static inline void remove_store(void)
{
    DIR *stream = opendir(store_directory);
    const struct dirent *entry;
    while (stream && (entry = readdir(stream))) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(stream), entry->d_name, 0);
    }
    if (stream)
        closedir(stream);
    rmdir(store_directory);
}

static inline void make_directory_name(void)
{
    char program[PATH_MAX / 2];
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    ck_assert_int_gt(length, 0);
    program[length] = '\0';
    snprintf(store_directory, sizeof(store_directory), "%s.store-%d", program, (int)getpid());
    remove_store();
}

/* Small: so that checkpoints, loading in stretches and both segments come into play soon. */
static inline hwt_delay_options small_options(void)
{
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    options.flags = HWT_DELAY_CREATE;
    options.payload_max = 8192;
    options.memory = 1 << 20;
    options.segment_size = 64 << 10;
    return options;
}

static inline hwt_delay_message message_of(uint64_t due, const char *id, const char *payload)
{
    return (hwt_delay_message){
        .due = due,
        .id = id,
        .id_size = strlen(id),
        .payload = payload,
        .payload_size = strlen(payload),
    };
}

#endif
