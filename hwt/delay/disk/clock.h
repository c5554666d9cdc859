/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DELAY_DISK_CLOCK_H
#define HWT_DELAY_DISK_CLOCK_H

/* The clock of a store, and its leaps. See clock.c. */

#include <stdbool.h>
#include <stdint.h>

#include "hwt/delay.h"

struct hwt_delay_clock {
    uint64_t hand;       /* the latest instant that the store has seen */
    uint64_t offset_max; /* of realtime against boottime, the largest that was accepted */
    bool offset_known, held;
    bool behind; /* the clock was behind the hand at opening, and has been so since */
};

uint64_t hwt_delay_clock(hwt_delay *store); /* realtime; notes leaps */
uint64_t hwt_delay_realtime(const hwt_delay *store);
uint64_t hwt_delay_boottime(const hwt_delay *store);
uint64_t hwt_delay_hand(const hwt_delay *store);
bool hwt_delay_is_held(const hwt_delay *store);
void hwt_delay_hand_raise(hwt_delay *store, uint64_t hand);
/* The hand was read. */
void hwt_delay_clock_begin(hwt_delay *store);
void hwt_delay_clock_forget(hwt_delay *store);

#endif
