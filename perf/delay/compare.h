/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_PERF_DELAY_COMPARE_H
#define HWT_PERF_DELAY_COMPARE_H

/*
 * Stores of delayed messages side by side. A program is a contender (store_NAME.c) and what all
 * have in common:
 *
 *     compare.c            options; which workload
 *     compare_kit.c        clocks, what /proc says, servers
 *     compare_gather.c     one commit for all who wait, for stores that do not do it themselves
 *     compare_put.c        workloads put, life and burst
 *     compare_standing.c   workload standing
 *     compare_pace.c       workload pace
 *
 * README.md says what each workload is, and what it prints.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../histogram.h"
#include "../system.h"

#define ID_SIZE 16 /* text, without a 0 */

struct message {
    uint64_t due;
    char id[ID_SIZE];
    const void *payload;
    size_t payload_size;
};

/* Told of each message that is taken, when it is. */
typedef void (*taken_function)(uint64_t due, void *arg);

/*
 * A store. Functions end the program where the store fails. `handle` is one thread's; puts and
 * takes are durable when they return.
 */
struct contender {
    const char *name;
    bool real_clock; /* only knows the machine's time, in seconds */
    bool puts_only;
    /* Makes or opens a store in a directory that exists; ready for everything when it returns. */
    void (*open)(const char *directory);
    void (*close)(void);
    pid_t (*server)(void);  /* NULL: the store is in this process */
    void *(*connect)(void); /* NULL, as the next: threads have nothing of their own */
    void (*disconnect)(void *handle);
    void (*put)(void *handle, const struct message *messages, size_t count);
    /* Takes what is due at `now`, up to `max`, and is done with it. */
    size_t (*take)(void *handle, uint64_t now, size_t max, taken_function taken, void *arg);
    bool waits;                    /* in real time, take() waits a while for the first message */
    uint64_t (*checkpoints)(void); /* so far; NULL: not known */
};

extern const struct contender contender; /* of this program */

static inline void *handle_open(void)
{
    return contender.connect ? contender.connect() : NULL;
}

static inline void handle_close(void *handle)
{
    if (contender.disconnect)
        contender.disconnect(handle);
}

struct options {
    const char *workload, *directory, *timeline;
    uint64_t producers, consumers, batch, messages, payload, rate, seed;
    double seconds, delay;
};

extern struct options options;

/* ---- workloads: print `metric value` lines; decline with status 3 ---- */

void work_put(void);
void work_life(void);
void work_burst(void);
void work_standing(void);
void work_pace(void);

/* ---- compare_kit.c ---- */

_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void decline(const char *why);
void print_metric(const char *name, double value);

void sleep_until(uint64_t realtime);

/* A clock that workloads set; 0: the real one. The contender hwt goes by it. */
extern _Atomic uint64_t set_clock;
uint64_t clock_now(void);

double random_unit(uint64_t *state); /* 0 to 1 */

/* Numbered messages: ids of their own, and a payload that does not compress. */
void message_make(struct message *message, uint64_t number, uint64_t due);

uint64_t resident_bytes(void);      /* of the store's process: VmRSS */
uint64_t peak_resident_bytes(void); /* VmHWM */
pid_t store_pid(void);              /* where the store is: a server, or this process */

/*
 * Bytes written since a moment, for one byte of payload; prints device_per_byte: by the device,
 * whoever wrote; or process_per_byte where the device is not known. The latter counts whole folios of
 * the page cache, which may be many times what is written.
 */
struct written {
    uint64_t device, process;
};

struct written written_now(void); /* waits until the disk has what was written */
void print_written(const struct written *begin, double payload);

/* ---- servers ---- */

extern char socket_path[64]; /* for this program's server */

pid_t server_start(const char *const arguments[]);
void server_kill(pid_t pid); /* at once; waits until it is gone */
int server_connect(void);    /* waits for the server */

/* ---- compare_gather.c ---- */

struct gathered {
    const struct message *messages;
    size_t count;
    struct gathered *next;
    bool done;
};

/* Returns when `commit` was called for a list that has these. One thread at a time is in it. */
void gather(const struct message *messages, size_t count,
            void (*commit)(const struct gathered *list));

#endif
