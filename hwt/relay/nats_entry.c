/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/nats_inside.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int read_extent(struct relay_nats *nats, natsMsg *info, struct relay_extent *ret_extent)
{
    struct relay_extent extent = { .incarnation = relay_nats_incarnation(info) };
    char first[NATS_VALUE_MAX], last[NATS_VALUE_MAX], value[NATS_VALUE_MAX] = "";
    uint64_t threshold;

    if (!relay_nats_value(info, "state.first_seq", first) ||
        !relay_number_read(first, &extent.first) ||
        !relay_nats_value(info, "state.last_seq", last) || !relay_number_read(last, &extent.last))
        return -EIO;
    nats->threshold = relay_nats_value(info, "inactive_threshold", value) &&
                              relay_number_read(value, &threshold) && threshold > 0 &&
                              threshold < HWT_SEC(60)
                          ? (int64_t)threshold
                          : (int64_t)HWT_SEC(60);
    value[0] = 0;
    (void)relay_nats_value(info, "leader", value);
    relay_nats_pull_told(nats, &extent, value);
    (void)relay_nats_judge(nats, info);
    *ret_extent = extent;
    return 0;
}

int relay_nats_extent(struct relay_engine *engine, struct relay_extent *ret_extent)
{
    struct relay_nats *nats = relay_nats_of(engine);
    natsMsg *info = NULL;
    natsStatus s = relay_nats_ask(nats, "STREAM.INFO", nats->stream, "", &info);
    int r = s == NATS_OK ? read_extent(nats, info, ret_extent) : relay_nats_errno(s);

    natsMsg_Destroy(info);
    return r;
}

static int read_found(natsMsg *answer, uint64_t *ret_position, uint64_t *ret_timestamp)
{
    uint64_t code = relay_nats_code(answer);
    char value[NATS_VALUE_MAX];

    if (code)
        return code == JSNoMessageFoundErr ? -ENOENT : -EIO;
    return relay_nats_value(answer, "seq", value) && relay_number_read(value, ret_position) &&
                   relay_nats_value(answer, "time", value) && relay_due_read(value, ret_timestamp)
               ? 0
               : -EIO;
}

/* The library knows this request for copies alone, and not for the leader. */
int relay_nats_find(struct relay_engine *engine, uint64_t position, uint64_t *ret_position,
                    uint64_t *ret_timestamp)
{
    struct relay_nats *nats = relay_nats_of(engine);
    char text[80];
    natsMsg *answer = NULL;
    natsStatus s;
    int r;

    snprintf(text, sizeof(text), "{\"seq\":%" PRIu64 ",\"next_by_subj\":\">\"}", position);
    s = relay_nats_ask(nats, "STREAM.MSG.GET", nats->stream, text, &answer);
    r = s == NATS_OK ? read_found(answer, ret_position, ret_timestamp) : relay_nats_errno(s);
    natsMsg_Destroy(answer);
    return r;
}

/* The bucket's own reads are answered by any copy, which may be old. -ENOENT: there is no such entry. */
static int get_entry(struct relay_nats *nats, const char *name, natsMsg **ret_msg)
{
    char stream[2 * NATS_NAME_MAX], subject[2 * NATS_NAME_MAX + RELAY_ENTRY_MAX];
    jsErrCode code = 0;
    natsStatus s;

    snprintf(stream, sizeof(stream), "KV_%s", nats->bucket);
    snprintf(subject, sizeof(subject), "$KV.%s.%s", nats->bucket, name);
    s = js_GetLastMsg(ret_msg, nats->js, stream, subject, NULL, &code);
    return s == NATS_NOT_FOUND && code == JSNoMessageFoundErr ? -ENOENT : relay_nats_errno(s);
}

int relay_nats_written(struct relay_engine *engine, const char *name, uint64_t revision,
                       uint64_t *ret_written)
{
    natsMsg *msg = NULL;
    int r = get_entry(relay_nats_of(engine), name, &msg);

    if (r < 0)
        return r == -ENOENT ? -EAGAIN : r;
    if (natsMsg_GetSequence(msg) == revision)
        *ret_written = (uint64_t)natsMsg_GetTime(msg);
    else
        r = -EAGAIN;
    natsMsg_Destroy(msg);
    return r;
}

/* One that was deleted by hand is an empty message. */
int relay_nats_read(struct relay_engine *engine, const char *name, char ret_text[RELAY_ENTRY_MAX],
                    uint64_t *ret_revision)
{
    natsMsg *msg = NULL;
    int r = get_entry(relay_nats_of(engine), name, &msg);

    ret_text[0] = 0;
    *ret_revision = 0;
    if (r < 0)
        return r == -ENOENT ? 0 : r;
    snprintf(ret_text, RELAY_ENTRY_MAX, "%.*s", natsMsg_GetDataLength(msg), natsMsg_GetData(msg));
    *ret_revision = natsMsg_GetSequence(msg);
    natsMsg_Destroy(msg);
    return 0;
}

/* A compare-and-set that fails is told by its text alone. */
int relay_nats_swap(struct relay_engine *engine, const char *name, uint64_t revision,
                    const char *text, uint64_t *ret_revision)
{
    kvStore *entries = relay_nats_of(engine)->entries;
    natsStatus s = revision == 0
                       ? kvStore_CreateString(ret_revision, entries, name, text)
                       : kvStore_UpdateString(ret_revision, entries, name, text, revision);
    const char *why = nats_GetLastError(NULL);

    if (s != NATS_OK && why && strstr(why, "wrong last sequence"))
        return -EAGAIN;
    return relay_nats_errno(s);
}

/* The server knows no such condition, so this looks immediately before. */
int relay_nats_purge(struct relay_engine *engine, uint64_t incarnation, uint64_t below)
{
    struct relay_nats *nats = relay_nats_of(engine);
    struct relay_extent extent;
    jsOptions options;
    int r = relay_nats_extent(engine, &extent);

    if (r < 0)
        return r;
    if (extent.incarnation != incarnation)
        return -ESTALE;
    jsOptions_Init(&options);
    options.Wait = NATS_WAIT_MS;
    options.Stream.Purge.Sequence = below;
    return relay_nats_errno(js_PurgeStream(nats->js, nats->stream, &options, NULL));
}

/* A shard that somebody has owned has an entry. */
void relay_nats_count_shards(struct relay_nats *nats)
{
    char name[32], text[RELAY_ENTRY_MAX];
    uint64_t revision;

    for (unsigned i = 0; i < RELAY_SHARDS_MAX; i++) {
        snprintf(name, sizeof(name), "shard.%u", i);
        if (relay_nats_read(&nats->engine, name, text, &revision) == 0 && *text)
            nats->engine.shards = i + 1;
    }
}
