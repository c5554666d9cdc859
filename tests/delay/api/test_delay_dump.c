/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The text of what a store consists of: the note, the drops and the deliveries, for the owner and for
 * whoever only looks. */

#include "tests/delay/support/delay_fixture.h"

static hwt_delay *store;

static void open_store(uint32_t flags)
{
    hwt_delay_options options = small_options();
    options.flags = flags;
    ck_assert_int_eq(hwt_delay_open(store_directory, &options, &store), 0);
}

static void setup(void)
{
    make_directory_name();
    open_store(HWT_DELAY_CREATE);
}

static void teardown(void)
{
    ck_assert_int_eq(hwt_delay_close(store), 0);
    remove_store();
}

/* There is such a line, also for one who only looks at the store as it is on the disk. */
static void check_line(const char *line, bool wanted)
{
    char text[8192];
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    hwt_delay *looking;
    options.flags = HWT_DELAY_READ_ONLY;
    ck_assert_int_eq(hwt_delay_open(store_directory, &options, &looking), 0);
    hwt_delay *const stores[] = { store, looking };
    for (int i = 0; i < 2; i++) {
        int64_t length = hwt_delay_dump(stores[i], text, sizeof(text));
        ck_assert(length > 0 && length < (int64_t)sizeof(text));
        const char *found = strstr(text, line);
        ck_assert_msg((found && found[-1] == '\n') == wanted, "%s in: %s", line, text);
    }
    ck_assert_int_eq(hwt_delay_close(looking), 0);
}

static uint64_t apply(hwt_delay_change *changes, size_t count, const char *note, size_t size)
{
    hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
    batch.note = note;
    batch.note_size = size;
    ck_assert_int_eq(hwt_delay_apply(store, changes, count, &batch), 0);
    return batch.mark;
}

START_TEST(the_note_is_in_one_line)
{
    char line[100];
    check_line("note: ", false);
    uint64_t mark = apply(NULL, 0, "at 5\\\n\xff", 7);
    snprintf(line, sizeof(line), "note: 7 bytes, mark %" PRIu64 ": at 5\\x5c\\x0a\\xff\n", mark);
    check_line(line, true);
    apply(NULL, 0, "", 0);
    check_line("note: 0 bytes, mark ", true);
}
END_TEST

/* Listed as long as it is kept. */
START_TEST(drops_are_listed)
{
    char line[100];
    const hwt_delay_message message = message_of(HWT_SEC(7) + 5, "id", "payload");
    const hwt_delay_message later = message_of(hwt_delay_now(store) + HWT_MIN(60), "id", "");
    hwt_delay_change put = { .op = HWT_DELAY_OP_PUT, .message = &message };
    uint64_t mark = apply(&put, 1, NULL, 0);
    put.message = &later;
    apply(&put, 1, NULL, 0);
    check_line("drop: ", false);
    hwt_delay_change drop = { .op = HWT_DELAY_OP_DROP, .due = message.due, .mark = mark };
    apply(&drop, 1, NULL, 0);
    snprintf(line, sizeof(line), "drop: due up to 7.000000005, put up to mark %" PRIu64 "\n", mark);
    check_line(line, true);
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    check_line("drop: ", false);
}
END_TEST

START_TEST(so_is_how_far_deliveries_are_written)
{
    const hwt_delay_message message = message_of(1, "id", "payload");
    const hwt_delay_message *taken;
    ck_assert_int_eq(hwt_delay_put(store, &message, 1), 0);
    check_line("handed: next block 1 in half 0 at 0, 0 counts", true);
    ck_assert_int_eq(hwt_delay_take(store, 1, 0, &taken), 1);
    hwt_delay_free(taken);
    check_line("handed: next block 2 in half 0 at 72, 0 counts", true);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_dump");
    TCase *tcase = tcase_create("dump");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, the_note_is_in_one_line);
    tcase_add_test(tcase, drops_are_listed);
    tcase_add_test(tcase, so_is_how_far_deliveries_are_written);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
