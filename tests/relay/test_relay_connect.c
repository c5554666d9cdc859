/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The engine on NATS without a server: calls of its library are in this file, and are refused in turn. While it
 * connects, the answer is an errno, what was made before is given back, and no call follows the one that was
 * refused. Later each refusal has its answer, and the next try works.
 */

#include <check.h>
#include <errno.h>
#include <string.h>

#include "hwt/relay/nats_inside.h"
#include "kit.h"

/* What connecting calls, in this order, with what it makes. */
static const char *called[64];
static unsigned calls, refused_at, objects;
static natsStatus refused_with;
static bool is_there; /* the streams and the bucket are */
static natsConnStatus connection_status = NATS_CONN_STATUS_CONNECTED;
static bool is_made_meanwhile;
static jsStreamConfig stream_config;
static jsStreamInfo stream = { .Config = &stream_config, .State = { .FirstSeq = 1, .LastSeq = 9 } };
static jsClusterInfo leads, has_consumer;
static jsConsumerInfo consumer = { .Name = (char *)(uintptr_t) "C" };
static unsigned draws,
    drawn_at; /* consumers; the number of the one that is on the leader's server */

static natsStatus call(const char *name)
{
    ck_assert_uint_lt(calls, 64);
    called[calls++] = name;
    return calls == refused_at ? refused_with : NATS_OK;
}

/* One that makes an object. */
static natsStatus make(const char *name, void *ret_object)
{
    natsStatus s = call(name);
    if (s == NATS_OK) {
        void *made = &stream;
        memcpy(ret_object, &made, sizeof(made));
        objects++;
    }
    return s;
}

static void drop(const void *object)
{
    if (object)
        objects--;
}

/* A stream or a bucket that may be there. */
static natsStatus find(const char *name, void *ret_object)
{
    return is_there                ? make(name, ret_object)
           : call(name) == NATS_OK ? NATS_NOT_FOUND
                                   : refused_with;
}

/* In place of the library's own. */

natsStatus natsOptions_Create(natsOptions **made)
{
    return make("options", made);
}

natsStatus natsOptions_SetServers(natsOptions *options, const char **servers, int count)
{
    (void)options;
    ck_assert_str_eq(servers[count - 1], "nats://b");
    return call("servers");
}

natsStatus natsOptions_SetName(natsOptions *options, const char *name)
{
    (void)options;
    ck_assert_str_eq(name, "hwt-relay a, shard 3");
    return call("name");
}

natsStatus natsOptions_SetMaxReconnect(natsOptions *options, int n)
{
    (void)options;
    ck_assert_int_eq(n, -1);
    return call("reconnects");
}

natsStatus natsOptions_SetReconnectWait(natsOptions *options, int64_t n)
{
    (void)options;
    (void)n;
    return call("wait");
}

natsStatus natsOptions_SetReconnectBufSize(natsOptions *options, int n)
{
    (void)options;
    (void)n;
    return call("buffer");
}

natsStatus natsOptions_SetPingInterval(natsOptions *options, int64_t n)
{
    (void)options;
    (void)n;
    return call("pings");
}

natsStatus natsOptions_SetMaxPingsOut(natsOptions *options, int n)
{
    (void)options;
    (void)n;
    return call("pings out");
}

void natsOptions_Destroy(natsOptions *options)
{
    drop(options);
}

natsStatus natsConnection_Connect(natsConnection **made, natsOptions *options)
{
    (void)options;
    return make("connect", made);
}

natsStatus natsConnection_JetStream(jsCtx **made, natsConnection *connection, jsOptions *options)
{
    (void)connection;
    (void)options;
    return make("jetstream", made);
}

void natsConnection_Close(natsConnection *connection)
{
    ck_assert_ptr_nonnull(connection);
}

void natsConnection_Destroy(natsConnection *connection)
{
    drop(connection);
}

void jsCtx_Destroy(jsCtx *js)
{
    drop(js);
}

natsStatus natsInbox_Create(natsInbox **made)
{
    return make("inbox", made);
}

