/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "life.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

static const struct option_rule {
    const char *name;
    size_t field;
    uint64_t initial, least, most;
    const char *help;
} rules[] = {
    { "messages", offsetof(struct options, messages), 200000, 100, 1000000000, "messages to put" },
    { "threads", offsetof(struct options, threads), 16, 1, 1000, "producers" },
    { "payload", offsetof(struct options, payload), 200, 0, 1 << 20, "bytes in a message" },
    { "kills", offsetof(struct options, kills), 6, 0, 1000,
      "times that the process is killed on the way" },
    { "seed", offsetof(struct options, seed), 1, 0, UINT64_MAX,
      "delays, who is cancelled, when to kill, and all else that chance decides" },
};

#define RULES (sizeof(rules) / sizeof(rules[0]))

static uint64_t *field(struct options *options, const struct option_rule *rule)
{
    return (uint64_t *)(void *)((char *)options + rule->field);
}

static void usage(void)
{
    printf("Usage: delay_life [--option N]... [--directory DIR]\n\n"
           "Puts messages with delays of one second to four weeks into a store, cancels some,\n"
           "takes them, kills the process on the way, and looks whether every promise was kept.\n"
           "When all are put and the near ones have come, the clock is moved, so that the far\n"
           "ones come too. Defaults in brackets.\n\n");
    for (size_t i = 0; i < RULES; i++)
        printf("  --%-10s %s (%llu)\n", rules[i].name, rules[i].help,
               (unsigned long long)rules[i].initial);
    printf("  --%-10s the store is made in DIR/hwt-delay-life, and what an earlier run has\n"
           "               left there is removed (.)\n"
           "  --%-10s this text\n\n",
           "directory", "help");
    printf("Exit status: 0; 1 if a promise was not kept, or if it could not run; 2 for a bad\n"
           "option.\n");
}

static _Noreturn void misuse(void)
{
    fprintf(stderr, "delay_life: try --help\n");
    exit(2);
}

static uint64_t parse_number(const struct option_rule *rule, const char *text)
{
    char *end;

    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    /* strtoull takes "-1", " 1" and "" for numbers. */
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value < rule->least ||
        value > rule->most) {
        fprintf(stderr, "delay_life: --%s %s: not a number from %llu to %llu\n", rule->name, text,
                (unsigned long long)rule->least, (unsigned long long)rule->most);
        misuse();
    }
    return value;
}

void options_parse(struct options *options, int argc, char **argv)
{
    struct option longs[RULES + 3] = { 0 };
    int c;

    options->directory = ".";
    for (size_t i = 0; i < RULES; i++) {
        *field(options, &rules[i]) = rules[i].initial;
        longs[i] = (struct option){ rules[i].name, required_argument, NULL, (int)(256 + i) };
    }
    longs[RULES] = (struct option){ "directory", required_argument, NULL, 'd' };
    longs[RULES + 1] = (struct option){ "help", no_argument, NULL, 'h' };

    while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
        if (c == 'h') {
            usage();
            exit(0);
        }
        if (c == '?') /* getopt_long has said why */
            misuse();
        if (c == 'd')
            options->directory = optarg;
        else
            *field(options, &rules[c - 256]) = parse_number(&rules[c - 256], optarg);
    }
    if (optind < argc) {
        fprintf(stderr, "delay_life: %s: not an option\n", argv[optind]);
        misuse();
    }
}
