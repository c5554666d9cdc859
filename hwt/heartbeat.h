/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_HEARTBEAT_H
#define HWT_HEARTBEAT_H

/*
 * Heartbeats and idle limits for a connection, by one timeout.
 *
 * OVERVIEW
 *
 * A program embeds an hwt_heartbeat in a connection. The connection notes every packet that it
 * reads or writes, and is told when nothing was noted for too long:
 *
 *     event                        due, with its limit, after    or, if that is later,
 *     HWT_HEARTBEAT_DEAD           the last read                 its own last event was due
 *     HWT_HEARTBEAT_READER_IDLE    the last read                 its own last event was due
 *     HWT_HEARTBEAT_WRITER_IDLE    the last write                its own last event was due
 *     HWT_HEARTBEAT_ALL_IDLE       the later of the two          its own last event was due
 *     HWT_HEARTBEAT_SEND           the earlier of the two        its own last event was due
 *
 * A note touches no timeout. The one timeout looks at the notes when the earliest of the events can
 * be due, and re-arms itself for the instant that follows from them. So a busy connection costs one
 * look in the shortest of its limits. An event comes no later after its instant than any timeout
 * does, which is one tick and the scheduler's lateness.
 *
 * So two events of one kind are at least a limit apart. Two examples, with a limit of 1 s and a
 * start at 0:
 * - DEAD is told at 1.0, and then a note comes late, of a packet that was read at 0.7. The next one
 *   is due at 2.0, not at 1.7. Its count is 1 again, because something was read after all.
 * - SEND is told at 1.0, and the heartbeat is noted as written. The last read was at 0.5. The next
 *   one is due at 2.0, not at 1.5, so the peer has a limit to answer.
 *
 * A heartbeat is sent when either direction is silent, for two reasons. If we are silent, the peer
 * takes us for dead, so we must have written. If the peer speaks only when it is spoken to, it must
 * be asked, however much we write, or we take it for dead. If one half is enough, that half is
 * WRITER_IDLE or READER_IDLE.
 *
 * USAGE
 *
 *     struct connection { hwt_heartbeat heartbeat; ... };      // zeroed: not started
 *
 *     static void notify(hwt_heartbeat *heartbeat, hwt_heartbeat_event event, uint64_t count,
 *                        void *arg)
 *     {
 *         if (event == HWT_HEARTBEAT_SEND) {
 *             connection_send_ping(arg);                       // and notes it as written
 *         } else if (hwt_heartbeat_stop(heartbeat)) {
 *             connection_close(arg);                           // which may free it
 *         }
 *     }
 *     static const hwt_heartbeat_rules rules = {
 *         .dead = HWT_SEC(180), .send = HWT_SEC(60), .notify = notify
 *     };
 *
 *     r = hwt_heartbeat_start(&connection->heartbeat, timer, &rules, connection);
 *     hwt_heartbeat_read_at(&connection->heartbeat, now);      // for every packet
 *     hwt_heartbeat_stop_sync(&connection->heartbeat);         // then it may be freed
 *
 * OWNERSHIP
 *
 * The object is the caller's. A zeroed one is stopped. A started one must stay where it is. It may
 * be freed, or zeroed again,
 * - once hwt_heartbeat_stop_sync() has returned, on any thread; or
 * - in its own callback, once that has called hwt_heartbeat_stop(), because neither the rest of the
 *   look nor anything else in the library touches it then; or
 * - once its timer is destroyed. From then on it must be zeroed before any other use.
 *
 * A stop is true for one caller alone. So if a callback and a thread both want to end the
 * connection, one of them knows that it is the one to do so. That does not help a thread that calls
 * after the object was freed. Such a thread needs a reference of its own to the connection.
 *
 * A callback may stop the object, start it anew on the same timer, and stop it again. If another
 * thread has stopped it in the meantime, the callback cannot start it, because that thread may be
 * about to free it. Callbacks of one object never overlap. hwt_heartbeat_stop_sync() waits for the
 * one that runs, whether or not it has stopped the object itself.
 */

#include <hwt/hwt.h>

/* For objects with atomic words of 64 bits, which some 32-bit machines align to 4 bytes only. */
#ifndef HWT_ALIGNED_8
#if UINTPTR_MAX == UINT32_MAX && defined(__GNUC__)
#define HWT_ALIGNED_8 __attribute__((aligned(8)))
#else
#define HWT_ALIGNED_8
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* They are in the order in which one look tells them. */
typedef enum hwt_heartbeat_event {
    HWT_HEARTBEAT_DEAD,
    HWT_HEARTBEAT_READER_IDLE,
    HWT_HEARTBEAT_WRITER_IDLE,
    HWT_HEARTBEAT_ALL_IDLE,
    HWT_HEARTBEAT_SEND
} hwt_heartbeat_event;

typedef struct hwt_heartbeat hwt_heartbeat;

