/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The engine on NATS without a server: calls of its library are in nats_library.c, and are refused in turn. While it
 * connects, the answer is an errno, what was made before is given back, and no call follows the one that was
 * refused. Later each refusal has its answer, and the next try works.
 */

#include <errno.h>
#include <string.h>

#include "hwt/relay/nats_inside.h"
#include "kit.h"
#include "nats_library.h"

static const struct relay_config config = {
    .space = "shop",
    .replica = "a",
    .servers = { { "nats://a", "nats://b" }, 2 },
    .copies = 3,
    .api = "$JS.hub.API",
};

/* All that is said of who it is, and of TLS. */
static const struct relay_config full_config = {
    .space = "shop",
    .replica = "a",
    .servers = { { "TLS://a", "nats://b" }, 2 },
    .copies = 3,
    .api = "$JS.hub.API",
    .user = "u",
    .password = "p",
    .token = "t",
    .nkey = "n",
    .nkey_seed = "s",
    .credentials = "c",
    .ca = "ca",
    .certificate = "cert",
    .key = "key",
};

static int connect_refused_at(unsigned at, natsStatus with, struct relay_engine **ret_engine)
{
    nats_library_refuse(at, with);
    return relay_nats_open(&config, 3, ret_engine);
}

static void set_up(void)
{
    nats_library_reset();
    ck_assert_int_eq(nats_Open(-1), NATS_OK);
}

static void tear_down(void)
{
    nats_CloseAndWait(0); /* its threads have nothing any more when leaks are looked for */
}

START_TEST(what_is_refused_ends_the_connecting_and_leaves_nothing)
{
    struct relay_engine *engine;
    unsigned all;

    nats_library.is_there = _i == 1;
    ck_assert_int_eq(connect_refused_at(0, NATS_OK, &engine), 0);
    all = nats_library.calls;
    ck_assert_uint_gt(all, 15);
    ck_assert_uint_gt(nats_library.objects, 0);
    relay_nats_close(engine);
    ck_assert_uint_eq(nats_library.objects, 0);
    for (unsigned at = 1; at <= all; at++) {
        ck_assert_int_eq(connect_refused_at(at, NATS_TIMEOUT, &engine), -ETIMEDOUT);
        ck_assert_msg(nats_library.calls == at, "%s was refused, and %s called",
                      nats_library.called[at - 1], nats_library.called[nats_library.calls - 1]);
        ck_assert_uint_eq(nats_library.objects, 0);
    }
}
END_TEST

