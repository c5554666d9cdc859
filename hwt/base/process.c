/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which process this is. See process.h. */

#include "hwt/base/process.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hwt/base/counter.h"
#include "hwt/base/shield.h"
#include "hwt/base/thread.h"
#include "hwt/base/wiped.h"
#include "hwt/base/word.h"

struct hwt_process hwt_process;
void (*hwt_process_child)(void);

static uint32_t number; /* of this process, in the line of those that led to it; 0: not loaded */
static bool wiped;      /* by the kernel */

static void allow_fast(void)
{
    hwt_process.fast = HWT_PROCESS_FAST;
    hwt_process.single = HWT_PROCESS_SINGLE;
}

/* Runs in the child of a fork(), which has one thread. */
static void in_child(void)
{
    if (!wiped)
        memset(&hwt_process, 0, sizeof(hwt_process));
    if (!hwt_process.entered)
        allow_fast();
    hwt_process_enter();
}

/* Once in each process, under the lock. */
static void enter(void)
{
    int shield = hwt_shield();
    if (number++ == 0) {
        hwt_thread_begin();
        wiped = hwt_wiped_on_fork(&hwt_process, sizeof(hwt_process));
        (void)pthread_atfork(NULL, NULL, in_child); /* only fails for want of memory */
        allow_fast();
    } else {
        hwt_word_renew_locks();
        hwt_counter_drop_anchor();
        /* Another thread than the one that forked does not know what number that one has. */
        if (syscall(SYS_gettid) == getpid())
            hwt_thread_forget_others();
        if (hwt_process_child)
            hwt_process_child();
    }
    hwt_unshield(shield);
}

void hwt_process_lock(void)
{
    pthread_mutex_lock(&hwt_process.lock);
    /* Relaxed: under the lock. */
    if (!atomic_load_explicit(&hwt_process.entered, memory_order_relaxed)) {
        enter();
        atomic_store_explicit(&hwt_process.entered, true, memory_order_release);
    }
}

uint32_t hwt_process_number(void)
{
    hwt_process_enter();
    return number;
}

/* Runs when the library is loaded. A program that is linked statically may make a timer earlier,
 * from a constructor of its own. */
__attribute__((constructor)) static void enter_when_loaded(void)
{
    hwt_process_enter();
}
