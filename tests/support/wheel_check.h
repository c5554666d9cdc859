/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_WHEEL_CHECK_H
#define HWT_TESTS_WHEEL_CHECK_H

#include "hwt/wheel/wheel.h"

/* Whether each bucket is in order, and the wheel knows how many hints there are and when each is due. A rival
 * store has a function of its own. */
bool hwt_wheel_check(const struct hwt_wheel *wheel);

#endif
