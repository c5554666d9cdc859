/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Records as bytes, and checksums. See format.h. */

#include <errno.h>
#include <isa-l/crc.h>
#include <limits.h>

#include "hwt/delay/store.h"

uint32_t hwt_delay_crc(uint32_t key, const void *bytes, size_t size)
{
    unsigned char seed[4];
    hwt_delay_set32(seed, key);
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

size_t hwt_delay_encoded_size(const struct hwt_delay_record *record)
{
    return HWT_DELAY_RECORD_SIZE + record->id_size + (size_t)record->payload_size;
}

void hwt_delay_encode(const struct hwt_delay_record *record, unsigned char *at)
{
    hwt_delay_set64(at + HWT_DELAY_RECORD_DUE, record->key.due);
    hwt_delay_set64(at + HWT_DELAY_RECORD_SEQUENCE, record->key.sequence);
    hwt_delay_set32(at + HWT_DELAY_RECORD_PAYLOAD_SIZE, record->payload_size);
    hwt_delay_set16(at + HWT_DELAY_RECORD_RETRIES, record->retries);
    at[HWT_DELAY_RECORD_KIND] = record->kind;
    at[HWT_DELAY_RECORD_ID_SIZE] = record->id_size;
    memcpy(at + HWT_DELAY_RECORD_SIZE, record->bytes,
           record->id_size + (size_t)record->payload_size);
}

int hwt_delay_decode(const unsigned char **at, const unsigned char *end,
                     struct hwt_delay_record **ret_record)
{
    const unsigned char *head = *at;
    size_t room = (size_t)(end - head);
    if (room < HWT_DELAY_RECORD_SIZE)
        return -EBADMSG;
    uint8_t kind = head[HWT_DELAY_RECORD_KIND], id_size = head[HWT_DELAY_RECORD_ID_SIZE];
    uint32_t payload_size = hwt_delay_get32(head + HWT_DELAY_RECORD_PAYLOAD_SIZE);
    size_t size = HWT_DELAY_RECORD_SIZE + id_size + (size_t)payload_size;
    if (id_size == 0 || size > room || (kind != HWT_DELAY_PUT && kind != HWT_DELAY_ERASE))
        return -EBADMSG;
    const hwt_delay_message message = {
        .due = hwt_delay_get64(head + HWT_DELAY_RECORD_DUE),
        .id = head + HWT_DELAY_RECORD_SIZE,
        .id_size = id_size,
        .payload = head + HWT_DELAY_RECORD_SIZE + id_size,
        .payload_size = payload_size,
        .retries = hwt_delay_get16(head + HWT_DELAY_RECORD_RETRIES),
    };
    struct hwt_delay_record *record = hwt_delay_record_new(kind, &message);
    if (!record)
        return -ENOMEM;
    record->key.sequence = hwt_delay_get64(head + HWT_DELAY_RECORD_SEQUENCE);
    *ret_record = record;
    *at = head + size;
    return 0;
}
