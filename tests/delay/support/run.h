/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_DELAY_SUPPORT_RUN_H
#define HWT_TESTS_DELAY_SUPPORT_RUN_H

/* A program that runs: shared by run.c (the calls), life.c (opening, dying) and image.c. */

#include "check_main.h"
#include "tests/delay/support/program.h"

enum { CALL_MESSAGES_MAX = 600 };
enum {
    RUN_LEASES_MAX = 64,
    RUN_SEGMENT = 65536,
    RUN_OLD_MAX = 16,
    RUN_MARKS_MAX = 4,
    RUN_MEMORY = 1 << 20
};

#define RUN_START UINT64_C(1800000000000000000) /* 2027 */

/* What the oracle has up to the order, and nothing else, was put up to the mark. */
struct marked {
    uint64_t mark, order;
};

struct run {
    const struct program *program;
    struct result *result;
    bool say;

    struct disk *disk;
    struct process process, copying; /* the other one has the directory of a copy */
    hwt_delay *store;
    bool standby;
    bool opened; /* it was, once: the store has been made */
    uint64_t realtime, boottime;
    uint64_t offset_low, offset_high; /* realtime - boottime since the clock was last accepted */
    uint64_t
        behind; /* it was opened before this instant, its latest: a leap to there is none; or 0 */
    uint64_t random; /* of the operation that runs */
    uint64_t luck;   /* of its crashes */

    /* Before the call that runs, and after it: the same between calls. */
    struct oracle before, after;
    bool partly; /* the call may have been made in part: see struct listing */

    uint64_t calls_made; /* of the seam, by earlier processes */
    bool excused;        /* the last call failed since its process died, or a fault was made */

    uint64_t old[RUN_OLD_MAX]; /* leases that are over */
    unsigned old_count;
    uint64_t mark;                      /* of the last batch */
    struct marked marks[RUN_MARKS_MAX]; /* of some batches */
    bool no_room;                       /* it lacked room, so the store may still be full */
    bool taking;                        /* a take is under way */
    bool uncounted;           /* the disk was full, or failed: deliveries may not be counted */
    hwt_delay_stats expected; /* some of the counters, since the store was opened */
};

/* Compares the number pending with an oracle's; what has been taken of it is not pending any more. */
void check_pending(struct run *run, hwt_delay *store, const struct oracle *oracle, uint64_t taken,
                   const char *when);

/* Says that something is wrong, the first time. */
void wrong(struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

void said(const struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline uint64_t draw(struct run *run, uint64_t below)
{
    return test_random(&run->random) % below;
}

/* The options of every store here; the clocks' leap is the default. */
void run_options(hwt_delay_options *ret_options);

/* ---- image.c ---- */

/* Looks at what a crash now would leave. */
void image_check(struct run *run);
/* The same for a copy, which has its own disk. */
void image_check_copy(struct run *run, const struct disk *copied);
/* process.changed */
void image_changed(void *run, enum disk_call call, const char *name);

/* ---- life.c ---- */

void life_open(struct run *run);
void life_close(struct run *run);
/* Opens it anew after an end that was none of its own; what is found is what counts now. */
void life_again(struct run *run, bool power_failed);
/* A call answered with that: true if the call was made, and the store goes on. */
bool life_answer(struct run *run, const char *call, int64_t answer);
/* Whether a failure is one that the system may be the reason of. */
bool life_may(const struct run *run, int64_t answer);

/* ---- calls.c ---- */

void call_make(struct run *run, const struct operation *operation);
/* A time that is past, near or far. */
uint64_t call_draw_due(struct run *run);
/* Its payload is of so many bytes at most. */
struct message call_draw_message(struct run *run, uint32_t most);
/* That of a message which is there, mostly. */
struct message call_draw_identity(struct run *run, const struct oracle *oracle);
/* One that is held, mostly. */
uint64_t call_draw_lease(struct run *run);
/* A lease that is over from now on. */
void call_note_old(struct run *run, uint64_t lease);

/* A message as the store wants it, with memory for its bytes. */
struct carried {
    unsigned char id[HWT_DELAY_ID_MAX];
    unsigned char payload[ORACLE_PAYLOAD_MAX];
};
hwt_delay_message call_carry(const struct message *message, struct carried *carried);

/* Adds 1 to an int, or 1000 if it is told of a failure. */
void call_note_durable(int result, void *arg);

/* ---- batch.c ---- */

void batch_make(struct run *run);

/* ---- looks.c ---- */

void look_visit(struct run *run);
/* Copies the store to a disk of its own, and looks at what is there then. */
void look_copy(struct run *run);
/* next, stats, check */
void look_around(struct run *run);
/* Arguments that are refused. */
void look_nonsense(struct run *run);

#endif