START_TEST(who_it_is_and_tls_are_as_configured)
{
    static const char *const wanted[] = { "user",   "token", "nkey",        "credentials",
                                          "secure", "ca",    "certificate", "connect" };
    struct relay_engine *engine;
    unsigned all;

    nats_library.is_there = true;
    nats_library_refuse(0, NATS_OK);
    ck_assert_int_eq(relay_nats_open(&full_config, 3, &engine), 0);
    relay_nats_close(engine);
    for (all = 0; strcmp(nats_library.called[all], "user") != 0; all++)
        ck_assert_uint_lt(all, nats_library.calls);
    for (unsigned i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        ck_assert_str_eq(nats_library.called[all + i], wanted[i]);
    for (unsigned i = 1; i <= sizeof(wanted) / sizeof(wanted[0]); i++) {
        nats_library_refuse(all + i, NATS_SSL_ERROR);
        ck_assert_int_eq(relay_nats_open(&full_config, 3, &engine), -EIO);
        ck_assert_uint_eq(nats_library.calls, all + i);
        ck_assert_uint_eq(nats_library.objects, 0);
    }
}
END_TEST

START_TEST(another_replica_may_make_the_streams_meanwhile)
{
    struct relay_engine *engine;

    nats_library.is_there = false;
    nats_library.made = "{\"error\":{\"code\":400,\"err_code\":10058,\"description\":\"\"}}";
    ck_assert_int_eq(connect_refused_at(0, NATS_OK, &engine), 0);
    relay_nats_close(engine);
    ck_assert_uint_eq(nats_library.objects, 0);
}
END_TEST

/* Connected, and the n-th call from now on is refused. */
static struct relay_engine *connected(void)
{
    struct relay_engine *engine;
    nats_library.is_there = true;
    ck_assert_int_eq(connect_refused_at(0, NATS_OK, &engine), 0);
    nats_library.calls = 0;
    return engine;
}

/* As if half a second were over. */
static int64_t pull(struct relay_engine *engine)
{
    const struct relay_message *messages;
    relay_nats_of(engine)->retry_at = 0;
    return relay_nats_pull(engine, 7, 10, &messages);
}

/* Servers before 2.10 have no metadata. A description that somebody edits means nothing where there is some. */
START_TEST(a_stream_is_known_by_its_metadata_or_its_description)
{
    static const struct {
        const char *config;
        uint64_t incarnation;
    } cases[] = {
        { "\"description\":\"hwt-relay incarnation=5\"", 5 },
        { "\"description\":\"hwt-relay incarnation=1800000000000000001\"",
          UINT64_C(1800000000000000001) },
        { "\"description\":\"hwt-relay incarnation=\"", 1 },
        { "\"description\":\"hwt-relay incarnation=0\"", 1 },
        { "\"description\":\"orders\"", 1 },
        { "\"name\":\"S\"", 1 },
        { "\"description\":\"orders\",\"metadata\":{\"hwt-relay-incarnation\":\"6\"}", 6 },
        { "\"description\":\"hwt-relay incarnation=5\","
          "\"metadata\":{\"a\":\"b\",\"hwt-relay-incarnation\":\"6\",\"c\":\"d\"}",
          6 },
    };
    struct relay_extent extent;
    struct relay_engine *engine = connected();
    char info[512];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        nats_library_refuse(0, NATS_OK);
        snprintf(info, sizeof(info), "{\"config\":{%s},\"state\":{\"first_seq\":1,\"last_seq\":9}}",
                 cases[i].config);
        nats_library.info = info;
        ck_assert_int_eq(relay_nats_extent(engine, &extent), 0);
        ck_assert_uint_eq(extent.incarnation, cases[i].incarnation);
        ck_assert_uint_eq(extent.first, 1);
        ck_assert_uint_eq(extent.last, 9);
    }
    nats_library.info = "{\"error\":{\"code\":404,\"err_code\":10059}}";
    ck_assert_int_eq(relay_nats_extent(engine, &extent), -EIO);
    relay_nats_close(engine);
}
END_TEST

/* They are said at the first look and then once a minute, as long as they are there. */
START_TEST(settings_that_lose_messages_are_said)
{
    static const struct {
        const char *config, *fault;
        bool bucket;
    } cases[] = {
        { "\"max_age\":30000000000,\"a\":1", "max_age 30000000000", false },
        { "\"max_age\":30000000000,\"a\":1", "KV_hwt-shop has max_age 30000000000", true },
        { "\"retention\":\"interest\"", "retention interest", false },
        { "\"retention\":\"workqueue\"", "retention workqueue", false },
        { "\"max_msgs\":5,\"discard\":\"old\"", "max_msgs 5", false },
        { "\"max_bytes\":5,\"discard\":\"old\"", "max_bytes 5", false },
        { "\"max_msgs_per_subject\":5,\"discard\":\"new\"", "max_msgs_per_subject 5", false },
        { "\"allow_rollup_hdrs\":true", "Nats-Rollup", false },
        { "\"allow_msg_ttl\":true", "Nats-TTL", false },
        { "\"allow_msg_schedules\":true", "Nats-Schedule", false },
        { "\"allow_msg_counter\":true", "allow_msg_counter", false },
        { "\"no_ack\":true", "no_ack", false },
        { "\"persist_mode\":\"async\"", "persist_mode async", false },
        { "\"sealed\":true", "sealed", false },
        { "\"deny_purge\":true", "deny_purge", false },
        { "\"max_msgs\":5,\"max_bytes\":5,\"discard\":\"new\"", "", false },
        { "\"retention\":\"limits\",\"max_consumers\":-1,\"max_msgs\":-1,\"max_bytes\":-1,\"max_"
          "age\":0,"
          "\"max_msgs_per_subject\":-1,\"discard\":\"old\",\"sealed\":false,\"deny_purge\":false,"
          "\"allow_rollup_hdrs\":false,\"allow_msg_ttl\":false,\"persist_mode\":\"default\"",
          "", false },
        { "\"max_msgs_per_subject\":1,\"allow_rollup_hdrs\":true,\"discard\":\"new\"", "", true },
    };
    struct relay_extent extent;
    struct relay_engine *engine = connected();
    char info[512];

    ck_assert_str_eq(engine->fault, "");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        nats_library_reset();
        snprintf(info, sizeof(info),
                 "{\"config\":{\"description\":\"\\\"sealed\\\":true\",%s},"
                 "\"state\":{\"first_seq\":1,\"last_seq\":9}}",
                 cases[i].config);
        *(cases[i].bucket ? &nats_library.bucket : &nats_library.info) = info;
        nats_library.is_there = true;
        ck_assert_int_eq(relay_nats_extent(engine, &extent), 0);
        ck_assert_str_eq(engine->fault, "");
        relay_nats_of(engine)->judge_at = 0;
        ck_assert_int_eq(relay_nats_extent(engine, &extent), 0);
        ck_assert_msg(*cases[i].fault ? strstr(engine->fault, cases[i].fault) != NULL
                                      : !*engine->fault,
                      "%s: %s", cases[i].config, engine->fault);
        nats_library_reset();
        nats_library.is_there = true;
        relay_nats_of(engine)->judge_at = 0;
        ck_assert_int_eq(relay_nats_extent(engine, &extent), 0);
        ck_assert_str_eq(engine->fault, "");
    }
    relay_nats_close(engine);
}
END_TEST

