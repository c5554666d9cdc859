/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/nats_inside.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hwt/relay/header.h"
#include "hwt/relay/log.h"

/*
 * The stream is read by a consumer in the server's memory that acknowledges nothing, with pull
 * requests of our own, because the library's fetch overruns its memory when an earlier request
 * still delivers. A consumer that is gone looks like an empty stream, so each request asks for
 * heartbeats; when they stay away, there is a new consumer from the position that was given last.
 *
 * What has arrived is in memory, so a request has a limit of bytes, too.
 *
 * A delivery can be lost, as when its server dies. The consumer goes on with the next message then. But
 * it counts its deliveries, so one that does not follow the one before ends the consumer, too. A
 * message that is deleted in the stream is not counted.
 *
 * The consumer is on a server that is drawn. That one's copy of the stream may stand still, and the consumer sends
 * heartbeats all the same. Or servers have begun again, and each copy lacks other messages. So if nothing comes though the leader
 * has told of more, or if the caller goes back, there is a new one on the leader's server.
 */
enum { BATCH = 512, BYTES = 4 << 20, DRAWS_MAX = 16 };

#define HEARTBEAT HWT_SEC(1)
#define EXPIRES HWT_SEC(30)

static void on_message(natsConnection *connection, natsSubscription *sub, natsMsg *msg,
                       void *closure)
{
    struct relay_nats *nats = closure;

    (void)connection;
    (void)sub;
    pthread_mutex_lock(&nats->lock);
    if (nats->arrived_count == nats->arrived_room) {
        size_t room = nats->arrived_room * 2 + 64;
        natsMsg **more = realloc(nats->arrived, room * sizeof(natsMsg *));
        if (more) {
            nats->arrived = more;
            nats->arrived_room = room;
        }
    }
    if (nats->arrived_count < nats->arrived_room) {
        nats->arrived[nats->arrived_count++] = msg;
        msg = NULL;
    }
    pthread_mutex_unlock(&nats->lock);
    natsMsg_Destroy(msg); /* no memory: the gap is seen, and read again */
    relay_nats_signal(nats);
}

natsStatus relay_nats_pull_begin(struct relay_nats *nats)
{
    natsStatus s = natsInbox_Create(&nats->pull_inbox);

    if (s == NATS_OK)
        s = natsConnection_Subscribe(&nats->pull_sub, nats->connection, nats->pull_inbox,
                                     on_message, nats);
    return s == NATS_OK ? natsSubscription_SetPendingLimits(nats->pull_sub, -1, -1) : s;
}

static void free_pulled(struct relay_nats *nats)
{
    for (size_t i = 0; i < nats->pulled_count; i++) {
        natsMsg_Destroy(nats->pulled[i].msg);
        free(nats->pulled[i].fields);
    }
    nats->pulled_count = 0;
}

static void drop_arrived(struct relay_nats *nats)
{
    pthread_mutex_lock(&nats->lock);
    for (size_t i = 0; i < nats->arrived_count; i++)
        natsMsg_Destroy(nats->arrived[i]);
    nats->arrived_count = 0;
    pthread_mutex_unlock(&nats->lock);
}

void relay_nats_pull_end(struct relay_nats *nats)
{
    natsSubscription_Destroy(nats->pull_sub);
    natsInbox_Destroy(nats->pull_inbox);
    free_pulled(nats);
    drop_arrived(nats);
    free(nats->arrived);
}

void relay_nats_pull_told(struct relay_nats *nats, const struct relay_extent *extent,
                          const char *leader)
{
    if (nats->given >= nats->last)
        nats->moved_at = relay_nats_clock(&nats->engine);
    nats->incarnation = extent->incarnation;
    nats->last = extent->last;
    snprintf(nats->leader, NATS_NAME_MAX, "%s", leader ? leader : "");
    relay_nats_see_server(nats);
}

static void say(struct relay_nats *nats, const char *what, const char *status, const char *text)
{
    uint64_t now = relay_nats_clock(&nats->engine);

    if (now < nats->say_at)
        return;
    nats->say_at = now + HWT_SEC(60);
    relay_log(nats->shard, "NATS: %s: %s %s", what, status, text ? text : "");
}

/* A consumer on a server that is drawn. */
static natsStatus add_consumer(struct relay_nats *nats, uint64_t after,
                               char ret_server[NATS_NAME_MAX])
{
    jsConsumerInfo *info = NULL;
    jsConsumerConfig config;
    natsStatus s;

    jsConsumerConfig_Init(&config);
    config.DeliverPolicy = js_DeliverByStartSequence;
    config.OptStartSeq = after + 1;
    config.AckPolicy = js_AckNone;
    config.InactiveThreshold = nats->threshold;
    config.MemoryStorage = true;
    config.Replicas = 1;
    s = js_AddConsumer(&info, nats->js, nats->stream, &config, NULL, NULL);
    if (s != NATS_OK) {
        say(nats, "no consumer is made", natsStatus_GetText(s), nats_GetLastError(NULL));
        return s;
    }
    nats->batch = BATCH;
    if (info->Config && info->Config->MaxRequestBatch > 0 && info->Config->MaxRequestBatch < BATCH)
        nats->batch = info->Config->MaxRequestBatch;
    snprintf(nats->consumer, NATS_NAME_MAX, "%s", info->Name);
    snprintf(ret_server, NATS_NAME_MAX, "%s",
             info->Cluster && info->Cluster->Leader ? info->Cluster->Leader : "");
    jsConsumerInfo_Destroy(info);
    return NATS_OK;
}

