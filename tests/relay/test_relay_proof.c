/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A producer reaches no message of another one by the headers that relays write. Without other faults. */

#include "tests/relay/fake_inside.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "hwt/relay/proof.h"

static struct fake fake;
static struct relay_engine_calls changed;
static const struct relay_engine_calls *usual;

static void set_up(void)
{
    fake_begin(&fake, test_seed(), FAKE_REPLICAS);
    fake.pace = HWT_MS(20);
    while (!fake_owner(&fake))
        fake_step(&fake);
    fake_run(&fake, FAKE_LEASE);
    usual = fake.replicas[0].engine.calls;
    changed = *usual;
}

static void tear_down(void)
{
    fake_end(&fake);
}

/* The vectors of the paper's appendix, and of its authors' own program. */
START_TEST(the_hash_is_siphash)
{
    const uint64_t secret[2] = { UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908) };
    unsigned char bytes[64];

    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)i;
    ck_assert_uint_eq(relay_keyed_hash(secret, bytes, 0), UINT64_C(0x726fdb47dd0e0e31));
    ck_assert_uint_eq(relay_keyed_hash(secret, bytes, 1), UINT64_C(0x74f839c593dc67fd));
    ck_assert_uint_eq(relay_keyed_hash(secret, bytes, 8), UINT64_C(0x93f5f5799a932462));
    ck_assert_uint_eq(relay_keyed_hash(secret, bytes, 15), UINT64_C(0xa129ca6149be45e5));
}
END_TEST

static const char *header(const struct fake_message *message, const char *name)
{
    for (size_t i = 0; i < message->message.fields_count; i++)
        if (strcmp(message->fields[i].name, name) == 0)
            return message->fields[i].value;
    return "";
}

/* The newest one of the stream. */
static const struct fake_message *newest(void)
{
    return fake.stream.messages[fake.stream.count - 1];
}

static void publish_as_relay(uint64_t due, const char *payload, const char *target, const char *id,
                             const char *attempt, const char *source)
{
    char text[RELAY_DUE_ROOM];

    relay_due_write(due, text);
    fake_publish(&fake, payload,
                 (const char *const[]){ "Hwt-Due", text, "Hwt-Target", target, "Hwt-Id", id,
                                        "Hwt-Attempt", attempt, source ? "Hwt-Source" : NULL,
                                        source, NULL });
}

static int send_in_vain(struct relay_engine *engine, const struct relay_outgoing *message,
                        uint64_t cookie)
{
    if (!message->target || strcmp(message->target, "t.a") != 0)
        return usual->send(engine, message, cookie);
    fake_answer((struct fake_replica *)engine, cookie, -ETIMEDOUT);
    return 0;
}

/* It arrives, and nobody says so. */
static int send_unsaid(struct relay_engine *engine, const struct relay_outgoing *message,
                       uint64_t cookie)
{
    if (usual->send(engine, message, cookie) == 0)
        ((struct fake_replica *)engine)
            ->answers[((struct fake_replica *)engine)->answers_count - 1]
            .result = message->target && *message->target ? -ETIMEDOUT : 0;
    return 0;
}

static void set_send(int (*send)(struct relay_engine *engine, const struct relay_outgoing *message,
                                 uint64_t cookie))
{
    changed.send = send;
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        fake.replicas[i].engine.calls = &changed;
}

/* The id that the first one will have is known to the producer of the second one, which is due before. */
START_TEST(the_id_of_another_message_is_not_believed)
{
    static const char *const sources[] = { NULL, "", "shop.0:1", "shop.0:1:0000000000000000" };
    const uint64_t due = fake.realtime + HWT_SEC(2);
    char id[RELAY_ENTRY_MAX];

    fake_put(&fake, due, NULL, "victim");
    snprintf(id, sizeof(id), "shop.0:%" PRIu64 ":%08" PRIx32, newest()->message.timestamp,
             relay_crc(&newest()->message));
    publish_as_relay(due - HWT_SEC(1), "foreign", "t.a", id, "0", sources[_i]);
    fake_run(&fake, HWT_SEC(5));
    ck_assert_uint_eq(fake_arrived(&fake, "victim"), 1);
    ck_assert_uint_eq(fake_arrived(&fake, "foreign"), 1);
    ck_assert_uint_eq(fake.repeats, 0);
    for (size_t i = 0; i < fake.targets.count; i++) {
        bool victim = strcmp(fake.targets.messages[i]->payload, "victim") == 0;
        ck_assert_int_eq(strcmp(fake.targets.messages[i]->id, id) == 0, victim);
    }
}
END_TEST

/* Nor is it as a dead letter, nor when it is put back, and the attempts begin with the first one. */
START_TEST(a_message_of_unknown_attempts_has_made_none)
{
    publish_as_relay(fake.realtime, "m", "t.nobody", "id", "4", "x");
    fake_run(&fake, HWT_MS(500));
    ck_assert_str_eq(newest()->payload, "m");
    ck_assert_str_eq(header(newest(), "Hwt-Attempt"), "1");
    ck_assert_str_ne(header(newest(), "Hwt-Id"), "id");
    ck_assert_uint_eq(fake.dead.count, 0);
    fake_run(&fake, HWT_SEC(60));
    ck_assert_uint_eq(fake.dead.count, 1);
    ck_assert_ptr_nonnull(strstr(header(fake.dead.messages[0], "Hwt-Reason"), "attempt 6 of 6"));
    ck_assert_str_ne(fake.dead.messages[0]->id, "id:dead");
}
END_TEST

