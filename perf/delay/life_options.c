/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "life.h"

#include <stdio.h>

#include "../rules.h"

static void usage(void);

static const struct option_rule rules[] = {
    { "messages", offsetof(struct options, messages), 200000, 100, 1000000000, "messages to put",
      RULE_NUMBER },
    { "threads", offsetof(struct options, threads), 16, 1, 1000, "producers", RULE_NUMBER },
    { "payload", offsetof(struct options, payload), 200, 0, 1 << 20, "bytes in a message",
      RULE_NUMBER },
    { "kills", offsetof(struct options, kills), 6, 0, 1000,
      "times that the process is killed on the way", RULE_NUMBER },
    { "seed", offsetof(struct options, seed), 1, 0, UINT64_MAX,
      "delays, who is cancelled, when to kill, and all else that chance decides", RULE_NUMBER },
    { "directory", offsetof(struct options, directory), 0, 0, 0,
      "the store is made in DIR/hwt-delay-life; what an earlier run left there goes", RULE_TEXT },
};

static const struct option_rules all = {
    .program = "delay_life",
    .all = rules,
    .count = sizeof(rules) / sizeof(rules[0]),
    .usage = usage,
};

static void usage(void)
{
    printf("Usage: delay_life [--option N]... [--directory DIR]\n\n"
           "Puts messages with delays of one second to four weeks into a store, cancels some,\n"
           "takes them, kills the process on the way, and looks whether every promise was kept.\n"
           "When all are put and the near ones have come, the clock is moved, so that the far\n"
           "ones come too. Defaults in brackets.\n\n");
    rules_print(&all);
    printf("  --%-16s this text\n\n", "help");
    printf("Exit status: 0; 1 if a promise was not kept, or if it could not run; 2 for a bad\n"
           "option.\n");
}

void options_parse(struct options *options, int argc, char **argv)
{
    options->directory = ".";
    rules_read(&all, options, argc, argv);
}
