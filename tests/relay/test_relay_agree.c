/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The stream is not the one that the replicas have read: its end is lost, its beginning is, or it was made anew. Without
 * other faults. */

#include "tests/relay/fake.h"

#include <errno.h>
#include <string.h>

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

/* The owner has read those that the broker loses, and they come. Others get their positions, and come too. */
START_TEST(test_positions_that_are_given_twice)
{
    const uint64_t due = fake.realtime + HWT_SEC(60);
    const unsigned lost = (unsigned)_i;

    fake_put_some(&fake, 0, 6, due);
    fake_run(&fake, HWT_SEC(2));
    fake_lose_tail(&fake, lost);
    fake_put_some(&fake, 6, 6, due);
    fake_run(&fake, HWT_SEC(70));
    fake_check_arrived(&fake, 12);
    fake_run(&fake, HWT_SEC(20));
    fake_check_empty(&fake);
    ck_assert_uint_eq(fake.first, fake.last + 1); /* and all is trimmed */
}
END_TEST

/* As many as were lost come before anybody has looked: no position is missing, and the end is where it was. All
 * go on to read as if nothing had been. */
START_TEST(test_a_tail_that_is_replaced_at_once)
{
    const uint64_t due = fake.realtime + HWT_SEC(60);

    fake_put_some(&fake, 0, 6, due);
    fake_run(&fake, HWT_SEC(2));
    fake_lose_tail(&fake, 3);
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        fake.replicas[i].pulls = true;
    fake_put(&fake, due, "m6", "m6");
    fake_put(&fake, due, NULL, "m7");
    fake_put(&fake, due, "m8", "m8");
    fake_run(&fake, HWT_SEC(3)); /* each looks for itself, before anything else makes it */
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        ck_assert_uint_eq(fake.replicas[i].shard->at.timestamp,
                          fake.stream.messages[fake.stream.count - 1]->message.timestamp);
    fake_run(&fake, HWT_SEC(70));
    fake_check_arrived(&fake, 9);
}
END_TEST

/* The newest place that it knows, and that agrees, is long before the stream's first message. It has read all up to
 * there. */
START_TEST(test_a_point_before_the_beginning)
{
    const uint64_t due = fake.realtime + HWT_SEC(60);
    struct fake_replica *c = &fake.replicas[2];

    if (c == fake_owner(&fake))
        c = &fake.replicas[1];
    fake_put_some(&fake, 0, 6, due);
    fake_run(&fake, HWT_SEC(20));
    ck_assert_uint_eq(fake.first, 7);
    c->may_fail = true;
    fake_put_some(&fake, 6, 6, due);
    c->shard->points_count = 2; /* as if there had been many more */
    fake_lose_tail(&fake, 3);
    fake_put_some(&fake, 12, 3, due);
    fake_run(&fake, HWT_SEC(70));
    ck_assert_int_eq(c->failed, 0);
    fake_check_arrived(&fake, 15);
    fake_run(&fake, HWT_SEC(20));
    fake_check_empty(&fake);
}
END_TEST

/* Somebody edits the stream's description, by which it is known. All goes on, also with another owner, but nothing is deleted
 * until it is set right. */
START_TEST(test_a_description_that_is_edited)
{
    const uint64_t incarnation = fake.incarnation;

    fake_put_some(&fake, 0, 4, fake.realtime + HWT_SEC(6));
    fake.incarnation = 1;
    fake.messages_silent = true; /* so nobody knows at first whether it is the same */
    fake_run(&fake, HWT_SEC(2));
    fake.messages_silent = false;
    fake_put_some(&fake, 4, 4, fake.realtime + HWT_SEC(20));
    fake_run(&fake, HWT_SEC(10));
    fake_check_arrived(&fake, 4);
    ck_assert_uint_le(fake.first, 1);
    fake_stop(fake_owner(&fake)); /* it begins again by itself */
    fake_run(&fake, HWT_SEC(20));
    fake_check_arrived(&fake, 8);
    ck_assert_uint_le(fake.first, 1);
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        ck_assert_uint_eq(relay_count_get(&fake.replicas[i].shard->counts.divergences), 0);
    fake.incarnation = incarnation;
    fake_run(&fake, HWT_SEC(30));
    fake_check_arrived(&fake, 8);
    ck_assert_uint_eq(fake.first, 9);
    fake_check_empty(&fake);
}
END_TEST

