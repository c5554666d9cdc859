/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Records as bytes. See format.h. */

#include <errno.h>

#include "hwt/delay/whole.h"

/* ---- numbers ---- */

/* A small difference is a small number, whatever its sign. */
static uint64_t fold(uint64_t difference)
{
    return difference << 1 ^ (0 - (difference >> 63));
}

static uint64_t unfold(uint64_t folded)
{
    return folded >> 1 ^ (0 - (folded & 1));
}

static unsigned number_size(uint64_t number)
{
    return number == 0 ? 0 : (71 - (unsigned)__builtin_clzll(number)) / 8;
}

static unsigned char *set_number(unsigned char *at, uint64_t number, unsigned size)
{
    for (unsigned i = 0; i < size; i++)
        *at++ = (unsigned char)(number >> 8 * i);
    return at;
}

/* The number of that size, which must need so many bytes; false: it does not, or is not all
 * there. */
static bool get_number(const unsigned char **at, const unsigned char *end, unsigned size,
                       unsigned most, uint64_t *ret_number)
{
    if (size > most || size > (size_t)(end - *at) || (size > 0 && (*at)[size - 1] == 0))
        return false;
    *ret_number = 0;
    for (unsigned i = 0; i < size; i++)
        *ret_number |= (uint64_t)(*at)[i] << 8 * i;
    *at += size;
    return true;
}

/* ---- writing ---- */

/* The counts of a message may come while its bytes are written. */
size_t hwt_delay_encoded_most(const struct hwt_delay_record *record)
{
    const size_t put = 4 + HWT_DELAY_COUNTS_SIZE + (size_t)record->payload_size;
    return hwt_delay_tombstone_most(record) + (record->origin ? (size_t)HWT_DELAY_ORIGIN_SIZE : 0) +
           (record->kind == HWT_DELAY_TOMBSTONE ? 0 : put);
}

static size_t shared_of(const struct hwt_delay_before *before, const unsigned char *id, size_t size)
{
    size_t most = before->id_size < size ? before->id_size : size, shared = 0;
    while (shared < most && before->id[shared] == id[shared])
        shared++;
    return shared;
}

/* The fields of a record as they are written, folded. */
struct fields {
    uint8_t kind, flags;
    uint64_t due, sequence, origin;
    uint16_t retries, handed;
    size_t shared, id_size, payload_size;
    const unsigned char *id, *payload;
};

static unsigned char *write_fields(const struct fields *fields, unsigned char *at)
{
    unsigned due = number_size(fields->due), sequence = number_size(fields->sequence),
             payload = number_size(fields->payload_size);
    size_t rest = fields->id_size - fields->shared;
    *at++ = fields->kind;
    *at++ = (unsigned char)(due | sequence << 4);
    *at++ = (unsigned char)(payload | (unsigned)fields->flags << 4);
    *at++ = (unsigned char)fields->shared;
    *at++ = (unsigned char)rest;
    at = set_number(at, fields->due, due);
    at = set_number(at, fields->sequence, sequence);
    at = set_number(at, fields->payload_size, payload);
    if (fields->flags & HWT_DELAY_FLAG_ORIGIN)
        at = set_number(at, fields->origin, HWT_DELAY_ORIGIN_SIZE);
    if (fields->flags & HWT_DELAY_FLAG_COUNTS) {
        at = set_number(at, fields->retries, 2);
        at = set_number(at, fields->handed, 2);
    }
    memcpy(at, fields->id + fields->shared, rest);
    memcpy(at + rest, fields->payload, fields->payload_size);
    return at + rest + fields->payload_size;
}

