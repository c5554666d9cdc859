/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/kafka_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * A field's value is a string, but Kafka's headers and keys are bytes, or NULL. So those that are no strings have
 * their bytes in hexadecimal, or "-" for NULL, in fields whose names begin with a control character. A header whose
 * name begins so is such a field, too, so each message comes out as it went in.
 */
#define BYTES RELAY_BYTES /* and the header's name */
#define KEY "\2"          /* the message's key */
#define NO_PAYLOAD "\3"   /* the payload is NULL, and not merely empty */

static const char digits[] = "0123456789abcdef";

struct bytes {
    const void *at; /* NULL: none */
    size_t size;
};

static bool is_string(const char *name, const struct bytes *value)
{
    return value->at && (unsigned char)*name > 3 && memchr(value->at, 0, value->size) == NULL;
}

/* The room that a field's strings take. */
static size_t room_of(const char *name, const struct bytes *value)
{
    return strlen(name) + 2 * value->size + 4;
}

static char *put_string(char **at, const char *prefix, const char *string)
{
    char *begin = *at;

    *at = stpcpy(stpcpy(*at, prefix), string) + 1;
    return begin;
}

static char *put_bytes(char **at, const struct bytes *value)
{
    char *begin = *at;

    if (!value->at)
        *(*at)++ = '-';
    for (size_t i = 0; i < value->size; i++) {
        unsigned char byte = ((const unsigned char *)value->at)[i];
        *(*at)++ = digits[byte >> 4];
        *(*at)++ = digits[byte & 15];
    }
    *(*at)++ = 0;
    return begin;
}

/* The header of a number; false: there is none. */
static bool get_header(const rd_kafka_headers_t *headers, size_t number, const char **ret_name,
                       struct bytes *ret_value)
{
    return headers && rd_kafka_header_get_all(headers, number, ret_name, &ret_value->at,
                                              &ret_value->size) == RD_KAFKA_RESP_ERR_NO_ERROR;
}

static void add_header(struct relay_field *field, char **at, const char *name,
                       const struct bytes *value)
{
    if (is_string(name, value)) /* the library has a byte 0 behind it */
        *field = (struct relay_field){ name, value->at };
    else {
        field->name = put_string(at, BYTES, name);
        field->value = put_bytes(at, value);
    }
}

int relay_kafka_fields_read(const rd_kafka_message_t *from, struct relay_message *message,
                            void **ret_fields)
{
    const struct bytes key = { from->key, from->key_len };
    rd_kafka_headers_t *headers = NULL;
    size_t count = 2, room = room_of(KEY, &key);
    struct relay_field *fields;
    struct bytes value;
    const char *name;
    char *at;

    rd_kafka_message_headers(from, &headers);
    for (size_t i = 0; get_header(headers, i, &name, &value); i++, count++)
        room += room_of(name, &value);
    fields = malloc(count * sizeof(*fields) + room);
    if (!fields)
        return -ENOMEM;
    at = (char *)(fields + count);
    count = 0;
    if (key.at)
        fields[count++] = (struct relay_field){ KEY, put_bytes(&at, &key) };
    if (!from->payload)
        fields[count++] = (struct relay_field){ NO_PAYLOAD, "" };
    for (size_t i = 0; get_header(headers, i, &name, &value); i++)
        add_header(&fields[count++], &at, name, &value);
    message->fields = fields;
    message->fields_count = count;
    *ret_fields = fields;
    return 0;
}

/* ---- Back ---- */

static unsigned digit_of(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* In place of the text, which has room. */
static struct bytes bytes_of(const char *text, unsigned char *room)
{
    struct bytes bytes = { *text == '-' ? NULL : room, 0 };

    for (; bytes.at && text[0] && text[1]; text += 2)
        room[bytes.size++] = (unsigned char)(digit_of(text[0]) << 4 | digit_of(text[1]));
    return bytes;
}

struct parts {
    rd_kafka_headers_t *headers;
    unsigned char *key;
    struct bytes key_bytes;
    bool no_payload;
};

/* False: no memory. */
static bool add_field(struct parts *parts, const struct relay_field *field)
{
    unsigned char *room;
    struct bytes bytes;

    if (strcmp(field->name, NO_PAYLOAD) == 0) {
        parts->no_payload = true;
        return true;
    }
    if (*field->name != *BYTES && strcmp(field->name, KEY) != 0)
        return rd_kafka_header_add(parts->headers, field->name, -1, field->value, -1) == 0;
    room = malloc(strlen(field->value) / 2 + 1);
    if (!room)
        return false;
    bytes = bytes_of(field->value, room);
    if (*field->name == *KEY) {
        free(parts->key);
        parts->key = room;
        parts->key_bytes = bytes;
        return true;
    }
    bool added = rd_kafka_header_add(parts->headers, field->name + 1, -1, bytes.at,
                                     (ssize_t)bytes.size) == 0;
    free(room);
    return added;
}

/* For a topic that it does not know, rd_kafka_topic_new() asks the cluster at once; a name in rd_kafka_producev() would
 * be asked for within a second. */
static rd_kafka_resp_err_t produce(rd_kafka_t *rk, const char *topic, int32_t partition,
                                   const struct relay_outgoing *message, struct parts *parts,
                                   uintptr_t cookie)
{
    bool none = parts->no_payload && message->payload_size == 0;
    rd_kafka_topic_t *handle = rd_kafka_topic_new(rk, topic, NULL);
    rd_kafka_resp_err_t error = rd_kafka_producev(
        rk, RD_KAFKA_V_RKT(handle), RD_KAFKA_V_PARTITION(partition),
        RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
        RD_KAFKA_V_VALUE(none ? NULL : (void *)(uintptr_t)message->payload,
                         none ? 0 : message->payload_size),
        RD_KAFKA_V_KEY(parts->key_bytes.at, parts->key_bytes.size),
        RD_KAFKA_V_HEADERS(parts->headers), RD_KAFKA_V_OPAQUE((void *)cookie), RD_KAFKA_V_END);

    rd_kafka_topic_destroy(handle);
    if (!error)
        parts->headers = NULL; /* they are the library's now */
    return error;
}

rd_kafka_resp_err_t relay_kafka_produce(rd_kafka_t *rk, const char *topic, int32_t partition,
                                        const struct relay_outgoing *message, const char *id,
                                        uintptr_t cookie)
{
    struct parts parts = { .headers = rd_kafka_headers_new(message->fields_count + 1) };
    bool fine = true;
    rd_kafka_resp_err_t error;

    for (size_t i = 0; fine && i < message->fields_count; i++)
        fine = add_field(&parts, &message->fields[i]);
    if (fine && id)
        fine = rd_kafka_header_add(parts.headers, "Hwt-Id", -1, id, -1) == 0;
    error = fine ? produce(rk, topic, partition, message, &parts, cookie)
                 : RD_KAFKA_RESP_ERR__QUEUE_FULL; /* for want of memory, too */
    if (parts.headers)
        rd_kafka_headers_destroy(parts.headers);
    free(parts.key);
    return error;
}
