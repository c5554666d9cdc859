/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DELAY_API_TAKES_H
#define HWT_DELAY_API_TAKES_H

/* Who waits in take, or watches the descriptor, and what they are told. See wake.c. */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "hwt/delay.h"

struct hwt_delay_takes {
    pthread_cond_t takers;
    uint64_t waiting; /* threads in a take that may sleep */
    uint64_t wakes;   /* calls of hwt_delay_wake() */
    bool woken;       /* one of them came when nobody was waiting: the next that would, is woken */
    int event;        /* -1: none */
    bool event_set;
    uint64_t alarm_at; /* the instant the alarm is set to; HWT_NEVER: none */
    int trouble; /* why takes get nothing: -ETIME while the clock is held, or what loading failed with; 0 */
    uint64_t troubles; /* how often one began */
    uint64_t told;     /* the last one of them that a take has returned */
};

void hwt_delay_takes_init(hwt_delay *store);
void hwt_delay_takes_free(hwt_delay *store);
void hwt_delay_takes_hear(hwt_delay *store, int reason); /* see jobs.h */
/* Something may have changed that a take waits for. True: something can be taken now. */
bool hwt_delay_wake_arm(hwt_delay *store);
uint64_t hwt_delay_ring(void *store); /* a job */
void hwt_delay_wake_clear(hwt_delay *store);
uint64_t hwt_delay_next_locked(hwt_delay *store);

#endif