/* A server may limit a request, and a stream how long a consumer stays that nobody asks. */
START_TEST(limits_of_consumers_are_respected)
{
    struct relay_engine *engine = connected();
    struct relay_nats *nats = relay_nats_of(engine);

    nats->incarnation = 5;
    nats_library.consumer_config.MaxRequestBatch = 100;
    nats_library.info =
        "{\"config\":{\"description\":\"hwt-relay incarnation=5\",\"consumer_limits\":{"
        "\"inactive_threshold\":10000000000}},\"state\":{\"first_seq\":1,\"last_seq\":9}}";
    ck_assert_int_eq(pull(engine), -ESTALE);
    ck_assert_int_eq(nats_library.threshold, HWT_SEC(10));
    ck_assert_int_eq(pull(engine), 0);
    ck_assert_int_eq(nats_library.batch, 100);
    ck_assert_int_eq(nats->requested, 100);
    nats_library_reset();
    nats_library.is_there = true;
    nats->consumer[0] = 0;
    ck_assert_int_eq(pull(engine), -ESTALE);
    ck_assert_int_eq(nats_library.threshold, HWT_SEC(60));
    ck_assert_int_eq(pull(engine), 0);
    ck_assert_int_eq(nats_library.batch, 512);
    relay_nats_close(engine);
}
END_TEST

/* A leader of 2.10 and later says that a message is a double of one that it has not stored yet. */
START_TEST(a_position_of_nothing_is_no_acknowledgement)
{
    const struct relay_outgoing message = { .payload = "x", .payload_size = 1 };
    struct relay_engine *engine = connected();
    uint64_t position = 0;

    nats_library.ack.Duplicate = true;
    ck_assert_int_eq(relay_nats_publish(engine, &message, &position), -ETIMEDOUT);
    nats_library.ack.Sequence = 7;
    ck_assert_int_eq(relay_nats_publish(engine, &message, &position), 0);
    ck_assert_uint_eq(position, 7);
    relay_nats_close(engine);
}
END_TEST

START_TEST(each_status_has_an_errno)
{
    static const struct {
        natsStatus status;
        int r;
    } cases[] = { { NATS_TIMEOUT, -ETIMEDOUT },
                  { NATS_NO_SERVER, -EHOSTUNREACH },
                  { NATS_NO_RESPONDERS, -EHOSTUNREACH },
                  { NATS_CONNECTION_CLOSED, -EHOSTUNREACH },
                  { NATS_CONNECTION_DISCONNECTED, -EHOSTUNREACH },
                  { NATS_NO_MEMORY, -ENOMEM },
                  { NATS_INVALID_ARG, -EIO } };
    struct relay_engine *engine;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        ck_assert_int_eq(connect_refused_at(9, cases[i].status, &engine), cases[i].r);
}
END_TEST