/* It knows no place but the last one, so it reads from the beginning. */
START_TEST(test_a_replica_that_has_begun_anew)
{
    const uint64_t due = fake.realtime + HWT_SEC(60);

    fake_put_some(&fake, 0, 6, due);
    fake_run(&fake, HWT_SEC(2));
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        fake_stop(&fake.replicas[i]);
    fake_lose_one(&fake, 3);
    fake_put_some(&fake, 6, 3, due);
    fake_run(&fake, HWT_SEC(70));
    fake_check_arrived(&fake, 9);
}
END_TEST

/* An old place says nothing of what replicas have now: nobody has read what got these positions. */
START_TEST(test_nothing_is_trimmed_by_a_place_that_is_lost)
{
    const uint64_t due = fake.realtime + HWT_SEC(60);
    struct fake_replica *c = &fake.replicas[2];

    if (c == fake_owner(&fake))
        c = &fake.replicas[1];
    fake_put_some(&fake, 0, 6, due);
    fake_run(&fake, HWT_SEC(4)); /* all have said so */
    c->starts_at = HWT_NEVER;
    fake_stop(c);
    fake_lose_tail(&fake, 6);
    fake_put_some(&fake, 6, 6, due);
    fake_run(&fake, HWT_SEC(40));
    ck_assert_uint_le(fake.first, 1); /* since c has read none of these */
    c->starts_at = 0;
    fake_run(&fake, HWT_SEC(60));
    fake_check_arrived(&fake, 12);
}
END_TEST

static int swap_in_vain(struct relay_engine *engine, const char *name, uint64_t revision,
                        const char *text, uint64_t *ret_revision)
{
    (void)engine;
    (void)name;
    (void)revision;
    (void)text;
    (void)ret_revision;
    return -ETIMEDOUT;
}

/*
 * It goes back, because a server leads whose copy is another one, and cannot say so. Then the one before leads
 * again, and what all have said to have is deleted. It had read that, and its store says so, too; if the
 * disk is lost, it does not.
 */
START_TEST(test_what_it_has_said_to_have_is_not_read_again)
{
    const uint64_t due = fake.realtime + HWT_SEC(60);
    struct relay_engine_calls silent = *fake.replicas[0].engine.calls;
    const struct relay_engine_calls *usual = fake.replicas[0].engine.calls;
    struct fake_replica *c = &fake.replicas[2];

    if (c == fake_owner(&fake))
        c = &fake.replicas[1];
    fake_put_some(&fake, 0, 6, due);
    fake_run(&fake, HWT_SEC(4)); /* all have said so */
    for (unsigned i = 0; i < FAKE_REPLICAS; i++) {
        fake.replicas[i].shard->trim_at = fake.boottime + HWT_SEC(1);
        fake.replicas[i].shard->compare_at = fake.boottime + HWT_SEC(1);
    }
    fake_stop(c);
    if (_i == 1)
        fake_lose_disk(c, NULL);
    fake_start(c);
    silent.swap = swap_in_vain;
    c->engine.calls = &silent;
    c->shard->ingest_after = HWT_NEVER;
    fake.first = 1;
    fake.stream.messages[5]->message.timestamp++;
    ck_assert_int_eq(relay_shard_step(c->shard), 0);
    ck_assert_uint_eq(c->shard->at.position, 0);
    fake.stream.messages[5]->message.timestamp--;
    c->may_fail = true;
    fake_run(&fake, HWT_SEC(20));
    ck_assert_uint_eq(fake.first, 7);
    ck_assert_int_eq(c->failed, _i == 1 ? -ENODATA : 0);
    if (_i == 0) {
        ck_assert_uint_eq(c->shard->at.position, 6);
        c->engine.calls = usual;
        c->shard->ingest_after = 0;
        for (unsigned i = 0; i < FAKE_REPLICAS; i++)
            if (&fake.replicas[i] != c) {
                fake.replicas[i].starts_at = HWT_NEVER;
                fake_stop(&fake.replicas[i]);
            }
        fake_put_some(&fake, 6, 2, due);
        fake_run(&fake, HWT_SEC(70));
        fake_check_arrived(&fake, 8);
    }
}
END_TEST

