/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Tickets: a message is found by its first due time and its id, wherever it has got to. */

#include "hwt/delay/whole.h"
#include "tests/delay/support/simulated.h"

#define HOUR HWT_MIN(60)

static struct simulated s;
static char ticket[HWT_DELAY_TICKET_MAX];

static void setup(void)
{
    simulated_new(&s);
    simulated_open(&s);
}

static void teardown(void)
{
    simulated_free(&s);
}

/* Puts number i, and has its ticket written. */
static const char *put(uint32_t i, uint64_t due)
{
    const hwt_delay_message message = { .due = due, .id = &i, .id_size = sizeof(i) };
    ck_assert_int_eq(simulated_put(&s, due, i, 100), 0);
    ck_assert_int_gt(hwt_delay_ticket(&message, ticket, sizeof(ticket)), 0);
    return ticket;
}

static uint64_t take(uint32_t i)
{
    const hwt_delay_message *taken;
    ck_assert_int_eq(hwt_delay_take(s.store, 1, 0, &taken), 1);
    ck_assert_uint_eq(simulated_number(taken), i);
    uint64_t lease = taken->lease;
    hwt_delay_free(taken);
    return lease;
}

/* It is there, due then. */
static void expect(uint64_t due, uint64_t first, uint32_t retries, uint32_t deliveries)
{
    const hwt_delay_message *found;
    char its[HWT_DELAY_TICKET_MAX];
    ck_assert_int_eq(hwt_delay_look_up(s.store, ticket, &found), 0);
    ck_assert_uint_eq(found->due, due);
    ck_assert_uint_eq(found->first_due, first);
    ck_assert_uint_eq(found->retries, retries);
    ck_assert_uint_eq(found->deliveries, deliveries);
    ck_assert_uint_eq(found->lease, 0);
    ck_assert_uint_eq(found->payload_size, 100);
    simulated_number(found);
    ck_assert_int_gt(hwt_delay_ticket(found, its, sizeof(its)), 0);
    ck_assert_str_eq(its, ticket);
    hwt_delay_free(found);
}

static void expect_none(void)
{
    const hwt_delay_message *found;
    ck_assert_int_eq(hwt_delay_look_up(s.store, ticket, &found), -ENOENT);
    ck_assert_int_eq(hwt_delay_cancel_ticket(s.store, ticket), -ENOENT);
    ck_assert_int_eq(hwt_delay_move(s.store, ticket, 5), -ENOENT);
}

/* Memory has it no more: it is in a slot alone. */
static void file_and_reopen(void)
{
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_kill(&s);
    simulated_open(&s);
}

static void crash(void)
{
    simulated_kill(&s);
    simulated_open(&s);
}

/* ---- as text ---- */

START_TEST(a_ticket_is_readable)
{
    hwt_delay_message message = { .due = UINT64_C(0x18dbb2f5e4a1c000),
                                  .id = "order-17.a_b~",
                                  .id_size = 13 };
    ck_assert_int_eq(hwt_delay_ticket(&message, ticket, sizeof(ticket)), 30);
    ck_assert_str_eq(ticket, "18dbb2f5e4a1c000-order-17.a_b~");
    message.first_due = 15;
    message.id = "a b%\0\xff";
    message.id_size = 6;
    ck_assert_int_eq(hwt_delay_ticket(&message, ticket, 5), 16);
    ck_assert_str_eq(ticket, "f-a%");
    hwt_delay_ticket(&message, ticket, sizeof(ticket));
    ck_assert_str_eq(ticket, "f-a%20b%25%00%ff");
    message.first_due = 0;
    message.due = 15;
    ck_assert_int_eq(hwt_delay_put(s.store, &message, 1), 0);
    ck_assert_int_eq(hwt_delay_cancel_ticket(s.store, ticket), 0);
}
END_TEST

START_TEST(the_longest_ticket_fits)
{
    static const char id[HWT_DELAY_ID_MAX];
    const hwt_delay_message message = { .due = HWT_NEVER - 1, .id = id, .id_size = sizeof(id) };
    ck_assert_int_eq(hwt_delay_ticket(&message, ticket, sizeof(ticket)), HWT_DELAY_TICKET_MAX - 2);
    ck_assert_int_eq(hwt_delay_put(s.store, &message, 1), 0);
    ck_assert_int_eq(hwt_delay_cancel_ticket(s.store, ticket), 0);
}
END_TEST

