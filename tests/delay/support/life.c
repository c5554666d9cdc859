/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How a store of a running program begins and ends: opened, closed, killed, without power. */

#include "tests/delay/support/run.h"
#include "tests/delay/support/two_disks.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TRIES = 8 };

void wrong(struct run *run, const char *format, ...)
{
    if (run->result->failed)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(run->result->wrong, sizeof(run->result->wrong), format, arguments);
    va_end(arguments);
    run->result->failed = true;
}

void said(const struct run *run, const char *format, ...)
{
    if (!run->say)
        return;
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    fflush(stdout);
}

void run_options(hwt_delay_options *ret_options)
{
    hwt_delay_options_init(ret_options, sizeof(*ret_options));
    ret_options->flags = HWT_DELAY_CREATE;
    ret_options->payload_max = ORACLE_PAYLOAD_MAX;
    ret_options->segment_size = RUN_SEGMENT;
    ret_options->memory = RUN_MEMORY;
    ret_options->leased_max = RUN_LEASES_MAX;
}

bool life_may(const struct run *run, int64_t answer)
{
    int with = run->process.fail_with;
    return run->excused || answer == -EIO ||
           (answer == -ENOSPC && (run->disk->capacity < UINT64_MAX || run->no_room)) ||
           (answer < 0 && answer == with && with != -EINTR);
}

static void process_begin(struct run *run)
{
    struct process *process = &run->process;
    process_start(process, run->disk, &run->realtime, &run->boottime);
    process->random = &run->luck;
    process->changed = image_changed;
    process->changed_arg = run;
    process->mistaken = run->program->mistaken;
    run->no_room = false;
    if (run->program->moment == (run->opened ? OPENING : CREATING))
        process->mistake = run->program->mistake;
    if (run->program->fail_with == 0 || run->result->fault_made)
        return;
    process->fail_with = run->program->fail_with;
    process->fail_at = run->program->fail_at - run->calls_made;
    process->fail_count = run->program->fail_count;
}

static void process_over(struct run *run)
{
    const struct process *process = &run->process;
    run->result->mistakes += process->mistakes;
    run->result->syncs += process->by_kind[DISK_SYNC];
    if (run->program->fail_with != 0 && process->fail_at > 0) {
        run->calls_made += process->calls;
        run->result->fault_made |= process->calls >= process->fail_at;
    }
    process_end(&run->process);
}

/* Opens it; where a process dies in that, or the system fails, the next one tries again. */
static int open_until(struct run *run)
{
    hwt_delay_options options;
    run_options(&options);
    run->standby = draw(run, 6) == 0;
    options.flags |= run->standby ? HWT_DELAY_STANDBY : 0;
    for (int i = 0;; i++) {
        process_begin(run);
        if (i < TRIES && run->program->crashes && draw(run, 4) == 0)
            run->process.die_at = 1 + draw(run, 40);
        const struct hwt_delay_system system = two_disks(&run->process, &run->copying);
        int r = hwt_delay_open_on("store", &options, &system, true, &run->store);
        said(run, "    open: %d%s", r, run->process.dead ? ", dead" : "");
        bool failed = run->process.fail_with != 0 && run->process.calls >= run->process.fail_at;
        if (!run->process.dead && (r == 0 || !life_may(run, r) || (r != -ENOSPC && !failed)))
            return r;
        if (r == 0)
            hwt_delay_close(run->store);
        process_over(run);
        run->disk->capacity = UINT64_MAX;
    }
}

void life_open(struct run *run)
{
    int r = open_until(run);
    run->process.die_at = 0;
    run->process.mistake = run->program->moment == RUNNING ? run->program->mistake : MISTAKE_NONE;
    process_catch_up(&run->process);
    run->opened = true;
    run->offset_low = run->offset_high = run->realtime - run->boottime;
    run->old_count = 0;
    memset(&run->expected, 0, sizeof(run->expected));
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    run->behind = r == 0 && hwt_delay_get_stats(run->store, &stats) == 0 ? stats.hand : 0;
    if (run->behind <= run->realtime)
        run->behind = 0;
    if (r == 0)
        return;
    wrong(run, "open is %d (%s)", r, strerror(-r));
    run->store = NULL;
    process_end(&run->process);
}

