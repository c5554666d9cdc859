/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_BASE_OWN_TASK_H
#define HWT_BASE_OWN_TASK_H

/*
 * The library's own tasks. The visitor of hwt_timer_stop() could do nothing with them, so it is not
 * shown them. Two rooms of net/ define them. A program may be linked statically without these
 * rooms, so they are weak: then their addresses are NULL.
 */

#include <hwt/hwt.h>

extern const hwt_task hwt_heartbeat_own_task __attribute__((weak, visibility("hidden")));
extern const hwt_task hwt_retry_own_task __attribute__((weak, visibility("hidden")));

static inline bool hwt_task_is_own(const hwt_task *task)
{
    return task == &hwt_heartbeat_own_task || task == &hwt_retry_own_task;
}

#endif
