/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_KIT_H
#define HWT_TESTS_KIT_H

/* What the tests on the inside and those on the public header share. */

#include <pthread.h>

#include "check_main.h"

/* For what is asked very often: ck_assert writes a message each time it holds. */
#define must(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("%s does not hold", #condition);                                          \
    } while (0)

static inline pthread_t spawn(void *(*run)(void *), void *arg)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, run, arg), 0);
    return thread;
}

static inline void join(pthread_t thread)
{
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

#endif