/*
 * The limits in nanoseconds, and the functions to call. A limit of 0, or HWT_NEVER, switches its
 * event off. The object keeps the rules by reference until it is stopped, so they are usually a
 * static const. Whatever is said of freeing the object is true for its rules too. Reserved fields
 * are zero.
 *
 * The timer calls `notify` where it runs its tasks. That is the worker, the executor if there is
 * one, or hwt_timer_advance() and its like. `count` is 1 for the first event of its kind since the
 * activity in question last changed (Netty's `first`), 2 for the next one, and so on. Without
 * activity, an event is due again a limit after the last one of its kind was due. Events that were
 * missed because the worker or the process stood still are left out, and not made up for. An event
 * does not count as activity, so note a heartbeat that was written as any other packet.
 *
 * `limit`, if any, is asked instead of the five limits. It is for limits that belong to one
 * connection, such as the keep-alive that an MQTT client names, so that connections of all limits
 * share their rules. It is called at the start, on that thread, and in each look, and never twice
 * at once for one object. It answers from what `arg` has at hand, and calls no function on the
 * object. If its answer differs from the one before, that counts from the next look on, and the
 * limits before have set the instant of that look. To have it count at once, stop the object and
 * start it again.
 *
 * A stopped timer tells nothing more, and does not tell its own end either. hwt_timer_stop() does
 * not show the object's timeout to its visitor. The object counts as started until it is stopped,
 * so a stop is true for one caller here too.
 */
typedef struct hwt_heartbeat_rules {
    uint64_t dead;        /* customary: three times the period at which the peer sends */
    uint64_t reader_idle; /* as dead: a second limit, for a warning or a question */
    uint64_t writer_idle;
    uint64_t all_idle;
    uint64_t send; /* period of the heartbeats, at least while a direction is silent */
    void (*notify)(hwt_heartbeat *heartbeat, hwt_heartbeat_event event, uint64_t count, void *arg);
    uint64_t (*limit)(hwt_heartbeat_event event, void *arg); /* may be NULL */
    uint64_t reserved[3];
} hwt_heartbeat_rules;

/* For embedding and zeroing only, because the fields are the library's. */
struct hwt_heartbeat {
    uint64_t last_read;
    uint64_t last_written;
    uint64_t state;
    hwt_timer *timer;
    hwt_timeout timeout;
    const hwt_heartbeat_rules *rules;
    void *arg;
    uint64_t seen_read, seen_written; /* the notes of the last look */
    uint64_t due[5];                  /* of each kind, the instant of the last event, */
    uint32_t count[5]; /* and how many since the activity changed; stays at UINT32_MAX */
    uint32_t reserved[3];
} HWT_ALIGNED_8;

/*
 * Starts the object, which counts as a read and a write. It reads the timer's clock once.
 * Lock-free, but it blocks while a callback from before the last stop still runs on another thread,
 * as hwt_heartbeat_stop_sync() does. After an error the object is as it was.
 *
 * -EINVAL: NULL, or no `notify`; something reserved of the rules is not zero
 * -EALREADY: it is started, or another thread is about to
 * -ENOMEM, -ENOBUFS, -EAGAIN, -EMFILE, -ENFILE, -ESHUTDOWN: as hwt_timer_new_timeout()
 * In its own callback: -ECANCELED: another thread has stopped it; -EBUSY: another timer than
 *   that of the callback
 */
HWT_PUBLIC int hwt_heartbeat_start(hwt_heartbeat *heartbeat, hwt_timer *timer,
                                   const hwt_heartbeat_rules *rules, void *arg);

/*
 * True for exactly one caller, if the object was started. False: it was not started, or was just
 * about to be, or heartbeat is NULL. Once it has returned no callback begins but one that is just
 * about to, on another thread. Lock-free; does not wait.
 */
HWT_PUBLIC bool hwt_heartbeat_stop(hwt_heartbeat *heartbeat);

/*
 * The same, and when it returns, with either answer, `notify` is not running on any other thread,
 * so the object may be freed. In its own callback it does not wait. Blocks as long as `notify`
 * runs. Do not wait in a circle, and do not hold a lock across it that `notify` takes.
 *
 * If a start on another thread overlaps it, the start comes after it.
 */
HWT_PUBLIC bool hwt_heartbeat_stop_sync(hwt_heartbeat *heartbeat);

/*
 * Notes that something was read, or written, at `now`. That is an instant of the timer's clock
 * which the caller has at hand, for example that of this turn of its event loop. An instant that is
 * older than the last note changes nothing. So several threads may note at once, in any order, and
 * none of them makes an idle connection of a busy one. If `now` is newer, this is a
 * compare-exchange, else a load. It reads no clock. An instant in the future holds until it has
 * come. It has no effect on a stopped object, or on NULL. Lock-free.
 *
 * They are inline, and the library has them as functions too, for languages that cannot inline
 * them. If HWT_NO_INLINE is defined, this header has declarations alone.
 */
#ifdef HWT_NO_INLINE
HWT_PUBLIC void hwt_heartbeat_read_at(hwt_heartbeat *heartbeat, uint64_t now);
HWT_PUBLIC void hwt_heartbeat_written_at(hwt_heartbeat *heartbeat, uint64_t now);
#else
/* For the two below. Relaxed, because it is a number and publishes nothing. */
static inline void hwt_heartbeat_note(uint64_t *last, uint64_t now)
{
    uint64_t seen = __atomic_load_n(last, __ATOMIC_RELAXED);
    while (seen < now &&
           !__atomic_compare_exchange_n(last, &seen, now, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static inline void hwt_heartbeat_read_at(hwt_heartbeat *heartbeat, uint64_t now)
{
    if (heartbeat)
        hwt_heartbeat_note(&heartbeat->last_read, now);
}

static inline void hwt_heartbeat_written_at(hwt_heartbeat *heartbeat, uint64_t now)
{
    if (heartbeat)
        hwt_heartbeat_note(&heartbeat->last_written, now);
}
#endif

/* The same, at hwt_timer_now(). */
HWT_PUBLIC void hwt_heartbeat_read(hwt_heartbeat *heartbeat);
HWT_PUBLIC void hwt_heartbeat_written(hwt_heartbeat *heartbeat);

#ifdef __cplusplus
}
#endif

#endif
