/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DELAY_TOOL_H
#define HWT_DELAY_TOOL_H

/*
 * The program hwt-delay: a store of delayed messages by hand. It is made of the public header
 * alone, one command a run:
 *
 *     main.c     the commands, their options and operands; misuse
 *     look.c     commands that read: stat, dump, check
 *     change.c   commands that change: put, cancel, take
 *     copy.c     copy: a store to another directory
 *     salvage.c  salvage: what can be read goes to a new store
 *     text.c     instants, durations and messages as text; what an error means
 *
 * A function that ends the program has `_Noreturn`. A command returns the exit status: 0; or
 * FAILED, after it has said on stderr what was wrong and what to do. Misuse ends with MISUSED.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hwt/delay.h"

enum { FAILED = 1, MISUSED = 2 };

/* The command line, as it was read. */
struct request {
    const char *directory;
    char **operands; /* what follows the directory */
    int count;
    bool create, lines, messages, prometheus;
    const char *from, *to, *max, *wait; /* NULL: not given */
};

int command_stat(const struct request *request);
int command_dump(const struct request *request);
int command_check(const struct request *request);
int command_put(const struct request *request);
int command_cancel(const struct request *request);
int command_take(const struct request *request);
int command_copy(const struct request *request);
int command_salvage(const struct request *request);

/* ---- main.c ---- */

_Noreturn void misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
int fail(const char *format, ...) __attribute__((format(printf, 1, 2))); /* returns FAILED */

/* Opens a store, or says why not and ends the program with FAILED. */
hwt_delay *open_store(const char *directory, uint32_t flags);
/* The same; a store that is made has room for a payload of so many bytes, if that is long. */
hwt_delay *open_store_for(const char *directory, uint32_t flags, uint64_t payload);

/* Whether all of stdout arrived: 0 or FAILED. */
int finish_output(void);

/* ---- text.c ---- */

uint64_t clock_now(void); /* as every store's */

#define TIME_ROOM 32 /* of an instant as text, its final 0 included */

/*
 * An instant: "now", "+90s" (from `now`), "@1800000000.5" (seconds since 1970), or
 * "2026-11-22T10:00:00.5Z". False: it is none of these, or no store can have it.
 */
bool parse_time(const char *text, uint64_t now, uint64_t *ret_time);
/* "90s", with ns, us, ms, s, m, h or d; "forever" is HWT_NEVER. */
bool parse_duration(const char *text, uint64_t *ret_duration);
bool parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *ret_number);
void format_time(uint64_t time, char text[TIME_ROOM]);

/* Writes bytes so that they fit into a line and unescape() reads them again. */
void print_escaped(const void *bytes, size_t size);
/* "\xHH" and "\\" to bytes, in place. False: another backslash. */
bool unescape(char *text, size_t *ret_size);

/* Prints a message as a line of its due time, id and payload, with tabs between. */
void print_message(const hwt_delay_message *message);

#endif