/* It goes back further than to the place that it has said to have, and cannot say so. What all have said to have is deleted
 * then; it has read that, though the highest place that it has read is lost. Unless its disk is lost, too. */
START_TEST(test_what_it_has_said_to_have_is_deleted_while_it_goes_back)
{
    const uint64_t due = fake.realtime + HWT_SEC(60);
    struct relay_engine_calls silent = *fake.replicas[0].engine.calls;
    struct fake_replica *c = &fake.replicas[2];

    if (c == fake_owner(&fake))
        c = &fake.replicas[1];
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        fake.replicas[i].shard->trim_at = HWT_NEVER;
    fake_put_some(&fake, 0, 8, due);
    fake_run(&fake, 2 * FAKE_LEASE); /* all have said so */
    silent.swap = swap_in_vain;
    c->engine.calls = &silent;
    c->may_fail = true;
    fake_put_some(&fake, 8, 4, due);
    if (_i == 1) {
        fake_stop(c);
        fake_lose_disk(c, NULL);
        fake_start(c);
        c->shard->ingest_after = HWT_NEVER;
    }
    c->shard->points_count = 1;
    fake_lose_tail(&fake, 4);
    fake_put_some(&fake, 12, 4, due);
    c->shard->ingest_after = HWT_NEVER; /* so it stays where it is */
    if (_i == 0)
        c->shard->at.position = 2; /* as if no newer place had agreed */
    fake.first = 9;
    fake_run(&fake, HWT_SEC(4));
    ck_assert_int_eq(c->failed, _i == 1 ? -ENODATA : 0);
    if (_i == 0) {
        ck_assert_uint_eq(c->shard->at.position, 8);
        c->shard->ingest_after = 0;
        fake_run(&fake, HWT_SEC(70));
        fake_check_arrived(&fake, 16);
    }
}
END_TEST

static uint64_t purged_below; /* asked for, and not done yet; 0: nothing */

static int purge_late(struct relay_engine *engine, uint64_t incarnation, uint64_t below)
{
    (void)engine;
    (void)incarnation;
    purged_below = below;
    return -ETIMEDOUT;
}

static void wait_for_purge(void)
{
    for (purged_below = 0; purged_below == 0;)
        fake_step(&fake);
}

/* A purge is done only when another server leads, which lacks the newest messages, and has given their positions to
 * others. Nobody has read these. */
START_TEST(test_a_purge_that_is_done_late)
{
    const uint64_t due = fake.realtime + HWT_SEC(90);
    const struct relay_engine_calls *usual = fake.replicas[0].engine.calls;
    struct relay_engine_calls late = *usual;
    uint64_t below;

    late.purge = purge_late;
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        fake.replicas[i].engine.calls = &late;
    fake_put_some(&fake, 0, 4, due);
    wait_for_purge();
    fake_owner(&fake)->shard->owns_since = fake.boottime; /* so it stays the owner for that long */
    fake_put_some(&fake, 4, 4, due);
    wait_for_purge();
    below = purged_below;
    fake_lose_tail(&fake, 4);
    for (unsigned i = 8; i < 12; i++) {
        char text[8];
        snprintf(text, sizeof(text), "m%u", i);
        fake_put(&fake, due, NULL, text);
    }
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        fake.replicas[i].engine.calls = usual;
    ck_assert_int_eq(usual->purge(&fake.replicas[0].engine, fake.incarnation, below), 0);
    fake_run(&fake, HWT_SEC(90));
    fake_check_arrived(&fake, 12);
    fake_run(&fake, HWT_SEC(20));
    ck_assert_uint_eq(fake.first, fake.last + 1);
}
END_TEST

