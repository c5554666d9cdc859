/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_PERF_DELAY_ALONE_H
#define HWT_PERF_DELAY_ALONE_H

/* Workloads of libhwt-delay alone. */

#include <errno.h>
#include <hwt/delay.h>
#include <stdbool.h>
#include <stdint.h>

#include "../system.h"

extern char
    directory[4096]; /* the workload's; it is not there when that begins, and is removed after it */

int64_t check(const char *what, int64_t r); /* ends the program if it is negative */
void run(const char *command);              /* of the shell, on the directory */

void measure_backlog(bool quick);
void measure_calls(bool quick);
void measure_waits(bool quick);

#endif
