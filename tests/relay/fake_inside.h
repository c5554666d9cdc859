/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_RELAY_FAKE_INSIDE_H
#define HWT_TESTS_RELAY_FAKE_INSIDE_H

/*
 * What the parts of the fake broker know of each other:
 *
 *     fake.c           time, chance, and what tests do
 *     fake_broker.c    the engine's calls
 *     fake_lost.c      what the broker loses
 *     fake_together.c  an engine with transactions
 *     fake_replica.c   processes, disks and clocks
 */

#include "tests/relay/fake.h"

/* Whether a fault happens now: one in `rarity`, if there are faults at all. */
bool fake_happens(struct fake *fake, unsigned kind, uint64_t rarity);

extern const struct relay_engine_calls fake_calls;
/* What was on its way arrives, when it is time for that. */
void fake_arrive_late(struct fake *fake);
void fake_end_list(struct fake_list *list);
/* Which message is the first one behind a position, of those that are not purged. */
size_t fake_behind(const struct fake *fake, uint64_t position);

void fake_arrive(struct fake *fake, struct fake_message *made);
void fake_answer(struct fake_replica *replica, uint64_t cookie, int result);
int fake_change(struct fake *fake, const char *name, uint64_t revision, const char *text);

void fake_hold(struct fake_replica *replica, struct fake_message *made, uint64_t cookie);
void fake_forget_held(struct fake_replica *replica);
int fake_swap_together(struct fake_replica *replica, const char *name, uint64_t revision,
                       const char *text, uint64_t *ret_revision);

/* In the first lines of each call: the process may be dead, die, or stand still. */
bool fake_is_dead(struct fake_replica *replica);
void fake_set_clock(struct fake_replica *replica);
void fake_replica_step(struct fake_replica *replica);

#endif
