/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_RELAY_MESSAGE_H
#define HWT_RELAY_MESSAGE_H

/*
 * The protocol says which order a message of a delay stream gives, by its headers. See
 * hwt-relay-protocol(5). Nothing here knows a broker, a clock or a store.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A header. Both are strings, so no value has a byte 0. A name that is "" means a line of NATS that is no
 * header; one that begins with RELAY_BYTES a header of Kafka whose value is no string, in hexadecimal. */
struct relay_field {
    const char *name, *value;
};

#define RELAY_BYTES "\1"

/* A message as the delay stream has it. */
struct relay_message {
    uint64_t position;  /* in the stream, from 1; a cursor only, since copies may differ in it */
    uint64_t timestamp; /* ns since 1970, given by the stream: the same in every copy of it */
    const struct relay_field *fields;
    size_t fields_count;
    const void *payload;
    size_t payload_size;
};

enum relay_op {
    RELAY_PUT,
    RELAY_CANCEL,
    RELAY_REPLACE,
    RELAY_DEAD, /* a relay's own: a dead letter that the dead letters have refused, for later */
};

/* Stands before the names of a dead letter's own headers that begin with Hwt-, while it is put for later. */
#define RELAY_WAS "Was-"

enum {
    RELAY_KEY_MAX = 254,    /* bytes; an id of the store has one more */
    RELAY_TARGET_MAX = 255, /* bytes */
    RELAY_FIELDS_MAX = 256, /* besides those that the protocol knows */
    RELAY_REASON_MAX = 160, /* of a reason as text, its final 0 included */
};

/* Bytes that the relay adds to a message at most, wherever it sends it, and for what a broker adds itself. */
enum { RELAY_ROOM = 2048 };

/* Milliseconds since 1970 below this, which is in 1973, are taken for seconds by mistake. */
#define RELAY_MILLISECONDS_MIN UINT64_C(100000000000)

/* The latest due time, because the next one is the store's "never". */
#define RELAY_DUE_MAX (UINT64_MAX - 1)

/* The order that a message gives. The strings are the message's own. */
struct relay_order {
    enum relay_op op;
    uint64_t due;       /* of the message that is put or cancelled */
    uint64_t due_old;   /* replace: of the one that is cancelled */
    const char *target; /* put and replace */
    const char *key;    /* NULL: none */
    const char *given;  /* the id with which its producer sends it, perhaps twice; NULL: none */
    const char *id;     /* put again by a relay after a failure: the id it is sent by; else NULL */
    const char *source; /* then its proof is in it, see proof.h; "": there is none */
    uint64_t attempt;   /* then how often it was sent in vain before */
};

/*
 * Reads the order of a message. That is a matter of the message alone. Whether the order may be
 * carried out, is judged by policy.h.
 *
 * -EINVAL: it is none; `reason` says why to a human
 */
int relay_order_read(const struct relay_message *message, struct relay_order *ret_order,
                     char reason[RELAY_REASON_MAX]);

/* Writes the reason and returns -EINVAL. Bytes in it that are not printable become question marks. */
__attribute__((format(printf, 2, 3))) int relay_refuse(char reason[RELAY_REASON_MAX],
                                                       const char *format, ...);

/* Whether a header is one of the protocol's, perhaps of a later version of it. */
bool relay_field_is_hwt(const struct relay_field *field);
/* Whether the protocol, as this version knows it, or NATS gives a header its meaning. Others are a
 * part of the message. */
bool relay_field_is_known(const struct relay_field *field);

/* Whether it is a header of a dead letter, in one that is put for later. */
bool relay_field_was_hwt(const struct relay_field *field);

/* Whether a header says what became of a message before: Hwt-Source or Hwt-Reason. */
bool relay_field_is_about(const struct relay_field *field);

/* The bytes of headers as a broker counts them; it may be a few more. */
uint64_t relay_fields_size(const struct relay_field *fields, size_t count);

/* CRC-32C of the headers, in their order, and the payload. */
uint32_t relay_crc(const struct relay_message *message);

/* ---- due.c ---- */

/*
 * An instant in nanoseconds since 1970, from milliseconds since 1970 or RFC 3339. False: it is
 * neither, or it is before 1970 or after RELAY_DUE_MAX.
 */
bool relay_due_read(const char *text, uint64_t *ret_due);
/* A decimal number and nothing else. */
bool relay_number_read(const char *text, uint64_t *ret_number);

#define RELAY_DUE_ROOM 32 /* of an instant as RFC 3339, its final 0 included */
void relay_due_write(uint64_t due, char text[RELAY_DUE_ROOM]);

/* ---- target.c ---- */

/* NULL if a subject may be published to; else why not. */
const char *relay_target_fault(const char *target);
/* NULL if it is a pattern: a subject in which * stands for one token and > for the rest. */
const char *relay_pattern_fault(const char *pattern);
bool relay_pattern_matches(const char *pattern, const char *target);

#endif
