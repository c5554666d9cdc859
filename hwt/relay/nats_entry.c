/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/nats_inside.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int relay_nats_extent(struct relay_engine *engine, struct relay_extent *ret_extent)
{
    struct relay_nats *nats = relay_nats_of(engine);
    jsStreamInfo *info = NULL;
    natsStatus s = js_GetStreamInfo(&info, nats->js, nats->stream, NULL, NULL);

    if (s != NATS_OK)
        return relay_nats_errno(s);
    *ret_extent = (struct relay_extent){ .incarnation = relay_nats_incarnation(info->Config),
                                         .first = info->State.FirstSeq,
                                         .last = info->State.LastSeq };
    nats->incarnation = ret_extent->incarnation;
    jsStreamInfo_Destroy(info);
    return 0;
}

int relay_nats_stamp(struct relay_engine *engine, uint64_t position, uint64_t *ret_timestamp)
{
    struct relay_nats *nats = relay_nats_of(engine);
    natsMsg *msg = NULL;
    natsStatus s = js_GetMsg(&msg, nats->js, nats->stream, position, NULL, NULL);

    if (s == NATS_NOT_FOUND)
        return -ENOENT;
    if (s != NATS_OK)
        return relay_nats_errno(s);
    *ret_timestamp = (uint64_t)natsMsg_GetTime(msg);
    natsMsg_Destroy(msg);
    return 0;
}

int relay_nats_written(struct relay_engine *engine, const char *name, uint64_t revision,
                       uint64_t *ret_written)
{
    kvEntry *entry = NULL;
    natsStatus s = kvStore_Get(&entry, relay_nats_of(engine)->entries, name);
    int r = s == NATS_NOT_FOUND ? -EAGAIN : relay_nats_errno(s);

    if (r < 0)
        return r;
    if (kvEntry_Revision(entry) == revision)
        *ret_written = (uint64_t)kvEntry_Created(entry);
    else
        r = -EAGAIN;
    kvEntry_Destroy(entry);
    return r;
}

int relay_nats_read(struct relay_engine *engine, const char *name, char ret_text[RELAY_ENTRY_MAX],
                    uint64_t *ret_revision)
{
    kvEntry *entry = NULL;
    natsStatus s = kvStore_Get(&entry, relay_nats_of(engine)->entries, name);

    ret_text[0] = 0;
    *ret_revision = 0;
    if (s == NATS_NOT_FOUND)
        return 0;
    if (s != NATS_OK)
        return relay_nats_errno(s);
    snprintf(ret_text, RELAY_ENTRY_MAX, "%.*s", kvEntry_ValueLen(entry),
             (const char *)kvEntry_Value(entry));
    *ret_revision = kvEntry_Revision(entry);
    kvEntry_Destroy(entry);
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
    options.Wait = 2000;
    options.Stream.Purge.Sequence = below;
    return relay_nats_errno(js_PurgeStream(nats->js, nats->stream, &options, NULL));
}
