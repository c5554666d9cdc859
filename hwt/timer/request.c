/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Requests to the worker. See request.h. */

#include "hwt/timer/request.h"

#include "hwt/base/shield.h"
#include "hwt/worker/task.h"

bool hwt_request_is_there(const hwt_timer *timer)
{
    /* Relaxed: after B. hwt_request_do() acquires. */
    return atomic_load_explicit(&timer->request, memory_order_relaxed) != NULL;
}

void hwt_request_do(hwt_timer *timer)
{
    /* Acquire: the request. */
    struct hwt_request *request = atomic_load_explicit(&timer->request, memory_order_acquire);
    if (!request)
        return;
    request->act(timer, request->data);
    HWT_SCHED_POINT(REQUEST_DONE);
    /* Release: what was done, for the asker. */
    atomic_store_explicit(&timer->request, NULL, memory_order_release);
    hwt_task_returned(&timer->shared);
}

static bool is_done(const void *data)
{
    const hwt_timer *timer = data;
    return atomic_load_explicit(&timer->request, memory_order_acquire) == NULL;
}

/* Under `control`, so the worker runs until it is done. */
static void ask(hwt_timer *timer, struct hwt_request *request)
{
    atomic_store_explicit(&timer->request, request, memory_order_seq_cst);
    HWT_SCHED_POINT(REQUEST_WAKE);
    hwt_gate_wake(&timer->shared.gate);
    hwt_task_await(&timer->shared, is_done, timer);
}

void hwt_request(hwt_timer *timer, void (*act)(hwt_timer *timer, void *data), void *data)
{
    struct hwt_request request = { act, data };
    int shield = hwt_shield();
    pthread_mutex_lock(&timer->control);
    if (timer->thread_runs && !hwt_halted_by(timer, HWT_HALTED_STOPPING)) {
        ask(timer, &request);
    } else {
        pthread_mutex_lock(&timer->driving);
        act(timer, data);
        hwt_unlock(timer, &timer->driving);
    }
    hwt_unlock(timer, &timer->control);
    hwt_unshield(shield);
}
