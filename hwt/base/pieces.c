/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A timer's memory for all that is no entry. See pieces.h. */

#include "hwt/base/pieces.h"

#include <sys/mman.h>
#include <unistd.h>

#include "hwt/base/assert.h"
#include "hwt/base/sched_point.h"

#define SLAB ((size_t)65536)
#define SLABS (HWT_PIECES_REGION / SLAB)
#define REGIONS 4     /* that are mapped together */
#define WARM_MAX 3    /* slabs: a tick that gives some back is followed by one that takes some */
#define COLLECTS 2048 /* chunks at a time: a tenth of a millisecond */

/* Of a slab. */
struct hwt_pieces_head {
    hwt_link link; /* on a stack */
    unsigned kind;
    uint32_t cut, total; /* pieces */
    uint32_t free;       /* pieces, in a chain */
    hwt_link *first_free;
    struct hwt_pieces_head *next, **previous; /* partial slabs of its kind */
};

/* The heads stand before the pieces of the first slab. The others leave as much room, too. */
struct hwt_pieces_region {
    struct hwt_pieces_region *next;
    struct hwt_pieces_head heads[SLABS];
};

_Static_assert(sizeof(struct hwt_pieces_region) <= SLAB - HWT_PIECES_ROOM, "they fit");

char *hwt_map_aligned(size_t size, size_t alignment, size_t rest)
{
    char *memory = mmap(NULL, size + rest + alignment, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    size_t before = -(uintptr_t)memory & (alignment - 1);
    if (before > 0)
        munmap(memory, before);
    munmap(memory + before + size + rest, alignment - before);
    return memory + before;
}

/* ---- kinds ---- */

/* n has three bits that are not 0, at most: sizes are a quarter apart, or less. */
unsigned hwt_pieces_kind(size_t size)
{
    HWT_ASSERT(size <= HWT_PIECES_ROOM);
    const size_t least = hwt_pieces_size(HWT_PIECES_KINDS - 1), whole = (size + 15) / 16 * 16;
    const unsigned n = (unsigned)(HWT_PIECES_ROOM / (whole > least ? whole : least));
    const unsigned shift = n < 8 ? 0 : 29 - (unsigned)__builtin_clz(n);
    return 4 * shift + (n >> shift);
}

size_t hwt_pieces_size(unsigned kind)
{
    if (kind == HWT_PIECES_CHUNKS)
        return HWT_PIECES_CHUNK;
    unsigned shift = kind < 8 ? 0 : kind / 4 - 1, n = (kind - 4 * shift) << shift;
    return HWT_PIECES_ROOM / n / 16 * 16;
}

/* ---- slabs ---- */

static struct hwt_pieces_region *region_of(const void *within)
{
    return (struct hwt_pieces_region *)((uintptr_t)within & ~(uintptr_t)(HWT_PIECES_REGION - 1));
}

static struct hwt_pieces_head *head_of(const void *piece)
{
    return &region_of(piece)->heads[(uintptr_t)piece % HWT_PIECES_REGION / SLAB];
}

static char *slab_of(struct hwt_pieces_head *head)
{
    struct hwt_pieces_region *region = region_of(head);
    return (char *)region + (size_t)(head - region->heads) * SLAB;
}

static void count_bytes(struct hwt_pieces *pieces, uint64_t more)
{
    atomic_fetch_add_explicit(&pieces->bytes, more, memory_order_relaxed);
}

static void enter_region(struct hwt_pieces *pieces, struct hwt_pieces_region *region)
{
    region->next = atomic_load_explicit(&pieces->regions, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&pieces->regions, &region->next, region,
                                                  memory_order_release, memory_order_relaxed))
        ;
    for (unsigned i = SLABS; i-- > 0;)
        hwt_stack_push(&pieces->empty, &region->heads[i].link, 1);
}

static bool map_regions(struct hwt_pieces *pieces, size_t n)
{
    char *memory = hwt_map_aligned(n * HWT_PIECES_REGION, HWT_PIECES_REGION, 0);
    if (!memory)
        return n > 1 && map_regions(pieces, 1);
    while (n-- > 0)
        enter_region(pieces, (void *)(memory + n * HWT_PIECES_REGION));
    return true;
}

/* Nothing of it is cut. NULL: no memory. */
static struct hwt_pieces_head *begin_slab(struct hwt_pieces *pieces, unsigned kind)
{
    hwt_link *link;
    while ((link = hwt_stack_pop(&pieces->empty, NULL)) == NULL) {
        if (!map_regions(pieces, REGIONS))
            return NULL;
    }
    if (atomic_load_explicit(&pieces->warm, memory_order_relaxed) > 0)
        atomic_fetch_sub_explicit(&pieces->warm, 1, memory_order_relaxed);
    struct hwt_pieces_head *head = (struct hwt_pieces_head *)link; /* its first member */
    head->kind = kind;
    head->total = (uint32_t)(HWT_PIECES_ROOM / hwt_pieces_size(kind));
    return head;
}

/* A slab of chunks stays one. */
static void empty_slab(struct hwt_pieces *pieces, struct hwt_pieces_head *head)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const bool chunks = head->kind == HWT_PIECES_CHUNKS;
    char *slab = slab_of(head);
    const size_t heads = slab == (char *)region_of(head) ? page : 0; /* they stay */
    HWT_SCHED_POINT(PIECES_EMPTY);
    count_bytes(pieces, -(uint64_t)(head->cut * hwt_pieces_size(head->kind)));
    if (!chunks && atomic_load_explicit(&pieces->warm, memory_order_relaxed) < WARM_MAX)
        atomic_fetch_add_explicit(&pieces->warm, 1, memory_order_relaxed);
    else if (heads < SLAB)
        (void)madvise(slab + heads, SLAB - heads, MADV_DONTNEED); /* if not, it serves again */
    head->cut = head->free = 0;
    head->first_free = NULL;
    hwt_stack_push(chunks ? &pieces->fresh : &pieces->empty, &head->link, 1);
}

