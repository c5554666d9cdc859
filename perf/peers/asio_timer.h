/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_PERF_ASIO_TIMER_H
#define HWT_PERF_ASIO_TIMER_H

/* What asio.c, in C as the workloads are, needs of asio_timer.cpp. */

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Room for one asio::steady_timer. */
struct asio_place {
    uint64_t words[16];
};

void asio_init(struct asio_place *place);
void asio_arm(struct asio_place *place, uint64_t delay, void (*run)(void *arg), void *arg);
void asio_cancel(struct asio_place *place);
void asio_turn(bool wait);

#ifdef __cplusplus
}
#endif

#endif
