/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heartbeat.h"

#include <stdio.h>

#include "../rules.h"

static void usage(void);

static const struct option_rule rules[] = {
    { "connections", offsetof(struct options, connections), 2000, 1, 20000, "peers", RULE_NUMBER },
    { "seconds", offsetof(struct options, seconds), 10, 1, 86400, "length of the run",
      RULE_NUMBER },
    { "tick-us", offsetof(struct options, tick_us), 1000, 1, 10000000, "tick of the timer",
      RULE_NUMBER },
    { "ticks-per-wheel", offsetof(struct options, ticks_per_wheel), 512, 1, 1 << 20,
      "buckets of its wheel", RULE_NUMBER },
    { "heartbeat-ms", offsetof(struct options, heartbeat_ms), 500, 1, 3600000,
      "a client that wrote nothing for so long sends a heartbeat", RULE_NUMBER },
    { "idle-ms", offsetof(struct options, idle_ms), 1500, 1, 3600000,
      "the server closes a connection that it read nothing from for so long", RULE_NUMBER },
    { "request-ms", offsetof(struct options, request_ms), 2000, 1, 3600000,
      "mean pause between an answer and the next request", RULE_NUMBER },
    { "timeout-ms", offsetof(struct options, timeout_ms), 250, 1, 3600000,
      "a request not answered for so long is sent again", RULE_NUMBER },
    { "silent", offsetof(struct options, silent), 10, 0, 100,
      "percent of the peers that fall silent, once", RULE_NUMBER },
    { "dropped", offsetof(struct options, dropped), 10, 0, 100,
      "percent of the peers whose connection is dropped, once", RULE_NUMBER },
    { "unanswered", offsetof(struct options, unanswered), 5, 0, 100,
      "percent of the requests that are left unanswered", RULE_NUMBER },
    { "seed", offsetof(struct options, seed), 1, 0, UINT64_MAX,
      "who falls silent, and when, and all else that chance decides", RULE_NUMBER },
    { "metrics", offsetof(struct options, metrics), 0, 0, UINT16_MAX,
      "port N for http://127.0.0.1:N/metrics, in Prometheus' format; 0: none", RULE_NUMBER },
    { "loop", offsetof(struct options, loop), 0, 0, 0,
      "the timer has no worker: the server's event loop runs its tasks", RULE_NUMBER },
    { "picture", offsetof(struct options, picture), 0, 0, 0,
      "an SVG of what happened, over time, to this file (needs gnuplot)", RULE_TEXT },
};

static const struct option_rules all = {
    .program = "heartbeat",
    .all = rules,
    .count = sizeof(rules) / sizeof(rules[0]),
    .usage = usage,
};

static void usage(void)
{
    printf("Usage: heartbeat [--option N]... [--loop] [--picture FILE]\n\n"
           "Keeps many TCP connections over loopback alive with one hwt timer, makes some of\n"
           "them fail, and tells how well that was found out. Defaults in brackets.\n\n");
    rules_print(&all);
    printf("  --%-16s this text\n\n", "help");
    printf("Exit status: 0; 1 if a silent peer was missed, a live one closed, a time-out lost,\n"
           "a reconnect lost, or anything fired early, or if it could not run; 2 for a bad\n"
           "option; 3 if nothing of that was seen, but this program got too little of a processor\n"
           "to tell.\n");
}

static void check_together(const struct options *options)
{
    /* A heartbeat may be two ticks late; were that enough to be closed, all peers would be. */
    if (HWT_MS(options->heartbeat_ms) + 4 * HWT_US(options->tick_us) > HWT_MS(options->idle_ms)) {
        fprintf(stderr, "heartbeat: --idle-ms must be at least --heartbeat-ms and four ticks\n");
        rules_misuse(&all);
    }
}

void options_parse(struct options *options, int argc, char **argv)
{
    rules_read(&all, options, argc, argv);
    check_together(options);
}
