/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Many timers in one process, each with a timeout: a library may make one for each of its objects.
 * Linux lets a process have 65530 mappings, so a timer must not need many of them.
 *
 * Here time is set: nothing depends on how fast the machine is.
 */

#include <stdio.h>

#include "children.h"

enum { TIMERS = 1000, OTHERS = 50 }; /* mappings of the C library */

/* Sanitizers have mappings of their own for each of the program's, so 0 there. */
static int count_mappings(void)
{
    if (WITH_SANITIZER)
        return 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    must(maps);
    int lines = 0;
    for (int c; (c = getc(maps)) != EOF;)
        lines += c == '\n';
    fclose(maps);
    return lines;
}

START_TEST(a_small_timer_takes_one_mapping_at_most)
{
    static const hwt_task task = { count_run, NULL };
    static manual timers[TIMERS];
    ends counts = { 0 };
    int before = count_mappings();
    for (int i = 0; i < TIMERS; i++) {
        manual_open(&timers[i], HWT_SEC(1), HWT_MS(1), 8);
        arm(timers[i].timer, &task, &counts, HWT_MS(5));
    }
    ck_assert_int_le(count_mappings(), before + TIMERS + OTHERS);
    for (int i = 0; i < TIMERS; i++) {
        manual_go(&timers[i], HWT_MS(10));
        manual_close(&timers[i]);
    }
    ck_assert_uint_eq(counts.runs, TIMERS);
    ck_assert_int_le(count_mappings(), before + OTHERS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("many timers");
    TCase *tcase = tcase_create("mappings");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_small_timer_takes_one_mapping_at_most);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
