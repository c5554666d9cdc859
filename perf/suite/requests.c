/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Requests that are answered in a millisecond, at a steady rate. */

#include "kit.h"

#include <sys/resource.h>

#define ANSWERED_IN MS
#define STEP (100 * US)  /* the thread sleeps at least so long */
#define BARE_MOST SECOND /* before, and again after, what is measured */

/* Requests by number: those from `tail` to `head` wait for their answer. */
struct run {
    const struct request_calls *calls;
    bool armed;
    uint64_t calls_ns;
    uint64_t gap;
    uint64_t head, tail;
    uint64_t next; /* when the next one comes */
    uint64_t answers[REQUEST_SLOTS];
};

struct used {
    double requests;
    double switches, others; /* of the process's other threads: times they slept, and CPU */
    double cpu;              /* of the process */
    double calls;            /* time in arm() and cancel() */
};

static struct used used_now(double requests, double calls)
{
    double cpu = (double)process_cpu_ns();
    double others = cpu - (double)read_clock(CLOCK_THREAD_CPUTIME_ID);
    struct rusage process, thread;

    getrusage(RUSAGE_SELF, &process);
    getrusage(RUSAGE_THREAD, &thread);
    return (struct used){ requests, (double)(process.ru_nvcsw - thread.ru_nvcsw), others, cpu,
                          calls };
}

static struct used used_since(const struct used *before, const struct used *now)
{
    return (struct used){ now->requests - before->requests, now->switches - before->switches,
                          now->others - before->others, now->cpu - before->cpu,
                          now->calls - before->calls };
}

static void call(struct run *run, void (*function)(size_t slot), size_t slot)
{
    if (!run->armed)
        return;
    uint64_t begin = now_ns();
    function(slot);
    run->calls_ns += now_ns() - begin;
}

static void answer(struct run *run, uint64_t until)
{
    for (; run->tail != run->head; run->tail++) {
        size_t slot = run->tail % REQUEST_SLOTS;
        if (run->answers[slot] > until)
            return;
        call(run, run->calls->cancel, slot);
    }
}

static void request(struct run *run, uint64_t now)
{
    for (; run->next <= now && run->head - run->tail < REQUEST_SLOTS; run->next += run->gap) {
        size_t slot = run->head % REQUEST_SLOTS;
        run->answers[slot] = now + ANSWERED_IN;
        run->head++;
        call(run, run->calls->arm, slot);
    }
}

static uint64_t wake_at(const struct run *run, uint64_t now)
{
    uint64_t at = run->next;

    if (run->tail != run->head && run->answers[run->tail % REQUEST_SLOTS] < at)
        at = run->answers[run->tail % REQUEST_SLOTS];
    return at < now + STEP ? now + STEP : at;
}

static struct used run_for(struct run *run, uint64_t length, bool armed)
{
    uint64_t now = now_ns(), end = now + length;
    struct used before = used_now((double)run->head, (double)run->calls_ns);

    run->armed = armed;
    run->next = now;
    while (now < end) {
        answer(run, now);
        request(run, now);
        sleep_until(wake_at(run, now));
        if (run->calls->turn != NULL)
            run->calls->turn();
        now = now_ns();
    }
    answer(run, UINT64_MAX);
    struct used after = used_now((double)run->head, (double)run->calls_ns);
    return used_since(&before, &after);
}

void measure_requests(const struct options *options, const struct request_calls *calls)
{
    static struct run run;
    uint64_t length = (uint64_t)(options->seconds * 1e9);
    uint64_t bare_length = length / 2 < BARE_MOST ? length / 2 : BARE_MOST;

    run.calls = calls;
    run.gap = SECOND / options->rate;
    struct used before = run_for(&run, bare_length, false);
    calls->open();
    run_for(&run, length / 5 < SECOND ? length / 5 : SECOND, true);
    struct used with = run_for(&run, length, true);
    calls->close();
    struct used after = run_for(&run, bare_length, false);

    double bare = before.requests + after.requests, n = with.requests;
    double others = with.others / n - (before.others + after.others) / bare;
    metric("wakeups_per_request", with.switches / n - (before.switches + after.switches) / bare);
    metric("cpu_us_per_request", (with.calls / n + others) / 1e3);
    metric("process_us_per_request", (with.cpu / n - (before.cpu + after.cpu) / bare) / 1e3);
    metric("bare_us_per_request", (before.cpu + after.cpu) / bare / 1e3);
}
