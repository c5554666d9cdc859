/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "nats_library.h"

#include <stdlib.h>
#include <string.h>

#include "hwt/relay/nats_inside.h"
#include "kit.h"

struct nats_library nats_library;

void nats_library_reset(void)
{
    nats_library = (struct nats_library){
        .connection_status = NATS_CONN_STATUS_CONNECTED,
        .info = "{\"config\":{\"description\":\"hwt-relay incarnation=5\",\"first_seq\":4},"
                "\"state\":{\"first_seq\":1,\"last_seq\":9},\"cluster\":{\"leader\":\"n2\"}}",
        .bucket = "{\"config\":{\"max_age\":0}}",
        .made = "{\"config\":{}}",
        .leads = { .Leader = (char *)(uintptr_t) "n2" },
        .consumer = { .Name = (char *)(uintptr_t) "C",
                      .Cluster = &nats_library.has_consumer,
                      .Config = &nats_library.consumer_config },
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
        void *made = &nats_library;
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

natsStatus natsOptions_SetUserInfo(natsOptions *options, const char *user, const char *password)
{
    (void)options;
    ck_assert_str_eq(user, "u");
    ck_assert_str_eq(password, "p");
    return call("user");
}

natsStatus natsOptions_SetToken(natsOptions *options, const char *token)
{
    (void)options;
    ck_assert_str_eq(token, "t");
    return call("token");
}

natsStatus natsOptions_SetNKeyFromSeed(natsOptions *options, const char *key, const char *seed)
{
    (void)options;
    ck_assert_str_eq(key, "n");
    ck_assert_str_eq(seed, "s");
    return call("nkey");
}

natsStatus natsOptions_SetUserCredentialsFromFiles(natsOptions *options, const char *file,
                                                   const char *seed)
{
    (void)options;
    ck_assert_str_eq(file, "c");
    ck_assert_ptr_null(seed);
    return call("credentials");
}

natsStatus natsOptions_SetSecure(natsOptions *options, bool is_secure)
{
    (void)options;
    ck_assert(is_secure);
    return call("secure");
}

natsStatus natsOptions_LoadCATrustedCertificates(natsOptions *options, const char *file)
{
    (void)options;
    ck_assert_str_eq(file, "ca");
    return call("ca");
}

natsStatus natsOptions_LoadCertificatesChain(natsOptions *options, const char *file,
                                             const char *key)
{
    (void)options;
    ck_assert_str_eq(file, "cert");
    ck_assert_str_eq(key, "key");
    return call("certificate");
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
    ck_assert_str_eq(options->Prefix, "$JS.hub.API");
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

/* An answer of the API. */
static natsStatus answer(natsMsg **made, const char *text)
{
    return natsMsg_Create(made, "_INBOX.x", NULL, text, (int)strlen(text));
}

static natsStatus find_stream(natsMsg **made, const char *name)
{
    natsStatus s = call("look");

    if (s != NATS_OK)
        return s;
    return answer(made, !nats_library.is_there ? "{\"error\":{\"code\":404,\"err_code\":10059,"
                                                 "\"description\":\"stream not found\"}}"
                        : strncmp(name, "KV_", 3) == 0 ? nats_library.bucket
                                                       : nats_library.info);
}

static natsStatus make_stream(natsMsg **made, const char *text)
{
    natsStatus s = call("add");

    ck_assert_ptr_nonnull(strstr(text, "\"num_replicas\":3,"));
    ck_assert_ptr_nonnull(strstr(text, "\"description\":\"hwt-relay incarnation=1"));
    ck_assert_ptr_nonnull(strstr(text, "\"metadata\":{\"hwt-relay-incarnation\":\"1"));
    return s != NATS_OK ? s : answer(made, nats_library.made);
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

natsStatus natsConnection_GetConnectedUrl(natsConnection *connection, char *url, size_t room)
{
    (void)connection;
    snprintf(url, room, "nats://relay:hush@10.0.0.1:4222");
    return NATS_OK;
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
    nats_library.threshold = wanted->InactiveThreshold;
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

natsStatus js_PublishMsg(jsPubAck **made, jsCtx *js, natsMsg *msg, jsPubOptions *options,
                         jsErrCode *error)
{
    natsStatus s = call("publish");
    (void)js;
    (void)msg;
    (void)options;
    (void)error;
    *made = &nats_library.ack;
    return s;
}

void jsPubAck_Destroy(jsPubAck *ack)
{
    ck_assert_ptr_eq(ack, &nats_library.ack);
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
    natsStatus s;
    (void)connection;
    ck_assert_int_gt(wait, 0);
    if (strncmp(subject, "$JS.hub.API.STREAM.INFO.", 24) == 0)
        return find_stream(made, subject + 24);
    if (strncmp(subject, "$JS.hub.API.STREAM.CREATE.HWT-shop-", 35) == 0)
        return make_stream(made, text);
    s = call("find");
    ck_assert_str_eq(subject, "$JS.hub.API.STREAM.MSG.GET.HWT-shop-3");
    ck_assert_str_eq(text, "{\"seq\":7,\"next_by_subj\":\">\"}");
    return s == NATS_OK ? answer(made, nats_library.found) : s;
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
    ck_assert_str_eq(subject, "$JS.hub.API.CONSUMER.MSG.NEXT.HWT-shop-3.C");
    nats_library.batch = strtol(text + strlen("{\"batch\":"), NULL, 10);
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
