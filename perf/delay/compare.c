/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "compare.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options options = {
    .directory = NULL,
    .producers = 1,
    .consumers = 2,
    .batch = 1,
    .messages = 100000,
    .payload = 200,
    .rate = 10000,
    .seed = 1,
    .seconds = 2,
    .delay = 60,
};

static const struct option longs[] = {
    { "directory", required_argument, NULL, 'd' }, { "timeline", required_argument, NULL, 't' },
    { "producers", required_argument, NULL, 'p' }, { "consumers", required_argument, NULL, 'c' },
    { "batch", required_argument, NULL, 'b' },     { "messages", required_argument, NULL, 'n' },
    { "payload", required_argument, NULL, 'l' },   { "rate", required_argument, NULL, 'r' },
    { "seed", required_argument, NULL, 'x' },      { "seconds", required_argument, NULL, 's' },
    { "delay", required_argument, NULL, 'y' },     { NULL, 0, NULL, 0 },
};

static const struct workload {
    const char *name;
    void (*run)(void);
} workloads[] = {
    { "put", work_put },           { "life", work_life }, { "burst", work_burst },
    { "standing", work_standing }, { "pace", work_pace },
};

static _Noreturn void misuse(const char *what, const char *text)
{
    fprintf(stderr,
            "%s: %s %s\nusage: %s put|life|burst|standing|pace --directory DIR [--producers N]\n"
            "    [--consumers N] [--batch N] [--messages N] [--payload N] [--rate N] [--seed N]\n"
            "    [--seconds S] [--delay S] [--timeline FILE]; see perf/delay/README.md\n",
            contender.name, what, text, contender.name);
    exit(2);
}

static uint64_t whole(const char *text, uint64_t most)
{
    char *end;

    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value == 0 || value > most)
        misuse("not a number from 1, or too great:", text);
    return value;
}

static double decimal(const char *text)
{
    char *end;
    double value = strtod(text, &end);

    if (text[0] < '0' || text[0] > '9' || *end != '\0' || value < 0.1 || value > 1e8)
        misuse("not a number of seconds from 0.1:", text);
    return value;
}

static void set_option(int letter)
{
    switch (letter) {
    case 'd':
        options.directory = optarg;
        break;
    case 't':
        options.timeline = optarg;
        break;
    case 'p':
        options.producers = whole(optarg, 1024);
        break;
    case 'c':
        options.consumers = whole(optarg, 64);
        break;
    case 'b':
        options.batch = whole(optarg, 10000);
        break;
    case 'n':
        options.messages = whole(optarg, UINT64_C(10000000000));
        break;
    case 'l':
        options.payload = whole(optarg, 60000);
        break;
    case 'r':
        options.rate = whole(optarg, 10000000);
        break;
    case 'x':
        options.seed = whole(optarg, UINT64_MAX);
        break;
    case 's':
        options.seconds = decimal(optarg);
        break;
    case 'y':
        options.delay = decimal(optarg);
        break;
    default:
        misuse("a bad option:", "see above");
    }
}

int main(int argc, char **argv)
{
    int letter;

    while ((letter = getopt_long(argc, argv, "", longs, NULL)) != -1)
        set_option(letter);
    if (argc - optind != 1)
        misuse("one workload, not", argc > optind ? argv[optind + 1] : "none");
    snprintf(socket_path, sizeof(socket_path), "/tmp/hwt-%s-%d", contender.name, (int)getpid());
    if (!options.directory)
        misuse("what is missing is", "--directory");
    for (size_t i = 0; i < sizeof(workloads) / sizeof(workloads[0]); i++)
        if (strcmp(argv[optind], workloads[i].name) == 0) {
            if (contender.puts_only && workloads[i].run != work_put)
                decline("it only puts");
            workloads[i].run();
            return 0;
        }
    misuse("no such workload:", argv[optind]);
}