/* What all have is deleted; then the broker loses more and more of it, as if it had been there still. So the place
 * to read on from is one without a message, and is lost in its turn. */
START_TEST(test_a_place_without_a_message_is_lost_too)
{
    fake_put_some(&fake, 0, 6, fake.realtime);
    fake_run(&fake, HWT_SEC(20));
    ck_assert_uint_eq(fake.first, 7);
    fake_lose_tail(&fake, 2);
    fake_run(&fake, HWT_SEC(3));
    fake_lose_tail(&fake, 2);
    fake_put_some(&fake, 6, 4, fake.realtime);
    fake_run(&fake, HWT_SEC(20));
    fake_check_arrived(&fake, 10);
}
END_TEST

/* By hand, so nothing tells it from the one before but its messages. */
static void make_anew(bool by_hand)
{
    const uint64_t before = fake.incarnation;

    fake_stream_anew(&fake);
    if (by_hand)
        fake.incarnation = before;
}

/* Twice, with messages that wait; and what comes has the positions of what was. */
START_TEST(test_a_stream_that_is_made_anew)
{
    const uint64_t due = fake.realtime + HWT_SEC(60);

    fake_put_some(&fake, 0, 4, due);
    fake_run(&fake, HWT_SEC(2));
    make_anew(_i == 1);
    fake_put_some(&fake, 4, 4, due);
    fake_run(&fake, HWT_SEC(2));
    make_anew(_i == 1);
    fake_put_some(&fake, 8, 4, due);
    fake_run(&fake, HWT_SEC(70));
    fake_check_arrived(&fake, 12);
    fake_run(&fake, HWT_SEC(20));
    fake_check_empty(&fake);
}
END_TEST

/* A follower reads the new stream while it knows the old watermark alone, which covers such positions. What is
 * there may have been made by hand. */
START_TEST(test_an_old_watermark_covers_nothing_of_a_new_stream)
{
    struct fake_replica *owner = fake_owner(&fake);
    const uint64_t due = fake.realtime + HWT_SEC(5);

    fake_put_some(&fake, 0, 4, fake.realtime);
    fake_run(&fake, HWT_SEC(10));
    owner->starts_at = HWT_NEVER;
    fake_stop(owner);
    fake.entries_silent = true;
    make_anew(_i == 1);
    fake_put(&fake, due - HWT_SEC(10), "m4", "m4"); /* due before the watermark's T */
    fake_put(&fake, due - HWT_SEC(10), NULL, "m5");
    fake_run(&fake, HWT_SEC(5));
    fake.entries_silent = false;
    fake_run(&fake, HWT_SEC(20));
    fake_check_arrived(&fake, 6);
}
END_TEST

/* A purge that does not wait for a replica, as of one that was forgotten and has just come back, overtakes what is on
 * its way to that one: messages are missing between those that it is given. */
START_TEST(test_a_purge_between_messages_that_arrive)
{
    struct fake_replica *c = &fake.replicas[2];
    uint64_t last;

    fake_put_some(&fake, 0, 2, fake.realtime + HWT_SEC(60));
    fake_run(&fake, HWT_SEC(4));
    last = fake.last;
    c->paused = true;
    for (unsigned i = 0; i < 6; i++)
        fake_put(&fake, fake.realtime + HWT_SEC(60), NULL, "m");
    fake_run(&fake, 2 * FAKE_LEASE); /* the others have them, and say so */
    c->paused = false;
    c->shard->compare_at = fake.boottime + HWT_SEC(2);
    c->on_the_way = last + 2;
    c->may_fail = true;
    fake.first = last + 5;
    fake_run(&fake, HWT_SEC(5));
    ck_assert_int_eq(c->failed, -ENODATA); /* it does not go on without them */
    for (unsigned i = 0; i < 2; i++)
        ck_assert_uint_eq(fake.replicas[i].shard->at.position, fake.last);
}
END_TEST

