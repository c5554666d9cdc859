/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "rules.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_RULES = 30, FIRST_RULE = 256 };

static void *field_of(void *options, size_t field)
{
    return (char *)options + field;
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

static _Noreturn void refuse(const struct option_rules *rules, const struct option_rule *rule,
                             const char *text)
{
    fprintf(stderr, "%s: --%s %s: not a number from %llu to %llu\n", rules->program, rule->name,
            text, (unsigned long long)rule->least, (unsigned long long)rule->most);
    rules_misuse(rules);
}

/* strtoull and strtod take "-1", " 1" and "" for numbers. */
static uint64_t parse_number(const struct option_rules *rules, const struct option_rule *rule,
                             const char *text)
{
    char *end;

    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value < rule->least ||
        value > rule->most)
        refuse(rules, rule, text);
    return value;
}

static double parse_decimal(const struct option_rules *rules, const struct option_rule *rule,
                            const char *text)
{
    char *end;
    double value = strtod(text, &end);

    if (text[0] < '0' || text[0] > '9' || *end != '\0' || !(value >= (double)rule->least) ||
        value > (double)rule->most)
        refuse(rules, rule, text);
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
    const struct option_rule *rule = &rules->all[c - FIRST_RULE];
    void *field = field_of(options, rule->field);
    if (rule->kind == RULE_TEXT)
        *(const char **)field = optarg;
    else if (rule->kind == RULE_DECIMAL)
        *(double *)field = parse_decimal(rules, rule, optarg);
    else
        *(uint64_t *)field = optarg ? parse_number(rules, rule, optarg) : 1;
}

static void read_operand(const struct option_rules *rules, void *options, int argc, char **argv)
{
    int wanted = rules->operand ? 1 : 0;

    if (argc - optind > wanted) {
        fprintf(stderr, "%s: %s: not an option\n", rules->program, argv[optind + wanted]);
        rules_misuse(rules);
    }
    if (argc - optind < wanted) {
        fprintf(stderr, "%s: there is no %s\n", rules->program, rules->operand);
        rules_misuse(rules);
    }
    if (wanted)
        *(const char **)field_of(options, rules->operand_field) = argv[optind];
}

void rules_read(const struct option_rules *rules, void *options, int argc, char **argv)
{
    struct option longs[MOST_RULES + 2] = { 0 };
    int c;

    for (size_t i = 0; i < rules->count; i++) {
        const struct option_rule *rule = &rules->all[i];
        void *field = field_of(options, rule->field);
        if (rule->kind == RULE_NUMBER)
            *(uint64_t *)field = rule->initial;
        else if (rule->kind == RULE_DECIMAL)
            *(double *)field = (double)rule->initial;
        longs[i] = (struct option){ rule->name,
                                    rule->kind == RULE_TEXT || rule->most > 0 ? required_argument
                                                                              : no_argument,
                                    NULL, (int)(FIRST_RULE + i) };
    }
    longs[rules->count] = (struct option){ "help", no_argument, NULL, 'h' };
    while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1)
        read_one(rules, options, c);
    read_operand(rules, options, argc, argv);
}
