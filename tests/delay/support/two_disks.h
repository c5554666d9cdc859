/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_DELAY_SUPPORT_TWO_DISKS_H
#define HWT_TESTS_DELAY_SUPPORT_TWO_DISKS_H

/*
 * Two simulated disks behind one seam: a store's own, and the one that has the directory `copy`. One
 * pair at a time; both processes must stay.
 */

#include "tests/delay/support/disk.h"

struct hwt_delay_system two_disks(struct process *its, struct process *of_the_copy);

#endif
