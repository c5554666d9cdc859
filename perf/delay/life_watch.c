/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "life.h"

#include <time.h>

void watch_begin(struct watch *watch, const struct run *run)
{
    watch->begin = watch->last_line = read_clock(CLOCK_MONOTONIC);
    watch->device_begin = device_written(run->options.directory);
}

void watch_sample(struct watch *watch, const struct run *run, pid_t child)
{
    uint64_t now = read_clock(CLOCK_MONOTONIC);
    /* Without the ledger, which is shared memory. */
    uint64_t resident = number_in(child, "status", "RssAnon:") * 1024;

    if (resident > watch->resident_max)
        watch->resident_max = resident;
    if (now - watch->last_line < HWT_SEC(1))
        return;
    uint64_t disk = disk_bytes(run->path);
    if (disk > watch->disk_max)
        watch->disk_max = disk;
    report_line(run, watch, resident, disk);
    watch->last_line = now;
}

void watch_end_of_life(struct watch *watch, const struct run *run, pid_t child)
{
    const counter *from = (const counter *)&run->shared->now;
    counter *to = (counter *)&watch->ended;

    watch->written += number_in(child, "io", "write_bytes:");
    for (size_t i = 0; i < sizeof(struct store_counts) / sizeof(counter); i++)
        count(&to[i], counted(&from[i]));
}
