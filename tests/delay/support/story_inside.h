/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_DELAY_SUPPORT_STORY_INSIDE_H
#define HWT_TESTS_DELAY_SUPPORT_STORY_INSIDE_H

/* What story.c and story_life.c do for each other. */

#include "tests/delay/support/story.h"

/* Looks at all of it beside other calls, which it does not look for. */
void story_list(void);
/* No file is damaged. */
void story_check(void);

/* Ends the test: says who played, and what is wrong with the message. */
void story_broken(const char *what, uint32_t number);

void story_lock(void);
void story_unlock(void);

/* Which one it is, and which version; all of its bytes are looked at. */
uint32_t story_number(const hwt_delay_message *message, uint32_t *ret_version);
uint64_t story_due(uint32_t number);
hwt_delay_message story_message(const uint32_t *number, uint32_t version,
                                unsigned char payload[8192]);
/* With the lock: one was handed over by a take that began behind the ticket. Returns its number. */
uint32_t story_taken(const hwt_delay_message *taken, uint64_t ticket);
/* Takes up to so many; returns how many, and the number of the last one. */
int64_t story_take(size_t max, uint32_t *ret_number);
/* As hwt_delay_put(), put_async and replace. */
int story_put(uint32_t number, uint32_t version);
int story_put_async(uint32_t number, uint32_t version, hwt_delay_durable durable, void *arg);
int story_replace(uint32_t number, uint32_t by, uint32_t version);
/* Whether a call counted that had no answer: from now on it is as it is listed. */
void story_settle(uint32_t number);
/* The process ends, and the power goes; one thread opens what is left. */
void story_kill(void);
int story_open(void);
void story_pass_time(uint64_t by);

#endif
