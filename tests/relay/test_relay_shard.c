/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One thing at a time, without faults unless the test makes one. */

#include "tests/relay/fake.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

static struct fake fake;

static void run_for(uint64_t time)
{
    fake_run(&fake, time);
}

static void put_at(uint64_t due, const char *payload)
{
    fake_put(&fake, due, payload, payload);
}

static void cancel_at(uint64_t due, const char *key)
{
    char text[RELAY_DUE_ROOM];
    relay_due_write(due, text);
    fake_publish(
        &fake, "",
        (const char *const[]){ "Hwt-Op", "cancel", "Hwt-Due", text, "Hwt-Key", key, NULL });
}

static struct fake_replica *owner(void)
{
    return fake_owner(&fake);
}

static uint64_t pending(const struct fake_replica *replica)
{
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    ck_assert_int_eq(hwt_delay_get_stats(replica->store, &stats), 0);
    return stats.pending;
}

START_TEST(test_a_watermark_covers_nothing_of_another_incarnation)
{
    const struct relay_watermark mark = { { 5, 10, 100 }, 1000 };
    struct relay_place place = { 5, 10, 100 };

    ck_assert(relay_watermark_covers(&mark, &place, 1000));
    ck_assert(!relay_watermark_covers(&mark, &place, 1001));
    place.position = 11;
    ck_assert(!relay_watermark_covers(&mark, &place, 1));
    place = (struct relay_place){ 5, 9, 101 };
    ck_assert(!relay_watermark_covers(&mark, &place, 1));
    place = (struct relay_place){ 4, 9, 99 };
    ck_assert(!relay_watermark_covers(&mark, &place, 1));
}
END_TEST

START_TEST(test_an_entry_is_read_as_it_was_written)
{
    struct relay_entry entry = { "b", UINT64_MAX, { { 1, 2, 3 }, UINT64_MAX - 1 } }, read;
    char text[RELAY_ENTRY_MAX];

    relay_entry_write(&entry, text);
    ck_assert_int_eq(relay_entry_read(text, &read), 0);
    ck_assert_str_eq(read.owner, "b");
    ck_assert_mem_eq(&read.watermark, &entry.watermark, sizeof(entry.watermark));
    ck_assert_int_eq(relay_entry_read("", &read), 0);
    ck_assert_str_eq(read.owner, "-");
    ck_assert_int_ne(relay_entry_read("owner=b", &read), 0);
    strcat(text, " later=-1.5"); /* a later version's */
    ck_assert_int_eq(relay_entry_read(text, &read), 0);
    strcat(text, " life=1");
    ck_assert_int_ne(relay_entry_read(text, &read), 0);
}
END_TEST

/* As 0.3 has written them, and with what is none. */
START_TEST(test_texts_are_read_as_they_stand)
{
    static const char *const bad[] = {
        "incarnation=-1 position=2 timestamp=3",
        "incarnation=1 position=+2 timestamp=3",
        "incarnation=1 position=18446744073709551616 timestamp=3",
        "incarnation=1 position=2  timestamp=3",
        "incarnation=1 position= timestamp=3",
        "incarnation=1 position=2x timestamp=3",
        "incarnation=1 timestamp=3",
        "incarnation=1 position=2 timestamp=3 timestamp=3",
        "incarnation=1 position=2 timestamp=3 x",
        "incarnation=1 position=2 timestamp=3 =x",
        "hello",
    };
    struct relay_place place, top;
    struct relay_member member;
    char text[RELAY_ENTRY_MAX];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(text, sizeof(text), "%s top=5 top_timestamp=6", bad[i]);
        ck_assert_msg(relay_note_read(text, &place, &top) == -EBADMSG, "%s", text);
        snprintf(text, sizeof(text), "%s life=5 ready=1", bad[i]);
        ck_assert_msg(relay_member_read(text, &member) == -EBADMSG, "%s", text);
    }
    ck_assert_int_eq(
        relay_note_read("incarnation=1 position=2 timestamp=3 top=5 top_timestamp=6", &place, &top),
        0);
    ck_assert_uint_eq(top.position, 5);
    ck_assert_int_eq(
        relay_member_read("incarnation=1 position=2 timestamp=3 life=5 ready=1", &member), 0);
    ck_assert(member.ready && member.policy == 0);
    ck_assert_int_eq(
        relay_member_read("incarnation=1 position=2 timestamp=3 life=5 ready=2", &member),
        -EBADMSG);
}
END_TEST

