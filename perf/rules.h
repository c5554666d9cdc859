/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef RULES_H
#define RULES_H

#include <stddef.h>
#include <stdint.h>

/* The options of a program: numbers and switches, which are uint64_t of its struct, and one text. */

struct option_rule {
    const char *name;
    size_t field;                  /* its offset */
    uint64_t initial, least, most; /* 0 at most: a switch, without a number */
    const char *help;
};

struct option_rules {
    const char *program;
    const struct option_rule *all;
    size_t count;
    const char *text;  /* the option that takes a text */
    size_t text_field; /* the offset of a const char *, NULL if the option is not given */
    void (*usage)(void);
};

/* A line for each number and switch. */
void rules_print(const struct option_rules *rules);

/* Exits with 0 after --help, and as rules_misuse() does. */
void rules_read(const struct option_rules *rules, void *options, int argc, char **argv);

/* After the caller has said on stderr why. Exits with 2. */
_Noreturn void rules_misuse(const struct option_rules *rules);

#endif
