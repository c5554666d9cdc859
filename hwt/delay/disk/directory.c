/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The directory of a store, and its file `store`, which shows who owns it. */

#include <errno.h>

#include "hwt/delay/whole.h"

void hwt_delay_disk_init(hwt_delay *store, const struct hwt_delay_system *system)
{
    store->disk.system = *system;
    store->disk.directory = store->disk.store_file = -1;
}

/* Another may own the store from here on. */
void hwt_delay_disk_close(hwt_delay *store)
{
    struct hwt_delay_disk *disk = &store->disk;
    if (disk->store_file >= 0 && !store->read_only)
        disk->system.unlock(disk->system.data, disk->store_file);
    hwt_delay_close_file(store, disk->store_file);
    hwt_delay_close_file(store, disk->directory);
}

/* The directory above may be one that nobody can sync, or not this process. */
static bool cannot_be_synced(int r)
{
    return r == -EACCES || r == -EPERM || r == -EROFS || r == -EINVAL;
}

/* Who has made the directory may have died before it made its name last, so each owner does. */
static int sync_name(hwt_delay *store, bool made)
{
    int r = store->read_only
                ? 0
                : store->disk.system.sync_above(store->disk.system.data, store->disk.directory);
    return cannot_be_synced(r) && !made ? 0 : r;
}

int hwt_delay_directory_open(hwt_delay *store, const char *path)
{
    const struct hwt_delay_system *system = &store->disk.system;
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
    store->disk.directory = directory;
    int in_memory = system->in_memory(system->data, directory);
    store->not_durable = in_memory == 1;
    return in_memory < 0 ? in_memory : sync_name(store, made);
}

/* Opens the file `store`. */
int hwt_delay_store_open(hwt_delay *store, int flags)
{
    store->disk.store_file = hwt_delay_open_file(store, "store", flags);
    return store->disk.store_file;
}

int hwt_delay_store_file(const hwt_delay *store)
{
    return store->disk.store_file;
}

/* -EBUSY: another owns the store. */
int hwt_delay_own(hwt_delay *store)
{
    return store->disk.system.lock(store->disk.system.data, store->disk.store_file);
}

int hwt_delay_list(hwt_delay *store, void (*found)(const char *name, void *arg), void *arg)
{
    return store->disk.system.list(store->disk.system.data, store->disk.directory, found, arg);
}

int hwt_delay_rename(hwt_delay *store, const char *from, const char *to)
{
    return store->disk.system.rename(store->disk.system.data, store->disk.directory, from, to);
}

int hwt_delay_unlink(hwt_delay *store, const char *name)
{
    return store->disk.system.unlink(store->disk.system.data, store->disk.directory, name);
}
