/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How long threads have waited for a processor. The kernel counts that for each thread, in
 * /proc/self/task/ID/schedstat, when the thread gets one. If there is no such file, nothing is
 * known of that.
 */

#include "heartbeat.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* On that thread. */
void thread_begins(struct threads *threads, enum thread_kind kind)
{
    atomic_store(&threads->ids[kind], (int)syscall(SYS_gettid));
}

/* The second number: nanoseconds that it could have run, and had no processor. */
static uint64_t read_waited(int id)
{
    char path[64], text[100], *at;

    snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", id);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    strtoull(text, &at, 10);
    return strtoull(at, NULL, 10);
}

/* Those that got a processor since the last look had waited for it before. */
void threads_look(struct run *run, uint64_t now)
{
    struct threads *threads = &run->threads;

    for (int i = 0; i < THREADS; i++) {
        int id = atomic_load(&threads->ids[i]);
        uint64_t waited = id != 0 ? read_waited(id) : 0, before = threads->waited[i];
        if (waited > before && threads->looked > waited - before)
            stall_note(run, threads->looked - (waited - before), now);
        threads->waited[i] = waited;
    }
    threads->looked = now;
}
