/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * The form: a byte 1; six numbers, eight bytes each, the lowest byte first (incarnation, position,
 * timestamp, CRC, attempt, the number of headers); target, id, key, and name and value of each header, each
 * with a byte 0 behind it; the payload. If some of the message is missing, the byte is 2, and the number of bytes that
 * are missing is a seventh number.
 */
enum { WHOLE = 1, IN_PART = 2, NUMBERS = 6 };

struct cursor {
    const unsigned char *at, *end;
};

static unsigned char *put_number(unsigned char *at, uint64_t number)
{
    for (int i = 0; i < 8; i++)
        *at++ = (unsigned char)(number >> 8 * i);
    return at;
}

static unsigned char *put_string(unsigned char *at, const char *string)
{
    size_t size = strlen(string) + 1;
    memcpy(at, string, size);
    return at + size;
}

static size_t record_size(const struct relay_record *record)
{
    size_t size = 1 + 8 * (NUMBERS + (record->missing > 0)) + strlen(record->target) +
                  strlen(record->id) + strlen(record->key) + 3 + record->payload_size;

    for (size_t i = 0; i < record->fields_count; i++)
        size += strlen(record->fields[i].name) + strlen(record->fields[i].value) + 2;
    return size;
}

void *relay_record_write(const struct relay_record *record, size_t *ret_size)
{
    size_t size = record_size(record);
    unsigned char *bytes = malloc(size), *at = bytes;

    if (!bytes)
        return NULL;
    *at++ = record->missing > 0 ? IN_PART : WHOLE;
    at = put_number(at, record->place.incarnation);
    at = put_number(at, record->place.position);
    at = put_number(at, record->place.timestamp);
    at = put_number(at, record->crc);
    at = put_number(at, record->attempt);
    at = put_number(at, record->fields_count);
    if (record->missing > 0)
        at = put_number(at, record->missing);
    at = put_string(at, record->target);
    at = put_string(at, record->id);
    at = put_string(at, record->key);
    for (size_t i = 0; i < record->fields_count; i++) {
        at = put_string(at, record->fields[i].name);
        at = put_string(at, record->fields[i].value);
    }
    if (record->payload_size > 0)
        memcpy(at, record->payload, record->payload_size);
    *ret_size = size;
    return bytes;
}

static bool get_number(struct cursor *cursor, uint64_t *ret_number)
{
    if (cursor->end - cursor->at < 8)
        return false;
    *ret_number = 0;
    for (int i = 0; i < 8; i++)
        *ret_number |= (uint64_t)*cursor->at++ << 8 * i;
    return true;
}

static bool get_string(struct cursor *cursor, const char **ret_string)
{
    const unsigned char *end = memchr(cursor->at, 0, (size_t)(cursor->end - cursor->at));

    if (!end)
        return false;
    *ret_string = (const char *)cursor->at;
    cursor->at = end + 1;
    return true;
}

static bool get_fields(struct cursor *cursor, struct relay_record *record, uint64_t count)
{
    if (count > RELAY_FIELDS_MAX + 2)
        return false;
    for (; record->fields_count < count; record->fields_count++) {
        struct relay_field *field = &record->fields[record->fields_count];
        if (!get_string(cursor, &field->name) || !get_string(cursor, &field->value))
            return false;
    }
    return true;
}

int relay_record_read(const void *bytes, size_t size, struct relay_record *ret_record)
{
    struct cursor cursor = { bytes, (const unsigned char *)bytes + size };
    uint64_t crc, count;

    unsigned char form = size > 0 ? *cursor.at++ : 0;

    if (form != WHOLE && form != IN_PART)
        return -EBADMSG;
    ret_record->fields_count = 0;
    ret_record->missing = 0;
    if (!get_number(&cursor, &ret_record->place.incarnation) ||
        !get_number(&cursor, &ret_record->place.position) ||
        !get_number(&cursor, &ret_record->place.timestamp) || !get_number(&cursor, &crc) ||
        !get_number(&cursor, &ret_record->attempt) || !get_number(&cursor, &count) ||
        (form == IN_PART && !get_number(&cursor, &ret_record->missing)) ||
        !get_string(&cursor, &ret_record->target) || !get_string(&cursor, &ret_record->id) ||
        !get_string(&cursor, &ret_record->key) || !get_fields(&cursor, ret_record, count))
        return -EBADMSG;
    ret_record->crc = (uint32_t)crc;
    ret_record->payload = cursor.at;
    ret_record->payload_size = (size_t)(cursor.end - cursor.at);
    return 0;
}

size_t relay_store_id(const char *key, uint64_t timestamp, uint32_t crc,
                      unsigned char ret_id[RELAY_ID_MAX])
{
    if (key && *key) {
        size_t length = strnlen(key, RELAY_KEY_MAX);
        ret_id[0] = 'k';
        memcpy(ret_id + 1, key, length);
        return length + 1;
    }
    ret_id[0] = 't';
    put_number(put_number(ret_id + 1, timestamp), crc);
    return 17;
}
