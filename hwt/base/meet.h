/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_MEET_H
#define HWT_MEET_H

/*
 * Points where threads may meet: between two steps of one, where another's may come. In the build
 * with HWT_MEETINGS, which the tests of schedules have, hwt_meet() holds a thread there or makes it
 * late; else there is nothing. A point has the name of the step that comes next.
 */

#ifdef HWT_MEETINGS
void hwt_meet(const char *point);
#define HWT_MEET(point) hwt_meet(#point)
#else
#define HWT_MEET(point) ((void)0)
#endif

#endif
