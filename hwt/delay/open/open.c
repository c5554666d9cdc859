/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Opening and closing a store. */

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "hwt/delay/store.h"

static int make_tables(hwt_delay *store)
{
    RB_INIT(&store->keys);
    RB_INIT(&store->identities);
    RB_INIT(&store->leased);
    RB_INIT(&store->origins);
    RB_INIT(&store->tokens);
    RB_INIT(&store->ends);
    TAILQ_INIT(&store->fresh);
    hwt_delay_filed_init(&store->filed);
    hwt_delay_filed_init(&store->noted_filed);
    RB_INIT(&store->wheel.places);
    RB_INIT(&store->wheel.nexts);
    RB_INIT(&store->wheel.highests);
    TAILQ_INIT(&store->finished);
    LIST_INIT(&store->sought);
    hwt_delay_log_init(store);
    store->next_token = 1;
    store->next_number = 1;
    store->directory = store->store_file = -1;
    store->handed.file = -1;
    store->event = -1;
    store->alarm_at = HWT_NEVER;
    hwt_delay_cond_init(&store->changed);
    hwt_delay_cond_init(&store->takers);
    int r = -pthread_mutex_init(&store->lock, NULL);
    return r < 0 ? r : hwt_delay_epoch_begin(store);
}

/* The directory above may be one that nobody can sync, or not this process. */
static bool cannot_be_synced(int r)
{
    return r == -EACCES || r == -EPERM || r == -EROFS || r == -EINVAL;
}

/* Who has made the directory may have died before it made its name last, so each owner does. */
static int sync_name(hwt_delay *store, bool made)
{
    int r = store->read_only ? 0 : store->system.sync_above(store->system.data, store->directory);
    return cannot_be_synced(r) && !made ? 0 : r;
}

static int open_directory(hwt_delay *store, const char *path)
{
    const struct hwt_delay_system *system = &store->system;
    bool made = false;
    int directory = system->open_directory(system->data, path);
    if (directory == -ENOENT && (store->options.flags & HWT_DELAY_CREATE)) {
        int r = system->make_directory(system->data, path);
        if (r < 0 && r != -EEXIST)
            return r;
        made = r == 0;
        directory = system->open_directory(system->data, path);
    }
    if (directory < 0)
        return directory;
    store->directory = directory;
    int in_memory = system->in_memory(system->data, directory);
    store->not_durable = in_memory == 1;
    return in_memory < 0 ? in_memory : sync_name(store, made);
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
    int r = hwt_delay_pool_enter(&store->pool);
    if (r < 0)
        return r;
    for (int i = 0; i < HWT_DELAY_LANES; i++)
        hwt_delay_job_begin(&store->jobs[i], store->pool, i, runs[i], store);
    hwt_delay_job_want(&store->jobs[HWT_DELAY_CHECKPOINT]);
    hwt_delay_job_want(&store->jobs[HWT_DELAY_LOAD]);
    return 0;
}

static void end_jobs(hwt_delay *store)
{
    if (!store->pool)
        return;
    for (int i = 0; i < HWT_DELAY_LANES; i++)
        hwt_delay_job_end(&store->jobs[i]);
    hwt_delay_pool_leave(store->pool);
}

static void free_records(hwt_delay *store)
{
    struct hwt_delay_lease *lease;
    struct hwt_delay_record *record;
    while ((lease = RB_MIN(hwt_delay_tokens, &store->tokens))) {
        record = hwt_delay_lease_end(store, lease);
        if (record)
            hwt_delay_record_unref(record);
    }
    while ((record = RB_MIN(hwt_delay_keys, &store->keys)))
        hwt_delay_remove(store, record);
    hwt_delay_set_note(store, NULL);
    hwt_delay_drops_free(store);
}

/* All that a checkpoint says. Nothing else is under way. */
void hwt_delay_forget(hwt_delay *store)
{
    struct hwt_delay_slot *slot;
    free_records(store);
    while ((slot = RB_MIN(hwt_delay_places, &store->wheel.places))) {
        hwt_delay_wheel_remove(store, slot);
        hwt_delay_slot_unref(slot);
    }
    hwt_delay_filed_init(&store->filed);
    store->gaps.count = 0;
    store->gap_is_new = false;
    hwt_delay_log_set_counted(store, 0);
    store->hand = 0;
    store->next_number = 1;
}

static void free_store(hwt_delay *store)
{
    struct hwt_delay_slot *slot;
    hwt_delay_forget(store);
    while ((slot = TAILQ_FIRST(&store->finished))) {
        TAILQ_REMOVE(&store->finished, slot, listed);
        hwt_delay_slot_unref(slot);
    }
    free(store->positions.floors);
    free(store->aside);
    free(store->handed.counts);
    hwt_delay_log_free(store);
    if (store->store_file >= 0 && !store->read_only)
        store->system.unlock(store->system.data, store->store_file);
    const int files[] = { store->handed.file, store->store_file, store->directory };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        hwt_delay_close_file(store, files[i]);
    pthread_cond_destroy(&store->changed);
    pthread_cond_destroy(&store->takers);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

static int open_store(hwt_delay *store, const char *directory)
{
    int r = open_directory(store, directory);
    if (r == 0)
        r = hwt_delay_open_files(store);
    if (r == 0)
        r = hwt_delay_log_begin(store);
    if (r == 0)
        r = hwt_delay_recover(store);
    if (r == 0) {
        store->behind = store->system.realtime(store->system.data) < store->hand;
        hwt_delay_clock(store);
        store->full =
            !store->read_only && !hwt_delay_reserve_take(store, hwt_delay_log_extent(store));
        if (store->salvage)
            r = hwt_delay_checkpoint(store); /* whole again */
        if (r == 0 && store->salvage)
            r = hwt_delay_gaps_release(store);
        if (r == 0 && !store->alone && !store->read_only)
            r = start_jobs(store);
    }
    return r;
}

static int open_once(const char *directory, const hwt_delay_options *options,
                     const struct hwt_delay_system *system, bool alone, hwt_delay **ret_store)
{
    hwt_delay *store = calloc(1, sizeof(*store));
    if (!store)
        return -ENOMEM;
    store->system = *system;
    store->options = *options;
    store->alone = alone;
    store->read_only = (options->flags & HWT_DELAY_READ_ONLY) != 0;
    store->standby = (options->flags & HWT_DELAY_STANDBY) != 0;
    store->salvage = (options->flags & HWT_DELAY_SALVAGE) != 0;
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
                      const struct hwt_delay_system *system, bool alone, hwt_delay **ret_store)
{
    hwt_delay_options own;
    if (!directory || !ret_store)
        return -EINVAL;
    int r = hwt_delay_options_read(options, &own);
    if (r < 0)
        return r;
    int shield = hwt_shield();
    r = open_once(directory, &own, system, alone, ret_store);
    /* An owner may have changed the files between two readings: what stays is damage. */
    for (int i = 0; i < 4 && (own.flags & HWT_DELAY_READ_ONLY) && (r == -EBADMSG || r == -ESTALE);
         i++)
        r = open_once(directory, &own, system, alone, ret_store);
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
    if (store->wheel.passed_bytes > 0 || hwt_delay_handed_is_short(store))
        hwt_delay_checkpoint_make(store);
    int r = store->poisoned ? -EIO : 0;
    hwt_delay_log_close(store);
    pthread_mutex_unlock(&store->lock);
    end_jobs(store);
    if (store->event >= 0)
        close(store->event);
    free_store(store);
    hwt_unshield(shield);
    return r;
}
