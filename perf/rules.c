/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "rules.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_RULES = 30, FIRST_RULE = 256 };

static uint64_t *number_of(void *options, const struct option_rule *rule)
{
    return (uint64_t *)(void *)((char *)options + rule->field);
}

void rules_print(const struct option_rules *rules)
{
    for (size_t i = 0; i < rules->count; i++) {
        printf("  --%-16s %s", rules->all[i].name, rules->all[i].help);
        if (rules->all[i].most > 0)
            printf(" (%llu)", (unsigned long long)rules->all[i].initial);
        printf("\n");
    }
}

_Noreturn void rules_misuse(const struct option_rules *rules)
{
    fprintf(stderr, "%s: try --help\n", rules->program);
    exit(2);
}

static uint64_t parse_number(const struct option_rules *rules, const struct option_rule *rule,
                             const char *text)
{
    char *end;

    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    /* strtoull takes "-1", " 1" and "" for numbers. */
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value < rule->least ||
        value > rule->most) {
        fprintf(stderr, "%s: --%s %s: not a number from %llu to %llu\n", rules->program, rule->name,
                text, (unsigned long long)rule->least, (unsigned long long)rule->most);
        rules_misuse(rules);
    }
    return value;
}

static void read_one(const struct option_rules *rules, void *options, int c)
{
    if (c == 'h') {
        rules->usage();
        exit(0);
    }
    if (c == '?') /* getopt_long has said why */
        rules_misuse(rules);
    if (c == 't') {
        *(const char **)(void *)((char *)options + rules->text_field) = optarg;
        return;
    }
    const struct option_rule *rule = &rules->all[c - FIRST_RULE];
    *number_of(options, rule) = optarg ? parse_number(rules, rule, optarg) : 1;
}

void rules_read(const struct option_rules *rules, void *options, int argc, char **argv)
{
    struct option longs[MOST_RULES + 3] = { 0 };
    int c;

    for (size_t i = 0; i < rules->count; i++) {
        const struct option_rule *rule = &rules->all[i];
        *number_of(options, rule) = rule->initial;
        longs[i] = (struct option){ rule->name, rule->most > 0 ? required_argument : no_argument,
                                    NULL, (int)(FIRST_RULE + i) };
    }
    longs[rules->count] = (struct option){ "help", no_argument, NULL, 'h' };
    longs[rules->count + 1] = (struct option){ rules->text, required_argument, NULL, 't' };

    while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1)
        read_one(rules, options, c);
    if (optind < argc) {
        fprintf(stderr, "%s: %s: not an option\n", rules->program, argv[optind]);
        rules_misuse(rules);
    }
}