START_TEST(what_is_no_ticket_is_refused)
{
    static const char *const bad[] = {
        "",
        "f",
        "f-",
        "-a",
        "0f-a",
        "F-a",
        "f-a b",
        "f-%",
        "f-%4",
        "f-%41",
        "f-%zz",
        "f-%FF",
        "+f-a",
        " f-a",
        "0xf-a",
        "10000000000000000-a",
        "ffffffffffffffff-a",
        "f-\xff",
    };
    const hwt_delay_message *found;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(hwt_delay_look_up(s.store, bad[i], &found) == -EINVAL, "%s", bad[i]);
        ck_assert_int_eq(hwt_delay_cancel_ticket(s.store, bad[i]), -EINVAL);
        ck_assert_int_eq(hwt_delay_move(s.store, bad[i], 1), -EINVAL);
    }
    ck_assert_int_eq(hwt_delay_look_up(s.store, NULL, &found), -EINVAL);
    ck_assert_int_eq(hwt_delay_move(s.store, "f-a", HWT_NEVER), -EINVAL);
    ck_assert_int_eq(hwt_delay_ticket(NULL, ticket, sizeof(ticket)), -EINVAL);
    const hwt_delay_message message = {
        .due = 15, .id = "a", .id_size = 1, .first_due = HWT_NEVER
    };
    ck_assert_int_eq(hwt_delay_ticket(&message, ticket, sizeof(ticket)), -EINVAL);
    ck_assert_int_eq(hwt_delay_put(s.store, &message, 1), -EINVAL);
}
END_TEST

/* ---- a life ---- */

/* In memory, and in a slot; put, retried, moved; with a kill between. */
START_TEST(a_ticket_stays)
{
    const uint64_t first = s.realtime + HOUR;
    bool in_slots = _i;
    put(1, first);
    expect(first, first, 0, 0);
    if (in_slots)
        file_and_reopen();
    expect(first, first, 0, 0);
    simulated_advance(&s, HOUR);
    uint64_t later = s.realtime + 100 * HOUR;
    ck_assert_int_eq(hwt_delay_retry(s.store, take(1), later), 0);
    expect(later, first, 1, 1);
    if (in_slots)
        file_and_reopen();
    expect(later, first, 1, 1);
    ck_assert_int_eq(hwt_delay_move(s.store, ticket, later + HOUR), 0);
    expect(later + HOUR, first, 1, 1);
    if (in_slots)
        file_and_reopen();
    expect(later + HOUR, first, 1, 1);
    ck_assert_int_eq(hwt_delay_move(s.store, ticket, s.realtime - 1), 0); /* earlier */
    crash();
    expect(s.realtime - 1, first, 1, 1);
    ck_assert_uint_eq(simulated_stats(&s).pending, 1);
    uint64_t lease = take(1);
    ck_assert_int_eq(hwt_delay_cancel_ticket(s.store, ticket), -EBUSY);
    ck_assert_int_eq(hwt_delay_move(s.store, ticket, later), -EBUSY);
    ck_assert_int_eq(hwt_delay_retry(s.store, lease, later), 0);
    if (in_slots)
        file_and_reopen();
    ck_assert_int_eq(hwt_delay_cancel_ticket(s.store, ticket), 0);
    expect_none();
    file_and_reopen();
    expect_none();
    simulated_advance(&s, 1000 * HOUR);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 0);
}
END_TEST

/* What the same is put again for. */
START_TEST(one_that_is_put_in_its_place_has_a_ticket_of_its_own)
{
    const uint64_t first = s.realtime, later = s.realtime + HOUR;
    put(1, first);
    ck_assert_int_eq(hwt_delay_retry(s.store, take(1), later), 0);
    if (_i)
        file_and_reopen();
    ck_assert_int_eq(simulated_put(&s, later, 1, 100), 0);
    expect_none();
    if (_i)
        file_and_reopen();
    expect_none();
    put(1, later);
    expect(later, later, 0, 0);
}
END_TEST

/* A producer that puts the same once more, after the first was retried. */
START_TEST(a_ticket_names_the_later_of_two)
{
    const uint64_t first = s.realtime, later = s.realtime + HOUR;
    put(1, first);
    ck_assert_int_eq(hwt_delay_retry(s.store, take(1), later), 0);
    if (_i % 2)
        file_and_reopen();
    put(1, first);
    if (_i / 2)
        file_and_reopen();
    expect(first, first, 0, 0);
    ck_assert_int_eq(hwt_delay_cancel_ticket(s.store, ticket), 0);
    expect(later, first, 1, 1);
    ck_assert_int_eq(hwt_delay_cancel_ticket(s.store, ticket), 0);
    expect_none();
}
END_TEST

