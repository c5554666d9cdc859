/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_SCHED_POINT_H
#define HWT_SCHED_POINT_H

/*
 * Points where threads may meet: between two steps of one, where another's may come. In the build
 * with HWT_SCHED_POINTS, which the tests of schedules have, hwt_sched_point() holds a thread there or makes it
 * late; else there is nothing. A point has the name of the step that comes next.
 */

#ifdef HWT_SCHED_POINTS
void hwt_sched_point(const char *point);
#define HWT_SCHED_POINT(point) hwt_sched_point(#point)
#else
#define HWT_SCHED_POINT(point) ((void)0)
#endif

#endif
