/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_DELAY_SUPPORT_HELD_H
#define HWT_TESTS_DELAY_SUPPORT_HELD_H

/*
 * Threads on a simulated disk, which stand where a test wants them.
 *
 * A player is a thread that calls a store. It passes a point before and behind each call of the system
 * that touches the disk, and it can be told to stand at its n-th point. The store holds no lock
 * there, so others may do what they like meanwhile. A player that waits within the store for another
 * thread says so: the program is linked with pthread_cond_wait and hwt_delay_sleep_on wrapped. So no test has to wait for a
 * while to see that nothing happens, and no time decides anything.
 *
 * The disk and its process are used under a lock of this file's own, and the clocks are atomic.
 */

#include <pthread.h>
#include <stdatomic.h>

#include "tests/delay/support/disk.h"

enum player_state { GOES, STANDS, WAITS, RETURNED };

struct player {
    void (*part)(struct player *player);
    int operation;     /* for the part's own use */
    const char *point; /* where it stands or was last */

    enum player_state state;
    uint64_t steps; /* points to go before it stands; 0: it goes to its end */
    pthread_t thread;
};

extern _Atomic uint64_t held_realtime, held_boottime;
/* A player passes a point also before it sleeps until a frame is done, and behind that. Set before the first one begins. */
extern bool held_sleep_is_a_point;
/* So many such sleeps have begun, also of threads that are no players. */
extern _Atomic unsigned held_sleeps;

/* Starts a process whose calls several threads may make; what it is given must stay. */
void held_start(struct process *process, struct disk *disk);

/* Ends its process: no call of it does anything from now on. */
void held_kill(struct process *process);

/* The next call of that kind fails. */
void held_fail(struct process *process, enum disk_call call);

/* A point of a test's own, which a player passes. */
void held_pass(const char *point);

/* Whether this thread is within a call of the system. */
bool held_is_inside(void);

/* Gives a process of one thread the clocks of this file. */
void held_clocks(struct process *process);

/* What a crash now could leave. */
struct disk *held_crashed(const struct process *process, uint64_t *random);

/* It begins, and stands before its first point or, with 0 steps, goes on to its end. */
void player_begin(struct player *player, void (*part)(struct player *player), int operation,
                  uint64_t steps);
/* Until it stands or has returned; `or_waits`: or waits for another thread. */
enum player_state player_await(struct player *player, bool or_waits);
/* Lets it go to its end, and waits for that. */
void player_let_go(struct player *player);
void player_end(struct player *player);

#endif
