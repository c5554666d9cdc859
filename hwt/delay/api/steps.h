/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DELAY_API_STEPS_H
#define HWT_DELAY_API_STEPS_H

/* Changes as steps, which hwt_delay_apply() and its short ways make of their arguments. See
 * steps.c. */

#include <stdbool.h>

#include "hwt/delay/table/table.h"

struct hwt_delay_step {
    uint8_t op; /* HWT_DELAY_OP_... */
    bool may_fail;
    int unknown; /* why nothing has the ticket: -ENOENT, -EBADMSG */
    int result;
    uint64_t lease_token;               /* that ends; 0: none */
    struct hwt_delay_found found;       /* CANCEL, REPLACE, MOVE: by its ticket, if it has one */
    uint64_t due;                       /* RETRY, MOVE: the new one */
    const hwt_delay_message *message;   /* RETRY: the new payload; NULL: it stays */
    struct hwt_delay_lease *lease;      /* once the step was judged */
    struct hwt_delay_record *tombstone; /* CANCEL, REPLACE, MOVE */
    struct hwt_delay_record *put;       /* PUT, REPLACE, RETRY, MOVE */
    struct hwt_delay_record *drop;      /* DROP */
};

struct hwt_delay_steps {
    struct hwt_delay_step *list;
    size_t count;
    struct hwt_delay_record *note; /* or NULL */
    bool no_wait;
    hwt_delay_durable durable; /* NULL: the call waits */
    void *arg;                 /* of `durable` */
    size_t size, memory;       /* of the records, in the log and in memory */
    size_t puts, ends, drops;  /* how many messages are put, leases ended, drops made */
    bool has_new;              /* one that was not there before is put */
    uint64_t frame;            /* brings them to the disk; 0: there is nothing to bring */
    uint64_t mark;             /* the sequence of the last record */
    struct hwt_delay_step few[4];
};

int hwt_delay_steps_init(struct hwt_delay_steps *steps, size_t count);
void hwt_delay_steps_free(struct hwt_delay_steps *steps);
int hwt_delay_step_put(struct hwt_delay_step *step, const hwt_delay_message *message);
int hwt_delay_step_tombstone(struct hwt_delay_step *step, uint64_t due, const void *id,
                             size_t id_size);
void hwt_delay_step_lease(struct hwt_delay_step *step, uint8_t op, uint64_t lease);

/* Makes them with the lock, and does not wait for the disk. */
int hwt_delay_steps_make(hwt_delay *store, struct hwt_delay_steps *steps);
/* With the lock, which it lets go of: they were made, in this frame at the latest, and are waited
 * for; 0: nothing is. `ends`: they have ended leases. */
int hwt_delay_steps_leave(hwt_delay *store, uint64_t frame, bool ends);
/* Makes them and waits, or has `durable` told. */
int hwt_delay_steps_apply(hwt_delay *store, struct hwt_delay_steps *steps);

/* ---- arguments ---- */

bool hwt_delay_is_identity(uint64_t due, const void *id, size_t id_size);
/* -EINVAL, -EMSGSIZE */
int hwt_delay_check_payload(const hwt_delay *store, const hwt_delay_message *message);
int hwt_delay_check_message(const hwt_delay *store, const hwt_delay_message *message);

#endif
