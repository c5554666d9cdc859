/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A plugin's way: the library is loaded late, by a thread that is bound to one processor.
 * The worker has what the process's first thread has.
 *
 *     loaded_late LIBRARY
 *
 * The exit status is 77 where there is one processor.
 */

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "hwt/hwt.h"

enum { ONE_PROCESSOR = 77, PATIENCE = 60 };

static cpu_set_t processors; /* of the first thread */
static _Atomic int count;    /* of the worker's */
static _Atomic bool seen;

static void die(const char *what)
{
    fprintf(stderr, "loaded_late: %s\n", what);
    exit(EXIT_FAILURE);
}

static void see(hwt_timeout timeout, void *arg)
{
    cpu_set_t own;
    (void)timeout;
    (void)arg;
    sched_getaffinity(0, sizeof(own), &own);
    count = CPU_COUNT(&own);
    seen = true;
}

static const hwt_task seeing = { see, NULL };

static void bind_to_one(void)
{
    cpu_set_t one;
    int first = 0;
    while (!CPU_ISSET((size_t)first, &processors))
        first++;
    CPU_ZERO(&one);
    CPU_SET((size_t)first, &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0)
        die("sched_setaffinity() fails");
}

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (!found)
        die(name);
    return found;
}

static void *load_and_add(void *path)
{
    bind_to_one();
    void *library = dlopen(path, RTLD_NOW);
    if (!library)
        die(dlerror());
    int (*create)(const hwt_options *, hwt_timer **) = NULL;
    int (*add)(hwt_timer *, const hwt_task *, void *, uint64_t, hwt_timeout *) = NULL;
    void (*destroy)(hwt_timer *) = NULL;
    *(void **)&create = symbol(library, "hwt_timer_create");
    *(void **)&add = symbol(library, "hwt_timer_new_timeout");
    *(void **)&destroy = symbol(library, "hwt_timer_destroy");
    hwt_options options = HWT_OPTIONS_INIT;
    hwt_timer *timer = NULL;
    options.tick_duration = HWT_MS(1);
    if (create(&options, &timer) != 0 || add(timer, &seeing, NULL, 0, NULL) != 0)
        die("no timer");
    for (int i = 0; i < PATIENCE * 1000 && !seen; i++)
        usleep(1000);
    destroy(timer);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    if (argc != 2) {
        fprintf(stderr, "usage: loaded_late LIBRARY\n");
        return 2;
    }
    sched_getaffinity(0, sizeof(processors), &processors);
    if (CPU_COUNT(&processors) < 2)
        return ONE_PROCESSOR;
    if (pthread_create(&thread, NULL, load_and_add, argv[1]) != 0)
        die("no thread");
    pthread_join(thread, NULL);
    if (!seen || count != CPU_COUNT(&processors)) {
        fprintf(stderr, "loaded_late: the worker may use %d processors, the process %d\n", count,
                CPU_COUNT(&processors));
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
