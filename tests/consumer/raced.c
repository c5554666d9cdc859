/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A program without a race, for tools that look for races and cannot see into the library: tasks
 * write what was written before they were armed, and it is read when they are over. With an
 * argument, there is one: a task writes what the main thread writes too.
 */

#include <hwt/hwt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define OBJECTS 50

struct object {
    uint64_t value;
    hwt_timeout timeout;
};

static volatile unsigned shared;
static int racing, cancels;

static void run(hwt_timeout timeout, void *arg)
{
    struct object *object = arg;
    (void)timeout;
    object->value += 1000;
    if (racing)
        shared++;
}

static void cancelled(hwt_timeout timeout, void *arg)
{
    struct object *object = arg;
    (void)timeout;
    object->value += 2000;
}

static const hwt_task task = { run, cancelled };

static void arm(hwt_timer *timer, struct object *object, uint64_t i)
{
    object->value = i;
    if (hwt_timer_new_timeout(timer, &task, object, HWT_MS(1 + i % 3), &object->timeout) < 0)
        exit(2);
    if (i % 5 == 0)
        cancels += hwt_timeout_cancel(object->timeout);
    if (i % 7 == 0)
        hwt_timeout_reschedule(object->timeout, HWT_MS(5));
    if (racing)
        shared++;
}

int main(int argc, char **argv)
{
    static struct object *objects[OBJECTS];
    hwt_options options = HWT_OPTIONS_INIT;
    hwt_timer *timer;
    uint64_t sum = 0;
    (void)argv;
    racing = argc > 1;
    options.tick_duration = HWT_MS(1);
    if (hwt_timer_create(&options, &timer) < 0 || hwt_timer_start(timer) < 0)
        return 2;
    for (uint64_t i = 0; i < OBJECTS; i++) {
        objects[i] = malloc(sizeof(*objects[i]));
        if (!objects[i])
            return 2;
        arm(timer, objects[i], i);
        usleep(1000);
    }
    while (hwt_timer_pending(timer) > 0)
        usleep(1000);
    hwt_timer_destroy(timer);
    for (uint64_t i = 0; i < OBJECTS; i++) {
        sum += objects[i]->value - i;
        free(objects[i]);
    }
    printf("%d objects, %d\n", OBJECTS, (int)sum);
    return sum == OBJECTS * 1000 + (uint64_t)cancels * 1000 ? 0 : 1;
}