/* With `differs`, the copy that was read before may not be the leader's, so it reads the leader's own if it can. */
static int make_consumer(struct relay_nats *nats, uint64_t after, bool differs)
{
    uint64_t incarnation = nats->incarnation;
    char server[NATS_NAME_MAX];
    struct relay_extent extent;
    natsStatus s;
    int r = relay_nats_extent(&nats->engine, &extent);

    if (r < 0)
        return r;
    if (extent.incarnation != incarnation)
        return -ESTALE;
    s = add_consumer(nats, after, server);
    for (int i = 0; i < DRAWS_MAX && s == NATS_OK && differs && strcmp(server, nats->leader) != 0;
         i++) {
        js_DeleteConsumer(nats->js, nats->stream, nats->consumer, NULL, NULL);
        s = add_consumer(nats, after, server);
    }
    if (s != NATS_OK) {
        nats->consumer[0] = 0;
        return relay_nats_errno(s);
    }
    drop_arrived(nats);
    nats->consumed = incarnation;
    nats->given = after;
    nats->delivered = 0;
    nats->requested = 0;
    nats->heard_at = nats->moved_at = relay_nats_clock(&nats->engine);
    return 0;
}

static void request(struct relay_nats *nats)
{
    /* The longest message that the server takes has room in it, with its subjects. */
    const int64_t bytes = natsConnection_GetMaxPayload(nats->connection) + BYTES;
    char subject[2 * NATS_NAME_MAX + 64], text[160];

    if (nats->requested > nats->batch / 2 || relay_nats_clock(&nats->engine) < nats->ask_at)
        return;
    snprintf(subject, sizeof(subject), "%s.CONSUMER.MSG.NEXT.%s.%s", nats->config->api,
             nats->stream, nats->consumer);
    snprintf(text, sizeof(text),
             "{\"batch\":%" PRId64 ",\"max_bytes\":%" PRId64 ",\"expires\":%" PRIu64
             ",\"idle_heartbeat\":%" PRIu64 "}",
             nats->batch, bytes, EXPIRES, HEARTBEAT);
    if (natsConnection_PublishRequestString(nats->connection, subject, nats->pull_inbox, text) ==
        NATS_OK)
        nats->requested += nats->batch;
}

/*
 * The reply subject of a message: $JS.ACK.<stream>.<consumer>.<times>.<position>.<number>.<time>.<more>,
 * or with a domain and an account behind ACK. False: it is of another consumer.
 */
static bool read_reply(const struct relay_nats *nats, const char *reply, uint64_t *ret_position,
                       uint64_t *ret_number, uint64_t *ret_timestamp)
{
    char copy[512], *rest = copy, *token, *tokens[16];
    size_t count = 0, first;

    if (!reply || strlen(reply) >= sizeof(copy))
        return false;
    strcpy(copy, reply);
    while (count < 16 && (token = strsep(&rest, ".")))
        tokens[count++] = token;
    if (count < 9)
        return false;
    first = count == 9 ? 2 : 4;
    return strcmp(tokens[first + 1], nats->consumer) == 0 &&
           relay_number_read(tokens[first + 3], ret_position) &&
           relay_number_read(tokens[first + 4], ret_number) &&
           relay_number_read(tokens[first + 5], ret_timestamp);
}

/*
 * The library reads headers in its own way, and hands no bytes out. In the memory of a message that has arrived they
 * stand between reply subject and payload, with a byte 0 behind each of them.
 *
 * -EPROTO: a later library has them elsewhere
 */
static int read_fields(natsMsg *msg, struct nats_pulled *pulled, struct relay_message *message)
{
    const char *begin = natsMsg_GetReply(msg), *end = natsMsg_GetData(msg), **names = NULL;
    size_t size;
    int count = 0;

    begin += strlen(begin) + 1;
    size = (size_t)(end - begin);
    if (size == 0) {
        natsStatus s = natsMsgHeader_Keys(msg, &names, &count);
        free(names);
        return s == NATS_OK && count > 0 ? -EPROTO : 0;
    }
    if (end[-1] != 0)
        return -EPROTO;
    return relay_header_read(begin, size - 1, &pulled->fields, &message->fields_count);
}

