/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * With -Wl,--wrap=hwt_delay_apply, a store has no room for two of three batches that do not wait.
 */

#include <errno.h>
#include <hwt/delay.h>

int __real_hwt_delay_apply(hwt_delay *store, hwt_delay_change *changes, size_t count,
                           hwt_delay_batch *batch);
int __wrap_hwt_delay_apply(hwt_delay *store, hwt_delay_change *changes, size_t count,
                           hwt_delay_batch *batch);

int __wrap_hwt_delay_apply(hwt_delay *store, hwt_delay_change *changes, size_t count,
                           hwt_delay_batch *batch)
{
    static unsigned calls; /* of one thread */
    const bool waits = !batch || !(batch->flags & HWT_DELAY_NO_WAIT);
    return !waits && ++calls % 3 != 0 ? -EAGAIN
                                      : __real_hwt_delay_apply(store, changes, count, batch);
}