/* Wherever they are due: the one that was put last comes first. */
START_TEST(a_ticket_names_the_latest_of_three)
{
    const uint64_t first = s.realtime + HOUR;
    const uint64_t dues[] = { first, first + 2 * HOUR, first + HOUR };
    for (int i = 0; i < 3; i++) {
        const uint32_t id = 1;
        const hwt_delay_message message = {
            .due = dues[i], .id = &id, .id_size = sizeof(id), .first_due = first
        };
        ck_assert_int_eq(hwt_delay_put(s.store, &message, 1), 0);
        ck_assert_int_gt(hwt_delay_ticket(&message, ticket, sizeof(ticket)), 0);
        if (_i == i)
            file_and_reopen();
    }
    for (int i = 2; i >= 0; i--) {
        const hwt_delay_message *found;
        ck_assert_int_eq(hwt_delay_look_up(s.store, ticket, &found), 0);
        ck_assert_uint_eq(found->due, dues[i]);
        hwt_delay_free(found);
        ck_assert_int_eq(hwt_delay_cancel_ticket(s.store, ticket), 0);
    }
    expect_none();
}
END_TEST

/* Its file has it still. */
START_TEST(what_was_dropped_is_not_found)
{
    const uint64_t due = s.realtime + HOUR;
    hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
    batch.note = "n";
    batch.note_size = 1;
    put(1, due);
    ck_assert_int_eq(hwt_delay_apply(s.store, NULL, 0, &batch), 0);
    file_and_reopen();
    hwt_delay_change drop = { .op = HWT_DELAY_OP_DROP, .due = due, .mark = batch.mark };
    expect(due, due, 0, 0);
    ck_assert_int_eq(hwt_delay_apply(s.store, &drop, 1, NULL), 0);
    expect_none();
}
END_TEST

START_TEST(another_message_is_not_moved_away)
{
    const uint64_t first = s.realtime + HOUR;
    put(1, first + 1);
    put(1, first);
    ck_assert_int_eq(hwt_delay_move(s.store, ticket, first + 1), -EEXIST);
    expect(first, first, 0, 0);
    ck_assert_int_eq(hwt_delay_move(s.store, ticket, first), 0); /* where it is */
    expect(first, first, 0, 0);
    ck_assert_uint_eq(simulated_stats(&s).pending, 2);
}
END_TEST

/* A put may say what its ticket is, as when a message comes from another store. */
START_TEST(a_put_may_bring_its_ticket_along)
{
    const hwt_delay_message message = {
        .due = s.realtime + HOUR, .id = "a", .id_size = 1, .first_due = 15
    };
    const hwt_delay_message *found;
    ck_assert_int_eq(hwt_delay_put(s.store, &message, 1), 0);
    file_and_reopen();
    ck_assert_int_eq(hwt_delay_look_up(s.store, "f-a", &found), 0);
    ck_assert_uint_eq(found->due, message.due);
    hwt_delay_free(found);
}
END_TEST

START_TEST(a_batch_has_tickets)
{
    const uint64_t first = s.realtime + HOUR;
    const hwt_delay_message new = { .due = first, .id = "new", .id_size = 3 };
    put(1, first);
    char other[HWT_DELAY_TICKET_MAX];
    strcpy(other, ticket);
    put(2, first);
    if (_i)
        file_and_reopen();
    hwt_delay_change changes[] = {
        { .op = HWT_DELAY_OP_CANCEL, .ticket = other },
        { .op = HWT_DELAY_OP_MOVE, .ticket = ticket, .due = first + HOUR },
        { .op = HWT_DELAY_OP_CANCEL, .ticket = "f-unknown" },
        { .op = HWT_DELAY_OP_PUT, .message = &new },
    };
    ck_assert_int_eq(hwt_delay_apply(s.store, changes, 4, NULL), -ENOENT);
    ck_assert_int_eq(changes[0].result, -ECANCELED);
    expect(first, first, 0, 0);
    changes[2].flags = HWT_DELAY_MAY_FAIL;
    ck_assert_int_eq(hwt_delay_apply(s.store, changes, 4, NULL), 0);
    ck_assert_int_eq(changes[2].result, -ENOENT);
    expect(first + HOUR, first, 0, 0);
    strcpy(ticket, other);
    expect_none();
    changes[1].ticket = NULL;
    ck_assert_int_eq(hwt_delay_apply(s.store, changes, 2, NULL), -EINVAL);
    ck_assert_int_eq(changes[1].result, -EINVAL);
}
END_TEST

