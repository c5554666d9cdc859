/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Stands in the place of hwt_delay_done() in a program hwt-delay of its own: of several leases, one is said to have
 * ended before.
 */

#include "hwt/delay.h"

int64_t __real_hwt_delay_done(hwt_delay *store, const uint64_t *leases, size_t count);
int64_t __wrap_hwt_delay_done(hwt_delay *store, const uint64_t *leases, size_t count);

int64_t __wrap_hwt_delay_done(hwt_delay *store, const uint64_t *leases, size_t count)
{
    int64_t ended = __real_hwt_delay_done(store, leases, count);
    return ended > 1 ? ended - 1 : ended;
}