/* The target has the message, and has not said so. Whoever owns the shard next sends it by the same id. */
START_TEST(the_id_of_a_message_stays_whoever_sends_it)
{
    struct fake_replica *first = fake_owner(&fake);

    set_send(send_unsaid);
    fake_put(&fake, fake.realtime + HWT_SEC(1), "k", "m");
    fake_run(&fake, HWT_MS(1500));
    ck_assert_str_eq(header(newest(), "Hwt-Attempt"), "1");
    first->crashes = first->process.dead = true;
    first->starts_at = HWT_NEVER;
    fake_stop(first);
    fake_run(&fake, HWT_SEC(6));
    ck_assert_ptr_ne(fake_owner(&fake), first);
    set_send(usual->send);
    fake_run(&fake, HWT_SEC(60));
    ck_assert_uint_eq(fake_arrived(&fake, "m"), 1);
    ck_assert_uint_ge(fake.repeats, 2);
    ck_assert_uint_eq(fake.dead.count, 0);
    fake_check_empty(&fake);
}
END_TEST

/* Whoever reads the stream, and puts a message of a relay with another word in it. */
START_TEST(a_proof_is_of_one_message)
{
    const struct fake_message *again;
    const char *id, *source;
    uint64_t due;

    set_send(send_in_vain);
    fake_put(&fake, fake.realtime + HWT_SEC(1), NULL, "victim");
    fake_run(&fake, HWT_MS(1200));
    again = newest();
    id = header(again, "Hwt-Id");
    source = header(again, "Hwt-Source");
    ck_assert_str_eq(header(again, "Hwt-Attempt"), "1");
    ck_assert(relay_due_read(header(again, "Hwt-Due"), &due));
    set_send(usual->send);
    publish_as_relay(due, "foreign", "t.a", id, "1", source);
    publish_as_relay(due - HWT_MS(100), "victim", "t.a", id, "1", source);
    publish_as_relay(due, "victim", "t.b", id, "1", source);
    publish_as_relay(due, "victim", "t.a", id, "2", source);
    fake_run(&fake, HWT_SEC(5));
    ck_assert_uint_eq(fake.targets.count, 5);
    ck_assert_uint_eq(fake.repeats, 0);
    for (size_t i = 0, of_that_id = 0; i < 5; i++) {
        of_that_id += strcmp(fake.targets.messages[i]->id, id) == 0;
        ck_assert_uint_le(of_that_id, 1);
    }
}
END_TEST

/* A producer cannot know by which id a message goes back, and take its place. */
START_TEST(the_id_of_what_goes_back_has_a_secret_in_it)
{
    char id[RELAY_ENTRY_MAX];

    set_send(send_in_vain);
    fake_put(&fake, fake.realtime + HWT_SEC(1), NULL, "m");
    fake_run(&fake, HWT_MS(1200));
    ck_assert_str_eq(header(newest(), "Hwt-Attempt"), "1");
    snprintf(id, sizeof(id), "%s:1", header(newest(), "Hwt-Id"));
    ck_assert_uint_eq(strlen(newest()->id), strlen(id) + 17);
    ck_assert_int_eq(strncmp(newest()->id, id, strlen(id)), 0);
    ck_assert_ptr_null(strstr(header(newest(), "Hwt-Source"), newest()->id + strlen(id) + 1));
}
END_TEST

/* The entry of the secret is somebody's else: nothing is believed, and all is forwarded. */
START_TEST(a_secret_that_cannot_be_read_stops_nothing)
{
    fake_change(&fake, "secret.0", 0, "nonsense");
    fake_put(&fake, fake.realtime, NULL, "m");
    publish_as_relay(fake.realtime, "foreign", "t.a", "id", "1", "shop.0:1:0123456789abcdef");
    set_send(send_in_vain);
    fake_run(&fake, HWT_SEC(1));
    set_send(usual->send);
    fake_run(&fake, HWT_SEC(10));
    ck_assert_uint_eq(fake_arrived(&fake, "m"), 1);
    ck_assert_uint_eq(fake_arrived(&fake, "foreign"), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("relay_proof");
    TCase *tcase = tcase_create("proof");

    tcase_set_timeout(tcase, 100);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, the_hash_is_siphash);
    tcase_add_loop_test(tcase, the_id_of_another_message_is_not_believed, 0, 4);
    tcase_add_test(tcase, a_message_of_unknown_attempts_has_made_none);
    tcase_add_test(tcase, the_id_of_a_message_stays_whoever_sends_it);
    tcase_add_test(tcase, a_proof_is_of_one_message);
    tcase_add_test(tcase, the_id_of_what_goes_back_has_a_secret_in_it);
    tcase_add_test(tcase, a_secret_that_cannot_be_read_stops_nothing);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