void natsInbox_Destroy(natsInbox *inbox)
{
    drop(inbox);
}

natsStatus natsConnection_Subscribe(natsSubscription **made, natsConnection *connection,
                                    const char *subject, natsMsgHandler handler, void *closure)
{
    (void)connection;
    (void)subject;
    (void)handler;
    (void)closure;
    return make("subscribe", made);
}

natsStatus natsSubscription_SetPendingLimits(natsSubscription *sub, int messages, int bytes)
{
    (void)sub;
    (void)messages;
    (void)bytes;
    return call("limits");
}

void natsSubscription_Destroy(natsSubscription *sub)
{
    drop(sub);
}

natsStatus js_GetStreamInfo(jsStreamInfo **made, jsCtx *js, const char *name, jsOptions *options,
                            jsErrCode *error)
{
    (void)js;
    (void)name;
    (void)options;
    (void)error;
    return find("look", made);
}

natsStatus js_AddStream(jsStreamInfo **made, jsCtx *js, jsStreamConfig *wanted, jsOptions *options,
                        jsErrCode *error)
{
    (void)js;
    (void)options;
    ck_assert_int_eq(wanted->Replicas, 3);
    ck_assert_uint_gt(relay_nats_incarnation(wanted), 1);
    if (!is_made_meanwhile)
        return make("add", made);
    *error = JSStreamNameExistErr;
    return NATS_ERR;
}

void jsStreamInfo_Destroy(jsStreamInfo *info)
{
    drop(info);
}

natsStatus js_KeyValue(kvStore **made, jsCtx *js, const char *bucket)
{
    (void)js;
    ck_assert_str_eq(bucket, "hwt-shop");
    return find("bucket", made);
}

natsStatus js_CreateKeyValue(kvStore **made, jsCtx *js, kvConfig *wanted)
{
    (void)js;
    ck_assert_int_eq(wanted->Replicas, 3);
    return make("create", made);
}

void kvStore_Destroy(kvStore *store)
{
    drop(store);
}

natsConnStatus natsConnection_Status(natsConnection *connection)
{
    ck_assert_ptr_nonnull(connection);
    return connection_status;
}

int64_t natsConnection_GetMaxPayload(natsConnection *connection)
{
    ck_assert_ptr_nonnull(connection);
    return 1 << 20;
}

natsStatus js_AddConsumer(jsConsumerInfo **made, jsCtx *js, const char *name,
                          jsConsumerConfig *wanted, jsOptions *options, jsErrCode *error)
{
    (void)js;
    (void)options;
    (void)error;
    ck_assert_str_eq(name, "HWT-shop-3");
    ck_assert_uint_eq(wanted->OptStartSeq, 8);
    *made = &consumer;
    has_consumer.Leader = ++draws == drawn_at ? leads.Leader : (char *)(uintptr_t) "n0";
    return call("consumer");
}

natsStatus js_DeleteConsumer(jsCtx *js, const char *name, const char *of, jsOptions *options,
                             jsErrCode *error)
{
    (void)js;
    (void)options;
    (void)error;
    ck_assert_str_eq(name, "HWT-shop-3");
    ck_assert_str_eq(of, "C");
    return call("delete");
}

/* An entry, as the bucket's leader has it. */
natsStatus js_GetLastMsg(natsMsg **made, jsCtx *js, const char *name, const char *subject,
                         jsOptions *options, jsErrCode *error)
{
    natsStatus s = call("entry");
    (void)js;
    (void)options;
    ck_assert_str_eq(name, "KV_hwt-shop");
    ck_assert_str_eq(subject, "$KV.hwt-shop.shard.3");
    if (s == NATS_NOT_FOUND)
        *error = JSNoMessageFoundErr;
    return s == NATS_OK ? natsMsg_Create(made, subject, NULL, "text", 4) : s;
}

natsStatus kvStore_Get(kvEntry **made, kvStore *store, const char *key)
{
    (void)made;
    (void)store;
    ck_abort_msg("any copy of the bucket may answer for %s", key);
}

