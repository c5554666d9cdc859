/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "hwt/relay/program/look.h"
#include "hwt/relay/program/publish.h"

/*
 * A dead letter is put back as a new order, of a new id, and deleted when that is stored. Who is killed between both
 * leaves it where it is; if it is put back again within the duplicate window of the delay stream, that refuses it.
 */

/* The engines that were wanted so far; the first one reads the dead letters, which all shards have in common. */
struct dead {
    const struct request *request;
    struct relay_engine *engines[RELAY_SHARDS_MAX];
};

static struct relay_engine *engine_of(struct dead *dead, unsigned shard)
{
    if (!dead->engines[shard])
        dead->engines[shard] = look_open_engine(dead->request, shard);
    return dead->engines[shard];
}

static const char *find(const struct relay_message *letter, const char *name)
{
    for (size_t i = 0; i < letter->fields_count; i++)
        if (strcasecmp(letter->fields[i].name, name) == 0)
            return letter->fields[i].value;
    return "";
}

/* ---- list ---- */

static int list(struct dead *dead, const struct relay_message *letter)
{
    static const char *const names[] = { "Hwt-Due", "Hwt-Target", "Hwt-Key", "Hwt-Reason",
                                         "Hwt-Source" };

    (void)dead;
    printf("%" PRIu64, letter->position);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = find(letter, names[i]);
        putchar('\t');
        look_print_escaped(value, strlen(value));
    }
    putchar('\n');
    return 0;
}

/* ---- drop ---- */

static int bury(struct dead *dead, const struct relay_message *letter, const char *done)
{
    struct relay_engine *engine = engine_of(dead, 0);
    int r = engine->calls->bury(engine, letter->position);

    if (r < 0)
        return fail("%" PRIu64 " %s: it cannot be deleted: %s", letter->position, done,
                    strerror(-r));
    printf("%" PRIu64 " %s\n", letter->position, done);
    return 0;
}

static int drop(struct dead *dead, const struct relay_message *letter)
{
    return bury(dead, letter, "is dropped");
}

/* ---- put-back ---- */

/* Whether it is a part of the message, and no trace of what became of that. */
static bool is_own(const struct relay_field *field)
{
    static const char *const traces[] = { "Hwt-Reason", "Hwt-Source", "Hwt-Id", "Nats-Msg-Id" };

    for (size_t i = 0; i < sizeof(traces) / sizeof(traces[0]); i++)
        if (strcasecmp(field->name, traces[i]) == 0)
            return false;
    return true;
}

/* The shard in which it was before: SPACE.N:POSITION. */
static int64_t shard_of(const struct dead *dead, const struct relay_message *letter)
{
    const struct relay_config *config = dead->request->config;
    const char *source = find(letter, "Hwt-Source");
    const size_t length = strlen(config->space);
    char text[8] = "";
    uint64_t shard;

    if (strncmp(source, config->space, length) == 0 && source[length] == '.' &&
        strcspn(source + length + 1, ":") < sizeof(text))
        strncat(text, source + length + 1, strcspn(source + length + 1, ":"));
    return relay_number_read(text, &shard) && shard < config->shards ? (int64_t)shard : -1;
}

/* Why it would be dead again; "": it would not. */
static void judge(struct dead *dead, struct relay_engine *engine,
                  const struct relay_message *letter, const struct relay_message *message,
                  char reason[RELAY_REASON_MAX])
{
    struct relay_order order;

    *reason = 0;
    if (strstr(find(letter, "Hwt-Reason"), " bytes of it are left out"))
        relay_refuse(reason, "a part of it is left out");
    else if (relay_order_read(message, &order, reason) == 0 &&
             publish_judge(dead->request, &engine->limits, message, &order, reason) == 0)
        *reason = 0;
}

