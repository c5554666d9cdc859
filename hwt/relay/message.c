/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/message.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The headers of the relay. Hwt-Source is looked at beside Hwt-Id only, and Hwt-Reason is not. */
enum { OP, DUE, DUE_OLD, DELAY, TARGET, KEY, ID, ATTEMPT, SOURCE, REASON, NAMES };

static const char *const names[NAMES] = {
    [OP] = "Hwt-Op",         [DUE] = "Hwt-Due",         [DUE_OLD] = "Hwt-Due-Old",
    [DELAY] = "Hwt-Delay",   [TARGET] = "Hwt-Target",   [KEY] = "Hwt-Key",
    [ID] = "Hwt-Id",         [ATTEMPT] = "Hwt-Attempt", [SOURCE] = "Hwt-Source",
    [REASON] = "Hwt-Reason",
};

int relay_refuse(char reason[RELAY_REASON_MAX], const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(reason, RELAY_REASON_MAX, format, arguments);
    va_end(arguments);
    for (char *c = reason; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    return -EINVAL;
}

/* NAMES: it is none. */
static size_t find_name(const struct relay_field *field)
{
    size_t n = 0;

    while (n < NAMES && strcasecmp(field->name, names[n]) != 0)
        n++;
    return n;
}

bool relay_field_is_hwt(const struct relay_field *field)
{
    return strncasecmp(field->name, "Hwt-", 4) == 0;
}

bool relay_field_was_hwt(const struct relay_field *field)
{
    return strncasecmp(field->name, RELAY_WAS "Hwt-", strlen(RELAY_WAS "Hwt-")) == 0;
}

bool relay_field_is_known(const struct relay_field *field)
{
    return relay_field_is_hwt(field) ? find_name(field) < NAMES
                                     : strncasecmp(field->name, "Nats-", 5) == 0;
}

bool relay_field_is_about(const struct relay_field *field)
{
    size_t n = find_name(field);

    return n == SOURCE || n == REASON;
}

uint64_t relay_fields_size(const struct relay_field *fields, size_t count)
{
    uint64_t size = strlen("NATS/1.0\r\n\r\n");

    for (size_t i = 0; i < count; i++)
        size += strlen(fields[i].name) + strlen(fields[i].value) + strlen(": \r\n");
    return size;
}

static int sort_fields(const struct relay_message *message, const char *values[NAMES],
                       char reason[RELAY_REASON_MAX])
{
    size_t others = 0;

    for (size_t i = 0; i < message->fields_count; i++) {
        const struct relay_field *field = &message->fields[i];
        if (!*field->name)
            return relay_refuse(reason, "it has a line that is no header: %.60s", field->value);
        if (*field->name == *RELAY_BYTES && strncasecmp(field->name + 1, "Hwt-", 4) == 0)
            return relay_refuse(reason, "%.60s has a byte 0, or is NULL", field->name + 1);
        others += !relay_field_is_known(field);
        if (!relay_field_is_hwt(field) || !relay_field_is_known(field))
            continue;
        size_t n = find_name(field);
        if (values[n])
            return relay_refuse(reason, "%s is given twice", names[n]);
        values[n] = field->value;
    }
    return others <= RELAY_FIELDS_MAX
               ? 0
               : relay_refuse(reason, "it has %zu headers, more than %d", others, RELAY_FIELDS_MAX);
}

static int read_op(const char *text, enum relay_op *ret_op, char reason[RELAY_REASON_MAX])
{
    if (!text || strcmp(text, "put") == 0)
        *ret_op = RELAY_PUT;
    else if (strcmp(text, "cancel") == 0)
        *ret_op = RELAY_CANCEL;
    else if (strcmp(text, "replace") == 0)
        *ret_op = RELAY_REPLACE;
    else if (strcmp(text, "dead") == 0)
        *ret_op = RELAY_DEAD;
    else
        return relay_refuse(reason, "Hwt-Op is %.40s, and not put, cancel or replace", text);
    return 0;
}

static int read_due(const char *text, const char *name, uint64_t *ret_due,
                    char reason[RELAY_REASON_MAX])
{
    uint64_t number;

    if (relay_number_read(text, &number) && number < RELAY_MILLISECONDS_MIN)
        return relay_refuse(
            reason, "%s is %.40s, which is milliseconds before 1973-03-03: seconds by mistake?",
            name, text);
    if (relay_due_read(text, ret_due))
        return 0;
    return relay_refuse(reason,
                        "%s is %.40s, and not milliseconds since 1970 or RFC 3339, from 1970 to "
                        "2554-07-21",
                        name, text);
}

static int read_delay(const char *text, uint64_t timestamp, uint64_t *ret_due,
                      char reason[RELAY_REASON_MAX])
{
    uint64_t delay;

    if (!relay_number_read(text, &delay) || delay > (RELAY_DUE_MAX - timestamp) / 1000000)
        return relay_refuse(
            reason, "Hwt-Delay is %.40s, and not milliseconds that end before 2554-07-21", text);
    *ret_due = timestamp + delay * 1000000;
    return 0;
}

static int read_when(const char *const values[NAMES], uint64_t timestamp, struct relay_order *order,
                     char reason[RELAY_REASON_MAX])
{
    int r;

    if (!values[DUE] == !values[DELAY])
        return relay_refuse(reason, values[DUE] ? "it has Hwt-Due and Hwt-Delay"
                                                : "it has neither Hwt-Due nor Hwt-Delay");
    if (values[DUE])
        r = read_due(values[DUE], names[DUE], &order->due, reason);
    else if (order->op == RELAY_CANCEL)
        r = relay_refuse(reason, "a cancel is by Hwt-Due, since Hwt-Delay counts from itself");
    else
        r = read_delay(values[DELAY], timestamp, &order->due, reason);
    if (r < 0)
        return r;
    if (!values[DUE_OLD] == (order->op == RELAY_REPLACE))
        return relay_refuse(reason, values[DUE_OLD] ? "Hwt-Due-Old is for a replace only"
                                                    : "a replace wants Hwt-Due-Old");
    return values[DUE_OLD] ? read_due(values[DUE_OLD], names[DUE_OLD], &order->due_old, reason) : 0;
}

static int read_target(const char *target, char reason[RELAY_REASON_MAX])
{
    const char *fault;

    if (!target)
        return relay_refuse(reason, "it has no Hwt-Target");
    fault = relay_target_fault(target);
    return fault ? relay_refuse(reason, "Hwt-Target %s: %.60s", fault, target) : 0;
}

static int read_key(const struct relay_order *order, char reason[RELAY_REASON_MAX])
{
    if (!order->key)
        return order->op == RELAY_PUT || order->op == RELAY_DEAD
                   ? 0
                   : relay_refuse(reason, "a cancel or replace wants Hwt-Key");
    if (!*order->key)
        return relay_refuse(reason, "Hwt-Key is empty");
    if (strlen(order->key) > RELAY_KEY_MAX)
        return relay_refuse(reason, "Hwt-Key is longer than %d bytes", RELAY_KEY_MAX);
    return 0;
}

static const char *find_given(const struct relay_message *message)
{
    for (size_t i = 0; i < message->fields_count; i++)
        if (strcasecmp(message->fields[i].name, "Nats-Msg-Id") == 0)
            return message->fields[i].value;
    return NULL;
}

int relay_order_read(const struct relay_message *message, struct relay_order *ret_order,
                     char reason[RELAY_REASON_MAX])
{
    const char *values[NAMES] = { NULL };
    struct relay_order order = { 0 };
    int r = sort_fields(message, values, reason);

    if (r == 0)
        r = read_op(values[OP], &order.op, reason);
    if (r == 0)
        r = read_when(values, message->timestamp, &order, reason);
    order.key = values[KEY];
    if (r == 0)
        r = read_key(&order, reason);
    if (r == 0 && (order.op == RELAY_PUT || order.op == RELAY_REPLACE))
        r = read_target(values[TARGET], reason);
    order.target = values[TARGET];
    order.given = find_given(message);
    order.id = values[ID];
    order.source = values[SOURCE] ? values[SOURCE] : "";
    if (r == 0 && order.id && strlen(order.id) > RELAY_TARGET_MAX)
        r = relay_refuse(reason, "Hwt-Id is longer than %d bytes", RELAY_TARGET_MAX);
    if (r == 0 && values[ATTEMPT] && !relay_number_read(values[ATTEMPT], &order.attempt))
        r = relay_refuse(reason, "Hwt-Attempt is not a number");
    if (r == 0)
        *ret_order = order;
    return r;
}

/* Four bits at a time. */
static uint32_t crc_add(uint32_t crc, const void *bytes, size_t size)
{
    static const uint32_t table[16] = {
        0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
        0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
        0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
    };
    const unsigned char *byte = bytes;

    while (size-- > 0) {
        crc ^= *byte++;
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return crc;
}

uint32_t relay_crc(const struct relay_message *message)
{
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < message->fields_count; i++) {
        crc = crc_add(crc, message->fields[i].name, strlen(message->fields[i].name) + 1);
        crc = crc_add(crc, message->fields[i].value, strlen(message->fields[i].value) + 1);
    }
    return ~crc_add(crc, message->payload, message->payload_size);
}