START_TEST(test_followers_drop_what_the_owner_has_forwarded)
{
    fake_begin(&fake, test_seed(), 3);
    for (int i = 0; i < 20; i++) {
        char key[8];
        snprintf(key, sizeof(key), "k%d", i);
        put_at(fake.realtime + HWT_SEC(i % 10), key);
    }
    run_for(HWT_SEC(20));
    ck_assert_uint_eq(fake.targets.count, 20);
    for (unsigned i = 0; i < 3; i++)
        ck_assert_uint_eq(pending(&fake.replicas[i]), 0);
    ck_assert_uint_eq(fake.first, 21); /* and the stream is empty */
    fake_end(&fake);
}
END_TEST

static void check_id(const char *given, bool goes_by_it)
{
    const uint64_t due = fake.realtime + HWT_SEC(1);
    const size_t before = fake.targets.count, at = fake.stream.count;
    char text[RELAY_DUE_ROOM], begin[64];
    const char *id;

    relay_due_write(due, text);
    fake_publish(
        &fake, "m",
        (const char *const[]){ "Hwt-Due", text, "Hwt-Target", "t.a", "Nats-Msg-Id", given, NULL });
    snprintf(begin, sizeof(begin), "shop.0:%" PRIu64 ":",
             goes_by_it ? due : fake.stream.messages[at]->message.timestamp);
    run_for(HWT_SEC(2));
    ck_assert_uint_eq(fake.targets.count, before + 1);
    id = fake.targets.messages[before]->id;
    ck_assert_int_eq(strncmp(id, begin, strlen(begin)), 0);
    ck_assert_str_eq(id + strlen(begin) + 8, goes_by_it ? given - 1 : "");
}

/* What the target gets as an id has the producer's, unless that is too long. */
START_TEST(test_ids_are_those_of_producers)
{
    char given[131] = ":";

    fake_begin(&fake, test_seed(), 1);
    run_for(HWT_SEC(5));
    memset(given + 1, 'x', 129);
    check_id(given + 1, false);
    given[129] = 0;
    check_id(given + 1, true);
    fake_end(&fake);
}
END_TEST

/* The others look twice before a sixteenth of the lease is over. */
START_TEST(test_a_drained_shard_is_taken_at_once)
{
    struct fake_replica *first, *second;
    uint64_t began;

    fake_begin(&fake, test_seed() + (uint64_t)_i, 3);
    run_for(HWT_SEC(5));
    fake.pace = HWT_MS(1);
    first = owner();
    ck_assert_ptr_nonnull(first);
    first->drained = true;
    relay_shard_drain(first->shard);
    began = fake.boottime;
    while (!first->shard->over)
        fake_step(&fake);
    first->starts_at = HWT_NEVER;
    fake_stop(first);
    while (!(second = owner()))
        fake_step(&fake);
    ck_assert_ptr_ne(first, second);
    ck_assert_uint_lt(fake.boottime - began, FAKE_LEASE / 16 + HWT_MS(10));
    fake_end(&fake);
}
END_TEST

/* So many that a replica reads the cancel behind them in its second step. */
static void cancel_behind_others(uint64_t due, const char *key)
{
    for (int i = 0; i < 40; i++) {
        char other[16];
        snprintf(other, sizeof(other), "other%d", i);
        put_at(due + HWT_MIN(60), other);
    }
    cancel_at(due, key);
}

static void pause_all(bool paused)
{
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        fake.replicas[i].paused = paused;
}

/* It takes the message before it has read the cancel, and must read up to the end before it sends. */
START_TEST(test_a_cancel_holds_for_the_next_owner)
{
    struct fake_replica *first;
    uint64_t due;

    fake_begin(&fake, test_seed(), 3);
    run_for(HWT_SEC(5));
    first = owner();
    ck_assert_ptr_nonnull(first);
    due = fake.realtime + HWT_SEC(5);
    put_at(due, "k");
    run_for(HWT_MS(500));
    pause_all(true);
    cancel_behind_others(due, "k");
    first->starts_at = HWT_NEVER;
    fake_stop(first);
    run_for(HWT_SEC(10)); /* it is due, and the lease is over */
    pause_all(false);
    run_for(HWT_SEC(10));
    ck_assert_ptr_nonnull(owner());
    ck_assert_uint_eq(fake.targets.count, 0);
    fake_end(&fake);
}
END_TEST

