/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DUMP_H
#define HWT_DUMP_H

/*
 * A look at the wheel for hwt_timer_dump(), by the one thread that may: the worker. Who asks
 * holds `control` until he has his answer, so that there is one request at a time and the worker
 * neither starts nor stops meanwhile.
 *
 *     who asks                                      worker
 *     1  dump = his text       (seq_cst)            A  closes the gate             (seq_cst)
 *     2  looks at the gate, and wakes who sleeps    B  parks only if dump is NULL  (seq_cst)
 *     3  waits until dump is NULL                   C  after each pass: answers
 */

#include "hwt/hwt.h"

/* Worker, between two passes: writes the dump that is asked for, if any. */
void hwt_dump_answer(hwt_timer *timer);

#endif