uint64_t natsMsg_GetSequence(natsMsg *msg)
{
    ck_assert_ptr_nonnull(msg);
    return 12;
}

int64_t natsMsg_GetTime(natsMsg *msg)
{
    ck_assert_ptr_nonnull(msg);
    return 34;
}

/* What the leader says of the first message at a position or behind it. */
static const char *found = "";

natsStatus natsConnection_RequestString(natsMsg **made, natsConnection *connection,
                                        const char *subject, const char *text, int64_t wait)
{
    natsStatus s = call("find");
    (void)connection;
    ck_assert_str_eq(subject, "$JS.API.STREAM.MSG.GET.HWT-shop-3");
    ck_assert_str_eq(text, "{\"seq\":7,\"next_by_subj\":\">\"}");
    ck_assert_int_gt(wait, 0);
    return s == NATS_OK ? natsMsg_Create(made, "_INBOX.x", NULL, found, (int)strlen(found)) : s;
}

void jsConsumerInfo_Destroy(jsConsumerInfo *info)
{
    ck_assert_ptr_eq(info, &consumer);
}

natsStatus natsConnection_PublishRequestString(natsConnection *connection, const char *subject,
                                               const char *reply, const char *text)
{
    (void)connection;
    (void)reply;
    ck_assert_str_eq(subject, "$JS.API.CONSUMER.MSG.NEXT.HWT-shop-3.C");
    ck_assert_ptr_nonnull(strstr(text, "\"idle_heartbeat\""));
    ck_assert_ptr_nonnull(
        strstr(text, "\"max_bytes\":5242880,")); /* a message of max_payload, and 4 MiB */
    return call("request");
}

natsStatus natsConnection_PublishMsg(natsConnection *connection, natsMsg *msg)
{
    (void)connection;
    ck_assert_ptr_nonnull(msg);
    return call("publish");
}

static const struct relay_config config = {
    .space = "shop",
    .replica = "a",
    .servers = { { "nats://a", "nats://b" }, 2 },
    .copies = 3,
};

static int connect_refused_at(unsigned at, natsStatus with, struct relay_engine **ret_engine)
{
    calls = 0;
    refused_at = at;
    refused_with = with;
    return relay_nats_open(&config, 3, ret_engine);
}

static void set_up(void)
{
    is_made_meanwhile = false;
    stream_config.Description = "hwt-relay incarnation=5";
    leads.Leader = (char *)(uintptr_t) "n2";
    stream.Cluster = &leads;
    consumer.Cluster = &has_consumer;
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

    is_there = _i == 1;
    ck_assert_int_eq(connect_refused_at(0, NATS_OK, &engine), 0);
    all = calls;
    ck_assert_uint_gt(all, 15);
    ck_assert_uint_gt(objects, 0);
    relay_nats_close(engine);
    ck_assert_uint_eq(objects, 0);
    for (unsigned at = 1; at <= all; at++) {
        ck_assert_int_eq(connect_refused_at(at, NATS_TIMEOUT, &engine), -ETIMEDOUT);
        ck_assert_msg(calls == at, "%s was refused, and %s called", called[at - 1],
                      called[calls - 1]);
        ck_assert_uint_eq(objects, 0);
    }
}
END_TEST

START_TEST(another_replica_may_make_the_streams_meanwhile)
{
    struct relay_engine *engine;

    is_there = false;
    is_made_meanwhile = true;
    ck_assert_int_eq(connect_refused_at(0, NATS_OK, &engine), 0);
    relay_nats_close(engine);
    ck_assert_uint_eq(objects, 0);
}
END_TEST

