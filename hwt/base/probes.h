/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_PROBES_H
#define HWT_PROBES_H

/*
 * Static probes (USDT) for bpftrace, SystemTap, perf and gdb, of the provider `hwt`. Each is one
 * no-op instruction until somebody traces it. Without <sys/sdt.h>, or with -Dprobes=disabled, there
 * are none. perf/lateness.bt shows their use.
 *
 *   hwt:add         timer, entry, generation, deadline   a new timeout is queued (or refused after
 *                                                        all, because stop has begun)
 *   hwt:cancel      timer, entry, generation             a cancel returns true
 *   hwt:reschedule  timer, entry, generation, deadline   the deadline is moved; or a task re-arms
 *                                                        its timeout, unless a cancel meets that
 *   hwt:fire        timer, entry, generation, lateness   a task is about to run
 *   hwt:drain       timer, count                         so many left the pending queues
 *   hwt:park        timer, instant                       the worker is about to sleep until then;
 *                                                        HWT_NEVER: until somebody wakes it
 *   hwt:wake        timer                                it came out of its sleep
 *
 * All arguments have 64 bits, except pointers on a 32-bit machine. Deadlines and instants are
 * readings of the timer's clock, lateness is in nanoseconds, and entry and generation are those of
 * the hwt_timeout. With HWT_NO_WORKER, hwt:park is about the descriptor of hwt_timer_fd().
 */

#if HWT_PROBES
#include <sys/sdt.h>
#ifdef __clang__
#pragma clang diagnostic ignored "-Wgnu-zero-variadic-macro-arguments" /* of sdt.h's macros */
#endif
#define HWT_PROBE1(name, a) DTRACE_PROBE1(hwt, name, a)
#define HWT_PROBE2(name, a, b) DTRACE_PROBE2(hwt, name, a, b)
#define HWT_PROBE3(name, a, b, c) DTRACE_PROBE3(hwt, name, a, b, c)
#define HWT_PROBE4(name, a, b, c, d) DTRACE_PROBE4(hwt, name, a, b, c, d)
#else
#define HWT_PROBE1(name, a) ((void)0)
#define HWT_PROBE2(name, a, b) ((void)0)
#define HWT_PROBE3(name, a, b, c) ((void)0)
#define HWT_PROBE4(name, a, b, c, d) ((void)0)
#endif

#endif
