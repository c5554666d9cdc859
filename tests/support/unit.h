/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_UNIT_H
#define HWT_TESTS_UNIT_H

/* What the tests of one room share. ck_assert belongs to the test's own thread. */

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "kit.h"

/* Tests that each begin with `open` and end with `close`; NULL: with nothing. */
static inline TCase *unit_case(Suite *suite, const char *name, void (*open)(void),
                               void (*close)(void))
{
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, open, close);
    suite_add_tcase(suite, tcase);
    return tcase;
}

#endif
