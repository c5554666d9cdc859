/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* An engine whose messages become visible with the change of the shard's entry, all of them or none. */

#include "tests/relay/fake_inside.h"

#include <errno.h>

void fake_hold(struct fake_replica *replica, struct fake_message *made, uint64_t cookie)
{
    must(replica->held_count < RELAY_FLIGHTS_MAX);
    replica->held[replica->held_count] = made;
    replica->held_cookies[replica->held_count++] = cookie;
}

/* They arrive, or are taken back; `told`: their sender hears of it now. */
static void end_held(struct fake_replica *replica, bool arrive, bool told)
{
    for (size_t i = 0; i < replica->held_count; i++) {
        if (arrive)
            fake_arrive(replica->fake, replica->held[i]);
        else
            free(replica->held[i]);
        replica->held[i] = NULL;
        fake_answer(replica, replica->held_cookies[i], arrive ? 0 : -ECANCELED);
    }
    replica->untold = !told;
    replica->held_count = 0;
}

void fake_forget_held(struct fake_replica *replica)
{
    for (size_t i = 0; i < replica->held_count; i++)
        free(replica->held[i]);
    replica->held_count = 0;
    replica->untold = false;
}

int fake_swap_together(struct fake_replica *replica, const char *name, uint64_t revision,
                       const char *text, uint64_t *ret_revision)
{
    struct fake *fake = replica->fake;
    bool lost = fake_happens(fake, FAULT_LOST, 10), done = !lost || fake_draw(fake, 2) == 0;
    int r;

    if (replica
            ->untold) { /* it learns what has become of the transaction before, and does no more */
        replica->untold = lost;
        return -ETIMEDOUT;
    }
    r = done ? fake_change(fake, name, revision, text) : -ETIMEDOUT;
    end_held(replica, r == 0, !lost);
    *ret_revision = revision + 1;
    return lost ? -ETIMEDOUT : r;
}