static hwt_link *cut_piece(struct hwt_pieces *pieces, struct hwt_pieces_head *head)
{
    const size_t size = hwt_pieces_size(head->kind);
    char *first = slab_of(head) + SLAB - HWT_PIECES_ROOM;
    count_bytes(pieces, size);
    return (hwt_link *)(void *)(first + size * head->cut++);
}

void hwt_pieces_init(struct hwt_pieces *pieces, void *region)
{
    if (region)
        enter_region(pieces, region);
}

void hwt_pieces_destroy(struct hwt_pieces *pieces)
{
    struct hwt_pieces_region *next,
        *region = atomic_load_explicit(&pieces->regions, memory_order_acquire);
    for (; region; region = next) {
        next = region->next;
        munmap(region, HWT_PIECES_REGION);
    }
}

/* ---- chunks: any thread ---- */

/* NULL: no memory. */
static void *cut_fresh(struct hwt_pieces *pieces)
{
    struct hwt_pieces_head *head = (struct hwt_pieces_head *)hwt_stack_pop(&pieces->fresh, NULL);
    if (!head && !(head = begin_slab(pieces, HWT_PIECES_CHUNKS)))
        return NULL;
    HWT_SCHED_POINT(PIECE_CUT);
    void *chunk = cut_piece(pieces, head);
    if (head->cut < head->total)
        hwt_stack_push(&pieces->fresh, &head->link, 1);
    return chunk;
}

void hwt_pieces_give_chunk(struct hwt_pieces *pieces, void *chunk)
{
    hwt_stack_push(&pieces->chunks, chunk, 1);
}

/* ---- arrays, and what the worker does with chunks ---- */

/* Enters a slab that has free pieces. */
static void link_partial(struct hwt_pieces *pieces, struct hwt_pieces_head *head)
{
    struct hwt_pieces_head **first = &pieces->partial[head->kind];
    head->next = *first;
    head->previous = first;
    if (head->next)
        head->next->previous = &head->next;
    *first = head;
}

static void unlink_partial(struct hwt_pieces_head *head)
{
    *head->previous = head->next;
    if (head->next)
        head->next->previous = head->previous;
}

/* A piece that has come back. */
static void put_piece(struct hwt_pieces *pieces, hwt_link *piece)
{
    struct hwt_pieces_head *head = head_of(piece);
    const bool is_array = head->kind != HWT_PIECES_CHUNKS; /* others may cut chunks off it */
    if (head->free == 0 && !(is_array && head->cut < head->total))
        link_partial(pieces, head);
    atomic_store_explicit(piece, (uintptr_t)head->first_free, memory_order_relaxed);
    head->first_free = piece;
    if (++head->free == (is_array ? head->cut : head->total)) {
        unlink_partial(head);
        empty_slab(pieces, head);
    }
}

/* NULL: no slab of that kind has any. */
static hwt_link *get_piece(struct hwt_pieces *pieces, unsigned kind)
{
    struct hwt_pieces_head *head = pieces->partial[kind];
    hwt_link *piece = head ? head->first_free : NULL;
    if (piece) {
        head->first_free = hwt_link_next(piece);
        head->free--;
    } else if (head) {
        piece = cut_piece(pieces, head);
    }
    if (head && head->free == 0 && (kind == HWT_PIECES_CHUNKS || head->cut == head->total))
        unlink_partial(head);
    return piece;
}

void *hwt_pieces_take(struct hwt_pieces *pieces, unsigned kind)
{
    struct hwt_pieces_head *head;
    const bool chunk = kind == HWT_PIECES_CHUNKS;
    void *piece = chunk ? hwt_stack_pop(&pieces->chunks, NULL) : get_piece(pieces, kind);
    if (chunk)
        return piece ? piece : cut_fresh(pieces);
    if (piece || !(head = begin_slab(pieces, kind)))
        return piece;
    link_partial(pieces, head);
    return get_piece(pieces, kind);
}

/* When the stack has few chunks, those that the worker has kept go there, too. */
void hwt_pieces_give(struct hwt_pieces *pieces, void *piece)
{
    if (!piece)
        return;
    if (head_of(piece)->kind != HWT_PIECES_CHUNKS ||
        hwt_stack_count(&pieces->chunks) >= HWT_PIECES_STOCK) {
        put_piece(pieces, piece);
        return;
    }
    hwt_stack_push(&pieces->chunks, piece, 1);
    hwt_link *kept = get_piece(pieces, HWT_PIECES_CHUNKS);
    if (kept)
        hwt_stack_push(&pieces->chunks, kept, 1);
}

bool hwt_pieces_collect(struct hwt_pieces *pieces)
{
    for (int i = 0; i < COLLECTS; i++) {
        hwt_link *chunk;
        if (hwt_stack_count(&pieces->chunks) <= 2 * HWT_PIECES_STOCK ||
            !(chunk = hwt_stack_pop(&pieces->chunks, NULL)))
            return false;
        put_piece(pieces, chunk);
    }
    return true;
}

/* ---- apart ---- */

void *hwt_pieces_map(struct hwt_pieces *pieces, size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    count_bytes(pieces, size);
    return memory;
}

void hwt_pieces_unmap(struct hwt_pieces *pieces, void *memory, size_t size)
{
    count_bytes(pieces, -(uint64_t)size);
    munmap(memory, size);
}