START_TEST(a_pull_that_is_refused_is_tried_again)
{
    static const char *const names[] = { "look", "consumer" };
    struct relay_engine *engine = connected();
    struct relay_nats *nats = relay_nats_of(engine);
    const struct relay_message *messages;

    nats->incarnation = 5;
    nats_library.connection_status = NATS_CONN_STATUS_RECONNECTING;
    ck_assert_int_eq(pull(engine), 0);
    ck_assert_uint_eq(nats_library.calls, 0);
    nats_library.connection_status = NATS_CONN_STATUS_CONNECTED;
    for (unsigned at = 1; at <= 2; at++) {
        nats_library_refuse(at, NATS_TIMEOUT);
        uint64_t before = relay_nats_clock(engine);
        ck_assert_int_eq(pull(engine), 0);
        ck_assert_uint_eq(nats_library.calls, at);
        ck_assert_str_eq(nats_library.called[at - 1], names[at - 1]);
        ck_assert_int_eq(*nats->consumer, 0);
        ck_assert_uint_ge(nats->retry_at, before + HWT_MS(500));
        nats->retry_at = HWT_NEVER; /* the machine may stand still here */
        ck_assert_int_eq(relay_nats_pull(engine, 7, 10, &messages), 0);
        ck_assert_uint_eq(nats_library.calls, at); /* not before its time */
    }
    nats_library_refuse(0, NATS_OK);
    ck_assert_int_eq(pull(engine), -ESTALE); /* it begins to read, so the caller has to compare */
    ck_assert_int_ne(*nats->consumer, 0);
    nats_library_refuse(1, NATS_TIMEOUT);
    ck_assert_int_eq(pull(engine), 0);
    ck_assert_uint_eq(nats_library.calls, 1);
    ck_assert_str_eq(nats_library.called[0], "request");
    ck_assert_int_eq(nats->requested, 0);
    nats_library_refuse(0, NATS_OK);
    ck_assert_int_eq(pull(engine), 0);
    ck_assert_uint_eq(nats_library.calls, 1); /* the consumer is there */
    ck_assert_int_gt(nats->requested, 0);
    relay_nats_close(engine);
}
END_TEST

/* Who is refused does not ask again at once, or it would ask without a pause. */
START_TEST(what_the_server_refuses_is_asked_again_later)
{
    struct relay_engine *engine = connected();
    struct relay_nats *nats = relay_nats_of(engine);

    nats->incarnation = 5;
    ck_assert_int_eq(pull(engine), -ESTALE);
    nats->ask_at = HWT_NEVER;
    nats_library.calls = 0;
    ck_assert_int_eq(pull(engine), 0);
    ck_assert_uint_eq(nats_library.calls, 0);
    nats->ask_at = 0;
    ck_assert_int_eq(pull(engine), 0);
    ck_assert_str_eq(nats_library.called[0], "request");
    relay_nats_close(engine);
}
END_TEST

/* As if the consumer had been quiet for long enough, but for heartbeats. */
static void stand_still(struct relay_nats *nats)
{
    nats->heard_at = relay_nats_clock(&nats->engine);
    nats->moved_at = nats->heard_at - HWT_SEC(6);
}

/* It sends heartbeats, but not what the leader has told of. The next one is on the leader's server. */
START_TEST(a_consumer_whose_copy_stands_still_is_made_anew)
{
    struct relay_engine *engine = connected();
    struct relay_nats *nats = relay_nats_of(engine);
    struct relay_extent extent;

    nats->incarnation = 5;
    ck_assert_int_eq(pull(engine), -ESTALE);
    stand_still(nats);
    ck_assert_int_eq(relay_nats_extent(engine, &extent), 0); /* up to 9, and 7 was given */
    nats_library.draws = 0;
    nats_library.drawn_at = 3;
    ck_assert_int_eq(pull(engine), -ESTALE);
    ck_assert_uint_eq(nats_library.draws, 3);
    ck_assert_int_eq(pull(engine), 0);
    stand_still(nats);
    nats->last = 7; /* there is nothing more */
    ck_assert_int_eq(pull(engine), 0);
    ck_assert_int_eq(relay_nats_extent(engine, &extent), 0); /* two have just come */
    ck_assert_int_eq(pull(engine), 0);
    ck_assert_uint_eq(nats_library.draws, 3);
    relay_nats_close(engine);
}
END_TEST

