/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_REQUEST_H
#define HWT_REQUEST_H

/*
 * Requests to the worker, which does them between two passes, because it alone may look at the
 * wheel. The asker holds `control` until the request is done. So there is one request at a time,
 * and the worker neither starts nor stops meanwhile.
 *
 *     asker                                         worker
 *     1  timer->request = its own                   A  is ASLEEP, see gate.h
 *     2  wakes it                                   B  (barrier)
 *     3  waits until there is none                  C  if there is none, sleeps while it is that
 *                                                   D  after each pass: does it
 *
 * 1 and 2 are seq_cst. So C sees 1, or 2 comes after A.
 */

#include "hwt/timer/timer.h"

struct hwt_request {
    void (*act)(hwt_timer *timer, void *data);
    void *data;
};

/* Has the worker call act(timer, data). If no worker runs, this thread does it. */
void hwt_request(hwt_timer *timer, void (*act)(hwt_timer *timer, void *data), void *data);

/* Worker: steps C and D. */
bool hwt_request_is_there(const hwt_timer *timer);
void hwt_request_do(hwt_timer *timer);

#endif
