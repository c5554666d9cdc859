/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "compare.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../rules.h"

struct options options;

static void usage(void);

static const struct option_rule rules[] = {
    { "producers", offsetof(struct options, producers), 1, 1, 1024, "threads that put",
      RULE_NUMBER },
    { "consumers", offsetof(struct options, consumers), 2, 1, 64, "threads that take",
      RULE_NUMBER },
    { "batch", offsetof(struct options, batch), 1, 1, 10000, "messages of one put", RULE_NUMBER },
    { "messages", offsetof(struct options, messages), 100000, 1, 10000000000, "messages",
      RULE_NUMBER },
    { "payload", offsetof(struct options, payload), 200, 1, 60000, "bytes of a message",
      RULE_NUMBER },
    { "rate", offsetof(struct options, rate), 10000, 1, 10000000, "messages a second",
      RULE_NUMBER },
    { "seed", offsetof(struct options, seed), 1, 1, UINT64_MAX, "of what chance decides",
      RULE_NUMBER },
    { "seconds", offsetof(struct options, seconds), 2, 0, 100000000, "length of the run",
      RULE_DECIMAL },
    { "delay", offsetof(struct options, delay), 60, 0, 100000000, "the longest, in seconds",
      RULE_DECIMAL },
    { "directory", offsetof(struct options, directory), 0, 0, 0, "where the store is", RULE_TEXT },
    { "timeline", offsetof(struct options, timeline), 0, 0, 0,
      "pace: lateness over time, to this file", RULE_TEXT },
};

static struct option_rules all = {
    .all = rules,
    .count = sizeof(rules) / sizeof(rules[0]),
    .usage = usage,
    .operand = "WORKLOAD",
    .operand_field = offsetof(struct options, workload),
};

static const struct workload {
    const char *name;
    void (*run)(void);
} workloads[] = {
    { "put", work_put },           { "life", work_life }, { "burst", work_burst },
    { "standing", work_standing }, { "pace", work_pace },
};

static void usage(void)
{
    printf("Usage: %s WORKLOAD --directory DIR [--option N]...\n\nWorkloads:", contender.name);
    for (size_t i = 0; i < sizeof(workloads) / sizeof(workloads[0]); i++)
        printf(" %s", workloads[i].name);
    printf("\nSee perf/delay/README.md.\n\n");
    rules_print(&all);
}

int main(int argc, char **argv)
{
    all.program = contender.name;
    rules_read(&all, &options, argc, argv);
    snprintf(socket_path, sizeof(socket_path), "/tmp/hwt-%s-%d", contender.name, (int)getpid());
    for (size_t i = 0; i < sizeof(workloads) / sizeof(workloads[0]) && options.directory; i++)
        if (strcmp(options.workload, workloads[i].name) == 0) {
            if (contender.puts_only && workloads[i].run != work_put)
                decline("it only puts");
            workloads[i].run();
            return 0;
        }
    fprintf(stderr, "%s: %s\n", contender.name,
            options.directory ? "there is no such workload" : "there is no --directory");
    rules_misuse(&all);
}