/* The caller goes back, because the copy that it has read is not the leader's. */
START_TEST(who_goes_back_reads_the_leaders_own_copy)
{
    struct relay_engine *engine = connected();
    struct relay_nats *nats = relay_nats_of(engine);

    nats->incarnation = 5;
    nats_library.draws = 0;
    nats_library.drawn_at = 0;
    ck_assert_int_eq(pull(engine), -ESTALE);
    ck_assert_uint_eq(nats_library.draws, 1); /* at first any will do */
    nats->given = 20;
    nats_library.drawn_at = 5;
    ck_assert_int_eq(pull(engine), -ESTALE);
    ck_assert_uint_eq(nats_library.draws, 5);
    nats->given = 20;
    nats_library.drawn_at = 0; /* it cannot be had, so another one has to do */
    nats_library.calls = 0;
    ck_assert_int_eq(pull(engine), -ESTALE);
    ck_assert_str_eq(nats->consumer, "C");
    for (unsigned at = 2; at <= 5; at++) {
        nats->given = 20;
        nats_library_refuse(at, NATS_TIMEOUT);
        /* That a consumer cannot be deleted is no harm: it goes by itself. */
        ck_assert_int_eq(pull(engine), at % 2 == 0 ? 0 : -ESTALE);
        ck_assert_int_eq(*nats->consumer != 0, at % 2 == 1);
        nats_library.calls = 0;
    }
    relay_nats_close(engine);
}
END_TEST

START_TEST(entries_are_those_of_the_leader)
{
    struct relay_engine *engine = connected();
    char text[RELAY_ENTRY_MAX];
    uint64_t revision, written;

    ck_assert_int_eq(relay_nats_read(engine, "shard.3", text, &revision), 0);
    ck_assert_str_eq(text, "text");
    ck_assert_uint_eq(revision, 12);
    ck_assert_int_eq(relay_nats_written(engine, "shard.3", 12, &written), 0);
    ck_assert_uint_eq(written, 34);
    ck_assert_int_eq(relay_nats_written(engine, "shard.3", 11, &written), -EAGAIN);
    nats_library_refuse(1, NATS_NOT_FOUND);
    ck_assert_int_eq(relay_nats_read(engine, "shard.3", text, &revision), 0);
    ck_assert_str_eq(text, "");
    ck_assert_uint_eq(revision, 0);
    nats_library_refuse(1, NATS_NOT_FOUND);
    ck_assert_int_eq(relay_nats_written(engine, "shard.3", 12, &written), -EAGAIN);
    nats_library_refuse(1, NATS_TIMEOUT);
    ck_assert_int_eq(relay_nats_read(engine, "shard.3", text, &revision), -ETIMEDOUT);
    nats_library_refuse(1, NATS_TIMEOUT);
    ck_assert_int_eq(relay_nats_written(engine, "shard.3", 12, &written), -ETIMEDOUT);
    relay_nats_close(engine);
}
END_TEST

START_TEST(the_leader_says_which_message_is_there)
{
    static const struct {
        const char *text;
        int r;
    } cases[] = {
        { "{\"type\":\"t\",\"message\":{\"subject\":\"hwt.shop.3\",\"seq\":8,\"data\":\"eA==\","
          "\"time\":\"2026-11-25T10:00:00.000000007Z\"}}",
          0 },
        { "{\"error\":{\"code\":404,\"err_code\":10037,\"description\":\"no message found\"}}",
          -ENOENT },
        { "{\"error\":{\"code\":404,\"err_code\":10059,\"description\":\"stream not found\"}}",
          -EIO },
        { "{\"message\":{\"seq\":8}}", -EIO },
        { "{\"message\":{\"seq\":8,\"time\":\"noon\"}}", -EIO },
        { "{\"message\":{\"seq\":\"x8\",\"time\":\"2026-11-25T10:00:00Z\"}}", -EIO },
        { "", -EIO },
    };
    struct relay_engine *engine = connected();
    uint64_t position, timestamp;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        nats_library_refuse(0, NATS_OK);
        nats_library.found = cases[i].text;
        ck_assert_int_eq(relay_nats_find(engine, 7, &position, &timestamp), cases[i].r);
        ck_assert_uint_eq(position, 8);
        ck_assert_uint_eq(timestamp % 1000, 7);
    }
    nats_library_refuse(1, NATS_TIMEOUT);
    ck_assert_int_eq(relay_nats_find(engine, 7, &position, &timestamp), -ETIMEDOUT);
    relay_nats_close(engine);
}
END_TEST

