/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Lanes, and the queues of streams. See lane.h. */

#include "hwt/inbox/lane.h"

#include <errno.h>
#include <string.h>
#include <sys/param.h> /* MIN */

/* How many chunks come between two compactions, whatever stays; see struct hwt_stream_filter. SLACK
 * is for all lanes together, SLACK_MAX for one: these fit the processor's first cache. ROOM and
 * ROOM_MAX, for when much stays, fit its second. WIDE is for all lanes together, when very much
 * stays. */
#define SLACK 256
#define SLACK_MAX 64
#define ROOM 1024
#define ROOM_MAX 256
#define WIDE 2560
#define LINE 64 /* bytes: of a cache */

_Static_assert(sizeof(struct hwt_lane) + LINE <= HWT_PIECES_CHUNK, "a lane fits a chunk's piece");

static struct hwt_lane *make_lane(struct hwt_pieces *pieces, bool locked)
{
    uintptr_t piece = (uintptr_t)hwt_pieces_take(pieces, HWT_PIECES_CHUNKS);
    if (!piece)
        return NULL;
    piece += sizeof(void *); /* its first word is for links alone: see pieces.h */
    struct hwt_lane *lane = (struct hwt_lane *)((piece + LINE - 1) / LINE * LINE);
    memset(lane, 0, sizeof(*lane));
    lane->locked = locked;
    lane->ended = true; /* a thread takes it */
    lane->soonest = UINT64_MAX;
    hwt_stream_init(&lane->pending, pieces);
    hwt_stream_init(&lane->cancelled, pieces);
    return lane;
}

static void init_streams(struct hwt_streams *streams)
{
    hwt_queue_init(&streams->head, &streams->tail);
    streams->listed = NULL;
    streams->last_listed = &streams->listed;
}

int hwt_lanes_init(struct hwt_lanes *lanes, struct hwt_pool *pool, struct hwt_gate *gate,
                   uint32_t backlog, bool one_thread)
{
    lanes->pool = pool;
    lanes->gate = gate;
    lanes->backlog = backlog;
    lanes->own = pool->rest;
    lanes->made = lanes->own + HWT_LANE_SEATS;
    lanes->shared = make_lane(&pool->pieces, !one_thread);
    if (!lanes->shared)
        return -ENOMEM;
    pthread_mutex_init(&lanes->shared_lock, NULL);
    init_streams(&lanes->pending);
    init_streams(&lanes->cancelled);
    return 0;
}

/* ---- the threads ---- */

static struct hwt_lane *made_at(const struct hwt_lanes *lanes, uint32_t number)
{
    /* Acquire: the lane. */
    return atomic_load_explicit(&lanes->made[number], memory_order_acquire);
}

/* Makes the lane of the calling thread. NULL: no memory. */
static struct hwt_lane *make_own(struct hwt_lanes *lanes, uint32_t number)
{
    struct hwt_lane *lane = make_lane(&lanes->pool->pieces, false);
    if (!lane)
        return NULL;
    atomic_store_explicit(&lanes->own[number], lane, memory_order_relaxed);
    /* Release, both: the lane. */
    atomic_store_explicit(&lanes->made[number], lane, memory_order_release);
    uint32_t end = atomic_load_explicit(&lanes->end, memory_order_relaxed);
    while (end < number &&
           !atomic_compare_exchange_weak_explicit(&lanes->end, &end, number, memory_order_release,
                                                  memory_order_relaxed))
        ;
    return lane;
}

/* The lane's thread gives its free entries back, and wakes a worker that waits for them. */
static void give_back_cache(struct hwt_lanes *lanes, uint32_t number, struct hwt_lane *lane)
{
    /* Relaxed, both: the worker's NULL publishes nothing, and one that comes just now is for a
     * cache that is empty. */
    bool asked = !atomic_load_explicit(&lanes->own[number], memory_order_relaxed);
    hwt_pool_flush_last(lanes->pool, &lane->cache);
    atomic_store_explicit(&lanes->own[number], lane, memory_order_relaxed);
    if (!asked)
        return;
    HWT_SCHED_POINT(GIVEN_BACK);
    hwt_full_barrier(); /* the worker sees what is free, or is woken: see gate.h */
    if (hwt_gate_is_long(lanes->gate))
        hwt_gate_wake(lanes->gate);
}

struct hwt_lane *hwt_lane_make(struct hwt_lanes *lanes)
{
    uint32_t number = hwt_thread_number == 0 ? hwt_thread_take_number() : hwt_thread_number;
    struct hwt_lane *lane = NULL;
    if (number != HWT_THREAD_NONE) {
        lane = made_at(lanes, number);
        if (!lane)
            lane = make_own(lanes, number);
        else if (!lane->ended)
            give_back_cache(lanes, number, lane);
    }
    if (lane) {
        if (lane->ended) {
            lane->ended = false;
            atomic_store_explicit(&lanes->own[number], lane, memory_order_relaxed);
            atomic_fetch_add_explicit(&lanes->used, 1, memory_order_relaxed);
        }
        return lane;
    }
    pthread_mutex_lock(&lanes->shared_lock);
    return lanes->shared;
}

void hwt_lanes_ask_back(struct hwt_lanes *lanes)
{
    uint32_t count = hwt_lanes_count(lanes);
    for (uint32_t i = 1; i < count; i++)
        atomic_store_explicit(&lanes->own[i], NULL, memory_order_relaxed);
    /* The shared lane has no thread that could be asked. */
    if (pthread_mutex_trylock(&lanes->shared_lock) != 0)
        return;
    hwt_pool_flush_last(lanes->pool, &lanes->shared->cache);
    pthread_mutex_unlock(&lanes->shared_lock);
}

