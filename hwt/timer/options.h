/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_CORE_OPTIONS_H
#define HWT_CORE_OPTIONS_H

/* The options of a timer: defaults, and what is refused. */

#include "hwt/hwt.h"

/* The length of hwt_options in the first release. */
#define HWT_OPTIONS_SIZE_MIN                                                                       \
    (offsetof(hwt_options, worker_name) + sizeof(((hwt_options *)NULL)->worker_name))

/* Completes the caller's options; NULL stands for the defaults. ticks_per_wheel becomes a power of
 * two. -EINVAL: they are not in range, as hwt_timer_create() says. */
int hwt_options_read(const hwt_options *given, hwt_options *ret_options);

#endif
