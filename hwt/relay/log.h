/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_RELAY_LOG_H
#define HWT_RELAY_LOG_H

#include <limits.h>

/*
 * The relay's log: one line on stderr for each fact, as
 *
 *     time=2026-11-22T10:00:00.500Z level=warning shard=0 msg="the disk is full"
 *
 * If stderr is the journal of systemd, "<4>" stands for the time, which the journal has itself, and makes it know the
 * level. Whatever is in a text, it stays one line, and is no second key. No text has a secret in it: whoever logs
 * what a library has said looks before whether it can name one.
 *
 * A format begins with its level; without one it is a warning. A shard does not say its last line again within a minute.
 */
#define RELAY_ERROR                                                                                \
    "<3>" /* a shard does not go on, or messages may be lost: somebody has to see to it */
#define RELAY_WARNING "<4>" /* it goes on, not as it should */
#define RELAY_NOTICE "<5>"  /* somebody has changed something */
#define RELAY_INFO "<6>"    /* all is well */

enum { RELAY_NO_SHARD = INT_MAX }; /* the fact is of the whole process */

/* Any thread. The tests have one of their own. */
void relay_log(unsigned shard, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Before there are threads: looks whether stderr is the journal. */
void relay_log_begin(void);

#endif
