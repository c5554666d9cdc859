/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "kit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../rules.h"

_Noreturn void die(const char *what, int error)
{
    if (error == 0)
        fprintf(stderr, "%s\n", what);
    else
        fprintf(stderr, "%s: %s\n", what, strerror(error < 0 ? -error : error));
    exit(1);
}

_Noreturn void decline(const char *why)
{
    fprintf(stderr, "%s\n", why);
    exit(3);
}

void *allocate(size_t count, size_t size)
{
    void *memory = malloc(count * size);

    if (memory == NULL)
        die("allocate", ENOMEM);
    memset(memory, 1, count * size); /* zeroes alone would not have to touch anything */
    memset(memory, 0, count * size);
    return memory;
}

void metric(const char *name, double value)
{
    printf("%s %.4f\n", name, value);
}

/* ---- Clocks ---- */

void sleep_until(uint64_t instant)
{
    struct timespec t = { (time_t)(instant / SECOND), (long)(instant % SECOND) };

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

void sleep_ns(uint64_t ns)
{
    sleep_until(now_ns() + ns);
}

void run_clock(const struct options *options)
{
    uint64_t begin = now_ns(), end = begin, reads = 0;

    while (end - begin < (uint64_t)(options->seconds * 1e9)) {
        for (int i = 0; i < 1000; i++)
            end = now_ns();
        reads += 1000;
    }
    metric("clock_ns", (double)(end - begin) / (double)reads);
}

/* ---- What the process used ---- */

/* Without memory of the C library: others may have it locked. */
uint64_t resident_bytes(void)
{
    unsigned long long all, resident;
    char text[128] = "";
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

    if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0 ||
        sscanf(text, "%llu %llu", &all, &resident) != 2)
        die("/proc/self/statm", errno);
    close(fd);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int64_t switches_of(int who)
{
    struct rusage usage;

    getrusage(who, &usage);
    return usage.ru_nvcsw;
}

static struct load load_now(enum whose whose)
{
    int64_t switches = switches_of(RUSAGE_SELF);

    if (whose == WORKER)
        switches -= switches_of(RUSAGE_THREAD);
    return (struct load){ whose, now_ns(), process_cpu_ns(), switches };
}

struct load load_begin(enum whose whose)
{
    return load_now(whose);
}

void load_end(const struct load *begin)
{
    struct load end = load_now(begin->whose);
    double wall = (double)(end.wall - begin->wall);

    metric("cpu_percent", 100.0 * (double)(end.cpu - begin->cpu) / wall);
    metric("wakeups_per_s", (double)(end.switches - begin->switches) * 1e9 / wall);
}

void print_lateness(const struct histogram *lateness)
{
    histogram_print(lateness, "lateness_", "us", 1e3, metric);
    metric("earliest_us", (double)lateness->least / 1e3);
}

/* ---- The command line ---- */

static void usage(void);

static const struct option_rule rules[] = {
    { "producers", offsetof(struct options, producers), 1, 1, 4096, "threads that add",
      RULE_NUMBER },
    { "pending", offsetof(struct options, pending), 0, 0, 1000000000,
      "timeouts; 0: the workload's own", RULE_NUMBER },
    { "wheel", offsetof(struct options, wheel), 512, 0, 1 << 30, "ticks of the wheel",
      RULE_NUMBER },
    { "tick-ns", offsetof(struct options, tick_ns), 0, 0, 1000000000000,
      "length of a tick; 0: the workload's own", RULE_NUMBER },
    { "ops", offsetof(struct options, ops), 0, 0, 1000000000000,
      "operations of a producer; 0: as long as the seconds", RULE_NUMBER },
    { "rounds", offsetof(struct options, rounds), 1000, 2, 1000000,
      "the longest delay of rounds, in wheel lengths", RULE_NUMBER },
    { "window", offsetof(struct options, window), WINDOW, 1, 100000000,
      "timeouts that a producer of churn has pending", RULE_NUMBER },
    { "rate", offsetof(struct options, rate), 1000, 1, 10000000, "requests a second", RULE_NUMBER },
    { "seconds", offsetof(struct options, seconds), 0, 0, 86400,
      "length of the run; 0: the workload's own", RULE_DECIMAL },
};

static struct option_rules all = {
    .all = rules,
    .count = sizeof(rules) / sizeof(rules[0]),
    .usage = usage,
    .operand = "WORKLOAD",
    .operand_field = offsetof(struct options, workload),
};
static const struct workload *known;

static void usage(void)
{
    printf("Usage: %s WORKLOAD [--option N]...\n\nWorkloads:", all.program);
    for (const struct workload *w = known; w->name != NULL; w++)
        printf(" %s", w->name);
    printf("\nSee perf/README.md.\n\n");
    rules_print(&all);
}

int contend(int argc, char **argv, const struct workload *workloads)
{
    struct options options;
    const struct workload *w = workloads;

    known = workloads;
    all.program = argv[0];
    rules_read(&all, &options, argc, argv);
    while (w->name != NULL && strcmp(w->name, options.workload) != 0)
        w++;
    if (w->name == NULL) {
        fprintf(stderr, "%s does not do %s\n", argv[0], options.workload);
        return 3;
    }
    if (options.pending == 0)
        options.pending = w->pending;
    if (options.seconds == 0)
        options.seconds = w->seconds;
    if (options.tick_ns == 0)
        options.tick_ns = w->tick_ns;
    w->run(&options);
    return fflush(stdout) == 0 ? 0 : 1;
}
