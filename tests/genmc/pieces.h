/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_GENMC_PIECES_H
#define HWT_TESTS_GENMC_PIECES_H

/* Pieces, from the allocator that GenMC watches: it finds a chunk that is used after it was given. */

#include <stdlib.h>

#include "hwt/base/pieces.h"

void *hwt_pieces_take(struct hwt_pieces *pieces, unsigned kind)
{
    (void)pieces, (void)kind;
    return malloc(HWT_PIECES_CHUNK);
}

void hwt_pieces_give(struct hwt_pieces *pieces, void *piece)
{
    (void)pieces;
    free(piece);
}

void hwt_pieces_give_chunk(struct hwt_pieces *pieces, void *chunk)
{
    hwt_pieces_give(pieces, chunk);
}

void *hwt_pieces_map(struct hwt_pieces *pieces, size_t size)
{
    (void)pieces;
    return calloc(size, 1);
}

void hwt_pieces_unmap(struct hwt_pieces *pieces, void *memory, size_t size)
{
    (void)size;
    hwt_pieces_give(pieces, memory);
}

#endif
