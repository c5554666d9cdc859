/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heartbeat.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

static const struct option_rule {
    const char *name;
    size_t field;
    uint64_t initial, least, most; /* 0 at most: a switch, without a number */
    const char *help;
} rules[] = {
    { "connections", offsetof(struct options, connections), 2000, 1, 20000, "peers" },
    { "seconds", offsetof(struct options, seconds), 10, 1, 86400, "length of the run" },
    { "tick-us", offsetof(struct options, tick_us), 1000, 1, 10000000, "tick of the timer" },
    { "ticks-per-wheel", offsetof(struct options, ticks_per_wheel), 512, 1, 1 << 20,
      "buckets of its wheel" },
    { "heartbeat-ms", offsetof(struct options, heartbeat_ms), 500, 1, 3600000,
      "a client that wrote nothing for so long sends a heartbeat" },
    { "idle-ms", offsetof(struct options, idle_ms), 1500, 1, 3600000,
      "the server closes a connection that it read nothing from for so long" },
    { "request-ms", offsetof(struct options, request_ms), 2000, 1, 3600000,
      "mean pause between an answer and the next request" },
    { "timeout-ms", offsetof(struct options, timeout_ms), 250, 1, 3600000,
      "a request not answered for so long is sent again" },
    { "silent", offsetof(struct options, silent), 10, 0, 100,
      "percent of the peers that fall silent, once" },
    { "dropped", offsetof(struct options, dropped), 10, 0, 100,
      "percent of the peers whose connection is dropped, once" },
    { "unanswered", offsetof(struct options, unanswered), 5, 0, 100,
      "percent of the requests that are left unanswered" },
    { "seed", offsetof(struct options, seed), 1, 0, UINT64_MAX,
      "who falls silent, and when, and all else that chance decides" },
    { "metrics", offsetof(struct options, metrics), 0, 0, UINT16_MAX,
      "port N for http://127.0.0.1:N/metrics, in Prometheus' format; 0: none" },
    { "loop", offsetof(struct options, loop), 0, 0, 0,
      "the timer has no worker: the server's event loop runs its tasks" },
};

#define RULES (sizeof(rules) / sizeof(rules[0]))

static uint64_t *field(struct options *options, const struct option_rule *rule)
{
    return (uint64_t *)(void *)((char *)options + rule->field);
}

static void usage(void)
{
    printf("Usage: heartbeat [--option N]... [--loop] [--picture FILE]\n\n"
           "Keeps many TCP connections over loopback alive with one hwt timer, makes some of\n"
           "them fail, and tells how well that was found out. Defaults in brackets.\n\n");
    for (size_t i = 0; i < RULES; i++) {
        printf("  --%-16s %s", rules[i].name, rules[i].help);
        if (rules[i].most > 0)
            printf(" (%llu)", (unsigned long long)rules[i].initial);
        printf("\n");
    }
    printf("  --%-16s an SVG of what happened, over time, to this file\n", "picture");
    printf("  --%-16s this text\n\n", "help");
    printf("Exit status: 0; 1 if a silent peer was missed, a live one closed, a time-out lost,\n"
           "a reconnect lost, or anything fired early, or if it could not run; 2 for a bad\n"
           "option.\n");
}

static _Noreturn void misuse(void)
{
    fprintf(stderr, "heartbeat: try --help\n");
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
        fprintf(stderr, "heartbeat: --%s %s: not a number from %llu to %llu\n", rule->name, text,
                (unsigned long long)rule->least, (unsigned long long)rule->most);
        misuse();
    }
    return value;
}

static void check_together(const struct options *options)
{
    /* A heartbeat may be two ticks late; were that enough to be closed, all peers would be. */
    if (HWT_MS(options->heartbeat_ms) + 4 * HWT_US(options->tick_us) > HWT_MS(options->idle_ms)) {
        fprintf(stderr, "heartbeat: --idle-ms must be at least --heartbeat-ms and four ticks\n");
        misuse();
    }
}

void options_parse(struct options *options, int argc, char **argv)
{
    struct option longs[RULES + 3] = { 0 };
    int c;

    for (size_t i = 0; i < RULES; i++) {
        *field(options, &rules[i]) = rules[i].initial;
        longs[i] =
            (struct option){ rules[i].name, rules[i].most > 0 ? required_argument : no_argument,
                             NULL, (int)(256 + i) };
    }
    longs[RULES] = (struct option){ "help", no_argument, NULL, 'h' };
    longs[RULES + 1] = (struct option){ "picture", required_argument, NULL, 'p' };

    while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
        if (c == 'h') {
            usage();
            exit(0);
        }
        if (c == 'p') {
            options->picture = optarg;
            continue;
        }
        if (c < 256) /* getopt_long has said why */
            misuse();
        *field(options, &rules[c - 256]) = optarg ? parse_number(&rules[c - 256], optarg) : 1;
    }
    if (optind < argc) {
        fprintf(stderr, "heartbeat: %s: not an option\n", argv[optind]);
        misuse();
    }
    check_together(options);
}
