/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_SCHED_POINT_H
#define HWT_SCHED_POINT_H

/*
 * Points between two steps of a thread, at which another thread's step may come. With
 * HWT_SCHED_POINTS, which the tests of schedules have, hwt_sched_point() holds a thread there or
 * makes it late. Without it there is nothing. A point has the name of the step that comes next.
 */

#ifdef HWT_SCHED_POINTS
void hwt_sched_point(const char *point);
#define HWT_SCHED_POINT(point) hwt_sched_point(#point)
#else
#define HWT_SCHED_POINT(point) ((void)0)
#endif

#endif
