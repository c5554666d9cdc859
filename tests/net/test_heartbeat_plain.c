/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* hwt/heartbeat.h without its inline functions: those are the library's. */

#define HWT_NO_INLINE

#include "heartbeat_fixture.h"

START_TEST(notes_are_functions_of_the_library)
{
    hwt_heartbeat heartbeat;
    memset(&heartbeat, 0, sizeof(heartbeat));
    void (*const notes[])(hwt_heartbeat *, uint64_t) = { hwt_heartbeat_read_at,
                                                         hwt_heartbeat_written_at };
    for (uint64_t i = 0; i < 2; i++) {
        notes[i](NULL, 1);
        notes[i](&heartbeat, 70 + i);
        notes[i](&heartbeat, 60);
    }
    ck_assert_uint_eq(heartbeat.last_read, 70);
    ck_assert_uint_eq(heartbeat.last_written, 71);
}
END_TEST

START_TEST(they_put_an_event_off)
{
    manual m;
    manual_open(&m, 123456789, TICK, WHEEL);
    peer p = peer_for(&m, HWT_HEARTBEAT_ALL_IDLE, HWT_SEC(1));
    peer_start(&p);
    manual_go(&m, HWT_MS(700));
    (_i ? written_at : read_at)(&p, HWT_MS(700));
    go_by_ticks(&m, HWT_MS(1709));
    ck_assert_uint_eq(p.count, 0);
    manual_go(&m, HWT_MS(1710));
    assert_told(&p, 0, HWT_HEARTBEAT_ALL_IDLE, 1, HWT_MS(1710));
    manual_close(&m);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("heartbeat_plain");
    TCase *tcase = add_case(suite, "notes");
    tcase_add_test(tcase, notes_are_functions_of_the_library);
    tcase_add_loop_test(tcase, they_put_an_event_off, 0, 2);
    return run_suite(suite);
}
