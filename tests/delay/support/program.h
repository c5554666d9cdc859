/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_DELAY_SUPPORT_PROGRAM_H
#define HWT_TESTS_DELAY_SUPPORT_PROGRAM_H

/*
 * Random programs of all calls on a store whose disk is simulated, beside an oracle. After each
 * change of the disk, and after each call, the power fails in a copy: what is found then is opened
 * and compared. See crash.c.
 */

#include <stdbool.h>
#include <stdint.h>

#include "tests/delay/support/disk.h"
#include "tests/delay/support/oracle.h"

enum operation_kind {
    OP_PUT,
    OP_PUT_ASYNC,
    OP_CANCEL,
    OP_REPLACE,
    OP_TAKE,
    OP_DONE,
    OP_CLEAR, /* cancels most of what is pending */
    OP_RETRY,
    OP_EXTEND,
    OP_APPLY, /* a batch of any changes, and a note */
    OP_ADVANCE,
    OP_LEAP,
    OP_CHECKPOINT,
    OP_VISIT,
    OP_LOOK,      /* next, stats, check */
    OP_NONSENSE,  /* arguments that are refused */
    OP_FLOOD,     /* puts more than there is memory for */
    OP_REOPEN,    /* close, open */
    OP_KILL,      /* the process dies between two calls; open */
    OP_DIE,       /* it dies within a call of the seam, in one of the next operations */
    OP_ROUNDS,    /* takes, ends leases, makes checkpoints and dies, in any order */
    OP_CRASH,     /* the power fails; what is found is gone on with */
    OP_FILL,      /* the disk has no more room than that */
    OP_SYNC_FAIL, /* one of the next syncs fails */
    /* Only with shortages. */
    OP_COPY,
    OP_SHORT, /* some of the next calls of the seam lack descriptors, memory or room */
    OPERATIONS
};

struct operation {
    enum operation_kind kind;
    uint64_t seed; /* its arguments are drawn from it, as is what its crashes leave */
};

enum { PROGRAM_MAX = 400 };

struct program {
    uint64_t seed;
    bool crashes;   /* the power fails everywhere; else only in OP_CRASH */
    bool faults;    /* OP_FILL and OP_SYNC_FAIL */
    bool shortages; /* OP_COPY and OP_SHORT */
    enum disk_mistake_kind mistake;
    enum disk_sync_kind mistaken;
    enum mistake_moment { CREATING, OPENING, RUNNING } moment; /* of the mistake */
    /* Of all calls of the seam, number fail_at and fail_count in all fail, in one process; see
     * struct process. */
    int fail_with;
    uint64_t fail_at, fail_count;
    unsigned length;
    struct operation operations[PROGRAM_MAX];
};

/* What came out. Shared with the process that ran it. */
struct result {
    uint64_t states; /* crash states looked at, or failures of the system */
    uint64_t cut;    /* of them, with an unfinished write in the log */
    uint64_t operations;
    uint64_t mistakes; /* how often the mistake was made */
    bool fault_made;   /* call number fail_at was reached */
    uint64_t calls[OPERATIONS];
    uint64_t checkpoints, syncs;
    unsigned at; /* the operation that runs */
    bool failed;
    char wrong[1000];
};

void program_draw(struct program *program, uint64_t seed, bool faults, bool shortages);

/* Runs it in this process. With `say`, prints what it does. */
void program_run(const struct program *program, struct result *result, bool say);

/* In a process of its own, which may crash or hang. */
void program_run_apart(const struct program *program, struct result *result);

/* Runs it once for each call of the seam that it makes, with that one failing, and others with it:
 * the first failure is in *result, with the program that has it. */
void program_run_faults(struct program *program, struct result *result);

/* Leaves out of a program that fails all that is not needed for it. */
void program_shrink(struct program *program, struct result *result);

#endif