START_TEST(a_stream_that_was_made_anew_is_told)
{
    struct relay_engine *engine = connected();

    relay_nats_of(engine)->incarnation = 4;
    ck_assert_int_eq(pull(engine), -ESTALE);
    ck_assert_int_eq(relay_nats_of(engine)->consumer[0], 0);
    ck_assert_int_eq(pull(engine), -ESTALE);
    ck_assert_str_eq(relay_nats_of(engine)->consumer, "C");
    relay_nats_close(engine);
}
END_TEST

START_TEST(its_server_is_told_without_the_password)
{
    struct relay_engine *engine = connected();
    struct relay_extent extent;

    ck_assert_int_eq(engine->calls->extent(engine, &extent), 0);
    ck_assert_str_eq(engine->server, "10.0.0.1:4222");
    relay_nats_close(engine);
}
END_TEST

START_TEST(a_message_that_cannot_be_sent_is_answered)
{
    static const struct {
        natsStatus status;
        int r;
    } cases[] = { { NATS_MAX_PAYLOAD, -EMSGSIZE },
                  { NATS_INVALID_ARG, -EINVAL },
                  { NATS_CONNECTION_CLOSED, -EHOSTUNREACH } };
    const struct relay_outgoing message = { .target = "orders.x", .id = "i" };
    struct relay_engine *engine = connected();
    struct relay_answer answer;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        nats_library_refuse(1, cases[i].status);
        ck_assert_int_eq(relay_nats_send(engine, &message, 77 + i), 0);
        ck_assert_uint_eq(relay_nats_answers(engine, 1, &answer), 1);
        ck_assert_uint_eq(answer.cookie, 77 + i);
        ck_assert_int_eq(answer.result, cases[i].r);
    }
    nats_library.connection_status = NATS_CONN_STATUS_DISCONNECTED;
    ck_assert_int_eq(relay_nats_send(engine, &message, 1), -EHOSTUNREACH);
    nats_library.connection_status = NATS_CONN_STATUS_CONNECTED;
    relay_nats_of(engine)->look_for_late_at = HWT_NEVER; /* however long all these take */
    for (size_t i = 0; i < NATS_SENDS_MAX; i++) {
        nats_library_refuse(0, NATS_OK);
        ck_assert_int_eq(relay_nats_send(engine, &message, 1), 0);
    }
    ck_assert_int_eq(relay_nats_send(engine, &message, 1), -EAGAIN);
    ck_assert_uint_eq(relay_nats_answers(engine, 1, &answer), 0);
    relay_nats_close(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("relay_connect");
    TCase *tcase = tcase_create("connect");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, what_is_refused_ends_the_connecting_and_leaves_nothing, 0, 2);
    tcase_add_test(tcase, who_it_is_and_tls_are_as_configured);
    tcase_add_test(tcase, another_replica_may_make_the_streams_meanwhile);
    tcase_add_test(tcase, a_stream_is_known_by_its_metadata_or_its_description);
    tcase_add_test(tcase, settings_that_lose_messages_are_said);
    tcase_add_test(tcase, limits_of_consumers_are_respected);
    tcase_add_test(tcase, a_position_of_nothing_is_no_acknowledgement);
    tcase_add_test(tcase, each_status_has_an_errno);
    tcase_add_test(tcase, a_pull_that_is_refused_is_tried_again);
    tcase_add_test(tcase, what_the_server_refuses_is_asked_again_later);
    tcase_add_test(tcase, a_consumer_whose_copy_stands_still_is_made_anew);
    tcase_add_test(tcase, who_goes_back_reads_the_leaders_own_copy);
    tcase_add_test(tcase, entries_are_those_of_the_leader);
    tcase_add_test(tcase, the_leader_says_which_message_is_there);
    tcase_add_test(tcase, a_stream_that_was_made_anew_is_told);
    tcase_add_test(tcase, its_server_is_told_without_the_password);
    tcase_add_test(tcase, a_message_that_cannot_be_sent_is_answered);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
