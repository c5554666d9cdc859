/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Targets and dead letters that refuse, or do not answer. */

#include "tests/relay/fake.h"

#include <errno.h>
#include <string.h>

static struct fake fake;
static struct relay_engine_calls changed;
static const struct relay_engine_calls *usual;
static unsigned sent, refused;

static void set_up(void)
{
    fake_begin(&fake, test_seed(), 1);
    usual = fake.replicas[0].engine.calls;
    changed = *usual;
    fake.replicas[0].engine.calls = &changed;
    sent = refused = 0;
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

static void put(const char *target)
{
    fake_publish(&fake, "body",
                 (const char *const[]){ "Hwt-Delay", "1", "Hwt-Target", target, NULL });
}

static const char *header(const struct fake_message *message, const char *name)
{
    for (size_t i = 0; i < message->message.fields_count; i++)
        if (strcmp(message->fields[i].name, name) == 0)
            return message->fields[i].value;
    return "";
}

/* The pauses double up to 32 s, and are a minute each from then on. */
START_TEST(a_target_that_refuses_is_asked_as_often_as_is_said)
{
    fake.replicas[0].config.attempts = 9;
    put("t.nobody");
    run_for(HWT_SEC(2 + 63 + 60));
    ck_assert_uint_eq(fake.dead.count, 0);
    run_for(HWT_SEC(60 + 60));
    ck_assert_uint_eq(fake.dead.count, 1);
    ck_assert_ptr_nonnull(strstr(header(fake.dead.messages[0], "Hwt-Reason"), "attempt 9 of 9"));
    ck_assert_uint_eq(fake.stream.count, 9);
}
END_TEST

static void answer(struct fake_replica *replica, uint64_t cookie, int result)
{
    replica->answers[replica->answers_count] =
        (struct relay_answer){ .cookie = cookie, .result = result };
    replica->answer_at[replica->answers_count++] = 0;
}

static int send_short(struct relay_engine *engine, const struct relay_outgoing *outgoing,
                      uint64_t cookie)
{
    if (!outgoing->target || *outgoing->target || outgoing->payload_size == 0)
        return usual->send(engine, outgoing, cookie);
    refused++;
    answer((struct fake_replica *)engine, cookie, -EMSGSIZE);
    return 0;
}

START_TEST(a_dead_letter_that_is_too_long_comes_without_its_payload)
{
    changed.send = send_short;
    fake.replicas[0].config.attempts = 1;
    put("t.nobody");
    run_for(HWT_SEC(20));
    ck_assert_uint_eq(refused, 1);
    ck_assert_uint_eq(fake.dead.count, 1);
    ck_assert_uint_eq(fake.dead.messages[0]->message.payload_size, 0);
    ck_assert_ptr_nonnull(
        strstr(header(fake.dead.messages[0], "Hwt-Reason"), "bytes of it are left out"));
}
END_TEST

static int send_too_long(struct relay_engine *engine, const struct relay_outgoing *outgoing,
                         uint64_t cookie)
{
    if (!outgoing->target || !*outgoing->target)
        return usual->send(engine, outgoing, cookie);
    refused++;
    answer((struct fake_replica *)engine, cookie, -EMSGSIZE);
    return 0;
}

/* It will be as long the next time. */
START_TEST(what_is_too_long_for_its_target_is_dead_at_once)
{
    changed.send = send_too_long;
    put("t.a");
    run_for(HWT_SEC(10));
    ck_assert_uint_eq(refused, 1);
    ck_assert_uint_eq(fake.stream.count, 1);
    ck_assert_uint_eq(fake.dead.count, 1);
    ck_assert_uint_eq(relay_count_get(&fake.replicas[0].shard->counts.dead_letters), 1);
    ck_assert_uint_eq(relay_count_get(&fake.replicas[0].shard->counts.forwarded), 0);
}
END_TEST

static int refuse_dead(struct relay_engine *engine, const struct relay_outgoing *outgoing,
                       uint64_t cookie)
{
    if (!outgoing->target || *outgoing->target)
        return usual->send(engine, outgoing, cookie);
    refused++;
    answer((struct fake_replica *)engine, cookie, -EIO);
    return 0;
}

/* The dead letters refuse: they are asked at once, and then once a second. */
START_TEST(a_dead_letter_that_is_refused_waits)
{
    changed.send = refuse_dead;
    fake_publish(&fake, "nonsense", (const char *const[]){ "Hwt-Target", "t.a", NULL });
    run_for(HWT_SEC(20));
    ck_assert_uint_gt(refused, 5);
    ck_assert_uint_le(refused, 21);
    changed.send = usual->send;
    run_for(HWT_SEC(5));
    ck_assert_uint_eq(fake.dead.count, 1);
}
END_TEST

/* ---- Room ---- */

static size_t own, longest;

static int send_measured(struct relay_engine *engine, const struct relay_outgoing *outgoing,
                         uint64_t cookie)
{
    size_t size = relay_fields_size(outgoing->fields, outgoing->fields_count) +
                  strlen("Nats-Msg-Id: \r\n") + strlen(outgoing->id) + outgoing->payload_size;

    longest = size > longest ? size : longest;
    ck_assert_uint_le(size, own + RELAY_ROOM);
    sent++;
    if (!outgoing->target || !*outgoing->target)
        return usual->send(engine, outgoing, cookie);
    answer((struct fake_replica *)engine, cookie, -EHOSTUNREACH);
    return 0;
}

/* Each name is as long as it may be, on all the ways of a message. */
START_TEST(all_that_the_relay_adds_has_room)
{
    static char space[RELAY_NAME_MAX], key[RELAY_KEY_MAX + 1], target[RELAY_TARGET_MAX + 1],
        given[129];
    const struct relay_field field = { "X-Own", "x" };

    memset(space, 's', sizeof(space) - 1);
    memset(key, 'k', sizeof(key) - 1);
    memset(target, 't', sizeof(target) - 1);
    memset(given, 'g', sizeof(given) - 1);
    memcpy(target, "t.", 2);
    fake.replicas[0].config.space = space;
    fake.replicas[0].config.attempts = 3;
    own = relay_fields_size(&field, 1) + sizeof("body");
    longest = 0;
    changed.send = send_measured;
    for (int i = 0; i < 2; i++) {
        if (i == 1)
            memcpy(target, "u.", 2); /* not allowed */
        fake_publish(&fake, "body",
                     (const char *const[]){ "Hwt-Delay", "1", "Hwt-Target", target, "Hwt-Key", key,
                                            "Nats-Msg-Id", given, "X-Own", "x", NULL });
    }
    run_for(HWT_SEC(60));
    ck_assert_uint_eq(fake.dead.count, 2);
    ck_assert_uint_ge(sent, 6);
    ck_assert_uint_gt(longest, own + RELAY_ROOM / 4);
}
END_TEST

static const struct fake_message *put_and_die(const char *own_value, size_t payload_size)
{
    static char payload[FAKE_TEXT];
    size_t before = fake.dead.count;

    memset(payload, 0, sizeof(payload));
    memset(payload, 'p', payload_size - 1);
    fake_publish(&fake, payload,
                 (const char *const[]){ "Hwt-Delay", "1", "Hwt-Target", "t.nobody", "X-Own",
                                        own_value, NULL });
    run_for(HWT_SEC(20));
    ck_assert_uint_eq(fake.dead.count, before + 1);
    return fake.dead.messages[before];
}

/* What a broker takes is known before anything is sent, so nothing that goes on is ever cut. */
START_TEST(what_has_no_room_is_a_dead_letter_that_says_what_is_missing)
{
    struct relay_limits *limits = &fake.replicas[0].engine.limits;
    const struct relay_field field = { "X-Own", "x" };
    const size_t headers = relay_fields_size(&field, 1);
    static char long_value[200];
    const struct fake_message *dead;

    fake.replicas[0].config.attempts = 2;
    changed.send = send_measured;
    own = headers + 100;
    limits->message = RELAY_ROOM + headers + 100;
    dead = put_and_die("x", 100); /* it goes all ways */
    ck_assert_uint_eq(sent, 4);
    ck_assert_uint_eq(dead->message.payload_size, 100);
    ck_assert_ptr_nonnull(strstr(header(dead, "Hwt-Reason"), "attempt 2 of 2"));
    sent = 0;
    dead = put_and_die("x", 101); /* and this one none */
    ck_assert_uint_eq(sent, 1);
    ck_assert_uint_eq(dead->message.payload_size, 0);
    ck_assert_str_eq(header(dead, "X-Own"), "x");
    ck_assert_ptr_nonnull(strstr(header(dead, "Hwt-Reason"), "101 bytes of it are left out"));
    ck_assert_str_ne(header(dead, "Hwt-Source"), "");
    memset(long_value, 'v', sizeof(long_value) - 1);
    limits->message = 0;
    limits->headers = RELAY_ROOM + headers + 100;
    dead = put_and_die(long_value, 101);
    ck_assert_uint_eq(dead->message.payload_size, 101);
    ck_assert_str_eq(header(dead, "X-Own"), "");
    ck_assert_str_eq(header(dead, "Hwt-Target"), "t.nobody");
    ck_assert_ptr_nonnull(strstr(header(dead, "Hwt-Reason"), "bytes of it are left out"));
    limits->message = RELAY_ROOM;
    dead = put_and_die("x", 10);
    ck_assert_uint_eq(dead->message.payload_size, 0);
    ck_assert_str_eq(header(dead, "X-Own"), "");
}
END_TEST

static int send_shrunk(struct relay_engine *engine, const struct relay_outgoing *outgoing,
                       uint64_t cookie)
{
    if (outgoing->target && (*outgoing->target || outgoing->fields_count < 5))
        return usual->send(engine, outgoing, cookie);
    answer((struct fake_replica *)engine, cookie, -EMSGSIZE);
    return 0;
}

/* The broker takes less than it did: the delay stream, and the dead letters with any header of the message's own. */
START_TEST(what_cannot_be_sent_again_is_a_dead_letter)
{
    const struct fake_message *dead;

    changed.send = send_shrunk;
    dead = put_and_die("x", 100);
    ck_assert_uint_eq(fake.stream.count, 1);
    ck_assert_uint_eq(dead->message.payload_size, 0);
    ck_assert_str_eq(header(dead, "X-Own"), "");
    ck_assert_ptr_nonnull(strstr(header(dead, "Hwt-Reason"), "not sent: Message too long"));
}
END_TEST

static int send_for_ever(struct relay_engine *engine, const struct relay_outgoing *outgoing,
                         uint64_t cookie)
{
    (void)engine;
    (void)outgoing;
    (void)cookie;
    sent++;
    return 0;
}

/* A drain waits for what was sent, for a lease at most, whether the shard can be given back or not. It sends nothing
 * that is due meanwhile. */
START_TEST(a_drain_waits_for_answers_for_a_lease)
{
    struct relay_shard *shard;
    uint64_t began;

    run_for(HWT_SEC(5));
    changed.send = send_for_ever;
    put("t.a");
    run_for(HWT_SEC(1));
    ck_assert_uint_eq(sent, 1);
    shard = fake.replicas[0].shard;
    fake.replicas[0].drained = true;
    relay_shard_drain(shard);
    began = fake.boottime;
    fake.entries_silent = _i == 1;
    put("t.a");
    while (!shard->over) {
        fake_step(&fake);
        relay_shard_drain(shard); /* as the program does, each time */
    }
    ck_assert_uint_ge(fake.boottime - began, FAKE_LEASE);
    ck_assert_uint_lt(fake.boottime - began, FAKE_LEASE + HWT_SEC(1));
    ck_assert_uint_eq(sent, 1);
    ck_assert_uint_eq(fake.targets.count, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("relay_answers");
    TCase *tcase = tcase_create("answers");

    tcase_set_timeout(tcase, 100);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_target_that_refuses_is_asked_as_often_as_is_said);
    tcase_add_test(tcase, a_dead_letter_that_is_too_long_comes_without_its_payload);
    tcase_add_test(tcase, what_is_too_long_for_its_target_is_dead_at_once);
    tcase_add_test(tcase, a_dead_letter_that_is_refused_waits);
    tcase_add_test(tcase, all_that_the_relay_adds_has_room);
    tcase_add_test(tcase, what_has_no_room_is_a_dead_letter_that_says_what_is_missing);
    tcase_add_test(tcase, what_cannot_be_sent_again_is_a_dead_letter);
    tcase_add_loop_test(tcase, a_drain_waits_for_answers_for_a_lease, 0, 2);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