static int put_back(struct dead *dead, const struct relay_message *letter)
{
    struct relay_field *fields = calloc(letter->fields_count + 1, sizeof(*fields));
    struct relay_message message = *letter;
    int64_t shard = shard_of(dead, letter);
    struct relay_engine *engine = engine_of(dead, shard < 0 ? 0 : (unsigned)shard);
    char reason[RELAY_REASON_MAX], id[128], done[64];
    uint64_t position;
    int r = fields ? 0 : -ENOMEM;

    message.fields = fields;
    message.fields_count = 0;
    for (size_t i = 0; r == 0 && i < letter->fields_count; i++)
        if (is_own(&letter->fields[i]))
            fields[message.fields_count++] = letter->fields[i];
    snprintf(id, sizeof(id), "%s-dead-%" PRIu64 "-%" PRIu64, dead->request->config->space,
             letter->position, letter->timestamp);
    const struct relay_outgoing outgoing = {
        NULL, id, fields, message.fields_count, message.payload, message.payload_size
    };
    judge(dead, engine, letter, &message, reason);
    if (*reason || shard < 0)
        r = fail("%" PRIu64 " cannot be put back: %s", letter->position,
                 *reason ? reason : "its Hwt-Source is no shard of this configuration");
    else if (r == 0 && (r = engine->calls->publish(engine, &outgoing, &position)) < 0)
        r = fail("%" PRIu64 " is not known to be put back: %s", letter->position, strerror(-r));
    free(fields);
    if (r != 0)
        return r;
    snprintf(done, sizeof(done), "is put back as %" PRIu64 " of shard %" PRId64, position, shard);
    return bury(dead, letter, done);
}

/* ---- All of them, or those that are named ---- */

/* First all are found, since what is put back may be dead again at once. */
static int each(struct dead *dead, int (*act)(struct dead *, const struct relay_message *))
{
    struct relay_engine *engine = engine_of(dead, 0);
    struct relay_message letter;
    uint64_t from = 0, last = 0;
    int status = 0, r;

    while ((r = engine->calls->dead(engine, last + 1, &letter)) == 0)
        last = letter.position;
    while (r == -ENOENT && from < last) {
        int found = engine->calls->dead(engine, from + 1, &letter);
        if (found < 0)
            return fail("%s", strerror(-found));
        from = letter.position;
        if (from <= last && act(dead, &letter) != 0)
            status = FAILED;
    }
    return r == -ENOENT ? status : fail("the dead letters cannot be read: %s", strerror(-r));
}

static int one(struct dead *dead, const char *text,
               int (*act)(struct dead *, const struct relay_message *))
{
    struct relay_engine *engine = engine_of(dead, 0);
    struct relay_message letter;
    uint64_t position;
    int r;

    if (!relay_number_read(text, &position))
        misuse("%s is not the position of a dead letter, as list says it", text);
    r = engine->calls->dead(engine, position, &letter);
    if (r == -ENOENT || (r == 0 && letter.position != position))
        return fail("there is no dead letter %" PRIu64, position);
    return r < 0 ? fail("the dead letters cannot be read: %s", strerror(-r)) : act(dead, &letter);
}

static int act_on(struct dead *dead, int (*act)(struct dead *, const struct relay_message *))
{
    const struct request *request = dead->request;
    int status = 0;

    if (!engine_of(dead, 0)->calls->dead)
        return fail("on Kafka the dead letters are a topic, hwt-%s-dead: a consumer reads them",
                    request->config->space);
    if (act == list || strcmp(request->operands[1], "all") == 0)
        return each(dead, act);
    for (int i = 1; i < request->operands_count; i++)
        if (one(dead, request->operands[i], act) != 0)
            status = FAILED;
    return status;
}

int command_dead(const struct request *request)
{
    static const struct {
        const char *name;
        int (*act)(struct dead *dead, const struct relay_message *letter);
    } acts[] = { { "list", list }, { "put-back", put_back }, { "drop", drop } };
    struct dead dead = { .request = request };
    const char *name = request->operands_count > 0 ? request->operands[0] : "";
    int status = -1;

    for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++)
        if (strcmp(name, acts[i].name) == 0 && (request->operands_count > 1) == (i > 0))
            status = act_on(&dead, acts[i].act);
    if (status < 0)
        misuse("it is: hwt-relay -c FILE dead list | (put-back | drop) (all | POSITION...)");
    for (unsigned i = 0; i < RELAY_SHARDS_MAX; i++)
        if (dead.engines[i])
            dead.engines[i]->calls->close(dead.engines[i]);
    return fflush(stdout) == 0 ? status : FAILED;
}
