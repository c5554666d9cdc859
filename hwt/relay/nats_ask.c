/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/nats_inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "hwt/relay/log.h"

/*
 * What the library does not know: the API by its JSON. Strings in it have their quotes escaped, so none of them looks like
 * a name.
 */

natsStatus relay_nats_ask(struct relay_nats *nats, const char *call, const char *stream,
                          const char *text, natsMsg **ret_answer)
{
    char subject[3 * NATS_NAME_MAX];

    snprintf(subject, sizeof(subject), "%s.%s.%s", nats->config->api, call, stream);
    return natsConnection_RequestString(ret_answer, nats->connection, subject, text, NATS_WAIT_MS);
}

bool relay_nats_value(natsMsg *answer, const char *name, char ret_value[NATS_VALUE_MAX])
{
    const char *text = natsMsg_GetData(answer), *end = text + natsMsg_GetDataLength(answer), *at;
    size_t n = 0;

    for (at = text; at && *name; name += *name == '.') {
        char quoted[NATS_VALUE_MAX];
        size_t length = strcspn(name, ".");
        snprintf(quoted, sizeof(quoted), "\"%.*s\":", (int)length, name);
        at = memmem(at, (size_t)(end - at), quoted, strlen(quoted));
        at = at ? at + strlen(quoted) : NULL;
        name += length;
    }
    if (!at)
        return false;
    if (at < end && *at == '"')
        at++;
    for (; at < end && n + 1 < NATS_VALUE_MAX && !strchr("\",}", *at); at++)
        ret_value[n++] = *at;
    ret_value[n] = 0;
    return true;
}

uint64_t relay_nats_code(natsMsg *answer)
{
    char value[NATS_VALUE_MAX];
    uint64_t code;

    if (!relay_nats_value(answer, "error", value))
        return 0;
    return relay_nats_value(answer, "err_code", value) && relay_number_read(value, &code) ? code
                                                                                          : 1;
}

/*
 * Which stream of its name it is, is in its metadata, and for servers before 2.10 in its description. The time at which it was
 * made is no help, because servers of a cluster that have begun again since (2.9.10) each tell another time.
 */
uint64_t relay_nats_incarnation(natsMsg *info)
{
    char value[NATS_VALUE_MAX];
    uint64_t incarnation = 0;

    if (relay_nats_value(info, NATS_INCARNATION, value) ||
        (relay_nats_value(info, "description", value) &&
         strncmp(value, NATS_DESCRIPTION, strlen(NATS_DESCRIPTION)) == 0 &&
         memmove(value, value + strlen(NATS_DESCRIPTION),
                 strlen(value + strlen(NATS_DESCRIPTION)) + 1)))
        (void)relay_number_read(value, &incarnation);
    return incarnation > 0 ? incarnation : 1; /* it was made by hand */
}

/* What it has to be; and whether a limit may be there if what is above it is refused, and whether the bucket's is
 * judged, too. */
static const struct {
    const char *name, *fine, *harm;
    bool may_refuse, bucket;
} settings[] = {
    { "max_age", "0", "deletes messages by their age", false, true },
    { "retention", "limits", "deletes messages that were not read by all replicas", false, false },
    { "max_msgs", "-1", "deletes the oldest messages; with discard new it may stay", true, false },
    { "max_bytes", "-1", "deletes the oldest messages; with discard new it may stay", true, false },
    { "max_msgs_per_subject", "-1", "deletes the oldest messages", false, false },
    { "allow_rollup_hdrs", "false", "lets a producer delete all by Nats-Rollup", false, false },
    { "allow_msg_ttl", "false", "lets messages go by their Nats-TTL", false, false },
    { "allow_msg_schedules", "false", "lets Nats-Schedule keep messages back", false, false },
    { "allow_msg_counter", "false", "makes counters of messages", false, false },
    { "no_ack", "false", "tells no producer that its message is stored", false, false },
    { "persist_mode", "default", "acknowledges messages before they are written", false, false },
    { "sealed", "false", "takes no messages", false, false },
    { "deny_purge", "false", "keeps what all replicas have read for ever", false, false },
};

static void judge(struct relay_nats *nats, const char *stream, bool is_bucket, natsMsg *info)
{
    char value[NATS_VALUE_MAX], discard[NATS_VALUE_MAX] = "";

    (void)relay_nats_value(info, "discard", discard);
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        if ((is_bucket && !settings[i].bucket) ||
            !relay_nats_value(info, settings[i].name, value) ||
            strcmp(value, settings[i].fine) == 0 ||
            (settings[i].may_refuse && strcmp(discard, "new") == 0))
            continue;
        snprintf(nats->engine.fault, RELAY_FAULT_MAX,
                 "the stream %s has %s %s, which %s: it has to be %s", stream, settings[i].name,
                 value, settings[i].harm, settings[i].fine);
        relay_log(nats->shard, RELAY_ERROR "NATS: %s", nats->engine.fault);
    }
}

natsStatus relay_nats_judge(struct relay_nats *nats, natsMsg *info)
{
    uint64_t now = relay_nats_clock(&nats->engine);
    char bucket[NATS_NAME_MAX + 8];
    natsMsg *answer = NULL;
    natsStatus s;

    if (now < nats->judge_at)
        return NATS_OK;
    nats->judge_at = now + HWT_SEC(60);
    nats->engine.fault[0] = 0;
    judge(nats, nats->stream, false, info);
    snprintf(bucket, sizeof(bucket), "KV_%s", nats->bucket);
    s = relay_nats_ask(nats, "STREAM.INFO", bucket, "", &answer);
    if (s == NATS_OK)
        judge(nats, bucket, true, answer);
    natsMsg_Destroy(answer);
    return s;
}
