/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DELAY_CHECKPOINT_CHECKPOINT_H
#define HWT_DELAY_CHECKPOINT_CHECKPOINT_H

/* Checkpoints. See checkpoint.c. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hwt/delay.h"
#include "hwt/delay/log/log.h"
#include "hwt/delay/slots/slots.h"
#include "hwt/delay/table/table.h"

/* The state at one instant, between two frames, which a checkpoint writes. See checkpoint.c. */
struct hwt_delay_snapshot {
    struct hwt_delay_record **records; /* FLUSHING; and moved ones, which are not in the table */
    size_t count, room;
    struct hwt_delay_slot_list moved; /* slots of which a part is moved */
    struct hwt_delay_record **whole;  /* what is leased, and what is no message */
    size_t whole_count;
    struct hwt_delay_log_point from; /* the log counts from here on */
    uint64_t frame;                  /* the last one before it */
    uint64_t counted;                /* its instant; `from` is lower where the log stays */
    uint64_t extent;                 /* the log's, behind it; 0: as it is */
    uint64_t epoch;                  /* begins with it */
    uint64_t hand, now, tombstone_bytes, kept_bytes;
    struct hwt_delay_filed filed; /* messages that slots have */
    bool brings;                  /* to slots what is FLUSHING; else see publish_old() */
    int error;
};

struct hwt_delay_checkpoint {
    struct hwt_delay_snapshot snapshot; /* of the one that is being made */
    bool watched; /* the checkpointer will see whether the log is still at `quiet_since` */
    uint64_t quiet_since;
    int copies;          /* that are being made: finished slots are not deleted meanwhile */
    bool rewriting;      /* the last checkpoint has left slots that are to be rewritten */
    uint32_t opened_crc; /* of the checkpoint that opening has read */
    bool rebuilt; /* by salvage, with numbers skipped, and no checkpoint on the disk has it yet */
};

/* ---- due.c ---- */

bool hwt_delay_nothing_is_left(const hwt_delay *store);
bool hwt_delay_log_may_shrink(const hwt_delay *store);
bool hwt_delay_checkpoint_is_due(const hwt_delay *store);
/* Called where the log has grown, or something is done. */
void hwt_delay_checkpoint_look(hwt_delay *store);

/* ---- checkpoint.c ---- */

/* So long nothing is put before the log's disk is given back. */
#define HWT_DELAY_QUIET HWT_SEC(10)
int hwt_delay_checkpoint_make(hwt_delay *store);
uint64_t hwt_delay_checkpointer(void *store); /* a job */
void hwt_delay_delete_finished(hwt_delay *store);
void hwt_delay_copies_add(hwt_delay *store, int more);
void hwt_delay_set_rebuilt(hwt_delay *store);
bool hwt_delay_is_rebuilt(const hwt_delay *store);

/* ---- snapshot.c ---- */

int hwt_delay_snapshot_get(hwt_delay *store);
/* What it has is FRESH again. */
void hwt_delay_snapshot_undo(hwt_delay *store);
void hwt_delay_snapshot_free(hwt_delay *store);

/* ---- plan.c ---- */

struct hwt_delay_plan {
    struct hwt_delay_part *parts; /* the caller frees them */
    size_t count, room, written;
};

int hwt_delay_plan_write(hwt_delay *store, struct hwt_delay_plan *plan);
void hwt_delay_plan_undo(hwt_delay *store, struct hwt_delay_plan *plan);
void hwt_delay_plan_conclude(hwt_delay *store, const struct hwt_delay_plan *plan);

/* ---- publish.c ---- */

int hwt_delay_publish(hwt_delay *store);
int hwt_delay_checkpoint_first(hwt_delay *store);
int hwt_delay_checkpoint_write(hwt_delay *store, const unsigned char *bytes, size_t size);

/* ---- read.c ---- */

int hwt_delay_checkpoint_read(hwt_delay *store, unsigned char **ret_bytes, uint64_t *ret_size);
bool hwt_delay_checkpoint_fits(const unsigned char *head, uint64_t extent);
struct hwt_delay_log_point hwt_delay_checkpoint_point(const unsigned char *head);
void hwt_delay_checkpoint_opened(hwt_delay *store, const unsigned char *head);
int hwt_delay_damaged_or_stale(hwt_delay *store);

/* ---- rewrite.c ---- */

void hwt_delay_rewrite(hwt_delay *store);
void hwt_delay_moved_free(struct hwt_delay_snapshot *snapshot);
void hwt_delay_rewrite_undo(hwt_delay *store);
void hwt_delay_rewrite_conclude(hwt_delay *store);
void hwt_delay_dead_add(struct hwt_delay_slot *slot, uint64_t bytes);
void hwt_delay_dead_begin(hwt_delay *store);
void hwt_delay_dead_conclude(hwt_delay *store);
void hwt_delay_note_tombstones(hwt_delay *store, uint64_t due, uint64_t count);

#endif
