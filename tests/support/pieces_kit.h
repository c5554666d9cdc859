/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_PIECES_KIT_H
#define HWT_TESTS_PIECES_KIT_H

/* What tests want to know of pieces. pieces.c is included; the linker then leaves out the library's
 * own. */

#include <stdbool.h>
#include <string.h>

#include "hwt/base/pieces.c"

static inline void pieces_open(struct hwt_pieces *pieces)
{
    memset(pieces, 0, sizeof(*pieces));
    hwt_pieces_init(pieces, NULL);
}

/* Bytes of those that are taken. */
static inline size_t pieces_held(const struct hwt_pieces *pieces)
{
    size_t free = hwt_stack_count(&pieces->chunks) * (size_t)HWT_PIECES_CHUNK;
    for (unsigned kind = 0; kind < HWT_PIECES_KINDS; kind++) {
        for (const struct hwt_pieces_head *head = pieces->partial[kind]; head; head = head->next)
            free += head->free * hwt_pieces_size(kind);
    }
    return hwt_pieces_bytes(pieces) - free;
}

#endif
