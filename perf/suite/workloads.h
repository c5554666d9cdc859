/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_PERF_WORKLOADS_H
#define HWT_PERF_WORKLOADS_H

/*
 * The workloads on the public header: linked with hwt/wheel/wheel.c, or with another store in its
 * place. One file a family of workloads.
 */

#include <hwt/hwt.h>

#include "kit.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- workloads.c ---- */

extern const hwt_task idle_task; /* never runs, or does nothing if it does */

hwt_timer *make_timer(const struct options *options);
hwt_timer *make_unstarted_timer(const struct options *options);
hwt_timer *make_undriven_timer(const struct options *options); /* no worker, nobody dispatches */
void arm(hwt_timer *timer, const hwt_task *task, void *arg, uint64_t delay, hwt_timeout *ret);

/* ---- crew.c: threads that do the same, over and over ---- */

#define BATCH 50 /* operations between two looks at whether to go on */
#define LINE 128 /* what two producers write must not be on one pair of cache lines */

struct producer {
    pthread_t thread;
    struct crew *crew;
    uint64_t random;
    void *data; /* what prepare() made */
    uint64_t begin, end;
    uint64_t begin_ops, ops;
    _Alignas(LINE) _Atomic uint64_t published; /* ops, for others */
};

struct crew {
    hwt_timer *timer;
    const struct options *options;
    void (*prepare)(struct producer *producer); /* may be NULL */
    void (*batch)(struct producer *producer);   /* BATCH operations */
    void (*finish)(struct producer *producer);  /* may be NULL */
    void *shared;

    struct producer *producers;
    pthread_barrier_t started; /* passed twice */
    pthread_barrier_t ready;   /* all are prepared */
    _Alignas(LINE) atomic_int phase;

    /* By crew_run(): */
    double ns;       /* an operation's, to a producer */
    double mops;     /* of all producers */
    double cpu_ns;   /* an operation's */
    double mops_all; /* the same, but by one clock: right for more threads than processors */
    double mops_start, mops_end;
    uint64_t base_rss;  /* with the timer and all threads, before they were prepared */
    uint64_t peak_rss;  /* in the measured part */
    uint64_t peak_held; /* the same by the timer's own count */
};

void crew_run(struct crew *crew);

/* ---- The families ---- */

void run_churn(const struct options *options);           /* churn.c */
void run_churn_100ms(const struct options *options);     /* the same */
void run_reset(const struct options *options);           /* the same */
void run_requests(const struct options *options);        /* the same */
void run_memory(const struct options *options);          /* memory.c */
void run_memory_blocked(const struct options *options);  /* the same */
void run_memory_undriven(const struct options *options); /* the same */
void run_growth(const struct options *options);          /* growth.c */
void run_fire(const struct options *options);            /* fire.c */
void run_heartbeat(const struct options *options);       /* the same */
void run_burst(const struct options *options);           /* burst.c */
void run_first(const struct options *options);           /* first.c */
void run_standing(const struct options *options);        /* workloads.c */
void run_idle(const struct options *options);            /* the same */
void run_rounds(const struct options *options);          /* set_clock.c */
void run_leap(const struct options *options);            /* the same */
void run_window(const struct options *options);          /* the same */
void run_peak(const struct options *options);            /* the same */
double tick_cost(const struct options *options);         /* the same; ns */

#endif
