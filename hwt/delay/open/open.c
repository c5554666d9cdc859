/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Opening and closing a store. */

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "hwt/delay/whole.h"

static int make_tables(hwt_delay *store)
{
    hwt_delay_table_init(store);
    hwt_delay_leases_begin(store);
    hwt_delay_log_init(store);
    hwt_delay_slots_init(store);
    hwt_delay_cond_init(&store->changed);
    hwt_delay_takes_init(store);
    hwt_delay_jobs_init(store, hwt_delay_takes_hear, hwt_delay_checkpoint_make);
    int r = -pthread_mutex_init(&store->lock, NULL);
    return r < 0 ? r : hwt_delay_epoch_begin(store);
}

/* From here on other threads do what callers need not wait for. */
static int start_jobs(hwt_delay *store)
{
    static uint64_t (*const runs[])(void *) = {
        [HWT_DELAY_ALARM] = hwt_delay_ring,
        [HWT_DELAY_COMMIT] = hwt_delay_log_commit,
        [HWT_DELAY_CHECKPOINT] = hwt_delay_checkpointer,
        [HWT_DELAY_LOAD] = hwt_delay_loader,
    };
    int r = hwt_delay_jobs_begin(store, runs);
    if (r < 0)
        return r;
    hwt_delay_want(store, HWT_DELAY_CHECKPOINT);
    hwt_delay_want(store, HWT_DELAY_LOAD);
    return 0;
}

/* All that a checkpoint says. Nothing else is under way. */
void hwt_delay_forget(hwt_delay *store)
{
    hwt_delay_table_forget(store);
    hwt_delay_slots_forget(store);
    hwt_delay_log_set_counted(store, 0);
    hwt_delay_clock_forget(store);
}

static void free_store(hwt_delay *store)
{
    hwt_delay_forget(store);
    hwt_delay_slots_free(store);
    hwt_delay_log_free(store);
    hwt_delay_disk_close(store);
    pthread_cond_destroy(&store->changed);
    hwt_delay_takes_free(store);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

static int open_store(hwt_delay *store, const char *directory)
{
    int r = hwt_delay_directory_open(store, directory);
    if (r == 0)
        r = hwt_delay_open_files(store);
    if (r == 0)
        r = hwt_delay_log_begin(store);
    if (r == 0)
        r = hwt_delay_recover(store);
    if (r == 0) {
        hwt_delay_clock_begin(store);
        store->full =
            !store->read_only && !hwt_delay_reserve_take(store, hwt_delay_log_extent(store));
        if (store->salvage)
            r = hwt_delay_checkpoint(store); /* whole again */
        if (r == 0 && store->salvage)
            r = hwt_delay_gaps_release(store);
        if (r == 0 && !store->synchronous && !store->read_only)
            r = start_jobs(store);
    }
    return r;
}

static int open_once(const char *directory, const hwt_delay_options *options,
                     const struct hwt_delay_system *system, bool synchronous, hwt_delay **ret_store)
{
    hwt_delay *store = calloc(1, sizeof(*store));
    if (!store)
        return -ENOMEM;
    hwt_delay_disk_init(store, system);
    store->options = *options;
    store->synchronous = synchronous;
    store->read_only = (options->flags & HWT_DELAY_READ_ONLY) != 0;
    store->salvage = (options->flags & HWT_DELAY_SALVAGE) != 0;
    store->standby = (options->flags & HWT_DELAY_STANDBY) != 0;
    int r = make_tables(store);
    if (r == 0)
        r = open_store(store, directory);
    if (r < 0) {
        free_store(store);
        return r;
    }
    *ret_store = store;
    return 0;
}

int hwt_delay_open_on(const char *directory, const hwt_delay_options *options,
                      const struct hwt_delay_system *system, bool synchronous,
                      hwt_delay **ret_store)
{
    hwt_delay_options own;
    if (!directory || !ret_store)
        return -EINVAL;
    int r = hwt_delay_options_read(options, &own);
    if (r < 0)
        return r;
    int shield = hwt_shield();
    r = open_once(directory, &own, system, synchronous, ret_store);
    /* An owner may have changed the files between two readings. If the error stays, it is
     * damage. */
    for (int i = 0; i < 4 && (own.flags & HWT_DELAY_READ_ONLY) && (r == -EBADMSG || r == -ESTALE);
         i++)
        r = open_once(directory, &own, system, synchronous, ret_store);
    hwt_unshield(shield);
    return r;
}

int hwt_delay_open(const char *directory, const hwt_delay_options *options, hwt_delay **ret_store)
{
    return hwt_delay_open_on(directory, options, &hwt_delay_real_system, false, ret_store);
}

/* Nothing else is under way. */
int hwt_delay_close(hwt_delay *store)
{
    if (!store)
        return 0;
    int shield = hwt_delay_enter(store);
    hwt_delay_log_finish(store);
    if (hwt_delay_passed_bytes(store) > 0 || hwt_delay_handed_is_short(store))
        hwt_delay_checkpoint_make(store);
    int r = store->poisoned ? -EIO : 0;
    hwt_delay_log_close(store);
    pthread_mutex_unlock(&store->lock);
    hwt_delay_jobs_end(store);
    free_store(store);
    hwt_unshield(shield);
    return r;
}
