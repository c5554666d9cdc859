/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/nats_inside.h"

#include <inttypes.h>
#include <stdio.h>

#include "hwt/relay/log.h"

#define INCARNATION "hwt-relay incarnation="

/*
 * Which stream of its name it is, is in its description. The time at which it was made is no help,
 * because servers of a cluster that have begun again since (2.9.10) each tell another time.
 */
uint64_t relay_nats_incarnation(const jsStreamConfig *config)
{
    uint64_t incarnation = 0;

    if (config->Description)
        sscanf(config->Description, INCARNATION "%" SCNu64, &incarnation);
    return incarnation > 0 ? incarnation : 1; /* it was made by hand */
}

static void limit(struct relay_nats *nats, int64_t bytes)
{
    struct relay_limits *limits = &nats->engine.limits;

    if (bytes > 0 && (limits->message == 0 || (uint64_t)bytes < limits->message))
        limits->message = (uint64_t)bytes;
}

/* A stream of one subject. One that is there is left as it is. */
static natsStatus make_stream(struct relay_nats *nats, const char *name, const char *subject)
{
    char description[sizeof(INCARNATION) + 20];
    jsStreamInfo *info = NULL;
    jsStreamConfig config;
    jsErrCode code = 0;
    natsStatus s = js_GetStreamInfo(&info, nats->js, name, NULL, NULL);

    if (s == NATS_NOT_FOUND) {
        jsStreamConfig_Init(&config);
        snprintf(description, sizeof(description), INCARNATION "%" PRId64, nats_NowInNanoSeconds());
        config.Name = name;
        config.Description = description;
        config.Subjects = &subject;
        config.SubjectsLen = 1;
        config.Storage = js_FileStorage;
        config.Discard = js_DiscardNew;
        config.Replicas = (int64_t)nats->config->copies;
        config.MaxMsgSize = (int32_t)nats->config->message_max + RELAY_ROOM;
        s = js_AddStream(&info, nats->js, &config, NULL, &code);
        if (code == JSStreamNameExistErr)
            s = NATS_OK; /* another replica has made it meanwhile */
    }
    if (s == NATS_OK && info && info->Config)
        limit(nats, info->Config->MaxMsgSize);
    jsStreamInfo_Destroy(info);
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
    natsStatus s = make_stream(nats, nats->stream, nats->subject);

    nats->engine.limits.headers = UINT16_MAX; /* of what JetStream stores */
    limit(nats, natsConnection_GetMaxPayload(nats->connection));
    snprintf(dead, sizeof(dead), "HWT-%s-dead", nats->config->space);
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
    return s == NATS_OK ? make_bucket(nats) : s;
}
