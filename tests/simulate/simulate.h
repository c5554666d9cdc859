/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_SIMULATE_H
#define HWT_TESTS_SIMULATE_H

/*
 * Programs of public calls, run on a timer whose clock is set and beside the oracle of model.h.
 *
 * A program is the timer's options and a list of operations, those made outside and those made
 * inside of callbacks in one list, in the order in which they were first made. It is drawn while it
 * runs, from random numbers or from bytes, so that what is drawn can aim at what is pending;
 * and is recorded, so that it can be run again with parts left out. Any list of operations is
 * a program: one on a timeout that is not there is made with a zero handle.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    OPERATIONS_MAX = 16384,
    IDS_MAX = 16384,  /* timeouts that a program can ever add */
    CROWD_MAX = 1024, /* timeouts that one operation adds */
    TEXT_MAX = 240
};

enum kind {
    OP_NEW,
    OP_CROWD,  /* COUNT timeouts at once, a nanosecond times STRIDE after each other */
    OP_WINDOW, /* one for anywhere in a window, COUNT nanoseconds wide */
    OP_CANCEL,
    OP_RESCHEDULE,
    OP_REPEAT,
    OP_ASK,     /* a handle's state and the time that remains */
    OP_ASK_ALL, /* every handle's */
    OP_ADVANCE,
    OP_NEXT_TICK,
    OP_SET_CLOCK,
    OP_STATS,
    OP_TEXT, /* the stats and what is pending, as text */
    OP_DESCRIPTOR,
    OP_START,
    OP_NONSENSE, /* bad arguments */
    OP_MODE,     /* what the executor does from now on: COUNT is a mode */
    OP_WORK,     /* runs the COUNT-th work that the executor has put off */
    OP_STOP,
    OP_KINDS
};

/* Where an operation is made: outside, or in the nth call of a callback of timeout `owner`. */
enum place { OUTSIDE, IN_RUN, IN_CANCELLED, IN_VISIT };

enum number {
    /* An instant: a base and a distance from it, (REVOLUTIONS of the wheel + TICKS) ticks and
     * NANOSECONDS, each of the last two taken away if SIGNS says so. */
    BASE,
    SIGNS,
    REVOLUTIONS,
    TICKS,
    NANOSECONDS,
    HOW, /* HOW_... */
    COUNT,
    STRIDE,
    NUMBERS
};

enum base {
    BASE_NOW,      /* the clock */
    BASE_BOUNDARY, /* the end of the clock's tick */
    BASE_DEADLINE, /* another's, or its own */
    BASE_DUE,      /* the next instant at which anything is due */
    BASE_ZERO,
    BASE_NEVER,
    BASES
};

enum { MINUS_TICKS = 1, MINUS_NANOSECONDS = 2, BACKWARDS = 4 };

enum {
    HOW_RELATIVE = 1, /* NEW, CROWD, RESCHEDULE: by a delay */
    HOW_TOLD = 2,     /* NEW, CROWD, WINDOW: with a `cancelled` */
    HOW_UNASKED = 4,  /* NEW: ret_timeout is NULL */
    HOW_SYNC = 1,     /* CANCEL */
    HOW_DISPATCH = 1, /* ADVANCE: by the clock */
    HOW_OLDER = 2,    /* ADVANCE: by a reading of COUNT nanoseconds ago */
    HOW_VISITED = 1   /* STOP */
};

enum mode { AT_ONCE, REFUSE, LATER, MODES };

struct operation {
    uint8_t kind;
    uint8_t place;
    uint32_t owner, nth;
    uint32_t target; /* the timeout's id; of a crowd, the first one's */
    uint32_t other;  /* the one whose deadline BASE_DEADLINE is */
    uint64_t numbers[NUMBERS];
};

enum setting {
    TICK_DURATION,
    WHEEL, /* ticks_per_wheel */
    START,
    MAX_PENDING,
    EXECUTOR, /* there is one */
    VISITED,  /* the stop at the end has a visitor */
    ODDITIES, /* ODD_... */
    SETTINGS
};

/* What must make no difference. */
enum { ODD_CLOCK = 1, ODD_CPU = 2, ODD_NAME = 4, ODDITIES_ALL = 7 };

struct program {
    uint64_t settings[SETTINGS];
    uint32_t length;
    uint32_t ids;
    struct operation operations[OPERATIONS_MAX];
};

/* Where a program is drawn from: random numbers, or bytes while they last. */
struct source {
    uint64_t random;
    const uint8_t *bytes; /* NULL: random numbers */
    size_t size;
};

struct totals {
    uint64_t programs, operations;
    uint64_t added, rescheduled, expired, cancelled, left, rejected;
};

/* Draws a program of about so many operations, fewer if the bytes run out, runs and records it. */
void simulate_draw(struct source *source, uint64_t operations, struct program *record,
                   struct totals *totals);
void simulate_replay(const struct program *program);

/* Called where the timer does not do as the oracle says. Does not return. */
_Noreturn void simulate_failed(const char *what);

/*
 * The journal: what a program does, as lines of C with what they must answer. Lines are in the
 * order of running, each with where it belongs. It is NULL, and costs nothing, but where a
 * program is run to be printed.
 */
enum { LINES_MAX = 32768 };

struct line {
    uint8_t place;
    uint32_t owner, nth;
    char text[TEXT_MAX];
};

struct journal {
    uint32_t length;
    struct line lines[LINES_MAX];
};

extern struct journal *simulate_journal;

enum outcome {
    AGREES,
    DIFFERS, /* from the oracle */
    DIES     /* by a signal, or it hangs */
};

/* Runs the program in a process of its own. `journal` may be NULL. */
enum outcome simulate_alone(const struct program *program, struct journal *journal);

/* Makes a program that does not agree as small as can be in a minute or two. */
void simulate_shrink(struct program *program);

/* Prints a program as a C test. */
void simulate_print(const struct program *program, const char *title);

#endif
