/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef RULES_H
#define RULES_H

#include <stddef.h>
#include <stdint.h>

/* The options of a program, which are fields of its struct, by name. options.awk reads the table `rules` too. */

enum rule_kind {
    RULE_NUMBER,  /* uint64_t; a switch, without a number, if `most` is 0 */
    RULE_DECIMAL, /* double */
    RULE_TEXT,    /* const char *, left alone if the option is not given */
};

struct option_rule {
    const char *name;
    size_t field;                  /* its offset */
    uint64_t initial, least, most; /* of a number */
    const char *help;
    enum rule_kind kind;
};

struct option_rules {
    const char *program;
    const struct option_rule *all;
    size_t count;
    void (*usage)(void);
    const char *operand;  /* a word that has to be there, as WORKLOAD; NULL: none may be */
    size_t operand_field; /* the offset of a const char * */
};

/* A line for each option. */
void rules_print(const struct option_rules *rules);

/* Exits with 0 after --help, and as rules_misuse() does. */
void rules_read(const struct option_rules *rules, void *options, int argc, char **argv);

/* After the caller has said on stderr why. Exits with 2. */
_Noreturn void rules_misuse(const struct option_rules *rules);

#endif