/* As many as the server says that a request has not got. */
static int64_t left(const struct relay_nats *nats, natsMsg *msg)
{
    const char *value = NULL;
    uint64_t messages;

    if (natsMsgHeader_Get(msg, "Nats-Pending-Messages", &value) != NATS_OK ||
        !relay_number_read(value, &messages) || messages > INT64_MAX)
        return nats->batch;
    return (int64_t)messages;
}

/* What is no message tells of requests and the consumer. */
static bool is_status(struct relay_nats *nats, natsMsg *msg)
{
    const char *status = NULL, *text = NULL;

    if (natsMsg_GetReply(msg) && strncmp(natsMsg_GetReply(msg), "$JS.ACK.", 8) == 0)
        return false;
    if (natsMsgHeader_Get(msg, "Status", &status) != NATS_OK)
        status = "none";
    if (natsMsgHeader_Get(msg, "Description", &text) != NATS_OK)
        text = "";
    switch (relay_nats_status(status, text)) {
    case NATS_ALL_IS_WELL:
        break;
    case NATS_REQUEST_ENDS:
        nats->requested = nats->requested > left(nats, msg) ? nats->requested - left(nats, msg) : 0;
        break;
    case NATS_REQUEST_REFUSED:
        say(nats, "the server does not hand messages over", status, text);
        nats->ask_at = nats->heard_at + HEARTBEAT;
        nats->requested = 0;
        break;
    case NATS_REQUESTS_END:
        nats->requested = 0;
        break;
    case NATS_CONSUMER_ENDS:
        nats->consumer[0] = 0;
        break;
    case NATS_UNKNOWN:
        say(nats, "hwt-relay does not know this status of a pull, and goes on", status, text);
        break;
    }
    return true;
}

/* Takes over a message that has arrived. False: it is none for the shard. */
static bool take_message(struct relay_nats *nats, natsMsg *msg)
{
    struct nats_pulled *pulled = &nats->pulled[nats->pulled_count];
    struct relay_message *message = &nats->messages[nats->pulled_count];
    uint64_t number;
    int r;

    nats->heard_at = relay_nats_clock(&nats->engine);
    if (is_status(nats, msg))
        return false;
    *pulled = (struct nats_pulled){ .msg = msg };
    *message = (struct relay_message){ .payload = natsMsg_GetData(msg),
                                       .payload_size = (size_t)natsMsg_GetDataLength(msg) };
    if (!read_reply(nats, natsMsg_GetReply(msg), &message->position, &number,
                    &message->timestamp) ||
        message->position <= nats->given)
        return false;
    if (number != nats->delivered + 1) {
        nats->consumer[0] = 0; /* one before it was lost: it is read again */
        return false;
    }
    nats->delivered = number;
    nats->requested--;
    r = read_fields(msg, pulled, message);
    if (r < 0) {
        if (r == -EPROTO)
            say(nats, "libnats has headers elsewhere than this hwt-relay knows, so nothing is read",
                "libnats", nats_GetVersion());
        nats->consumer[0] = 0; /* it is read again */
        return false;
    }
    message->fields = pulled->fields;
    nats->given = message->position;
    nats->moved_at = nats->heard_at;
    nats->pulled_count++;
    return true;
}

static void take_arrived(struct relay_nats *nats, size_t max)
{
    size_t n = 0;

    pthread_mutex_lock(&nats->lock);
    while (n < nats->arrived_count && nats->pulled_count < max && *nats->consumer) {
        natsMsg *msg = nats->arrived[n++];
        if (!take_message(nats, msg))
            natsMsg_Destroy(msg);
    }
    nats->arrived_count -= n;
    if (n > 0)
        memmove(nats->arrived, nats->arrived + n, nats->arrived_count * sizeof(natsMsg *));
    if (nats->arrived_count > 0)
        relay_nats_signal(nats);
    pthread_mutex_unlock(&nats->lock);
}

int64_t relay_nats_pull(struct relay_engine *engine, uint64_t after, size_t max,
                        const struct relay_message **ret_messages)
{
    struct relay_nats *nats = relay_nats_of(engine);
    uint64_t now = relay_nats_clock(engine);
    bool differs;

    free_pulled(nats);
    if (natsConnection_Status(nats->connection) != NATS_CONN_STATUS_CONNECTED)
        return 0;
    differs =
        after < nats->given || (nats->given < nats->last && now - nats->moved_at > 5 * HEARTBEAT);
    if (differs || after != nats->given || nats->consumed != nats->incarnation ||
        now - nats->heard_at > 5 * HEARTBEAT)
        nats->consumer[0] = 0;
    if (!*nats->consumer) {
        if (now < nats->retry_at)
            return 0;
        nats->retry_at = now + HWT_MS(500);
        int r = make_consumer(nats, after, differs);
        return r == 0 || r == -ESTALE ? -ESTALE : 0;
    }
    take_arrived(nats, max < RELAY_PULL_MAX ? max : RELAY_PULL_MAX);
    if (*nats->consumer)
        request(nats);
    *ret_messages = nats->messages;
    return (int64_t)nats->pulled_count;
}
