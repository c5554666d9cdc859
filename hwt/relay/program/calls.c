/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/program/calls.h"

#include <errno.h>
#include <string.h>

#include <hwt/hwt.h>

#include "hwt/relay/log.h"

const char *const relay_call_names[RELAY_CALLS] = {
    [RELAY_CALL_OPEN] = "open", [RELAY_CALL_EXTENT] = "extent",   [RELAY_CALL_FIND] = "find",
    [RELAY_CALL_PULL] = "pull", [RELAY_CALL_SEND] = "send",       [RELAY_CALL_READ] = "read",
    [RELAY_CALL_SWAP] = "swap", [RELAY_CALL_WRITTEN] = "written", [RELAY_CALL_PURGE] = "purge",
};

/* What a call says when the broker has done as it should. */
static const int answers[RELAY_CALLS] = {
    [RELAY_CALL_FIND] = -ENOENT, [RELAY_CALL_PULL] = -ESTALE,    [RELAY_CALL_SEND] = -EAGAIN,
    [RELAY_CALL_SWAP] = -EAGAIN, [RELAY_CALL_WRITTEN] = -EAGAIN, [RELAY_CALL_PURGE] = -ESTALE,
};

static bool note(struct relay_errors *errors, enum relay_call call, int64_t result)
{
    const uint64_t fails = relay_count_get(&errors->fails), bit = UINT64_C(1) << call;
    const bool failed = result < 0 && result != answers[call];

    relay_count_set(&errors->fails, failed ? fails | bit : fails & ~bit);
    relay_count_add(&errors->count[call], failed);
    return failed;
}

static void say(struct relay_engine *engine, enum relay_call call, bool failed, int64_t result)
{
    struct relay_errors *errors = engine->errors;
    const uint64_t now = engine->beneath->clock(engine);

    if (failed && !errors->said[call] &&
        (errors->said_at[call] == 0 || now - errors->said_at[call] >= HWT_SEC(60))) {
        errors->said[call] = true;
        errors->said_at[call] = now;
        relay_log(engine->shard, "the broker fails: %s: %s%s%s", relay_call_names[call],
                  strerror((int)-result), *engine->server ? ", at " : "", engine->server);
    } else if (!failed && errors->said[call]) {
        errors->said[call] = false;
        relay_log(engine->shard, RELAY_INFO "the broker goes on: %s%s%s", relay_call_names[call],
                  *engine->server ? ", at " : "", engine->server);
    }
}

/* Returns the result. */
static int64_t tell(struct relay_engine *engine, enum relay_call call, int64_t result)
{
    const bool failed = note(engine->errors, call, result);

    if (failed || engine->errors->said[call])
        say(engine, call, failed, result);
    return result;
}

static int64_t pull(struct relay_engine *engine, uint64_t after, size_t max,
                    const struct relay_message **ret_messages)
{
    return tell(engine, RELAY_CALL_PULL, engine->beneath->pull(engine, after, max, ret_messages));
}

static int extent(struct relay_engine *engine, struct relay_extent *ret_extent)
{
    return (int)tell(engine, RELAY_CALL_EXTENT, engine->beneath->extent(engine, ret_extent));
}

static int find(struct relay_engine *engine, uint64_t position, uint64_t *ret_position,
                uint64_t *ret_timestamp)
{
    return (int)tell(engine, RELAY_CALL_FIND,
                     engine->beneath->find(engine, position, ret_position, ret_timestamp));
}

static int send(struct relay_engine *engine, const struct relay_outgoing *message, uint64_t cookie)
{
    return (int)tell(engine, RELAY_CALL_SEND, engine->beneath->send(engine, message, cookie));
}

static int read(struct relay_engine *engine, const char *name, char ret_text[RELAY_ENTRY_MAX],
                uint64_t *ret_revision)
{
    return (int)tell(engine, RELAY_CALL_READ,
                     engine->beneath->read(engine, name, ret_text, ret_revision));
}

static int swap(struct relay_engine *engine, const char *name, uint64_t revision, const char *text,
                uint64_t *ret_revision)
{
    return (int)tell(engine, RELAY_CALL_SWAP,
                     engine->beneath->swap(engine, name, revision, text, ret_revision));
}

static int written(struct relay_engine *engine, const char *name, uint64_t revision,
                   uint64_t *ret_written)
{
    return (int)tell(engine, RELAY_CALL_WRITTEN,
                     engine->beneath->written(engine, name, revision, ret_written));
}

static int purge(struct relay_engine *engine, uint64_t incarnation, uint64_t below)
{
    return (int)tell(engine, RELAY_CALL_PURGE, engine->beneath->purge(engine, incarnation, below));
}

void relay_calls_watch(struct relay_engine *engine, unsigned shard, struct relay_errors *errors)
{
    engine->shard = shard;
    engine->errors = errors;
    engine->beneath = engine->calls;
    engine->watched = *engine->calls;
    engine->watched.pull = pull;
    engine->watched.extent = extent;
    engine->watched.find = find;
    engine->watched.send = send;
    engine->watched.read = read;
    engine->watched.swap = swap;
    engine->watched.written = written;
    engine->watched.purge = purge;
    engine->calls = &engine->watched;
}

void relay_calls_opened(struct relay_errors *errors, int result)
{
    (void)note(errors, RELAY_CALL_OPEN, result);
}

bool relay_calls_fail(const struct relay_errors *errors)
{
    const uint64_t needed =
        1 << RELAY_CALL_OPEN | 1 << RELAY_CALL_EXTENT | 1 << RELAY_CALL_READ | 1 << RELAY_CALL_SWAP;

    return (relay_count_get(&errors->fails) & needed) != 0;
}