/* After a crash memory has the tombstone of an older message with the same due time and id. */
START_TEST(the_end_of_an_older_one_hides_nothing)
{
    const uint64_t due = s.realtime;
    put(1, due);
    uint64_t lease = take(1);
    put(1, due); /* beside the lease */
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    ck_assert_int_eq(hwt_delay_done(s.store, &lease, 1), 1);
    crash();
    expect(due, due, 0, 0);
    ck_assert_int_eq(hwt_delay_move(s.store, ticket, due + HOUR), 0);
    expect(due + HOUR, due, 0, 0);
}
END_TEST

/* A ticket names what was there before the batch, and that alone. */
START_TEST(what_a_batch_puts_is_not_named)
{
    const uint64_t first = s.realtime, later = s.realtime + HOUR;
    const uint32_t number = 1;
    hwt_delay_message again = { .id = &number, .id_size = sizeof(number) };
    uint64_t lease = 0;
    put(1, first);
    again.due = first;
    if (_i % 3 > 0)
        lease = take(1);
    if (_i % 3 == 2) {
        ck_assert_int_eq(hwt_delay_retry(s.store, lease, later), 0);
        again.due = later;
    }
    hwt_delay_change changes[] = {
        { .op = HWT_DELAY_OP_DONE, .lease = lease, .flags = HWT_DELAY_MAY_FAIL },
        { .op = HWT_DELAY_OP_PUT, .message = &again },
        { .op = _i / 3 ? HWT_DELAY_OP_CANCEL : HWT_DELAY_OP_MOVE,
          .ticket = ticket,
          .due = later + HOUR,
          .flags = HWT_DELAY_MAY_FAIL },
    };
    ck_assert_int_eq(hwt_delay_apply(s.store, changes, 3, NULL), 0);
    ck_assert_int_eq(changes[2].result, -ENOENT);
    const hwt_delay_message *found;
    ck_assert_int_gt(hwt_delay_ticket(&again, ticket, sizeof(ticket)), 0);
    ck_assert_int_eq(hwt_delay_look_up(s.store, ticket, &found), 0);
    ck_assert_uint_eq(found->due, again.due);
    ck_assert_uint_eq(found->payload_size, 0);
    hwt_delay_free(found);
    ck_assert_uint_eq(simulated_stats(&s).pending, 1);
}
END_TEST

static struct disk_file *only_slot(void)
{
    struct disk_file *file = NULL;
    for (size_t i = 0; i < s.disk->seen.count; i++) {
        if (strncmp(s.disk->seen.entries[i].name, "slot-", 5) != 0)
            continue;
        must(!file);
        file = s.disk->seen.entries[i].file;
    }
    must(file != NULL);
    return file;
}

