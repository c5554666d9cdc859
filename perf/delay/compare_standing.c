/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * standing: many are pending. A child fills the store and says what memory that takes; it, or
 * its server, is killed; then the store is opened again.
 */

#include "compare.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct filled {
    uint64_t resident, disk, took;
};

static void fill(void)
{
    static struct message batch[1000];
    uint64_t random = options.seed, now = clock_now();
    void *handle = handle_open();

    for (uint64_t put = 0; put < options.messages;) {
        size_t n = 0;
        for (; n < 1000 && put < options.messages; n++, put++) {
            /* An hour to thirty days. */
            double delay = 3600 + random_unit(&random) * 2592000;
            message_make(&batch[n], put, now + (uint64_t)(delay * (double)SECOND));
        }
        contender.put(handle, batch, n);
    }
    handle_close(handle);
}

static _Noreturn void fill_and_wait(int report)
{
    uint64_t begin = now_ns();

    contender.open(options.directory);
    fill();
    struct filled filled = {
        .resident = resident_bytes(),
        .disk = disk_bytes(options.directory),
        .took = now_ns() - begin,
    };
    if (contender.server)
        server_kill(contender.server());
    if (write(report, &filled, sizeof(filled)) != sizeof(filled))
        die("write: %s", strerror(errno));
    for (;;)
        pause();
}

static struct filled fill_and_kill(void)
{
    struct filled filled;
    int pipes[2];

    fflush(stdout);
    if (pipe(pipes) < 0)
        die("pipe: %s", strerror(errno));
    pid_t child = fork();
    if (child < 0)
        die("fork: %s", strerror(errno));
    if (child == 0)
        fill_and_wait(pipes[1]);
    close(pipes[1]);
    ssize_t got = read(pipes[0], &filled, sizeof(filled));
    close(pipes[0]);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    if (got != sizeof(filled))
        die("filling the store failed");
    return filled;
}

void work_standing(void)
{
    struct filled filled = fill_and_kill();
    double payload = (double)options.messages * (double)options.payload;
    uint64_t begin = now_ns();

    contender.open(options.directory);
    void *handle = handle_open();
    if (contender.take(handle, clock_now(), 1, NULL, NULL) != 0)
        die("something came that is not due");
    uint64_t end = now_ns();
    print_metric("rss_mb", (double)filled.resident / 1e6);
    print_metric("open_ms", (double)(end - begin) / 1e6);
    print_metric("rss_opened_mb", (double)resident_bytes() / 1e6);
    print_metric("disk_per_byte", (double)filled.disk / payload);
    print_metric("filled_s", (double)options.messages / ((double)filled.took / 1e9));
    handle_close(handle);
    contender.close();
}
