/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Targets and dead letters that refuse, or do not answer. */

#include "tests/relay/fake.h"

#include <errno.h>
#include <stdio.h>
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

static uint64_t watermark_due(void)
{
    return fake.replicas[0].shard->entry.watermark.due;
}

/* The dead letters refuse. It leaves its place, and is tried again after pauses that double. In the end it is what it was. */
START_TEST(a_dead_letter_that_is_refused_goes_back)
{
    static const char *const nonsense[] = { "Hwt-Later", "x",   "Hwt-Target", "t.a",
                                            "X-Own",     "own", NULL };
    static const char *const order[] = {
        "Hwt-Due", "1970-01-01T00:00:00Z", "Hwt-Target", "u.a", "X-Own", "own", NULL
    };
    char id[RELAY_ENTRY_MAX];

    run_for(HWT_SEC(3));
    changed.send = refuse_dead;
    fake_publish(&fake, "body", _i == 0 ? nonsense : order);
    snprintf(id, sizeof(id), "shop.0:%llu:%08x:dead",
             (unsigned long long)fake.stream.messages[0]->message.timestamp,
             (unsigned)relay_crc(&fake.stream.messages[0]->message));
    run_for(HWT_SEC(1));
    ck_assert_uint_ge(watermark_due(), fake.stream.messages[0]->message.timestamp);
    run_for(HWT_SEC(20));
    ck_assert_uint_eq(refused, 5); /* after 0, 1, 3, 7 and 15 s */
    changed.send = usual->send;
    run_for(HWT_SEC(20));
    ck_assert_uint_eq(fake.dead.count, 1);
    ck_assert_str_eq(fake.dead.messages[0]->id, id);
    ck_assert_str_eq(fake.dead.messages[0]->payload, "body");
    ck_assert_str_eq(header(fake.dead.messages[0], "X-Own"), "own");
    ck_assert_str_eq(header(fake.dead.messages[0], "Hwt-Later"), _i == 0 ? "x" : "");
    ck_assert_str_eq(header(fake.dead.messages[0], "Hwt-Target"), _i == 0 ? "t.a" : "u.a");
    ck_assert_ptr_nonnull(strstr(header(fake.dead.messages[0], "Hwt-Reason"),
                                 _i == 0 ? "neither Hwt-Due nor" : "may publish to: u.a"));
    ck_assert_uint_eq(fake.dead.messages[0]->message.fields_count, 5);
    fake_check_empty(&fake);
}
END_TEST

/* They are due before others, and the next owner finds nothing of these that it would send again. */
START_TEST(what_the_dead_letters_refuse_holds_up_nothing)
{
    struct fake_replica *first;

    fake_end(&fake);
    fake_begin(&fake, test_seed(), FAKE_REPLICAS);
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        fake.replicas[i].engine.calls = &changed;
    run_for(HWT_SEC(10));
    changed.send = refuse_dead;
    first = fake_owner(&fake);
    for (int i = 0; i < 100; i++)
        put(i % 5 == 0 ? "$JS.API" : "t.a");
    run_for(HWT_SEC(1));
    if (_i == 0) {
        first->crashes = first->process.dead = true;
        first->starts_at = HWT_NEVER;
        fake_stop(first);
    } else {
        put("$JS.API");
        put("t.a");
        fake_run(&fake, HWT_MS(60));
        first->drained = true;
        relay_shard_drain(first->shard);
    }
    run_for(HWT_SEC(10));
    ck_assert_ptr_nonnull(fake_owner(&fake));
    ck_assert_ptr_ne(fake_owner(&fake), first);
    ck_assert_uint_eq(fake.targets.count, 80 + (unsigned)_i);
    ck_assert_uint_eq(fake.repeats, 0);
    changed.send = usual->send;
    run_for(HWT_SEC(30));
    ck_assert_uint_eq(fake.dead.count, 20 + (unsigned)_i);
    ck_assert_uint_eq(fake.repeats, 0);
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

/* A drain waits for what was sent, for a lease at most, whether the shard can be given back or not. It takes nothing that is
 * due meanwhile. What is not answered within half a lease goes back. */
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
    ck_assert_uint_eq(sent, 2 - (unsigned)_i); /* its lease is over before, if nobody renews it */
    ck_assert_uint_eq(fake.targets.count, 0);
}
END_TEST

