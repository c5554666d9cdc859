/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Copies of the stream differ: one lacks a message. Or messages are deleted one by one, so the stream has gaps. Without
 * other faults. */

#include "tests/relay/fake.h"

static struct fake fake;

static void set_up(void)
{
    fake_begin(&fake, test_seed(), FAKE_REPLICAS);
    fake_run(&fake, HWT_SEC(5));
    ck_assert_ptr_nonnull(fake_owner(&fake));
}

static void tear_down(void)
{
    fake_end(&fake);
}

static void stop_for_ever(struct fake_replica *replica)
{
    replica->starts_at = HWT_NEVER;
    fake_stop(replica);
}

/* One copy of the stream lacks a message, so its positions are others: what is read twice is the same. */
START_TEST(test_copies_whose_positions_differ)
{
    const uint64_t due = fake.realtime + HWT_SEC(60);

    fake_put_some(&fake, 0, 8, due);
    fake_run(&fake, HWT_SEC(2));
    fake_lose_one(&fake, 1 + (uint64_t)_i);
    fake_put_some(&fake, 8, 4, due);
    fake_run(&fake, HWT_SEC(70));
    fake_check_arrived(&fake, 12);
    fake_run(&fake, HWT_SEC(20));
    fake_check_empty(&fake);
}
END_TEST

/* Copies differ at their ends, and before messages that both have. What the leader's copy alone has there is read, too,
 * though a newer place agrees. */
START_TEST(test_copies_that_differ_before_a_place_that_agrees)
{
    const uint64_t due = fake.realtime + HWT_SEC(60);

    fake_put_some(&fake, 0, 8, due);
    fake_run(&fake, HWT_SEC(2));
    fake_lose_tail(&fake, 1);
    fake_put(&fake, due, NULL, "m8");
    fake_exchange(&fake, 1 + (uint64_t)_i);
    fake_put(&fake, due, "m9", "m9");
    fake_run(&fake, HWT_SEC(70));
    fake_check_arrived(&fake, 10);
    fake_run(&fake, HWT_SEC(20));
    fake_check_empty(&fake);
    ck_assert_uint_eq(fake.first, fake.last + 1);
}
END_TEST

/* Its producer has sent it twice, and copies have it at different times. The other one is read while the first one waits, or
 * after that was forwarded. */
START_TEST(test_a_put_that_copies_have_at_different_times)
{
    const uint64_t due = fake.realtime + ((_i & 1) ? HWT_SEC(1) : HWT_SEC(30));
    char text[RELAY_DUE_ROOM];

    relay_due_write(due, text);
    fake_publish(&fake, "m",
                 (const char *const[]){ "Hwt-Due", text, "Hwt-Target", "t.a", "Nats-Msg-Id", "1",
                                        (_i & 2) ? "Hwt-Key" : NULL, "k", NULL });
    fake_run(&fake, HWT_SEC(3));
    fake.stream.messages[0]->message.timestamp++;
    fake_break_pulls(&fake);
    fake_run(&fake, HWT_SEC(40));
    ck_assert_uint_eq(fake_arrived(&fake, "m"), 1);
    fake_check_empty(&fake);
}
END_TEST

/*
 * The owner reads a copy that lacks a message, until that server has caught up. Those behind it have other positions
 * there, or leave a gap. No watermark covers that message, since the leader has not agreed, so the others still have it.
 */
START_TEST(test_a_message_that_the_owners_copy_lacks)
{
    const uint64_t due = fake.realtime + (uint64_t)(_i & 1) * HWT_SEC(3);
    struct fake_replica *owner = fake_owner(&fake);

    owner->lacks = 3;
    owner->unanswered = (_i & 2) != 0;
    owner->leaves_gap = (_i & 4) != 0;
    fake_put_some(&fake, 0, 6, due);
    fake_run(&fake, HWT_SEC(10));
    owner->lacks = 0;
    owner->unanswered = false;
    fake_break_pulls(&fake);
    fake_run(&fake, HWT_SEC(30));
    for (unsigned i = 0; i < 6; i++) {
        char text[8];
        snprintf(text, sizeof(text), "m%u", i);
        ck_assert_uint_eq(fake_arrived(&fake, text), 1);
    }
    fake_check_empty(&fake);
}
END_TEST

/* Who takes the shard reads a copy that lacks a cancel. Another message comes meanwhile, so that it reaches the position
 * up to which it has to read all the same. */
