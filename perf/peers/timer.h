/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_PERF_PEER_TIMER_H
#define HWT_PERF_PEER_TIMER_H

/* A timeout in the program's own memory; what PEER_OWN names is the library's part, and comes first. */
struct peer_timer {
    PEER_OWN own;
    uint64_t deadline; /* the workload's */
    void (*run)(struct peer_timer *timer);
};

#endif