/* It was paused for longer than its lease. Either it cannot ask whose the shard is, or the shard is
 * still its own, and it has to read up to the end before it sends. */
START_TEST(test_an_owner_whose_lease_is_over_does_not_send)
{
    uint64_t due;

    fake_begin(&fake, test_seed(), 1);
    run_for(HWT_SEC(5));
    ck_assert_ptr_nonnull(owner());
    due = fake.realtime + HWT_SEC(5);
    put_at(due, "k");
    put_at(due, "sent");
    run_for(HWT_MS(500));
    pause_all(true);
    cancel_behind_others(due, "k");
    run_for(HWT_SEC(10));
    fake.entries_silent = _i == 0;
    pause_all(false);
    run_for(HWT_SEC(10));
    ck_assert_uint_eq(fake.targets.count, _i == 0 ? 0 : 1);
    fake.entries_silent = false;
    run_for(HWT_SEC(10));
    ck_assert_uint_eq(fake.targets.count, 1);
    ck_assert_str_eq(fake.targets.messages[0]->payload, "sent");
    fake_end(&fake);
}
END_TEST

START_TEST(test_messages_of_a_stream_that_was_deleted_still_come)
{
    fake_begin(&fake, test_seed(), 2);
    put_at(fake.realtime + HWT_SEC(10), "old");
    run_for(HWT_SEC(5));
    fake_stream_anew(&fake);
    put_at(fake.realtime + HWT_SEC(2), "new");
    run_for(HWT_SEC(20));
    ck_assert_uint_eq(fake.targets.count, 2);
    ck_assert_str_eq(fake.targets.messages[0]->payload, "new");
    ck_assert_str_eq(fake.targets.messages[1]->payload, "old");
    fake_end(&fake);
}
END_TEST

/* A replica with an empty store, when the stream has been trimmed, does not have what the others have. */
START_TEST(test_a_store_that_lacks_trimmed_messages_is_refused)
{
    struct fake_replica *c;

    fake_begin(&fake, test_seed(), 3);
    put_at(fake.realtime + HWT_SEC(1), "k");
    run_for(HWT_SEC(20));
    ck_assert_uint_gt(fake.first, 1);
    c = &fake.replicas[2];
    fake_stop(c);
    disk_free(c->disk);
    c->disk = disk_new();
    fake_start(c);
    ck_assert_int_eq(relay_shard_step(c->shard), -ENODATA);
    fake_end(&fake);
}
END_TEST

START_TEST(test_dead_letters_say_why)
{
    fake_begin(&fake, test_seed(), 1);
    fake_publish(&fake, "a", (const char *const[]){ "Hwt-Target", "t.a", "X-Own", "x", NULL });
    fake_publish(&fake, "b",
                 (const char *const[]){ "Hwt-Delay", "1", "Hwt-Target", "t.nobody", NULL });
    run_for(HWT_SEC(120));
    ck_assert_uint_eq(fake.dead.count, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct fake_message *message = fake.dead.messages[i];
        const char *reason = NULL;
        for (size_t f = 0; f < message->message.fields_count; f++)
            if (strcmp(message->fields[f].name, "Hwt-Reason") == 0)
                reason = message->fields[f].value;
        ck_assert_ptr_nonnull(reason);
        ck_assert_ptr_nonnull(strstr(reason, i == 0 ? "neither Hwt-Due" : "attempt 6 of 6"));
    }
    ck_assert_str_eq(fake.dead.messages[0]->payload, "a");
    fake_end(&fake);
}
END_TEST