/* Nobody answers there, so the engine does, after 5 s. */
static int send_to_mute(struct relay_engine *engine, const struct relay_outgoing *outgoing,
                        uint64_t cookie)
{
    struct fake_replica *replica = (struct fake_replica *)engine;

    if (!outgoing->target || strcmp(outgoing->target, "t.mute") != 0)
        return usual->send(engine, outgoing, cookie);
    sent++;
    answer(replica, cookie, -ETIMEDOUT);
    replica->answer_at[replica->answers_count - 1] = fake.boottime + HWT_SEC(5);
    return 0;
}

/* A thousand a second for it. They take no place of others, and each is tried as often as is said. */
START_TEST(a_target_that_answers_nothing_holds_up_no_other_one)
{
    const struct relay_shard *shard;
    size_t most = 0;

    fake.replicas[0].config.attempts = 3;
    fake.pace = HWT_MS(2);
    run_for(HWT_SEC(5));
    changed.send = send_to_mute;
    shard = fake.replicas[0].shard;
    for (int i = 0; i < 2500; i++) {
        put(i % 50 == 49 ? "t.a" : "t.mute");
        fake_run(&fake, HWT_MS(1));
        most = shard->flights_count > most ? shard->flights_count : most;
    }
    ck_assert_uint_lt(most, 1500);
    ck_assert_uint_ge(fake.targets.count, 49);
    fake.pace = HWT_MS(50);
    run_for(HWT_SEC(60));
    ck_assert_uint_eq(fake.targets.count, 50);
    ck_assert_uint_eq(fake.dead.count, 2450);
    ck_assert_uint_eq(shard->flights_count, 0);
    ck_assert_ptr_nonnull(strstr(header(fake.dead.messages[0], "Hwt-Reason"), "attempt 3 of 3"));
}
END_TEST

/* A planned hand-over sends nothing twice. */
START_TEST(a_drain_leaves_nothing_of_a_target_that_answers_nothing)
{
    struct fake_replica *first;

    fake_end(&fake);
    fake_begin(&fake, test_seed(), FAKE_REPLICAS);
    fake.pace = HWT_MS(20);
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        fake.replicas[i].engine.calls = &changed;
    run_for(HWT_SEC(10));
    changed.send = send_to_mute;
    first = fake_owner(&fake);
    for (int i = 0; i < 100; i++)
        put(i % 5 == 0 ? "t.mute" : "t.a");
    run_for(HWT_SEC(1));
    ck_assert_uint_eq(sent, 20);
    first->drained = true;
    relay_shard_drain(first->shard);
    while (!first->shard->over)
        fake_step(&fake);
    changed.send = usual->send;
    run_for(HWT_SEC(30));
    ck_assert_ptr_ne(fake_owner(&fake), first);
    ck_assert_uint_eq(fake.targets.count, 100);
    ck_assert_uint_eq(fake.repeats, 0);
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
    tcase_add_loop_test(tcase, a_dead_letter_that_is_refused_goes_back, 0, 2);
    tcase_add_loop_test(tcase, what_the_dead_letters_refuse_holds_up_nothing, 0, 2);
    tcase_add_test(tcase, all_that_the_relay_adds_has_room);
    tcase_add_test(tcase, what_has_no_room_is_a_dead_letter_that_says_what_is_missing);
    tcase_add_test(tcase, what_cannot_be_sent_again_is_a_dead_letter);
    tcase_add_loop_test(tcase, a_drain_waits_for_answers_for_a_lease, 0, 2);
    tcase_add_test(tcase, a_target_that_answers_nothing_holds_up_no_other_one);
    tcase_add_test(tcase, a_drain_leaves_nothing_of_a_target_that_answers_nothing);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
