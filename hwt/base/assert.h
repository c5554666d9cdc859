/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_ASSERT_H
#define HWT_ASSERT_H

/*
 * Assertions, in tiers. Meson sets HWT_ASSERTIONS:
 *
 *     0   none, as in a release
 *     1   HWT_ASSERT(): a comparison or two, beside a change. All tests have it
 *     2   HWT_ASSERT_ALL(), too: looks at a whole bucket or a whole trim. Sanitizer builds have it
 *
 * A condition must have no side effect. It is compiled in any case, so that it does not go stale.
 */

#include <stdio.h>
#include <stdlib.h>

#ifndef HWT_ASSERTIONS
#define HWT_ASSERTIONS 0
#endif

#define HWT_ASSERT_AT_(level, condition)                                                           \
    do {                                                                                           \
        if (HWT_ASSERTIONS >= (level) && __builtin_expect(!(condition), 0)) {                      \
            (void)fprintf(stderr, "hwt: %s:%d: it does not hold that %s\n", __FILE__, __LINE__,    \
                          #condition);                                                             \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#define HWT_ASSERT(condition) HWT_ASSERT_AT_(1, condition)
#define HWT_ASSERT_ALL(condition) HWT_ASSERT_AT_(2, condition)

#endif