static void note_stats(struct run *run)
{
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    if (run->store && hwt_delay_get_stats(run->store, &stats) == 0)
        run->result->checkpoints += stats.checkpoints;
}

void life_close(struct run *run)
{
    note_stats(run);
    if (run->store)
        hwt_delay_close(run->store);
    run->store = NULL;
    process_over(run);
}

static int list_one(const hwt_delay_message *message, void *listing)
{
    listing_next(listing, message);
    return 0;
}

/* Lists what is there; false: the system failed, and it is to be opened once more. */
static bool look_what_is_left(struct run *run, bool counted)
{
    struct listing listing;
    listing_begin(&listing, &run->before, &run->after, run->partly);
    listing.counted = counted && !run->uncounted;
    int r = hwt_delay_visit(run->store, 0, HWT_NEVER, list_one, &listing);
    bool failed = run->process.fail_with != 0 && run->process.calls >= run->process.fail_at;
    if (r < 0 && failed && life_may(run, r)) {
        oracle_free(&listing.found);
        return false;
    }
    if (r != 0)
        wrong(run, "after an end, visit is %d", r);
    listing_note(&listing, run->store);
    if (!listing_end(&listing, &run->before))
        wrong(run, "after an end, %s", listing.wrong);
    else
        check_pending(run, run->store, &run->before, 0, "after an end");
    oracle_copy(&run->after, &run->before);
    run->partly = false;
    image_check(run);
    return true;
}

void life_again(struct run *run, bool power_failed)
{
    const bool counted = !power_failed;
    do {
        run->process.dead = true;
        life_close(run);
        if (power_failed) {
            struct disk *left = disk_crashed(run->disk, &run->luck);
            disk_free(run->disk);
            run->disk = left;
            run->boottime = draw(run, HWT_SEC(1000));
            power_failed = false;
        }
        life_open(run);
    } while (!run->result->failed && !look_what_is_left(run, counted));
}

/* After a failed flush nothing goes on; after a failed reading it may. */
static void check_poisoned(struct run *run)
{
    const hwt_delay_message *none;
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    if (hwt_delay_get_stats(run->store, &stats) == 0 && !stats.poisoned)
        return;
    hwt_delay_message message = { .due = run->realtime, .id = "x", .id_size = 1 };
    int r = hwt_delay_put(run->store, &message, 1);
    int64_t n = hwt_delay_take(run->store, 1, 0, &none);
    if (!run->process.dead && (r != -EIO || n != -EIO))
        wrong(run, "after -EIO, put is %d and take is %" PRId64, r, n);
}

bool life_answer(struct run *run, const char *call, int64_t answer)
{
    said(run, "  %s: %" PRId64 "%s", call, answer, run->process.dead ? ", dead" : "");
    run->excused = false;
    if (run->result->failed)
        return false;
    if (run->process.dead || answer == -EIO) {
        int with = run->process.fail_with;
        if (!run->process.dead && (with >= 0 || with == -EINTR))
            wrong(run, "%s is -EIO", call);
        else if (!run->process.dead)
            check_poisoned(run);
        life_again(run, false);
        run->excused = true;
        return false;
    }
    if (answer >= 0) {
        oracle_copy(&run->before, &run->after);
    } else {
        if (answer == -ENOSPC && !life_may(run, answer))
            wrong(run, "%s is -ENOSPC", call);
        oracle_copy(&run->after, &run->before);
    }
    run->partly = false;
    if (run->program->crashes)
        image_check(run);
    process_catch_up(&run->process);
    return answer >= 0;
}
