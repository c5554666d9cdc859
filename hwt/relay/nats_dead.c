/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/nats_inside.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hwt/relay/header.h"

/* The dead letters are read one by one by the API, whose answers have headers and payload in base64. */

static int digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;

    return at ? (int)(at - digits) : -1;
}

/* Allocated, with a byte 0 behind it. NULL: no memory. A field that is not there is empty. */
static char *decode(natsMsg *answer, const char *name, size_t *ret_size)
{
    const char *text = natsMsg_GetData(answer), *end = text + natsMsg_GetDataLength(answer), *at;
    char *bytes;
    size_t size = 0;
    uint32_t bits = 0;

    at = memmem(text, (size_t)(end - text), name, strlen(name));
    at = at ? at + strlen(name) : end;
    bytes = malloc((size_t)(end - at) / 4 * 3 + 4);
    for (unsigned n = 0; bytes && at < end && digit(*at) >= 0; at++) {
        bits = bits << 6 | (uint32_t)digit(*at);
        if (++n % 4 != 1)
            bytes[size++] = (char)(bits >> (6 - 2 * ((n - 1) % 4)));
    }
    if (bytes)
        bytes[size] = 0;
    *ret_size = size;
    return bytes;
}

void relay_nats_dead_free(struct relay_nats *nats)
{
    free(nats->dead_fields);
    free(nats->dead_payload);
    nats->dead_fields = NULL;
    nats->dead_payload = NULL;
}

static int read_dead(struct relay_nats *nats, natsMsg *answer, struct relay_message *ret_message)
{
    uint64_t code = relay_nats_code(answer);
    char value[NATS_VALUE_MAX], *headers;
    size_t size;
    int r;

    relay_nats_dead_free(nats);
    if (code)
        return code == JSNoMessageFoundErr ? -ENOENT : -EIO;
    *ret_message = (struct relay_message){ .position = 0 };
    if (!relay_nats_value(answer, "seq", value) ||
        !relay_number_read(value, &ret_message->position) ||
        !relay_nats_value(answer, "time", value) || !relay_due_read(value, &ret_message->timestamp))
        return -EIO;
    headers = decode(answer, "\"hdrs\":\"", &size);
    r = headers ? 0 : -ENOMEM;
    if (r == 0 && size > 0)
        r = relay_header_read(headers, size, &nats->dead_fields, &ret_message->fields_count);
    free(headers);
    nats->dead_payload = decode(answer, "\"data\":\"", &ret_message->payload_size);
    ret_message->fields = nats->dead_fields;
    ret_message->payload = nats->dead_payload;
    return r == 0 && !nats->dead_payload ? -ENOMEM : r;
}

/* Asks about the dead letter at this position; `more` is JSON behind it. */
static natsStatus ask(struct relay_nats *nats, const char *call, uint64_t position,
                      const char *more, natsMsg **ret_answer)
{
    char stream[2 * NATS_NAME_MAX], text[80];

    snprintf(stream, sizeof(stream), "HWT-%s-dead", nats->config->space);
    snprintf(text, sizeof(text), "{\"seq\":%" PRIu64 "%s}", position, more);
    return relay_nats_ask(nats, call, stream, text, ret_answer);
}

int relay_nats_dead(struct relay_engine *engine, uint64_t from, struct relay_message *ret_message)
{
    struct relay_nats *nats = relay_nats_of(engine);
    natsMsg *answer = NULL;
    natsStatus s = ask(nats, "STREAM.MSG.GET", from, ",\"next_by_subj\":\">\"", &answer);
    int r = s == NATS_OK ? read_dead(nats, answer, ret_message) : relay_nats_errno(s);

    natsMsg_Destroy(answer);
    return r;
}

int relay_nats_bury(struct relay_engine *engine, uint64_t position)
{
    natsMsg *answer = NULL;
    natsStatus s = ask(relay_nats_of(engine), "STREAM.MSG.DELETE", position, "", &answer);
    int r = s != NATS_OK ? relay_nats_errno(s) : relay_nats_code(answer) ? -EIO : 0;

    natsMsg_Destroy(answer);
    return r;
}
