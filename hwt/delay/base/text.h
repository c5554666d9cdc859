/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DELAY_BASE_TEXT_H
#define HWT_DELAY_BASE_TEXT_H

/* Writes text into a caller's buffer as snprintf() does. The text is terminated if there is room
 * for that, and bytes without room are counted. As hwt/text.h, which is inside libhwt. */

#include <stddef.h>
#include <stdint.h>

struct hwt_delay_text {
    char *buffer;
    size_t size;
    uint64_t length; /* of the whole text, whatever the size */
};

/* 0, or -EINVAL: a size, but no buffer. */
int hwt_delay_text_init(struct hwt_delay_text *text, char *buffer, size_t size);

__attribute__((format(printf, 2, 3))) void hwt_delay_text_add(struct hwt_delay_text *text,
                                                              const char *format, ...);

#endif
