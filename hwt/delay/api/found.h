/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DELAY_API_FOUND_H
#define HWT_DELAY_API_FOUND_H

/* Finding the message that a ticket names. See tickets.c. */

#include "hwt/delay.h"
#include "hwt/delay/table/table.h"

int hwt_delay_ticket_read(const char *ticket, struct hwt_delay_found *ret_found);
int hwt_delay_found_look(hwt_delay *store, struct hwt_delay_found *found);
bool hwt_delay_found_holds(hwt_delay *store, const struct hwt_delay_found *found);
bool hwt_delay_found_is_gone(hwt_delay *store, const struct hwt_delay_found *found);
void hwt_delay_found_clear(struct hwt_delay_found *found);

/* ---- visit.c ---- */

/* The newest message with a ticket that is due from one instant to another, if it is newer than
 * *found. It has a reference. Lets go of the lock. */
int hwt_delay_visit_for(hwt_delay *store, uint64_t from, uint64_t to,
                        const struct hwt_delay_record *ticket, struct hwt_delay_record **found);

#endif
