/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_RETRY_MANUAL_H
#define HWT_TESTS_RETRY_MANUAL_H

/* Retries on one timer whose clock is set, as a fixture of test cases. */

#include "retry_fixture.h"

static manual m;

static void open_manual(void)
{
    manual_open(&m, HWT_SEC(7) + 13, TICK, WHEEL);
}

static void close_manual(void)
{
    manual_close(&m);
}

static inline void start(trial *t)
{
    ck_assert_int_eq(trial_start(t), 0);
}

#endif