/* Servers that have begun again may each tell another time of making. */
START_TEST(a_stream_is_known_by_its_description)
{
    static const struct {
        const char *description;
        uint64_t incarnation;
    } cases[] = { { "hwt-relay incarnation=5", 5 },
                  { "hwt-relay incarnation=1800000000000000001", UINT64_C(1800000000000000001) },
                  { "hwt-relay incarnation=", 1 },
                  { "hwt-relay incarnation=0", 1 },
                  { "orders", 1 },
                  { NULL, 1 } };
    struct relay_extent extent;
    struct relay_engine *engine;

    is_there = true;
    ck_assert_int_eq(connect_refused_at(0, NATS_OK, &engine), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        stream_config.Description = cases[i].description;
        stream.Created = (int64_t)i;
        refused_at = 0;
        ck_assert_int_eq(relay_nats_extent(engine, &extent), 0);
        ck_assert_uint_eq(extent.incarnation, cases[i].incarnation);
    }
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

/* Connected, and the n-th call from now on is refused. */
static struct relay_engine *connected(void)
{
    struct relay_engine *engine;
    is_there = true;
    connection_status = NATS_CONN_STATUS_CONNECTED;
    ck_assert_int_eq(connect_refused_at(0, NATS_OK, &engine), 0);
    calls = 0;
    return engine;
}

static void refuse(unsigned at, natsStatus with)
{
    calls = 0;
    refused_at = at;
    refused_with = with;
}

/* As if half a second were over. */
static int64_t pull(struct relay_engine *engine)
{
    const struct relay_message *messages;
    relay_nats_of(engine)->retry_at = 0;
    return relay_nats_pull(engine, 7, 10, &messages);
}

START_TEST(a_pull_that_is_refused_is_tried_again)
{
    static const char *const names[] = { "look", "consumer" };
    struct relay_engine *engine = connected();
    struct relay_nats *nats = relay_nats_of(engine);
    const struct relay_message *messages;

    nats->incarnation = 5;
    connection_status = NATS_CONN_STATUS_RECONNECTING;
    ck_assert_int_eq(pull(engine), 0);
    ck_assert_uint_eq(calls, 0);
    connection_status = NATS_CONN_STATUS_CONNECTED;
    for (unsigned at = 1; at <= 2; at++) {
        refuse(at, NATS_TIMEOUT);
        uint64_t before = relay_nats_clock(engine);
        ck_assert_int_eq(pull(engine), 0);
        ck_assert_uint_eq(calls, at);
        ck_assert_str_eq(called[at - 1], names[at - 1]);
        ck_assert_int_eq(*nats->consumer, 0);
        ck_assert_uint_ge(nats->retry_at, before + HWT_MS(500));
        nats->retry_at = HWT_NEVER; /* the machine may stand still here */
        ck_assert_int_eq(relay_nats_pull(engine, 7, 10, &messages), 0);
        ck_assert_uint_eq(calls, at); /* not before its time */
    }
    refuse(0, NATS_OK);
    ck_assert_int_eq(pull(engine), -ESTALE); /* it begins to read, so the caller has to compare */
    ck_assert_int_ne(*nats->consumer, 0);
    refuse(1, NATS_TIMEOUT);
    ck_assert_int_eq(pull(engine), 0);
    ck_assert_uint_eq(calls, 1);
    ck_assert_str_eq(called[0], "request");
    ck_assert_int_eq(nats->requested, 0);
    refuse(0, NATS_OK);
    ck_assert_int_eq(pull(engine), 0);
    ck_assert_uint_eq(calls, 1); /* the consumer is there */
    ck_assert_int_gt(nats->requested, 0);
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
    draws = 0;
    drawn_at = 3;
    ck_assert_int_eq(pull(engine), -ESTALE);
    ck_assert_uint_eq(draws, 3);
    ck_assert_int_eq(pull(engine), 0);
    stand_still(nats);
    nats->last = 7; /* there is nothing more */
    ck_assert_int_eq(pull(engine), 0);
    ck_assert_int_eq(relay_nats_extent(engine, &extent), 0); /* two have just come */
    ck_assert_int_eq(pull(engine), 0);
    ck_assert_uint_eq(draws, 3);
    relay_nats_close(engine);
}
END_TEST

/* The caller goes back, because the copy that it has read is not the leader's. */
START_TEST(who_goes_back_reads_the_leaders_own_copy)
{
    struct relay_engine *engine = connected();
    struct relay_nats *nats = relay_nats_of(engine);

    nats->incarnation = 5;
    draws = 0;
    drawn_at = 0;
    ck_assert_int_eq(pull(engine), -ESTALE);
    ck_assert_uint_eq(draws, 1); /* at first any will do */
    nats->given = 20;
    drawn_at = 5;
    ck_assert_int_eq(pull(engine), -ESTALE);
    ck_assert_uint_eq(draws, 5);
    nats->given = 20;
    drawn_at = 0; /* it cannot be had, so another one has to do */
    calls = 0;
    ck_assert_int_eq(pull(engine), -ESTALE);
    ck_assert_str_eq(nats->consumer, "C");
    for (unsigned at = 2; at <= 5; at++) {
        nats->given = 20;
        refuse(at, NATS_TIMEOUT);
        /* That a consumer cannot be deleted is no harm: it goes by itself. */
        ck_assert_int_eq(pull(engine), at % 2 == 0 ? 0 : -ESTALE);
        ck_assert_int_eq(*nats->consumer != 0, at % 2 == 1);
        calls = 0;
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
    refuse(1, NATS_NOT_FOUND);
    ck_assert_int_eq(relay_nats_read(engine, "shard.3", text, &revision), 0);
    ck_assert_str_eq(text, "");
    ck_assert_uint_eq(revision, 0);
    refuse(1, NATS_NOT_FOUND);
    ck_assert_int_eq(relay_nats_written(engine, "shard.3", 12, &written), -EAGAIN);
    refuse(1, NATS_TIMEOUT);
    ck_assert_int_eq(relay_nats_read(engine, "shard.3", text, &revision), -ETIMEDOUT);
    refuse(1, NATS_TIMEOUT);
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
        { "{\"message\":{\"seq\":\"8\",\"time\":\"2026-11-25T10:00:00Z\"}}", -EIO },
        { "", -EIO },
    };
    struct relay_engine *engine = connected();
    uint64_t position, timestamp;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        refuse(0, NATS_OK);
        found = cases[i].text;
        ck_assert_int_eq(relay_nats_find(engine, 7, &position, &timestamp), cases[i].r);
        ck_assert_uint_eq(position, 8);
        ck_assert_uint_eq(timestamp % 1000, 7);
    }
    refuse(1, NATS_TIMEOUT);
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
        refuse(1, cases[i].status);
        ck_assert_int_eq(relay_nats_send(engine, &message, 77 + i), 0);
        ck_assert_uint_eq(relay_nats_answers(engine, 1, &answer), 1);
        ck_assert_uint_eq(answer.cookie, 77 + i);
        ck_assert_int_eq(answer.result, cases[i].r);
    }
    connection_status = NATS_CONN_STATUS_DISCONNECTED;
    ck_assert_int_eq(relay_nats_send(engine, &message, 1), -EHOSTUNREACH);
    connection_status = NATS_CONN_STATUS_CONNECTED;
    relay_nats_of(engine)->look_for_late_at = HWT_NEVER; /* however long all these take */
    for (size_t i = 0; i < NATS_SENDS_MAX; i++) {
        refuse(0, NATS_OK);
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
    tcase_add_test(tcase, another_replica_may_make_the_streams_meanwhile);
    tcase_add_test(tcase, a_stream_is_known_by_its_description);
    tcase_add_test(tcase, each_status_has_an_errno);
    tcase_add_test(tcase, a_pull_that_is_refused_is_tried_again);
    tcase_add_test(tcase, a_consumer_whose_copy_stands_still_is_made_anew);
    tcase_add_test(tcase, who_goes_back_reads_the_leaders_own_copy);
    tcase_add_test(tcase, entries_are_those_of_the_leader);
    tcase_add_test(tcase, the_leader_says_which_message_is_there);
    tcase_add_test(tcase, a_stream_that_was_made_anew_is_told);
    tcase_add_test(tcase, a_message_that_cannot_be_sent_is_answered);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
