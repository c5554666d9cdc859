/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "alone.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../rules.h"

char directory[4096];

int64_t check(const char *what, int64_t r)
{
    if (r >= 0)
        return r;
    fprintf(stderr, "delay_alone: %s: %s\n", what, strerror((int)-r));
    exit(1);
}

void run(const char *command)
{
    char text[sizeof(directory) + 32];

    snprintf(text, sizeof(text), "%s '%s'", command, directory);
    if (system(text) != 0)
        check(text, -EIO);
}

static void usage(void);

struct options {
    uint64_t quick;
    const char *directory, *workload;
};

static const struct option_rule rules[] = {
    { "quick", offsetof(struct options, quick), 0, 0, 0,
      "backlog: fewer slots and files; waits: a tenth", RULE_NUMBER },
    { "directory", offsetof(struct options, directory), 0, 0, 0,
      "works in DIR/hwt-delay-alone, which is removed before and after", RULE_TEXT },
};
static const struct option_rules all = {
    .program = "delay_alone",
    .all = rules,
    .count = 2,
    .usage = usage,
    .operand = "WORKLOAD",
    .operand_field = offsetof(struct options, workload),
};

static void usage(void)
{
    printf(
        "Usage: delay_alone WORKLOAD [--quick] [--directory DIR]\n\n"
        "  backlog            what many slot files, a large slot and cancelled messages cost\n"
        "  calls              done, retry and cancel a second in batches of 1000; the longest put\n"
        "                     of a producer that does not wait; threads and disk of a hundred\n"
        "                     empty stores\n"
        "  waits              the longest that a put, a take or a cancel waits for a checkpoint, "
        "a\n"
        "                     visit, a search, a copy or a drop, with 1000000 pending\n\n");
    rules_print(&all);
}

int main(int argc, char **argv)
{
    struct options options = { .directory = "." };

    rules_read(&all, &options, argc, argv);
    static const struct {
        const char *name;
        void (*measure)(bool quick);
    } workloads[] = { { "backlog", measure_backlog },
                      { "calls", measure_calls },
                      { "waits", measure_waits } };
    size_t n = 0;
    while (n < 3 && strcmp(options.workload, workloads[n].name) != 0)
        n++;
    if (n == 3)
        rules_misuse(&all);
    if (strlen(options.directory) > sizeof(directory) - 64 || strchr(options.directory, '\''))
        check(options.directory, -EINVAL);
    snprintf(directory, sizeof(directory), "%s/hwt-delay-alone", options.directory);
    run("rm -rf");
    workloads[n].measure(options.quick > 0);
    run("rm -rf");
    return 0;
}
