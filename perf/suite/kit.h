/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_PERF_KIT_H
#define HWT_PERF_KIT_H

/*
 * What the contenders written in C share: options, clocks and metrics. The
 * interface of a contender is in README.md. Nothing here knows a timer.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "../histogram.h"
#include "../system.h"

#define WINDOW 1000 /* timeouts that one who churns has pending, unless the options say otherwise */

struct options {
    const char *workload;
    double seconds; /* 0: the workload's own, as of the next two */
    uint64_t pending;
    uint64_t tick_ns;
    uint64_t producers;
    uint64_t wheel;
    uint64_t ops;    /* 0: as long as `seconds` */
    uint64_t rounds; /* the longest delay of rounds, in wheel lengths */
    uint64_t window; /* timeouts that a producer of churn has pending */
    uint64_t rate;   /* requests a second */
};

struct workload {
    const char *name;
    void (*run)(const struct options *options);
    uint64_t pending; /* the defaults */
    double seconds;
    uint64_t tick_ns;
};

/* The whole of main(). `workloads` ends with one that has no name. */
int contend(int argc, char **argv, const struct workload *workloads);

_Noreturn void die(const char *what, int error); /* exits with 1; error 0: none */
_Noreturn void decline(const char *why);         /* exits with 3 */
void *allocate(size_t count, size_t size);       /* zeroed, and every page touched */

void metric(const char *name, double value);

/* ---- Clocks ---- */

static inline uint64_t process_cpu_ns(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

void sleep_ns(uint64_t ns);
void sleep_until(uint64_t instant);
void run_clock(const struct options *options); /* the workload of that name */

/* ---- Chance ---- */

/* The state is anything but 0. */
static inline uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* From `least` up to, but not including, `least` + `span`; a span of at most 2^32 us. */
static inline uint64_t random_delay(uint64_t *state, uint64_t least, uint64_t span)
{
    uint64_t part = (random_next(state) >> 32) * (span / US) >> 32;

    return least + part * US;
}

static inline uint64_t random_below(uint64_t *state, uint64_t limit)
{
    return (random_next(state) >> 32) * limit >> 32;
}

/* ---- What the process used ---- */

/* Of the worker alone: all threads but the one that asks. Of a loop: this thread too. */
enum whose { WORKER, LOOP };

struct load {
    enum whose whose;
    uint64_t wall, cpu;
    int64_t switches;
};

uint64_t resident_bytes(void);
struct load load_begin(enum whose whose);
void load_end(const struct load *begin); /* prints cpu_percent and wakeups_per_s */

/* ---- Requests ---- */

/*
 * `rate` requests a second, each armed for 30 s and cancelled after a millisecond: what wakes and
 * what CPU each costs above the same thread without a timer, which runs before and after. Its own
 * sleeping and waking is most of what that thread costs, and never twice the same. So
 * wakeups_per_request counts other threads' sleeps, and cpu_us_per_request is the time in the calls
 * and the other threads' CPU; process_us_per_request, which is the difference of the whole process,
 * and bare_us_per_request are printed beside it.
 */
struct request_calls {
    void (*open)(void); /* makes the timer */
    void (*close)(void);
    void (*arm)(size_t slot); /* for 30 s; slots are below REQUEST_SLOTS */
    void (*cancel)(size_t slot);
    void (*turn)(void); /* after each sleep, with and without a timer; may be NULL */
};

#define REQUEST_SLOTS ((size_t)1 << 16)

void measure_requests(const struct options *options, const struct request_calls *calls);

void print_lateness(const struct histogram *lateness); /* lateness_..., earliest_us */

#endif
