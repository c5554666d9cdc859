/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_REGRESSION_FIXTURE_H
#define HWT_TESTS_REGRESSION_FIXTURE_H

/*
 * What the tests on what this timer got wrong once share. The clock is set, but where a thread
 * must sleep. Each test is named by what must hold, and tells where it did not.
 */

#include "api_fixture.h"

#define TICK HWT_MS(10)

static manual m;

static inline void do_nothing(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
}

static const hwt_task idle = { do_nothing, NULL };

static inline bool await_briefly(shared_count *count, uint64_t wanted)
{
    return await_within(HWT_SEC(10), count, wanted);
}

/* What hangs is to be told before the program's own time is up. */
static inline TCase *add_brief_case(Suite *suite, const char *name)
{
    TCase *tcase = add_case(suite, name);
    tcase_set_timeout(tcase, 20);
    return tcase;
}

#endif
