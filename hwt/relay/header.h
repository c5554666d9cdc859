/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_RELAY_HEADER_H
#define HWT_RELAY_HEADER_H

/*
 * A header block of NATS, as its bytes stand: a line NATS/1.0, lines of NAME: VALUE, and an empty line. Producers
 * send any bytes, and servers look at few of them. Client libraries read them in their own ways: one eats a line behind an
 * empty value, or refuses the whole block. So this reads blocks and writes them.
 */

#include "hwt/relay/message.h"

/*
 * Fields in the order of their names, those of one name as they stand; more than twice RELAY_FIELDS_MAX all
 * as they stand. Blanks around a value are none of it. A line that is no header, or has a byte 0, is a field whose
 * name is "" and whose value is the line, with a question mark for each byte 0. The caller frees *ret_fields, and
 * the strings with it. -ENOMEM
 */
int relay_header_read(const void *bytes, size_t size, struct relay_field **ret_fields,
                      size_t *ret_count);

/*
 * A block without its first line, and without ": " and what comes behind it in the last header, whose value is in
 * *ret_last. The id comes first, because servers look for its name in all bytes before it. The caller frees it. NULL: no memory.
 */
char *relay_header_write(const char *id, const struct relay_field *fields, size_t count,
                         const char **ret_last);

#endif
