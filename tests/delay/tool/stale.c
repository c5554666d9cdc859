/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Stands in the place of hwt_delay_copy() in a program hwt-delay of its own: the first OWNER_CHECKPOINTS times that
 * it copies, the store's owner, which is made here, puts a message and makes a checkpoint before. So what the
 * program has opened is stale then.
 */

#include <stdlib.h>

#include "hwt/delay.h"

int __real_hwt_delay_copy(hwt_delay *store, const char *path);
int __wrap_hwt_delay_copy(hwt_delay *store, const char *path);

static int own(const char *directory)
{
    static uint64_t due = UINT64_C(4102444800000000000);
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    hwt_delay *owner;
    int r = hwt_delay_open(directory, &options, &owner);
    if (r < 0)
        return r;
    const hwt_delay_message message = { .due = ++due, .id = "id", .id_size = 2, .payload = "" };
    r = hwt_delay_put(owner, &message, 1);
    if (r == 0)
        r = hwt_delay_checkpoint(owner);
    int closed = hwt_delay_close(owner);
    return r < 0 ? r : closed;
}

int __wrap_hwt_delay_copy(hwt_delay *store, const char *path)
{
    static int left = -1;
    if (left < 0)
        left = atoi(getenv("OWNER_CHECKPOINTS"));
    int r = left > 0 ? own("store") : 0;
    left -= left > 0;
    return r < 0 ? r : __real_hwt_delay_copy(store, path);
}