void hwt_lane_thread_ends(struct hwt_lanes *lanes)
{
    uint32_t number = hwt_thread_number;
    struct hwt_lane *lane = made_at(lanes, number);
    if (!lane || lane->ended)
        return;
    give_back_cache(lanes, number, lane);
    lane->ended = true;
    atomic_store_explicit(&lanes->own[number], NULL, memory_order_relaxed);
    atomic_fetch_sub_explicit(&lanes->used, 1, memory_order_relaxed);
    hwt_stream_free_spare(&lane->pending);
    hwt_stream_free_spare(&lane->cancelled);
}

uint32_t hwt_lanes_count(const struct hwt_lanes *lanes)
{
    return atomic_load_explicit(&lanes->end, memory_order_acquire) + 1;
}

struct hwt_lane *hwt_lane_at(const struct hwt_lanes *lanes, uint32_t n)
{
    return n == 0 ? lanes->shared : made_at(lanes, n);
}

uint64_t hwt_lanes_bytes(const struct hwt_lanes *lanes)
{
    return 2 * ((hwt_lanes_count(lanes) * sizeof(*lanes->own) + 4095) / 4096 * 4096);
}

/* ---- what stays ---- */

bool hwt_pending_stays(const void *data, const struct hwt_record *record)
{
    const struct hwt_entry *entry = hwt_pool_entry(data, record->id);
    /* The deadline is read first: an earlier one that comes later has a record of its own. */
    uint64_t deadline = hwt_entry_deadline(entry);
    return hwt_hint_is_true(hwt_entry_state(entry), record->generation) &&
           record->deadline <= deadline;
}

bool hwt_single_stays(const void *data, const struct hwt_record *record)
{
    return hwt_hint_is_true(hwt_entry_state(hwt_pool_entry(data, record->id)), record->generation);
}

bool hwt_cancelled_stays(const void *data, const struct hwt_record *record)
{
    uint64_t state = hwt_entry_state(hwt_pool_entry(data, record->id));
    return (uint32_t)hwt_generation(state) == record->generation;
}

/* With the shared one. Relaxed: a number. */
static uint32_t count_used(const struct hwt_lanes *lanes)
{
    return atomic_load_explicit(&lanes->used, memory_order_relaxed) + 1;
}

uint32_t hwt_lane_backlog(const struct hwt_lanes *lanes)
{
    uint32_t part = MIN(lanes->backlog / count_used(lanes), HWT_BACKLOG_MAX);
    return part > HWT_BACKLOG ? part : HWT_BACKLOG;
}

bool hwt_lane_grow(struct hwt_lanes *lanes, struct hwt_stream *stream, hwt_stream_stays stays)
{
    uint64_t slabs = atomic_load_explicit(&lanes->pool->slabs, memory_order_relaxed);
    uint32_t half = hwt_lane_backlog(lanes) / 2, count = count_used(lanes);
    const struct hwt_stream_filter filter = {
        .stays = stays,
        .data = lanes->pool,
        .most = slabs * HWT_SLAB_ENTRIES,
        .ids = slabs << HWT_ID_BITS,
        .slack = MIN(MIN(SLACK / count, SLACK_MAX), half),
        .room = MIN(MIN(ROOM / count, ROOM_MAX), half),
        .wide = WIDE / count,
    };
    return hwt_stream_grow(stream, filter);
}

/* ---- the queues ---- */

void hwt_lane_check_backlog(struct hwt_lanes *lanes, const struct hwt_streams *streams,
                            const struct hwt_stream *stream)
{
    uint32_t most = streams == &lanes->pending ? hwt_lane_backlog(lanes) : HWT_BACKLOG;
    uint32_t chunks = hwt_stream_backlog(stream) + 1;
    if (chunks < most || chunks % HWT_BACKLOG != 0)
        return;
    hwt_full_barrier(); /* the worker sees how many, or is woken: see gate.h */
    hwt_gate_wake(lanes->gate);
}

void hwt_streams_push(struct hwt_streams *streams, struct hwt_stream *stream)
{
    /* Relaxed: the push publishes it, and the worker has taken the node off its list. */
    atomic_store_explicit(&stream->listed, true, memory_order_relaxed);
    HWT_SCHED_POINT(LIST);
    hwt_queue_push(&streams->head, &streams->tail, &stream->node);
    hwt_full_barrier(); /* the worker sees nothing but the push: see gate.h */
}

bool hwt_streams_receive(struct hwt_streams *streams)
{
    hwt_queue_node *node;
    while ((node = hwt_queue_pop(&streams->head, &streams->tail)) != NULL) {
        if (node == HWT_QUEUE_STALLED)
            return false;
        struct hwt_stream *stream = caa_container_of(node, struct hwt_stream, node);
        stream->next_listed = NULL;
        *streams->last_listed = stream;
        streams->last_listed = &stream->next_listed;
    }
    return true;
}

struct hwt_stream *hwt_streams_dismiss(struct hwt_streams *streams)
{
    struct hwt_stream *dismissed = streams->listed;
    streams->listed = NULL;
    streams->last_listed = &streams->listed;
    for (struct hwt_stream *stream = dismissed; stream; stream = stream->next_listed) {
        HWT_SCHED_POINT(DISMISS);
        /* Release: the node is the producer's from now on. */
        atomic_store_explicit(&stream->listed, false, memory_order_release);
    }
    return dismissed;
}
