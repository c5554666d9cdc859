/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Records as bytes. See format.h. */

#include <errno.h>

#include "hwt/delay/whole.h"

size_t hwt_delay_encoded_size(const struct hwt_delay_record *record)
{
    return HWT_DELAY_RECORD_SIZE + (record->origin ? (size_t)HWT_DELAY_ORIGIN_SIZE : 0) +
           record->id_size + record->payload_size;
}

static void encode_head(const struct hwt_delay_record *record, uint8_t kind, bool ends, size_t size,
                        unsigned char *at)
{
    memset(at, 0, HWT_DELAY_RECORD_SIZE);
    hwt_delay_set32(at + HWT_DELAY_RECORD_LENGTH, (uint32_t)size);
    at[HWT_DELAY_RECORD_KIND] = kind;
    at[HWT_DELAY_RECORD_ID_SIZE] = record->id_size;
    hwt_delay_set16(at + HWT_DELAY_RECORD_FLAGS, ends ? HWT_DELAY_FLAG_ENDS : 0);
    hwt_delay_set64(at + HWT_DELAY_RECORD_DUE, record->key.due);
    hwt_delay_set64(at + HWT_DELAY_RECORD_SEQUENCE, record->key.sequence);
}

void hwt_delay_encode(const struct hwt_delay_record *record, unsigned char *at)
{
    encode_head(record, record->kind, record->ends, hwt_delay_encoded_size(record), at);
    hwt_delay_set16(at + HWT_DELAY_RECORD_RETRIES, record->retries);
    hwt_delay_set16(at + HWT_DELAY_RECORD_HANDED, record->handed);
    unsigned char *behind = at + HWT_DELAY_RECORD_SIZE;
    if (record->origin) {
        hwt_delay_set16(at + HWT_DELAY_RECORD_FLAGS,
                        hwt_delay_get16(at + HWT_DELAY_RECORD_FLAGS) | HWT_DELAY_FLAG_ORIGIN);
        hwt_delay_set64(behind, record->origin->due);
        behind += HWT_DELAY_ORIGIN_SIZE;
    }
    memcpy(behind, record->bytes, record->id_size + (size_t)record->payload_size);
}

void hwt_delay_encode_erase(const struct hwt_delay_record *message, bool ends, unsigned char *at)
{
    encode_head(message, HWT_DELAY_ERASE, ends, HWT_DELAY_RECORD_SIZE + (size_t)message->id_size,
                at);
    memcpy(at + HWT_DELAY_RECORD_SIZE, message->bytes, message->id_size);
}

size_t hwt_delay_encoded_at(const unsigned char *at, const unsigned char *end)
{
    size_t room = (size_t)(end - at);
    uint32_t size = room < HWT_DELAY_RECORD_SIZE ? 0 : hwt_delay_get32(at);
    bool fits = size >= HWT_DELAY_RECORD_SIZE && size <= HWT_DELAY_RECORD_MAX && size <= room &&
                size - HWT_DELAY_RECORD_SIZE >= at[HWT_DELAY_RECORD_ID_SIZE];
    return fits ? size : 0;
}

static size_t origin_size(const unsigned char *head)
{
    uint16_t flags = hwt_delay_get16(head + HWT_DELAY_RECORD_FLAGS);
    return flags & HWT_DELAY_FLAG_ORIGIN ? HWT_DELAY_ORIGIN_SIZE : 0;
}

/* Those that a record of a kind may have. */
static unsigned flags_of(uint8_t kind)
{
    return kind == HWT_DELAY_PUT     ? HWT_DELAY_FLAG_ENDS | HWT_DELAY_FLAG_ORIGIN
           : kind == HWT_DELAY_ERASE ? HWT_DELAY_FLAG_ENDS
                                     : 0;
}

/* Its bytes have their checksum. What is strange in them was written by a later release, or never. */
static int check_record(const unsigned char *head, size_t size)
{
    uint8_t id_size = head[HWT_DELAY_RECORD_ID_SIZE], kind = head[HWT_DELAY_RECORD_KIND];
    if (hwt_delay_get16(head + HWT_DELAY_RECORD_FLAGS) & ~flags_of(kind))
        return -ENOTSUP;
    if (size < HWT_DELAY_RECORD_SIZE + origin_size(head) + id_size)
        return -EBADMSG;
    switch (kind) {
    case HWT_DELAY_PUT:
        return id_size > 0 ? 0 : -EBADMSG;
    case HWT_DELAY_ERASE:
        return id_size > 0 && size == HWT_DELAY_RECORD_SIZE + (size_t)id_size ? 0 : -EBADMSG;
    case HWT_DELAY_NOTE:
        return id_size == 0 && size <= HWT_DELAY_RECORD_SIZE + HWT_DELAY_NOTE_MAX ? 0 : -EBADMSG;
    case HWT_DELAY_DROP:
        return size == HWT_DELAY_RECORD_SIZE ? 0 : -EBADMSG;
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
    const size_t before = HWT_DELAY_RECORD_SIZE + origin_size(head);
    const hwt_delay_message message = {
        .due = hwt_delay_get64(head + HWT_DELAY_RECORD_DUE),
        .first_due = origin_size(head) > 0 ? hwt_delay_get64(head + HWT_DELAY_RECORD_SIZE) : 0,
        .id = head + before,
        .id_size = id_size,
        .payload = head + before + id_size,
        .payload_size = size - before - id_size,
        .retries = hwt_delay_get16(head + HWT_DELAY_RECORD_RETRIES),
    };
    struct hwt_delay_record *record = hwt_delay_record_new(head[HWT_DELAY_RECORD_KIND], &message);
    if (!record)
        return -ENOMEM;
    record->key.sequence = hwt_delay_get64(head + HWT_DELAY_RECORD_SEQUENCE);
    record->handed = hwt_delay_get16(head + HWT_DELAY_RECORD_HANDED);
    record->ends = hwt_delay_get16(head + HWT_DELAY_RECORD_FLAGS) & HWT_DELAY_FLAG_ENDS;
    *ret_record = record;
    *at = head + size;
    return 0;
}
