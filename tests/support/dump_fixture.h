/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_DUMP_FIXTURE_H
#define HWT_TESTS_DUMP_FIXTURE_H

/* Room for a dump, and the last one. */

#include "api_fixture.h"

enum { ROOM = 16 * 1024 };

static char dump[ROOM];

static inline const char *dump_of(hwt_timer *timer)
{
    memset(dump, '#', sizeof(dump));
    int64_t length = hwt_timer_dump(timer, dump, sizeof(dump));
    ck_assert_int_gt(length, 0);
    ck_assert_int_lt(length, ROOM);
    ck_assert_uint_eq(strlen(dump), (size_t)length);
    return dump;
}

#endif