/* Those that every record has. The next one is told against this one. */
static struct fields begin_fields(struct hwt_delay_before *before,
                                  const struct hwt_delay_record *record, uint8_t kind, bool ends)
{
    struct fields fields = {
        .kind = kind,
        .flags = ends ? HWT_DELAY_FLAG_ENDS : 0,
        .due = fold(record->key.due - before->due),
        .sequence = fold(record->key.sequence - before->sequence - 1),
        .shared = shared_of(before, record->bytes, record->id_size),
        .id_size = record->id_size,
        .id = record->bytes,
        .payload = record->bytes + record->id_size,
    };
    before->due = record->key.due;
    before->sequence = record->key.sequence;
    before->id_size = record->id_size;
    memcpy(before->id, record->bytes, record->id_size);
    return fields;
}

static struct fields fields_of(struct hwt_delay_before *before,
                               const struct hwt_delay_record *record)
{
    struct fields fields = begin_fields(before, record, record->kind, record->ends);
    fields.payload_size = record->payload_size;
    fields.retries = record->retries;
    fields.handed = record->handed;
    if (fields.retries > 0 || fields.handed > 0)
        fields.flags |= HWT_DELAY_FLAG_COUNTS;
    if (record->origin) {
        fields.flags |= HWT_DELAY_FLAG_ORIGIN;
        fields.origin = record->origin->due;
    }
    return fields;
}

unsigned char *hwt_delay_encode(struct hwt_delay_before *before,
                                const struct hwt_delay_record *record, unsigned char *at)
{
    const struct fields fields = fields_of(before, record);
    return write_fields(&fields, at);
}

unsigned char *hwt_delay_encode_tombstone(struct hwt_delay_before *before,
                                          const struct hwt_delay_record *message, bool ends,
                                          unsigned char *at)
{
    const struct fields fields = begin_fields(before, message, HWT_DELAY_TOMBSTONE, ends);
    return write_fields(&fields, at);
}

/* ---- reading ---- */

/* Those that a record of a kind may have; -1: there is no such kind. */
static int flags_of(uint8_t kind)
{
    switch (kind) {
    case HWT_DELAY_PUT:
        return HWT_DELAY_FLAG_ENDS | HWT_DELAY_FLAG_ORIGIN | HWT_DELAY_FLAG_COUNTS;
    case HWT_DELAY_TOMBSTONE:
        return HWT_DELAY_FLAG_ENDS;
    case HWT_DELAY_CLOSED:
    case HWT_DELAY_NOTE:
    case HWT_DELAY_DROP:
        return 0;
    default:
        return -1;
    }
}

static bool has_its_sizes(const struct hwt_delay_packed *packed)
{
    switch (packed->kind) {
    case HWT_DELAY_PUT:
        return packed->id_size > 0 && packed->payload_size <= HWT_DELAY_PAYLOAD_MAX;
    case HWT_DELAY_TOMBSTONE:
        return packed->id_size > 0 && packed->payload_size == 0;
    case HWT_DELAY_NOTE:
        return packed->id_size == 0 && packed->payload_size <= HWT_DELAY_NOTE_MAX;
    default:
        return packed->id_size == 0 && packed->payload_size == 0;
    }
}

static bool read_numbers(const struct hwt_delay_before *before, const unsigned char *head,
                         const unsigned char **at, const unsigned char *end,
                         struct hwt_delay_packed *packed)
{
    uint64_t due, sequence, payload_size;
    if (!get_number(at, end, head[HWT_DELAY_RECORD_KEY] & 15, 8, &due) ||
        !get_number(at, end, head[HWT_DELAY_RECORD_KEY] >> 4, 8, &sequence) ||
        !get_number(at, end, head[HWT_DELAY_RECORD_FLAGS] & 15, 4, &payload_size))
        return false;
    packed->key.due = before->due + unfold(due);
    packed->key.sequence = before->sequence + 1 + unfold(sequence);
    packed->payload_size = (uint32_t)payload_size;
    return true;
}

