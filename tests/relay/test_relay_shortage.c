/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Memory and the disk refuse for a while, at each place in turn: each message still ends once. The sources of
 * hwt/relay that this is linked to ask short_malloc() for memory.
 */

#include "tests/relay/fake.h"

#include <errno.h>
#include <string.h>

void *short_malloc(size_t size);

static struct fake fake;
static uint64_t asked, refuse_from, refuse_until;

void *short_malloc(size_t size)
{
    asked++;
    return asked >= refuse_from && asked < refuse_until ? NULL : malloc(size);
}

static void set_up(void)
{
    asked = refuse_from = refuse_until = 0;
    fake_begin(&fake, test_seed(), 1);
}

static void tear_down(void)
{
    fake_end(&fake);
}

static void run_for(uint64_t time)
{
    uint64_t end = fake.boottime + time;
    while (fake.boottime < end)
        fake_step(&fake);
}

static struct relay_shard *shard(void)
{
    return fake.replicas[0].shard;
}

static void publish(const char *op, uint64_t due, const char *key)
{
    char text[RELAY_DUE_ROOM];
    const bool cancels = strcmp(op, "cancel") == 0;
    relay_due_write(due, text);
    fake_publish(&fake, cancels ? "" : key,
                 (const char *const[]){ "Hwt-Op", op, "Hwt-Due", text, "Hwt-Key", key,
                                        cancels ? NULL : "Hwt-Target", "t.a", NULL });
}

static void replace(uint64_t old, uint64_t due, const char *key)
{
    char text_old[RELAY_DUE_ROOM], text[RELAY_DUE_ROOM];
    relay_due_write(old, text_old);
    relay_due_write(due, text);
    fake_publish(&fake, "new",
                 (const char *const[]){ "Hwt-Op", "replace", "Hwt-Due-Old", text_old, "Hwt-Due",
                                        text, "Hwt-Key", key, "Hwt-Target", "t.a", NULL });
}

static unsigned arrived(const char *payload)
{
    unsigned count = 0;
    for (size_t i = 0; i < fake.targets.count; i++)
        count += strcmp(fake.targets.messages[i]->payload, payload) == 0;
    return count;
}

/*
 * A put, a cancel, a replace, nonsense, in several pulls. The cancel is there before the replica owns the shard, because
 * an owner sends what is due while it has no memory to read on.
 */
static void publish_all(void)
{
    const uint64_t due = fake.realtime + HWT_SEC(2);
    publish("put", due, "sent");
    publish("put", due, "cancelled");
    publish("put", due, "old");
    fake_publish(&fake, "nonsense", (const char *const[]){ "Hwt-Target", "t.a", NULL });
    for (int i = 0; i < 3; i++) /* it begins, compares its place, and pulls */
        fake_step(&fake);
    publish("cancel", due, "cancelled");
    replace(due, due + HWT_SEC(1), "old");
}

static void check_all(void)
{
    ck_assert_uint_eq(arrived("sent"), 1);
    ck_assert_uint_eq(arrived("new"), 1);
    ck_assert_uint_eq(fake.targets.count, 2);
    ck_assert_uint_eq(fake.dead.count, 1);
    ck_assert_uint_eq(shard()->flights_count, 0);
}

/* The n-th request for memory is refused, or so many from then on. */
START_TEST(nothing_is_lost_while_memory_is_short)
{
    static const uint64_t lengths[] = { 1, 4, 100 };
    const uint64_t seed = test_seed();
    uint64_t from = 0, in_all;

    do {
        fake_end(&fake);
        fake_begin(&fake, seed, 1);
        asked = 0;
        refuse_from = ++from;
        refuse_until = from + lengths[_i];
        publish_all();
        run_for(HWT_SEC(20 + lengths[_i])); /* each may hold it up for a second */
        check_all();
        in_all = asked;
        ck_assert_uint_gt(in_all, 10);
    } while (from < in_all && from < 60);
}
END_TEST

