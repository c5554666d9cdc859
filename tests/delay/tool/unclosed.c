/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Stands in the place of hwt_delay_close() in a program hwt-delay of its own: each store is closed, and says that
 * its last flush has failed.
 */

#include <errno.h>

#include "hwt/delay.h"

int __real_hwt_delay_close(hwt_delay *store);
int __wrap_hwt_delay_close(hwt_delay *store);

int __wrap_hwt_delay_close(hwt_delay *store)
{
    int r = __real_hwt_delay_close(store);
    return r < 0 ? r : -EIO;
}
