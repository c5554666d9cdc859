/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "kit.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

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

static _Noreturn void usage(const char *program, const struct workload *workloads, int status)
{
    FILE *out = status == 0 ? stdout : stderr;

    fprintf(out,
            "Usage: %s WORKLOAD [--producers P] [--pending N] [--wheel W] [--seconds S]\n"
            "       [--tick-ns T] [--ops N] [--rounds R] [--window N] [--rate R]\n\nWorkloads:",
            program);
    for (const struct workload *w = workloads; w->name != NULL; w++)
        fprintf(out, " %s", w->name);
    fprintf(out, "\nSee perf/README.md.\n");
    exit(status);
}

static double parse(const char *program, const char *name, const char *text, double most)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end != '\0' || !(value >= 0 && value <= most)) {
        fprintf(stderr, "%s: --%s %s: not a number from 0 to %.0f\n", program, name, text, most);
        exit(2);
    }
    return value;
}

/* Those that are whole numbers: where each goes, and the most it may be. */
static const struct number {
    const char *name;
    size_t at;
    double most;
} numbers[] = {
    { "producers", offsetof(struct options, producers), 4096 },
    { "pending", offsetof(struct options, pending), 1e9 },
    { "wheel", offsetof(struct options, wheel), 1 << 30 },
    { "tick-ns", offsetof(struct options, tick_ns), 1e12 },
    { "ops", offsetof(struct options, ops), 1e12 },
    { "rounds", offsetof(struct options, rounds), 1e6 },
    { "window", offsetof(struct options, window), 1e8 },
    { "rate", offsetof(struct options, rate), 1e7 },
};

#define NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

static void parse_options(struct options *options, int argc, char **argv,
                          const struct workload *workloads)
{
    struct option longs[NUMBERS + 3] = { [NUMBERS] = { "seconds", required_argument, NULL, 's' },
                                         [NUMBERS + 1] = { "help", no_argument, NULL, 'h' } };
    int c, which;

    for (size_t i = 0; i < NUMBERS; i++)
        longs[i] = (struct option){ numbers[i].name, required_argument, NULL, 'n' };
    while ((c = getopt_long(argc, argv, "h", longs, &which)) != -1) {
        if (c == 'n') {
            const struct number *number = &numbers[which];
            double value = parse(argv[0], number->name, optarg, number->most);
            uint64_t whole = (uint64_t)value;
            memcpy((char *)options + number->at, &whole, sizeof(whole));
        } else if (c == 's') {
            options->seconds = parse(argv[0], "seconds", optarg, 86400);
        } else {
            usage(argv[0], workloads, c == 'h' ? 0 : 2);
        }
    }
}

int contend(int argc, char **argv, const struct workload *workloads)
{
    struct options options = {
        .producers = 1,
        .wheel = 512,
        .rounds = 1000,
        .window = WINDOW,
        .rate = 1000,
    };
    const struct workload *w = workloads;

    parse_options(&options, argc, argv, workloads);
    if (optind + 1 != argc || options.producers == 0 || options.rounds < 2 || options.window == 0 ||
        options.rate == 0)
        usage(argv[0], workloads, 2);
    while (w->name != NULL && strcmp(w->name, argv[optind]) != 0)
        w++;
    if (w->name == NULL) {
        fprintf(stderr, "%s does not do %s\n", argv[0], argv[optind]);
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
