/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/program/publish.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "hwt/relay/program/look.h"
#include "hwt/relay/open.h"
#include "hwt/relay/policy.h"

static unsigned choose_shard(const struct request *request)
{
    uint64_t shard;

    if (request->shard) {
        if (!relay_number_read(request->shard, &shard) || shard >= request->config->shards)
            misuse("there is no shard %s", request->shard);
        return (unsigned)shard;
    }
    return request->key ? relay_engine_shard(request->config, request->key) : 0;
}

static void add(struct relay_message *message, struct relay_field *fields, const char *name,
                const char *value)
{
    if (!value)
        return;
    if (strpbrk(value, "\r\n"))
        misuse("%s has a line's end in it, which no header can have", name);
    fields[message->fields_count++] = (struct relay_field){ name, value };
}

static void add_own(const struct request *request, struct relay_message *message,
                    struct relay_field *fields)
{
    for (int i = 0; i < request->headers_count; i++) {
        char *value = strchr(request->headers[i], ':');
        if (!value || value == request->headers[i])
            misuse("a header is 'NAME: VALUE', and not %s", request->headers[i]);
        *value++ = 0;
        add(message, fields, request->headers[i], value + strspn(value, " "));
    }
}

int publish_judge(const struct request *request, const struct relay_limits *limits,
                  const struct relay_message *message, const struct relay_order *order,
                  char reason[RELAY_REASON_MAX])
{
    struct relay_field fields[RELAY_FIELDS_MAX];
    struct relay_case judged = { order->target, fields, 0, message->payload_size };

    if (order->op == RELAY_CANCEL)
        return 0;
    for (size_t i = 0; i < message->fields_count; i++)
        if (!relay_field_is_known(&message->fields[i]))
            fields[judged.fields_count++] = message->fields[i];
    return relay_policy_judge(request->config, limits, &judged, reason);
}

static int publish_in(const struct request *request, unsigned shard,
                      const struct relay_message *message, const struct relay_order *order)
{
    const struct relay_outgoing outgoing = { .fields = message->fields,
                                             .fields_count = message->fields_count,
                                             .payload = message->payload,
                                             .payload_size = message->payload_size };
    struct relay_engine *engine = look_open_engine(request, shard);
    char reason[RELAY_REASON_MAX];
    uint64_t position;
    int r;

    if (*engine->fault)
        r = fail("it is not put: %s", engine->fault);
    else if (publish_judge(request, &engine->limits, message, order, reason) < 0)
        r = fail("this would be a dead letter: %s", reason);
    else if ((r = engine->calls->publish(engine, &outgoing, &position)) < 0)
        r = fail("it is not known to be stored: %s", strerror(-r));
    else
        printf("stored as %" PRIu64 " of shard %u\n", position, shard);
    engine->calls->close(engine);
    return fflush(stdout) == 0 ? r : FAILED;
}

/* Whoever has put the message may have chosen another shard than that of its key. */
static int cancel_elsewhere(const struct request *request, unsigned shard, const char *due)
{
    const struct relay_field fields[] = { { "Hwt-Op", "cancel" },
                                          { "Hwt-Due", due },
                                          { "Hwt-Key", request->key } };
    const struct relay_message message = { .fields = fields, .fields_count = 3 };
    char reason[RELAY_REASON_MAX];
    struct relay_order order;
    int r = 0;

    if (request->shard || !relay_engine_scatters(request->config))
        return 0;
    if (relay_order_read(&message, &order, reason) < 0)
        misuse("this would be a dead letter: %s", reason);
    for (unsigned i = 0; r == 0 && i < request->config->shards; i++)
        r = i == shard ? 0 : publish_in(request, i, &message, &order);
    return r;
}

static int publish(const struct request *request, const char *op)
{
    const struct relay_limits none = { 0, 0 };
    struct relay_field fields[RELAY_FIELDS_MAX];
    struct relay_message message = { .fields = fields };
    char reason[RELAY_REASON_MAX];
    struct relay_order order;
    unsigned shard = choose_shard(request);
    int r = 0;

    add(&message, fields, "Hwt-Op", op);
    add(&message, fields, "Hwt-Due", request->due);
    add(&message, fields, "Hwt-Due-Old", request->due_old);
    add(&message, fields, "Hwt-Delay", request->delay);
    add(&message, fields, "Hwt-Key", request->key);
    if (request->operands_count == 2) {
        add(&message, fields, "Hwt-Target", request->operands[0]);
        message.payload = request->operands[1];
        message.payload_size = strlen(request->operands[1]);
    }
    add_own(request, &message, fields);
    if (relay_order_read(&message, &order, reason) < 0 ||
        publish_judge(request, &none, &message, &order, reason) < 0)
        misuse("this would be a dead letter: %s", reason);
    if (order.op != RELAY_PUT)
        r = cancel_elsewhere(request, shard,
                             order.op == RELAY_REPLACE ? request->due_old : request->due);
    return r == 0 ? publish_in(request, shard, &message, &order) : r;
}

int command_put(const struct request *request)
{
    return publish(request, "put");
}

int command_cancel(const struct request *request)
{
    return publish(request, "cancel");
}

int command_replace(const struct request *request)
{
    return publish(request, "replace");
}
