/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_RELAY_RECORD_H
#define HWT_RELAY_RECORD_H

/*
 * A message as the relay's store has it, in the payload of a hwt_delay_message. It keeps all that
 * is needed to forward the message, and to see whether a watermark covers it.
 */

#include "hwt/relay/message.h"

/* A place in a stream. The incarnation tells a stream from one that was deleted and made anew,
 * which counts its positions from 1 again. */
struct relay_place {
    uint64_t incarnation;
    uint64_t position;
    uint64_t timestamp;
};

struct relay_record {
    struct relay_place place;
    uint32_t crc;
    uint64_t attempt;
    uint64_t missing;   /* bytes that had no room in the store */
    const char *target; /* "": dead letter */
    const char *id;     /* what the target's stream knows doubles by */
    const char *key;    /* "": none */
    /* What goes on, and what a later version may know; a dead letter has all, and its reason. */
    struct relay_field fields[RELAY_FIELDS_MAX + 2];
    size_t fields_count;
    const void *payload;
    size_t payload_size;
};

/* The bytes of a record, allocated. NULL: no memory. */
void *relay_record_write(const struct relay_record *record, size_t *ret_size);

/* The strings and the payload are then those of `bytes`. -EBADMSG: it is no record. */
int relay_record_read(const void *bytes, size_t size, struct relay_record *ret_record);

enum { RELAY_ID_MAX = 255 };

/*
 * The id in the store: the key, or else timestamp and CRC, which every replica sees alike. The
 * position is no part of it, because copies of a stream can differ in it. Returns its length.
 */
size_t relay_store_id(const char *key, uint64_t timestamp, uint32_t crc,
                      unsigned char ret_id[RELAY_ID_MAX]);

#endif
