/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DELAY_BASE_OPTIONS_H
#define HWT_DELAY_BASE_OPTIONS_H

/* The structs that callers bring with a size. See options.c. */

#include <stdbool.h>
#include <stddef.h>

#include "hwt/delay.h"

/* Without the histogram, at least. */
#define HWT_DELAY_STATS_SIZE_MIN offsetof(hwt_delay_stats, lateness_max)

int hwt_delay_options_read(const hwt_delay_options *given, hwt_delay_options *ret_options);
bool hwt_delay_stats_is_size(size_t size);
/* As much as the size in *ret_stats says. */
int hwt_delay_stats_copy(const hwt_delay_stats *stats, hwt_delay_stats *ret_stats);
int hwt_delay_batch_read(const hwt_delay_batch *given, hwt_delay_batch *ret_batch);

#endif
