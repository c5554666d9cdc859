/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_CORE_OPTIONS_H
#define HWT_CORE_OPTIONS_H

/* The options of a timer: defaults, and what is refused. */

#include "hwt/hwt.h"

/* The length of hwt_options in the first release. */
#define HWT_OPTIONS_SIZE_MIN                                                                       \
    (offsetof(hwt_options, worker_name) + sizeof(((hwt_options *)NULL)->worker_name))

/*
 * What the caller's options say, complete and in range; ticks_per_wheel is a power of two. NULL
 * stands for the defaults.
 *
 * -EINVAL: as hwt_timer_create()
 */
int hwt_options_read(const hwt_options *given, hwt_options *ret_options);

#endif