/* The broker has lost what nobody has read, and begins behind it. They go on with the rest. */
START_TEST(test_a_beginning_that_nobody_has_is_not_waited_for)
{
    const uint64_t due = fake.realtime + HWT_SEC(60);

    fake_put_some(&fake, 0, 6, due);
    fake_run(&fake, 2 * FAKE_LEASE);
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        fake.replicas[i].shard->ingest_after = HWT_NEVER;
    fake_put_some(&fake, 6, 6, due);
    fake.first = 11;
    fake_break_pulls(&fake);
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        fake.replicas[i].shard->ingest_after = 0;
    fake_run(&fake, HWT_SEC(2));
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        ck_assert_uint_eq(relay_count_get(&fake.replicas[i].shard->counts.divergences), 1);
    fake_run(&fake, HWT_SEC(70));
    ck_assert_uint_eq(fake.targets.count, 8);
    for (unsigned i = 0; i < 12; i++) {
        char text[8];
        snprintf(text, sizeof(text), "m%u", i);
        ck_assert_uint_eq(fake_arrived(&fake, text), i < 6 || i >= 10);
    }
    fake_run(&fake, HWT_SEC(20));
    fake_check_empty(&fake);
    ck_assert_uint_eq(fake.first, fake.last + 1);
}
END_TEST

/* Two have read what the stream does not have any more, but the stream has lost their places, and they have not noticed
 * yet. The third one waits for what they say then. */
START_TEST(test_a_beginning_whose_keepers_do_not_agree_yet)
{
    const uint64_t due = fake.realtime + HWT_SEC(60);
    struct fake_replica *slow = &fake.replicas[2];

    if (slow == fake_owner(&fake))
        slow = &fake.replicas[1];
    fake_put_some(&fake, 0, 2, due);
    fake_run(&fake, 2 * FAKE_LEASE);
    slow->shard->ingest_after = HWT_NEVER;
    fake_put_some(&fake, 2, 10, due);
    fake_run(&fake, 2 * FAKE_LEASE); /* they say so */
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        fake.replicas[i].paused = &fake.replicas[i] != slow;
    fake_lose_tail(&fake, 4);
    fake.first = 7;
    slow->shard->ingest_after = 0;
    slow->may_fail = true;
    fake_run(&fake, HWT_SEC(5));
    ck_assert_int_eq(slow->failed, 0);
    ck_assert_uint_eq(slow->shard->at.position, 2);
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        fake.replicas[i].paused = false;
    fake_run(&fake, HWT_SEC(5));
    ck_assert_int_eq(slow->failed, -ENODATA);
    fake_run(&fake, HWT_SEC(70));
    fake_check_arrived(&fake, 12);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("relay_agree");
    TCase *tcase = tcase_create("agree");

    tcase_set_timeout(tcase, 100);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, test_positions_that_are_given_twice, 1, 7);
    tcase_add_test(tcase, test_a_tail_that_is_replaced_at_once);
    tcase_add_test(tcase, test_a_point_before_the_beginning);
    tcase_add_test(tcase, test_a_description_that_is_edited);
    tcase_add_test(tcase, test_a_replica_that_has_begun_anew);
    tcase_add_test(tcase, test_nothing_is_trimmed_by_a_place_that_is_lost);
    tcase_add_loop_test(tcase, test_what_it_has_said_to_have_is_not_read_again, 0, 2);
    tcase_add_loop_test(tcase, test_what_it_has_said_to_have_is_deleted_while_it_goes_back, 0, 2);
    tcase_add_test(tcase, test_a_purge_that_is_done_late);
    tcase_add_test(tcase, test_a_place_without_a_message_is_lost_too);
    tcase_add_loop_test(tcase, test_a_stream_that_is_made_anew, 0, 2);
    tcase_add_loop_test(tcase, test_an_old_watermark_covers_nothing_of_a_new_stream, 0, 2);
    tcase_add_test(tcase, test_a_purge_between_messages_that_arrive);
    tcase_add_test(tcase, test_a_beginning_that_nobody_has_is_not_waited_for);
    tcase_add_test(tcase, test_a_beginning_whose_keepers_do_not_agree_yet);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