/* A file before its own, in which it might have been, is damaged. */
START_TEST(it_is_found_behind_damage)
{
    const uint64_t first = s.realtime;
    put(2, first);
    ck_assert_int_eq(hwt_delay_retry(s.store, take(2), first + 100 * HOUR), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    struct disk_file *before = only_slot();
    put(1, first);
    ck_assert_int_eq(hwt_delay_retry(s.store, take(1), first + 5000 * HOUR), 0);
    file_and_reopen();
    disk_flip(before, before->seen.size - 1, 1);
    expect(first + 5000 * HOUR, first, 1, 1);
    ck_assert_int_eq(hwt_delay_cancel_ticket(s.store, ticket), 0);
    const hwt_delay_message *found;
    ck_assert_int_eq(hwt_delay_look_up(s.store, ticket, &found), -EBADMSG); /* who knows */
}
END_TEST

/* ---- what is read for one ---- */

static uint64_t bytes_read;
static int64_t (*read_before)(void *data, int file, void *buffer, size_t size, uint64_t offset);

static int64_t read_counting(void *data, int file, void *buffer, size_t size, uint64_t offset)
{
    bytes_read += size;
    return read_before(data, file, buffer, size, offset);
}

/* Messages in slots of many hours, of which a few were retried. */
static void fill(void)
{
    put(1, s.realtime);
    ck_assert_int_eq(hwt_delay_retry(s.store, take(1), s.realtime + 1000 * HOUR), 0);
    for (uint32_t i = 2; i < 400; i++)
        ck_assert_int_eq(simulated_put(&s, s.realtime + i * 5 * HOUR, i, 4000), 0);
    file_and_reopen();
    read_before = s.process.system.read;
    s.process.system.read = read_counting;
    simulated_close(&s);
    simulated_begin(&s);
    read_before = s.process.system.read;
    s.process.system.read = read_counting;
    ck_assert_int_eq(simulated_try_open(&s), 0);
    bytes_read = 0;
}

START_TEST(only_files_with_such_messages_are_read)
{
    const uint64_t first = s.realtime;
    fill();
    expect(first + 1000 * HOUR, first, 1, 1);
    ck_assert_uint_gt(bytes_read, 0);
    ck_assert_uint_lt(bytes_read, simulated_stats(&s).disk / 3);
    bytes_read = 0;
    put(1, first - 1);
    ck_assert_int_eq(hwt_delay_cancel_ticket(s.store, ticket), 0);
    expect_none(); /* nothing was first due then */
    ck_assert_uint_eq(bytes_read, 0);
}
END_TEST

/* Who reads only, and a store whose checkpoint is lost. */
START_TEST(others_find_it_too)
{
    const uint64_t first = s.realtime;
    put(1, first);
    ck_assert_int_eq(hwt_delay_retry(s.store, take(1), first + HOUR), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    for (uint32_t i = 2; i < 100; i++) /* so that the log has it no more */
        ck_assert_int_eq(simulated_put(&s, first + HOUR, i, 4000), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_close(&s);
    s.options.flags = HWT_DELAY_READ_ONLY;
    if (_i == 1) {
        disk_flip(disk_find(s.disk, "checkpoint"), 20, 1);
        s.options.flags = HWT_DELAY_SALVAGE;
    }
    simulated_open(&s);
    expect(first + HOUR, first, 1, 1);
    ck_assert_int_eq(hwt_delay_cancel_ticket(s.store, ticket), _i == 1 ? 0 : -EROFS);
}
END_TEST

/* What is leased with this ticket was replaced by a put, which has a ticket of its own. */
START_TEST(what_replaces_a_leased_message_has_another_ticket)
{
    const uint64_t due = s.realtime, later = due + HOUR;
    put(1, due);
    ck_assert_int_eq(hwt_delay_move(s.store, ticket, later), 0);
    simulated_advance(&s, HOUR);
    take(1);
    ck_assert_int_eq(simulated_put(&s, later, 1, 100), 0);
    expect_none();
    put(1, later);
    expect(later, later, 0, 0);
}
END_TEST

/* A process that was killed had it, and memory has not. */
START_TEST(deliveries_of_what_is_in_a_slot_are_found)
{
    put(1, s.realtime);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    take(1);
    crash();
    expect(s.realtime, s.realtime, 0, 1);
    ck_assert_int_eq(hwt_delay_move(s.store, ticket, s.realtime + HOUR), 0);
    expect(s.realtime + HOUR, s.realtime, 0, 1);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_tickets");
    TCase *tcase = tcase_create("tickets");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_ticket_is_readable);
    tcase_add_test(tcase, the_longest_ticket_fits);
    tcase_add_test(tcase, what_is_no_ticket_is_refused);
    tcase_add_loop_test(tcase, a_ticket_stays, 0, 2);
    tcase_add_loop_test(tcase, one_that_is_put_in_its_place_has_a_ticket_of_its_own, 0, 2);
    tcase_add_loop_test(tcase, a_ticket_names_the_later_of_two, 0, 4);
    tcase_add_loop_test(tcase, a_ticket_names_the_latest_of_three, 0, 4);
    tcase_add_test(tcase, what_was_dropped_is_not_found);
    tcase_add_test(tcase, another_message_is_not_moved_away);
    tcase_add_test(tcase, a_put_may_bring_its_ticket_along);
    tcase_add_loop_test(tcase, a_batch_has_tickets, 0, 2);
    tcase_add_test(tcase, the_end_of_an_older_one_hides_nothing);
    tcase_add_loop_test(tcase, what_a_batch_puts_is_not_named, 0, 6);
    tcase_add_test(tcase, it_is_found_behind_damage);
    tcase_add_test(tcase, only_files_with_such_messages_are_read);
    tcase_add_loop_test(tcase, others_find_it_too, 0, 2);
    tcase_add_test(tcase, what_replaces_a_leased_message_has_another_ticket);
    tcase_add_test(tcase, deliveries_of_what_is_in_a_slot_are_found);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
