/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_BASE_OWN_TASK_H
#define HWT_BASE_OWN_TASK_H

/*
 * The library's own tasks, told from those of the program: a visitor of hwt_timer_stop() could do
 * nothing with them. So that the core need not know the rooms that have such tasks, they mark
 * them:
 *
 *     static const hwt_task look_task HWT_OWN_TASK = { look_at, NULL };
 *
 * That places them in an ELF section of its own, whose bounds the linker knows. Each copy of the
 * library has its own section: the symbols are hidden. They are weak for a program that is linked
 * with none of these rooms: there both are NULL.
 */

#include <hwt/hwt.h>

#define HWT_OWN_TASK __attribute__((section("hwt_own_tasks"), used))

extern const hwt_task __start_hwt_own_tasks[] __attribute__((weak, visibility("hidden")));
extern const hwt_task __stop_hwt_own_tasks[] __attribute__((weak, visibility("hidden")));

/* Integers, since a task of the program is no element of that array. */
static inline bool hwt_task_is_own(const hwt_task *task)
{
    uintptr_t address = (uintptr_t)task;
    return address >= (uintptr_t)__start_hwt_own_tasks && address < (uintptr_t)__stop_hwt_own_tasks;
}

#endif
