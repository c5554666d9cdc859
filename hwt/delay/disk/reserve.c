/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The reserve is a file as long as a segment is now, and its room is given up if the disk is full.
 * A checkpoint needs it for slots. The log needs it on a file system that writes nothing in place,
 * but copies what is written over, because the length of a file is no promise of room there.
 */

#include <errno.h>
#include <fcntl.h>

#include "hwt/delay/whole.h"

/* Gives it another length. Without the room for that it has so much as it may keep. */
int hwt_delay_reserve_resize(hwt_delay *store, uint64_t keep, uint64_t size)
{
    int file = hwt_delay_open_file(store, "reserve", O_RDWR | O_CREAT);
    if (file < 0)
        return file;
    int r = hwt_delay_truncate(store, file, size);
    if (r == 0)
        r = hwt_delay_allocate(store, file, size);
    if (r < 0)
        hwt_delay_truncate(store, file, keep);
    hwt_delay_close_file(store, file);
    return r < 0 ? r : 0;
}

/* Sets room aside. Without it the store is full. */
bool hwt_delay_reserve_take(hwt_delay *store, uint64_t size)
{
    return hwt_delay_reserve_resize(store, 0, size) == 0;
}

void hwt_delay_reserve_give_up(hwt_delay *store)
{
    int file = hwt_delay_open_file(store, "reserve", O_RDWR);
    if (file < 0)
        return;
    hwt_delay_truncate(store, file, 0);
    hwt_delay_close_file(store, file);
}

/* Writes where the file has bytes already. 1: it is written, and the reserve had to be given up. */
int hwt_delay_overwrite(hwt_delay *store, int file, const void *bytes, size_t size, uint64_t offset)
{
    int r = hwt_delay_write_all(store, file, bytes, size, offset);
    if (!hwt_delay_is_full(r))
        return r;
    hwt_delay_reserve_give_up(store);
    r = hwt_delay_write_all(store, file, bytes, size, offset);
    return r < 0 ? r : 1;
}