static bool read_extras(const unsigned char **at, const unsigned char *end,
                        struct hwt_delay_packed *packed)
{
    if (packed->flags & HWT_DELAY_FLAG_ORIGIN) {
        if (end - *at < HWT_DELAY_ORIGIN_SIZE)
            return false;
        packed->origin = hwt_delay_get64(*at);
        *at += HWT_DELAY_ORIGIN_SIZE;
        if (packed->origin == 0 || packed->origin == packed->key.due)
            return false;
    }
    if (packed->flags & HWT_DELAY_FLAG_COUNTS) {
        if (end - *at < HWT_DELAY_COUNTS_SIZE)
            return false;
        packed->retries = hwt_delay_get16(*at);
        packed->handed = hwt_delay_get16(*at + 2);
        *at += HWT_DELAY_COUNTS_SIZE;
        return packed->retries > 0 || packed->handed > 0;
    }
    return true;
}

/* Makes it the one before. All of the id that is as in the one before is to be said so. */
static bool read_id(struct hwt_delay_before *before, const unsigned char *head,
                    const unsigned char **at, const unsigned char *end)
{
    size_t shared = head[HWT_DELAY_RECORD_SHARED], rest = head[HWT_DELAY_RECORD_REST];
    if (shared > before->id_size || shared + rest > sizeof(before->id) ||
        rest > (size_t)(end - *at) ||
        (rest > 0 && shared < before->id_size && before->id[shared] == **at))
        return false;
    memcpy(before->id + shared, *at, rest);
    before->id_size = (uint8_t)(shared + rest);
    *at += rest;
    return true;
}

/* Its bytes have their checksum. Strange ones were written by a later release, or never. */
int hwt_delay_unpack(struct hwt_delay_before *before, const unsigned char **at,
                     const unsigned char *end, struct hwt_delay_packed *ret_packed)
{
    const unsigned char *head = *at, *behind = head + HWT_DELAY_RECORD_LEAST;
    if (end - head < HWT_DELAY_RECORD_LEAST)
        return -EBADMSG;
    struct hwt_delay_packed packed = { .kind = head[HWT_DELAY_RECORD_KIND],
                                       .flags = head[HWT_DELAY_RECORD_FLAGS] >> 4 };
    int flags = flags_of(packed.kind);
    if (!read_numbers(before, head, &behind, end, &packed))
        return -EBADMSG;
    if (flags < 0 || packed.flags & ~flags)
        return -ENOTSUP;
    if (!read_extras(&behind, end, &packed) || !read_id(before, head, &behind, end) ||
        packed.payload_size > (size_t)(end - behind))
        return -EBADMSG;
    packed.id = before->id;
    packed.id_size = before->id_size;
    packed.payload = behind;
    if (!has_its_sizes(&packed))
        return -EBADMSG;
    before->due = packed.key.due;
    before->sequence = packed.key.sequence;
    *ret_packed = packed;
    *at = behind + packed.payload_size;
    return 0;
}

struct hwt_delay_record *hwt_delay_record_of(const struct hwt_delay_packed *packed)
{
    const hwt_delay_message message = {
        .due = packed->key.due,
        .first_due = packed->origin,
        .id = packed->id,
        .id_size = packed->id_size,
        .payload = packed->payload,
        .payload_size = packed->payload_size,
        .retries = packed->retries,
    };
    struct hwt_delay_record *record = hwt_delay_record_new(packed->kind, &message);
    if (!record)
        return NULL;
    record->key.sequence = packed->key.sequence;
    record->handed = packed->handed;
    record->ends = packed->flags & HWT_DELAY_FLAG_ENDS;
    return record;
}

int hwt_delay_decode(struct hwt_delay_before *before, const unsigned char **at,
                     const unsigned char *end, struct hwt_delay_record **ret_record)
{
    struct hwt_delay_packed packed;
    int r = hwt_delay_unpack(before, at, end, &packed);
    if (r == 0 &&
        packed.kind == HWT_DELAY_CLOSED) /* in the log alone, where replay.c looks for it */
        r = -EBADMSG;
    if (r < 0)
        return r;
    *ret_record = hwt_delay_record_of(&packed);
    return *ret_record ? 0 : -ENOMEM;
}