START_TEST(test_a_stream_that_has_become_shorter_is_read_again)
{
    fake_begin(&fake, test_seed(), 3);
    for (int i = 0; i < 20; i++) {
        char key[8];
        snprintf(key, sizeof(key), "k%d", i);
        put_at(fake.realtime, key);
    }
    run_for(HWT_SEC(20));
    ck_assert_uint_eq(fake.first, 21);
    for (unsigned i = 0; i < 3; i++)
        fake_stop(&fake.replicas[i]);
    fake_lose_tail(&fake, 15);
    put_at(fake.realtime, "behind");
    run_for(HWT_SEC(20));
    ck_assert_uint_eq(fake.targets.count, 21);
    fake_end(&fake);
}
END_TEST

START_TEST(test_what_is_not_of_a_relay_is_refused)
{
    struct fake_replica *replica = &fake.replicas[0];
    struct relay_shard *shard;
    hwt_delay_batch note = HWT_DELAY_BATCH_INIT;

    fake_begin(&fake, test_seed(), 1);
    run_for(HWT_SEC(5));
    note.note = "hello";
    note.note_size = 5;
    ck_assert_int_eq(hwt_delay_apply(replica->store, NULL, 0, &note), 0);
    ck_assert_int_eq(
        relay_shard_open(&replica->config, 0, &replica->engine, replica->store, 1, &shard),
        -EBADMSG);
    char text[RELAY_ENTRY_MAX] = "";
    note.note = text;
    note.note_size = sizeof(text);
    ck_assert_int_eq(hwt_delay_apply(replica->store, NULL, 0, &note), 0);
    ck_assert_int_eq(
        relay_shard_open(&replica->config, 0, &replica->engine, replica->store, 1, &shard),
        -EBADMSG);
    fake_end(&fake);
}
END_TEST

START_TEST(test_a_message_that_is_too_long_is_a_dead_letter)
{
    char payload[FAKE_TEXT] = "";

    fake_begin(&fake, test_seed(), 1);
    fake.replicas[0].config.message_max = 100;
    memset(payload, 'x', 200);
    fake_publish(&fake, payload,
                 (const char *const[]){ "Hwt-Delay", "1", "Hwt-Target", "t.a", NULL });
    run_for(HWT_SEC(10));
    ck_assert_uint_eq(fake.targets.count, 0);
    ck_assert_uint_eq(fake.dead.count, 1);
    fake_end(&fake);
}
END_TEST

START_TEST(test_many_cancels_come_in_more_than_one_step)
{
    fake_begin(&fake, test_seed(), 1);
    const uint64_t due = fake.realtime + HWT_SEC(30);
    for (int i = 0; i < 600; i++) {
        char key[8];
        snprintf(key, sizeof(key), "k%d", i);
        put_at(due, key);
        if (i % 2 == 0)
            cancel_at(due, key);
    }
    run_for(HWT_SEC(60));
    ck_assert_uint_eq(fake.targets.count, 300);
    fake_end(&fake);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("relay_shard");
    TCase *tcase = tcase_create("shard");

    tcase_set_timeout(tcase, 100);
    tcase_add_test(tcase, test_a_watermark_covers_nothing_of_another_incarnation);
    tcase_add_test(tcase, test_an_entry_is_read_as_it_was_written);
    tcase_add_test(tcase, test_texts_are_read_as_they_stand);
    tcase_add_test(tcase, test_followers_drop_what_the_owner_has_forwarded);
    tcase_add_test(tcase, test_ids_are_those_of_producers);
    tcase_add_loop_test(tcase, test_a_drained_shard_is_taken_at_once, 0, 8);
    tcase_add_test(tcase, test_a_cancel_holds_for_the_next_owner);
    tcase_add_loop_test(tcase, test_an_owner_whose_lease_is_over_does_not_send, 0, 2);
    tcase_add_test(tcase, test_messages_of_a_stream_that_was_deleted_still_come);
    tcase_add_test(tcase, test_a_store_that_lacks_trimmed_messages_is_refused);
    tcase_add_test(tcase, test_dead_letters_say_why);
    tcase_add_test(tcase, test_a_stream_that_has_become_shorter_is_read_again);
    tcase_add_test(tcase, test_what_is_not_of_a_relay_is_refused);
    tcase_add_test(tcase, test_a_message_that_is_too_long_is_a_dead_letter);
    tcase_add_test(tcase, test_many_cancels_come_in_more_than_one_step);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
