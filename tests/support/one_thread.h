/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_ONE_THREAD_H
#define HWT_TESTS_ONE_THREAD_H

/* What the timers of model_timer.c and simulate.c have beside HWT_NO_WORKER: nothing, or, where the
 * build says so, HWT_ONE_THREAD. All that they promise is the same. */

#include <hwt/hwt.h>

#ifndef HWT_ONE_THREAD
#define HWT_ONE_THREAD UINT32_C(2)
#endif

#ifndef MODEL_FLAGS
#define MODEL_FLAGS 0
#endif

#endif