/* While its disk is full a replica reads no further, and does not end. It goes on when there is room. */
START_TEST(a_full_disk_is_waited_for)
{
    static char payload[200];
    enum { MESSAGES = 1000 };

    memset(payload, 'x', sizeof(payload) - 1);
    run_for(HWT_SEC(5));
    fake.replicas[0].disk->capacity = disk_size(fake.replicas[0].disk);
    for (int i = 0; i < MESSAGES; i++)
        fake_publish(&fake, payload,
                     (const char *const[]){ "Hwt-Delay", "60000", "Hwt-Target", "t.a", NULL });
    run_for(HWT_SEC(20));
    ck_assert_uint_lt(shard()->at.position, fake.last);
    fake.replicas[0].disk->capacity = UINT64_MAX;
    run_for(HWT_SEC(60));
    ck_assert_uint_eq(shard()->at.position, fake.last);
    ck_assert_uint_eq(fake.targets.count, MESSAGES);
}
END_TEST

/* From which use of the disk on all fail, until there is none left. Begun again the replica has all. */
START_TEST(a_disk_that_fails_ends_the_replica_and_loses_nothing)
{
    const uint64_t seed = test_seed();
    unsigned ended = 0;
    int r;

    do {
        struct fake_replica *replica = &fake.replicas[0];
        fake_end(&fake);
        fake_begin(&fake, seed, 1);
        run_for(HWT_SEC(5));
        publish_all();
        replica->paused = true; /* the steps are made here */
        replica->process.fail_at = replica->process.calls + ++ended;
        replica->process.fail_count = UINT64_MAX;
        replica->process.fail_with = -EIO;
        r = 0;
        for (int i = 0; i < 1000 && r == 0; i++) {
            fake_step(&fake);
            r = relay_shard_step(replica->shard);
        }
        fake_stop(replica);
        replica->paused = false;
        run_for(HWT_SEC(20));
        check_all();
    } while (r < 0);
    ck_assert_uint_gt(ended, 5);
}
END_TEST

/* Longer than a record may be, with its payload or with its headers alone. */
START_TEST(what_is_too_long_for_the_store_is_cut)
{
    static char text[200000];
    struct fake_message *message;

    memset(text, 'x', sizeof(text) - 1);
    fake.replicas[0].config.message_max = 100;
    for (unsigned i = 0; i < 2; i++) {
        fake_publish(&fake, "y", (const char *const[]){ "X-Own", "x", "Hwt-Delay", "1", NULL });
        message = fake.stream.messages[i];
        message->message.payload = text;
        message->message.payload_size = sizeof(text);
        if (i == 1)
            message->fields[0].value = text;
    }
    run_for(HWT_SEC(10));
    ck_assert_uint_eq(fake.dead.count, 2);
    for (unsigned i = 0; i < 2; i++)
        ck_assert_uint_eq(fake.dead.messages[i]->message.payload_size, 0);
    ck_assert_str_eq(fake.dead.messages[0]->fields[0].name, "X-Own");
    ck_assert_str_ne(fake.dead.messages[1]->fields[0].name, "X-Own");
}
END_TEST

static void answer(uint64_t cookie, int result)
{
    struct fake_replica *replica = &fake.replicas[0];
    replica->answers[replica->answers_count] =
        (struct relay_answer){ .cookie = cookie, .result = result };
    replica->answer_at[replica->answers_count++] = 0;
}

START_TEST(answers_that_nobody_waits_for_change_nothing)
{
    run_for(HWT_SEC(5));
    publish("put", fake.realtime + HWT_SEC(2), "sent");
    for (uint64_t cookie = 0; cookie < 100; cookie++)
        answer(cookie, cookie % 2 == 0 ? 0 : -EMSGSIZE);
    run_for(HWT_SEC(1));
    ck_assert_uint_eq(fake.targets.count, 0);
    run_for(HWT_SEC(10));
    ck_assert_uint_eq(arrived("sent"), 1);
    ck_assert_uint_eq(fake.dead.count, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("relay_shortage");
    TCase *tcase = tcase_create("shortage");

    tcase_set_timeout(tcase, 100);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, nothing_is_lost_while_memory_is_short, 0, 3);
    tcase_add_test(tcase, a_full_disk_is_waited_for);
    tcase_add_test(tcase, a_disk_that_fails_ends_the_replica_and_loses_nothing);
    tcase_add_test(tcase, what_is_too_long_for_the_store_is_cut);
    tcase_add_test(tcase, answers_that_nobody_waits_for_change_nothing);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
