/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * One entry through two lives: added, moved, cancelled, run, re-armed, discarded, salvaged, reused,
 * by handles that may be stale. With -DEXECUTOR another thread runs the tasks. The steps are in
 * word.pml and worker.pml, the threads in threads.pml.
 *
 * Verified: each timeout ends once, and those whose cancel was true are those that ended
 * cancelled; no task starts before the newest deadline, nor after a cancel has returned; an ARMED
 * timeout is filed for its deadline or before; a link that is in use is not pushed; no handle
 * cancels or moves another timeout than its own; an entry that is given back is nobody's; and once
 * all deadlines are over and all calls have returned, it is given back.
 */

#include "threads.pml"

init
{
    atomic { start() }
}
