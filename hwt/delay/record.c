/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Records as bytes, and checksums. See format.h. */

#include <errno.h>
#include <isa-l/crc.h>
#include <limits.h>

#include "hwt/delay/store.h"

uint32_t hwt_delay_crc(uint64_t key, const void *bytes, size_t size)
{
    unsigned char seed[8];
    hwt_delay_set64(seed, key);
    /* ISA-L takes what it only reads without const, and lengths as int. */
    uint32_t crc = crc32_iscsi(seed, sizeof(seed), UINT32_MAX);
    unsigned char *at = (unsigned char *)(uintptr_t)bytes;
    while (size > 0) {
        int part = size < INT_MAX ? (int)size : INT_MAX;
        crc = crc32_iscsi(at, part, crc);
        at += part;
        size -= (size_t)part;
    }
    return ~crc;
}

void hwt_delay_head_seal(unsigned char *head, uint64_t key, uint32_t magic, size_t size)
{
    hwt_delay_set64(head + HWT_DELAY_HEAD_KEY, key);
    hwt_delay_set32(head + HWT_DELAY_HEAD_MAGIC, magic);
    hwt_delay_set32(head + HWT_DELAY_HEAD_CRC,
                    hwt_delay_crc(key, head + HWT_DELAY_HEAD_MAGIC, size - HWT_DELAY_HEAD_MAGIC));
}

bool hwt_delay_head_is(const unsigned char *head, uint64_t key, uint32_t magic, size_t size)
{
    return hwt_delay_get64(head + HWT_DELAY_HEAD_KEY) == key &&
           hwt_delay_get32(head + HWT_DELAY_HEAD_MAGIC) == magic &&
           hwt_delay_get32(head + HWT_DELAY_HEAD_CRC) ==
               hwt_delay_crc(key, head + HWT_DELAY_HEAD_MAGIC, size - HWT_DELAY_HEAD_MAGIC);
}

size_t hwt_delay_encoded_size(const struct hwt_delay_record *record)
{
    return HWT_DELAY_RECORD_SIZE + record->id_size + (size_t)record->payload_size;
}

void hwt_delay_encode(const struct hwt_delay_record *record, unsigned char *at)
{
    memset(at, 0, HWT_DELAY_RECORD_SIZE);
    hwt_delay_set32(at + HWT_DELAY_RECORD_LENGTH, (uint32_t)hwt_delay_encoded_size(record));
    at[HWT_DELAY_RECORD_KIND] = record->kind;
    at[HWT_DELAY_RECORD_ID_SIZE] = record->id_size;
    hwt_delay_set64(at + HWT_DELAY_RECORD_DUE, record->key.due);
    hwt_delay_set64(at + HWT_DELAY_RECORD_SEQUENCE, record->key.sequence);
    hwt_delay_set16(at + HWT_DELAY_RECORD_RETRIES, record->retries);
    hwt_delay_set16(at + HWT_DELAY_RECORD_HANDED, record->handed);
    memcpy(at + HWT_DELAY_RECORD_SIZE, record->bytes,
           record->id_size + (size_t)record->payload_size);
}

size_t hwt_delay_encoded_at(const unsigned char *at, const unsigned char *end)
{
    size_t room = (size_t)(end - at);
    uint32_t size = room < HWT_DELAY_RECORD_SIZE ? 0 : hwt_delay_get32(at);
    bool fits = size >= HWT_DELAY_RECORD_SIZE && size <= HWT_DELAY_RECORD_MAX && size <= room &&
                size - HWT_DELAY_RECORD_SIZE >= at[HWT_DELAY_RECORD_ID_SIZE];
    return fits ? size : 0;
}

/* Its bytes have their checksum. What is strange in them was written by a later release, or never. */
static int check_record(const unsigned char *head, size_t size)
{
    uint8_t id_size = head[HWT_DELAY_RECORD_ID_SIZE];
    if (hwt_delay_get16(head + HWT_DELAY_RECORD_FLAGS) != 0)
        return -ENOTSUP;
    switch (head[HWT_DELAY_RECORD_KIND]) {
    case HWT_DELAY_PUT:
        return id_size > 0 ? 0 : -EBADMSG;
    case HWT_DELAY_ERASE:
        return id_size > 0 && size == HWT_DELAY_RECORD_SIZE + (size_t)id_size ? 0 : -EBADMSG;
    case HWT_DELAY_CLOSED: /* in the log alone, where replay.c looks for it */
        return -EBADMSG;
    default:
        return -ENOTSUP;
    }
}

int hwt_delay_decode(const unsigned char **at, const unsigned char *end,
                     struct hwt_delay_record **ret_record)
{
    const unsigned char *head = *at;
    size_t size = hwt_delay_encoded_at(head, end);
    int r = size > 0 ? check_record(head, size) : -EBADMSG;
    if (r < 0)
        return r;
    uint8_t id_size = head[HWT_DELAY_RECORD_ID_SIZE];
    const hwt_delay_message message = {
        .due = hwt_delay_get64(head + HWT_DELAY_RECORD_DUE),
        .id = head + HWT_DELAY_RECORD_SIZE,
        .id_size = id_size,
        .payload = head + HWT_DELAY_RECORD_SIZE + id_size,
        .payload_size = size - HWT_DELAY_RECORD_SIZE - id_size,
        .retries = hwt_delay_get16(head + HWT_DELAY_RECORD_RETRIES),
    };
    struct hwt_delay_record *record = hwt_delay_record_new(head[HWT_DELAY_RECORD_KIND], &message);
    if (!record)
        return -ENOMEM;
    record->key.sequence = hwt_delay_get64(head + HWT_DELAY_RECORD_SEQUENCE);
    record->handed = hwt_delay_get16(head + HWT_DELAY_RECORD_HANDED);
    *ret_record = record;
    *at = head + size;
    return 0;
}
