/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A binary heap of pointers and nothing else, each timer knowing its place: what a program would
 * write for itself. By the time of the loop's turn.
 */

#include "kit.h"

#include <poll.h>
#include <stdlib.h>

struct heap_timer {
    uint64_t due;
    size_t place; /* in the heap */
};

#define PEER_OWN struct heap_timer
#include "timer.h"

static struct peer_timer **heap; /* the first is at 0 */
static size_t pending, room;
static uint64_t loop_time;

static void peer_update(void)
{
    loop_time = now_ns();
}

static void peer_open(void)
{
    peer_update();
}

static void peer_close(void)
{
    free(heap);
}

static void peer_init(struct peer_timer *timer)
{
    (void)timer;
}

static void put(struct peer_timer *timer, size_t place)
{
    heap[place] = timer;
    timer->own.place = place;
}

static void sift_up(struct peer_timer *timer, size_t place)
{
    while (place > 0 && heap[(place - 1) / 2]->own.due > timer->own.due) {
        put(heap[(place - 1) / 2], place);
        place = (place - 1) / 2;
    }
    put(timer, place);
}

static void sift_down(struct peer_timer *timer, size_t place)
{
    for (size_t child; (child = 2 * place + 1) < pending; place = child) {
        if (child + 1 < pending && heap[child + 1]->own.due < heap[child]->own.due)
            child++;
        if (heap[child]->own.due >= timer->own.due)
            break;
        put(heap[child], place);
    }
    put(timer, place);
}

static void sift(struct peer_timer *timer, size_t place)
{
    if (place > 0 && heap[(place - 1) / 2]->own.due > timer->own.due)
        sift_up(timer, place);
    else
        sift_down(timer, place);
}

static void peer_add(struct peer_timer *timer, uint64_t delay, void (*run)(struct peer_timer *))
{
    if (pending == room) {
        room = room == 0 ? 1024 : 2 * room;
        heap = realloc(heap, room * sizeof(*heap));
        if (heap == NULL)
            die("no memory for the heap", 0);
    }
    timer->run = run;
    timer->own.due = loop_time + delay;
    sift_up(timer, pending++);
}

static void peer_cancel(struct peer_timer *timer)
{
    struct peer_timer *last = heap[--pending];

    if (last != timer)
        sift(last, timer->own.place);
}

static void peer_move(struct peer_timer *timer, uint64_t delay)
{
    timer->own.due = loop_time + delay;
    sift(timer, timer->own.place);
}

static void peer_turn(bool wait)
{
    uint64_t now = now_ns(), ns = 0;

    if (wait)
        ns = pending == 0 ? SECOND : heap[0]->own.due > now ? heap[0]->own.due - now : 0;
    struct timespec t = { (time_t)(ns / SECOND), (long)(ns % SECOND) };
    ppoll(NULL, 0, &t, NULL);
    peer_update();
    while (pending > 0 && heap[0]->own.due <= loop_time) {
        struct peer_timer *timer = heap[0];
        peer_cancel(timer);
        timer->run(timer);
    }
}

#include "loop.h"
