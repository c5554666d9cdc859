/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_RELAY_PROGRAM_H
#define HWT_RELAY_PROGRAM_H

/*
 * The program hwt-relay:
 *
 *     main.c     the command line
 *     open.c     the engines: NATS, Kafka
 *     run.c      the relay itself: signals, what is served, the configuration that is read again
 *     worker.c   a shard's thread
 *     calls.c    what a broker refuses
 *     metrics.c  what Prometheus reads; http.c serves it
 *     notify.c   what the service manager hears
 *     log.c      the log
 *     hand.c     status, drain, forget
 *     publish.c  put, cancel, replace
 *     dead.c     dead
 *     look.c     dump; what looks at entries and stores
 *     check.c    check
 */

#include "hwt/relay/config.h"

enum { FAILED = 1, MISUSED = 2 };

/* The command line, as it was read. */
struct request {
    const struct relay_config *config;
    const char *path;                                /* of its file */
    const char *shard, *due, *delay, *due_old, *key; /* NULL: not given */
    char **headers;                                  /* "name: value" */
    int headers_count;
    char **operands;
    int operands_count;
};

/* Each returns the exit status. */
int command_run(const struct request *request);
int command_status(const struct request *request);
int command_drain(const struct request *request);
int command_forget(const struct request *request);
int command_check(const struct request *request);
int command_dead(const struct request *request);
int command_dump(const struct request *request);
int command_put(const struct request *request);
int command_cancel(const struct request *request);
int command_replace(const struct request *request);

_Noreturn void misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
int fail(const char *format, ...) __attribute__((format(printf, 1, 2))); /* returns FAILED */

/* The file that a running relay holds a lock on, in its state directory. */
#define LOCK_FILE "lock"

#endif