START_TEST(test_a_cancel_that_the_next_owners_copy_lacks)
{
    const uint64_t due = fake.realtime + 3 * FAKE_LEASE;
    char text[RELAY_DUE_ROOM];
    struct fake_replica *owner = fake_owner(&fake);

    fake_put(&fake, due, "m0", "m0");
    fake_put(&fake, due + HWT_SEC(60), NULL, "m1");
    fake_run(&fake, HWT_MS(500));
    for (unsigned i = 0; i < FAKE_REPLICAS; i++) {
        fake.replicas[i].shard->ingest_after = HWT_NEVER;
        fake.replicas[i].lacks = 3;
    }
    relay_due_write(due, text);
    fake_publish(
        &fake, "",
        (const char *const[]){ "Hwt-Op", "cancel", "Hwt-Due", text, "Hwt-Key", "m0", NULL });
    fake_put(&fake, due + HWT_SEC(60), NULL, "m2");
    stop_for_ever(owner);
    while (fake.realtime < due + HWT_MS(100))
        fake_step(&fake);
    fake_put(&fake, due + HWT_SEC(60), NULL, "m3");
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        if (&fake.replicas[i] != owner) {
            ck_assert_int_ne(fake.replicas[i].shard->role, RELAY_OWNS);
            fake.replicas[i].shard->ingest_after = 0;
            fake.replicas[i].shard->compare_at = fake.boottime + HWT_SEC(1);
        }
    fake_run(&fake, HWT_MS(500));
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        fake.replicas[i].lacks = 0;
    fake_break_pulls(&fake);
    fake_run(&fake, HWT_SEC(5));
    ck_assert_ptr_nonnull(fake_owner(&fake));
    ck_assert_uint_eq(fake.targets.count, 0);
}
END_TEST

/* The end is lost, and others get its positions, of which the last is deleted: so an older place is compared. */
START_TEST(test_a_lost_end_whose_last_position_is_deleted)
{
    const uint64_t due = fake.realtime + HWT_SEC(60);

    fake_put_some(&fake, 0, 8, due);
    fake_run(&fake, HWT_SEC(2));
    fake_lose_tail(&fake, 4);
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        fake.replicas[i].pulls = true;
    for (unsigned i = 8; i < 12; i++) {
        char text[8];
        snprintf(text, sizeof(text), "m%u", i);
        fake_put(&fake, due, NULL, text);
    }
    fake_delete(&fake, 8);
    fake_run(&fake, HWT_SEC(70));
    fake_check_arrived(&fake, 11);
    fake_put(&fake, fake.realtime, NULL, "m11");
    fake_run(&fake, HWT_SEC(20));
    fake_check_arrived(&fake, 12);
    fake_check_empty(&fake);
    ck_assert_uint_eq(fake.first, fake.last + 1);
}
END_TEST

/* Nothing comes up to the last position, so a new owner does not wait for that. */
START_TEST(test_the_last_messages_are_deleted)
{
    struct fake_replica *owner = fake_owner(&fake);

    fake_put_some(&fake, 0, 4, fake.realtime + HWT_SEC(15));
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        fake.replicas[i].shard->ingest_after = HWT_NEVER;
    fake_put_some(&fake, 4, 2, fake.realtime + HWT_SEC(15));
    fake_delete(&fake, 6);
    fake_delete(&fake, 5);
    stop_for_ever(owner);
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        if (&fake.replicas[i] != owner)
            fake.replicas[i].shard->ingest_after = 0;
    fake_run(&fake, HWT_SEC(30));
    fake_check_arrived(&fake, 4);
}
END_TEST

/* They are read, and deleted before the next owner has asked the leader for them. Its watermark goes on from the newest
 * place that the leader still has, unless that of the owner before goes further. */
START_TEST(test_the_last_places_are_deleted)
{
    const uint64_t due = fake.realtime + HWT_SEC(15);
    struct fake_replica *owner = fake_owner(&fake);
    const struct relay_watermark *mark;

    owner->shard->trim_at = HWT_NEVER;
    fake_put_some(&fake, 0, 4, due);
    fake_run(&fake, FAKE_LEASE);
    fake.messages_silent = _i == 0;
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        fake.replicas[i].unanswered = _i == 1 && &fake.replicas[i] != owner;
    fake_put_some(&fake, 4, 2, due);
    fake_run(&fake, _i == 0 ? HWT_MS(200) : FAKE_LEASE);
    ck_assert_uint_eq(owner->shard->at.position, 6);
    ck_assert_uint_eq(owner->shard->entry.watermark.place.position, _i == 0 ? 4 : 6);
    fake_delete(&fake, 6);
    fake_delete(&fake, 5);
    fake.messages_silent = false;
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        fake.replicas[i].unanswered = false;
    stop_for_ever(owner);
    fake_run(&fake, HWT_SEC(17)); /* until then it is not given back to a better owner */
    ck_assert_uint_eq(fake.targets.count, 6);
    mark = &fake_owner(&fake)->shard->entry.watermark;
    ck_assert_uint_eq(mark->place.position, _i == 0 ? 4 : 6);
    if (_i == 0)
        ck_assert_uint_gt(mark->due, due + 6);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("relay_copies");
    TCase *tcase = tcase_create("copies");

    tcase_set_timeout(tcase, 100);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, test_copies_whose_positions_differ, 0, 8);
    tcase_add_loop_test(tcase, test_copies_that_differ_before_a_place_that_agrees, 0, 5);
    tcase_add_loop_test(tcase, test_a_put_that_copies_have_at_different_times, 0, 4);
    tcase_add_loop_test(tcase, test_a_message_that_the_owners_copy_lacks, 0, 8);
    tcase_add_test(tcase, test_a_cancel_that_the_next_owners_copy_lacks);
    tcase_add_test(tcase, test_a_lost_end_whose_last_position_is_deleted);
    tcase_add_test(tcase, test_the_last_messages_are_deleted);
    tcase_add_loop_test(tcase, test_the_last_places_are_deleted, 0, 2);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
