/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "nats_library.h"

#include <string.h>

#include "hwt/relay/nats_inside.h"
#include "kit.h"

struct nats_library nats_library;

void nats_library_reset(void)
{
    nats_library = (struct nats_library){
        .connection_status = NATS_CONN_STATUS_CONNECTED,
        .stream_config = { .Description = "hwt-relay incarnation=5" },
        .stream = { .Config = &nats_library.stream_config,
                    .Cluster = &nats_library.leads,
                    .State = { .FirstSeq = 1, .LastSeq = 9 } },
        .leads = { .Leader = (char *)(uintptr_t) "n2" },
        .consumer = { .Name = (char *)(uintptr_t) "C", .Cluster = &nats_library.has_consumer },
        .found = "",
    };
}

void nats_library_refuse(unsigned at, natsStatus with)
{
    nats_library.calls = 0;
    nats_library.refused_at = at;
    nats_library.refused_with = with;
}

static natsStatus call(const char *name)
{
    ck_assert_uint_lt(nats_library.calls, 64);
    nats_library.called[nats_library.calls++] = name;
    return nats_library.calls == nats_library.refused_at ? nats_library.refused_with : NATS_OK;
}

/* One that makes an object. */
static natsStatus make(const char *name, void *ret_object)
{
    natsStatus s = call(name);
    if (s == NATS_OK) {
        void *made = &nats_library.stream;
        memcpy(ret_object, &made, sizeof(made));
        nats_library.objects++;
    }
    return s;
}

static void drop(const void *object)
{
    if (object)
        nats_library.objects--;
}

/* A stream or a bucket that may be there. */
static natsStatus find(const char *name, void *ret_object)
{
    return nats_library.is_there   ? make(name, ret_object)
           : call(name) == NATS_OK ? NATS_NOT_FOUND
                                   : nats_library.refused_with;
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
    if (!nats_library.is_made_meanwhile)
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
    return nats_library.connection_status;
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
    *made = &nats_library.consumer;
    nats_library.has_consumer.Leader = ++nats_library.draws == nats_library.drawn_at
                                           ? nats_library.leads.Leader
                                           : (char *)(uintptr_t) "n0";
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

natsStatus natsConnection_RequestString(natsMsg **made, natsConnection *connection,
                                        const char *subject, const char *text, int64_t wait)
{
    natsStatus s = call("find");
    (void)connection;
    ck_assert_str_eq(subject, "$JS.API.STREAM.MSG.GET.HWT-shop-3");
    ck_assert_str_eq(text, "{\"seq\":7,\"next_by_subj\":\">\"}");
    ck_assert_int_gt(wait, 0);
    return s == NATS_OK ? natsMsg_Create(made, "_INBOX.x", NULL, nats_library.found,
                                         (int)strlen(nats_library.found))
                        : s;
}

void jsConsumerInfo_Destroy(jsConsumerInfo *info)
{
    ck_assert_ptr_eq(info, &nats_library.consumer);
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
