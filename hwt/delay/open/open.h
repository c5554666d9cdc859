/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DELAY_OPEN_OPEN_H
#define HWT_DELAY_OPEN_OPEN_H

/* Opening a store. See open.c. */

#include "hwt/delay/disk/system.h"

struct hwt_delay_frame;
struct hwt_delay_record;

/*
 * As hwt_delay_open(), on another system; the table must live as long as the store. With
 * `synchronous` no thread is started and no timer. Whatever a background thread would do is done
 * within the calls, in an order that depends on the calls alone. Then only one thread may use the
 * store; take does not wait, whatever it is told; put_async commits and calls back before it
 * returns; and hwt_delay_fd() is -ENOTSUP.
 */
int hwt_delay_open_on(const char *directory, const hwt_delay_options *options,
                      const struct hwt_delay_system *system, bool synchronous,
                      hwt_delay **ret_store);

/* ---- open.c ---- */

void hwt_delay_forget(hwt_delay *store);

/* ---- create.c ---- */

int hwt_delay_open_files(hwt_delay *store);
int hwt_delay_store_write(hwt_delay *store);

/* ---- recover.c ---- */

int hwt_delay_recover(hwt_delay *store);

/* ---- replay.c ---- */

/* Applies a frame of the log that opening has read. */
int hwt_delay_replay(hwt_delay *store, const struct hwt_delay_frame *frame,
                     const unsigned char *records);
int hwt_delay_replay_record(hwt_delay *store, struct hwt_delay_record *record);

/* ---- salvage.c ---- */

int hwt_delay_rebuild(hwt_delay *store);
int hwt_delay_gaps_release(hwt_delay *store);

#endif
