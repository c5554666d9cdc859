/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/nats_inside.h"

#include <inttypes.h>
#include <stdio.h>

#include "hwt/relay/log.h"

/* A stream of one subject, by its JSON, since the library knows no metadata. */
static natsStatus add_stream(struct relay_nats *nats, const char *name, const char *subject,
                             natsMsg **ret_info)
{
    char text[1024], why[NATS_VALUE_MAX] = "";
    int64_t incarnation = nats_NowInNanoSeconds();
    natsStatus s;

    *ret_info = NULL;
    snprintf(text, sizeof(text),
             "{\"name\":\"%s\",\"subjects\":[\"%s\"],\"storage\":\"file\",\"retention\":\"limits\","
             "\"discard\":\"new\",\"max_consumers\":-1,\"max_msgs\":-1,\"max_bytes\":-1,"
             "\"max_msgs_per_subject\":-1,\"max_age\":0,\"max_msg_size\":%" PRIu64
             ",\"num_replicas\":%" PRIu64 ",\"description\":\"" NATS_DESCRIPTION "%" PRId64
             "\",\"metadata\":{\"" NATS_INCARNATION "\":\"%" PRId64 "\"}}",
             name, subject, nats->config->message_max + RELAY_ROOM, nats->config->copies,
             incarnation, incarnation);
    s = relay_nats_ask(nats, "STREAM.CREATE", name, text, ret_info);
    if (s == NATS_OK && relay_nats_code(*ret_info) != 0 &&
        relay_nats_code(*ret_info) !=
            JSStreamNameExistErr) { /* another replica has made it meanwhile */
        (void)relay_nats_value(*ret_info, "description", why);
        relay_log(nats->shard, "NATS: the stream %s cannot be made: %s", name, why);
        s = NATS_ERR;
    }
    return s;
}

/* As much as a stream takes, by its API. */
static void limit(struct relay_nats *nats, natsMsg *info)
{
    char value[NATS_VALUE_MAX];
    uint64_t bytes;

    if (relay_nats_value(info, "max_msg_size", value) && relay_number_read(value, &bytes) &&
        bytes > 0)
        nats->engine.limits.message = relay_min(bytes, nats->engine.limits.message);
}

/* One that is there is left as it is. */
static natsStatus make_stream(struct relay_nats *nats, const char *name, const char *subject)
{
    natsMsg *info = NULL;
    natsStatus s = relay_nats_ask(nats, "STREAM.INFO", name, "", &info);

    if (s == NATS_OK && relay_nats_code(info) == JSStreamNotFoundErr) {
        natsMsg_Destroy(info);
        s = add_stream(nats, name, subject, &info);
    }
    if (s == NATS_OK)
        limit(nats, info);
    natsMsg_Destroy(info);
    return s;
}

static natsStatus make_bucket(struct relay_nats *nats)
{
    kvConfig config;
    natsStatus s = js_KeyValue(&nats->entries, nats->js, nats->bucket);

    if (s != NATS_NOT_FOUND)
        return s;
    kvConfig_Init(&config);
    config.Bucket = nats->bucket;
    config.History = 1;
    config.StorageType = js_FileStorage;
    config.Replicas = (int)nats->config->copies;
    return js_CreateKeyValue(&nats->entries, nats->js, &config);
}

natsStatus relay_nats_make(struct relay_nats *nats)
{
    const uint64_t wanted = nats->config->message_max + RELAY_ROOM;
    char dead[NATS_NAME_MAX];
    natsMsg *info = NULL;
    natsStatus s;

    nats->engine.limits.headers = UINT16_MAX; /* of what JetStream stores */
    nats->engine.limits.message = (uint64_t)natsConnection_GetMaxPayload(nats->connection);
    snprintf(dead, sizeof(dead), "HWT-%s-dead", nats->config->space);
    s = make_stream(nats, nats->stream, nats->subject);
    if (s == NATS_OK)
        s = make_stream(nats, dead, nats->dead);
    if (s == NATS_OK && nats->engine.limits.message < wanted)
        relay_log(
            nats->shard,
            "messages of more than %" PRIu64
            " bytes are dead letters, whatever message_max is: set "
            "max_payload of the servers, and the maximum message size of %s and %s, to %" PRIu64,
            nats->engine.limits.message - relay_min(RELAY_ROOM, nats->engine.limits.message),
            nats->stream, dead, wanted);
    if (s == NATS_OK)
        s = make_bucket(nats);
    if (s == NATS_OK)
        s = relay_nats_ask(nats, "STREAM.INFO", nats->stream, "", &info);
    if (s == NATS_OK)
        s = relay_nats_judge(nats, info);
    natsMsg_Destroy(info);
    return s;
}
