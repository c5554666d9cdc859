/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_DELAY_FIXTURE_H
#define HWT_TESTS_DELAY_FIXTURE_H

/* A directory for a store, made anew for each test and removed with all that is in it. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check_main.h"
#include "hwt/delay.h"

static char store_directory[64];

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
    snprintf(store_directory, sizeof(store_directory), "delay-test-%d", (int)getpid());
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
