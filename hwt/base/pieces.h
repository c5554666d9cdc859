/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_PIECES_H
#define HWT_PIECES_H

/*
 * Pieces: a timer's memory for all that is no entry, in mappings of its own. malloc() and free()
 * have locks: a thread that is stopped while it holds one would hold up every thread that comes to
 * that lock, and so the timeouts of all.
 *
 *     region   256 KiB, mapped and aligned to that. It stays mapped until the timer is destroyed
 *     slab     a quarter of a region: empty, or cut into pieces of one kind. The address of a piece
 *              leads to the head of its slab, which stands where the region begins
 *     piece    what is taken and given. A kind is a size: chunks, and 37 sizes for arrays
 *
 * GROUND RULES
 *
 *   chunks            any thread takes them; from a stack, if that has any
 *   arrays            the worker's, as all that belongs to them
 *   stacks            `chunks`: free ones; `fresh`: slabs off which chunks are cut; `empty`: slabs.
 *                     Any thread pushes and pops, see stack.h. It may read the link of a chunk that
 *                     another one has popped meanwhile. So the first word of a chunk is for links
 *                     alone, which are atomic, and a slab that was cut into chunks is never cut
 *                     into arrays
 *   fresh             a thread takes a slab away, cuts a chunk off, and puts it back if more can be
 *                     cut off. Others that come meanwhile take another slab, or begin one
 *   head of a slab    `kind`, `total` and `cut`: who has taken the slab from a stack.
 *                     The rest: the worker
 *   partial           the worker: the slabs that have free pieces at their heads. All free arrays
 *                     are there. Of free chunks those are there that are too many for the stack
 *   regions           pushed by any thread (release), never popped
 *   bytes, warm       numbers: relaxed
 *
 * No call waits for another thread, whatever that one is stopped at: a thread may keep a slab or
 * some pieces from others, and then these take new ones.
 *
 * A slab whose pieces have all come back to its head is empty, and is given back to the system at
 * once, but for a few.
 */

#include <stddef.h>

#include "hwt/base/stack.h"

#define HWT_PIECES_REGION ((size_t)262144)
#define HWT_PIECES_ROOM ((size_t)64512) /* of a slab, for pieces */
#define HWT_PIECES_STOCK 256            /* chunks: the stack has more only for a short while */

/* Kinds. The size of an array is HWT_PIECES_ROOM / n, for some n. */
enum { HWT_PIECES_CHUNKS, HWT_PIECES_KINDS = 38 };
#define HWT_PIECES_CHUNK 1008 /* bytes */

struct hwt_pieces_head;

struct hwt_pieces {
    _Alignas(64) struct hwt_word chunks; /* free ones */
    _Alignas(64) struct hwt_word empty;  /* slabs that were never cut into chunks */
    struct hwt_word fresh;               /* slabs of chunks that are not cut to the end */
    _Atomic(struct hwt_pieces_region *) regions;
    _Atomic uint64_t bytes; /* of pieces, taken or free, and what was mapped apart */
    _Atomic int warm;       /* about so many of `empty` were not given back */
    _Alignas(64) struct hwt_pieces_head *partial[HWT_PIECES_KINDS]; /* the worker's */
};

/* It is all zero before. `region` is HWT_PIECES_REGION bytes, mapped and aligned as that; NULL: it
 * has none before a piece is taken. */
void hwt_pieces_init(struct hwt_pieces *pieces, void *region);

/* Unmaps all regions. */
void hwt_pieces_destroy(struct hwt_pieces *pieces);

/* The kind of the arrays that have at least so many bytes, HWT_PIECES_ROOM at most. */
unsigned hwt_pieces_kind(size_t size);
size_t hwt_pieces_size(unsigned kind);

/* A piece, of any content. NULL: no memory. Lock-free, and maps a region only if all are used. */
void *hwt_pieces_take(struct hwt_pieces *pieces, unsigned kind);

/* Worker: gives an array or a chunk back. NULL does nothing. */
void hwt_pieces_give(struct hwt_pieces *pieces, void *piece);

/* Any thread: gives a chunk back. */
void hwt_pieces_give_chunk(struct hwt_pieces *pieces, void *chunk);

/* Worker: takes chunks off a stack that has very many. True: there are still very many. */
bool hwt_pieces_collect(struct hwt_pieces *pieces);

/* For what is greater than all pieces: zero, and mapped apart. */
void *hwt_pieces_map(struct hwt_pieces *pieces, size_t size);
void hwt_pieces_unmap(struct hwt_pieces *pieces, void *memory, size_t size);

static inline uint64_t hwt_pieces_bytes(const struct hwt_pieces *pieces)
{
    return atomic_load_explicit(&pieces->bytes, memory_order_relaxed);
}

/* Maps `size` bytes at a multiple of `alignment`, a power of two, and `rest` behind them. NULL: no
 * memory. */
char *hwt_map_aligned(size_t size, size_t alignment, size_t rest);

#endif
