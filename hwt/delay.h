/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DELAY_H
#define HWT_DELAY_H

/*
 * hwt-delay: a durable store of delayed messages, kept on a wheel of files.
 *
 * OVERVIEW
 *
 * A message has a due time, an id and a payload. A program puts it into a store, which is a
 * directory, takes it once its time has come, and is done with it once it has dealt with it. In
 * between it survives the end of the process and of the machine. Any number may be pending, because
 * an option bounds the memory. hwt-delay(7) tells how it works.
 *
 * USAGE
 *
 *     hwt_delay *store;
 *     hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
 *     options.flags = HWT_DELAY_CREATE;
 *     int r = hwt_delay_open("/var/lib/shop/delays", &options, &store);
 *     if (r < 0)
 *         return r;                                        // no store: see hwt_delay_open()
 *
 *     hwt_delay_message message = { .due = hwt_delay_now(store) + HWT_SEC(2),
 *                                   .id = "order-17", .id_size = 8,
 *                                   .payload = "remind", .payload_size = 6 };
 *     r = hwt_delay_put(store, &message, 1);               // 0: it is on the disk
 *
 *     const hwt_delay_message *taken;
 *     uint64_t leases[100];
 *     int64_t n = r < 0 ? r : hwt_delay_take(store, 100, HWT_SEC(10), &taken);
 *     for (int64_t i = 0; i < n; i++) {
 *         handle(&taken[i]);
 *         leases[i] = taken[i].lease;
 *     }
 *     if (n > 0) {
 *         hwt_delay_done(store, leases, (size_t)n);        // one flush for all: they end here
 *         hwt_delay_free(taken);                           // only what take has set
 *     }
 *     int closed = hwt_delay_close(store);
 *     return n < 0 ? (int)n : closed;
 *
 * PROMISES
 *
 * 1. A put that returned 0 is on the disk, whole, as far as the device keeps its word about
 *    flushing. A batch is there as a whole or not at all.
 * 2. A message is handed over at least once and never early, that is never while the clock is
 *   before its due time. Messages come in the order of their due times, and then of their puts. One
 *   that is not done when its lease ends is handed over again, and so is one that was not done when
 *   the process ended. No other comes twice.
 * 3. A message whose cancel has returned 0 is never handed over from then on.
 * 4. A message is identified by its due time and its id together. Putting the same again replaces
 *    it, so a producer that does not know whether its put arrived may repeat it.
 * 5. Memory stays within options.memory, about, for any number pending. Who reads slots, for takes
 *    or for a visit, has blocks of them beside that, in as much memory again at the most.
 * 6. Opening reads a checkpoint and the log, and nothing that grows with the number pending.
 * 7. A failed flush makes every further call -EIO until the store is opened anew. Bytes that do not
 *    have their checksum are -EBADMSG. If they hold messages, those of their time are kept
 *    back, and only those, until somebody asks for HWT_DELAY_SALVAGE. On a full disk puts are
 *    -ENOSPC, and take, done and cancel go on.
 * 8. The clock may be set back and forth. See hwt_delay_accept_clock().
 *
 * CONVENTIONS
 *
 * They are those of hwt.h. Instants are nanoseconds since 1970 by CLOCK_REALTIME, durations are
 * nanoseconds.
 *
 * One process owns a store and may use it from any number of threads. Any thread may call any
 * function at any time, except hwt_delay_close(), which is the last. After fork() the child may not
 * use the store, but may open others. Other processes may look at the store with
 * HWT_DELAY_READ_ONLY.
 *
 * If another thread cancels a thread by pthread_cancel(), that thread ends after the call that it
 * is in has returned, as hwt.h says. A thread that waits in a take goes on waiting until
 * hwt_delay_wake() or a message comes. Callbacks may not end their thread.
 *
 * All stores of a process share a few background threads. There are at most seven, however many
 * stores there are, as long as disks and callbacks get on. They begin with the first store that is
 * opened, with the scheduling of the thread that opens it, and end when the last one is closed. If
 * a disk stands still or a callback does not return, other stores get more threads. A store has
 * five descriptors, and six with hwt_delay_fd(). While it writes its files, it has 32 more, or as
 * many as there are.
 *
 * -EINVAL below also stands for a NULL store. Every call that changes or takes can return these.
 *   -EIO: a flush has failed, here or in an earlier call, or reading has. -EROFS: the store was
 *   opened with HWT_DELAY_READ_ONLY. -ENOMEM: nothing was done. -EMFILE, -ENFILE: files are to be
 *   opened, and too many are open; nothing was done. The store makes room in memory and in the log
 *   by writing files. While it has too little memory or too few descriptors for that, a call that
 *   needs the room fails with these. The store tries again every second.
 */

#include <hwt/hwt.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hwt_delay hwt_delay;

/* An id has 1 to so many bytes, any bytes. */
#define HWT_DELAY_ID_MAX 255

/* Retries and deliveries are counted up to so many. */
#define HWT_DELAY_RETRIES_MAX 65535

/* A note has up to so many bytes; see hwt_delay_apply(). */
#define HWT_DELAY_NOTE_MAX 4096

/*
 * Structs
 *
 * hwt_delay_options, hwt_delay_batch and hwt_delay_stats may become longer with a release, and say
 * how long the caller knows them. Begin with their _INIT macros, or with hwt_delay_options_init(),
 * hwt_delay_batch_init() and hwt_delay_stats_init(). hwt_delay_damage says how long the library
 * knows it. hwt_delay_message and hwt_delay_change stay as long as they are, because arrays of them
 * go to the library and come from it. Later releases use what is reserved in them.
 */

/* hwt_delay_options.flags */
#define HWT_DELAY_CREATE UINT32_C(1) /* make the store where there is none */
#define HWT_DELAY_READ_ONLY                                                                        \
    UINT32_C(2)                       /* look, as of the moment of opening; see hwt_delay_visit() */
#define HWT_DELAY_SALVAGE UINT32_C(4) /* put aside what is damaged, deliver the rest */
#define HWT_DELAY_NO_WAIT UINT32_C(8) /* hwt_delay_put_async() does not wait for room: -EAGAIN */

#define HWT_DELAY_STANDBY                                                                          \
    UINT32_C(16) /* loads nothing and hands nothing over until hwt_delay_lead() */

/*
 * A field that is 0 has its default, and so has one that the caller does not know. Bytes that
 * the library does not know must be 0.
 */
typedef struct hwt_delay_options {
    size_t size;           /* sizeof(hwt_delay_options) */
    uint32_t flags;        /* see above */
    uint32_t payload_max;  /* a longer payload: -EMSGSIZE; default 1 MiB, up to 16 MiB */
    uint64_t lease;        /* ns from take to done; default HWT_SEC(60) */
    uint64_t leased_max;   /* so many leased at a time; default 65536 */
    uint64_t memory;       /* bytes for messages; default 128 MiB, at least 1 MiB. While messages
                              are pending, up to a quarter of it is set aside on the disk */
    uint64_t segment_size; /* half of what the log and the reserve for a full disk may take. It
                              counts only at creation; default 64 MiB, at least 64 KiB, at most
                              4 GiB. They begin with 120 KiB, become longer while they are used,
                              and give their disk back when nothing has been left for ten seconds.
                              Longer ones have fewer checkpoints, so less is written */
    uint64_t clock_leap;   /* a longer leap forward holds deliveries; default HWT_MIN(60) */
} hwt_delay_options;

#define HWT_DELAY_OPTIONS_INIT                                                                     \
    {                                                                                              \
        sizeof(hwt_delay_options), 0, UINT32_C(1) << 20, HWT_SEC(60), UINT64_C(65536),             \
            UINT64_C(128) << 20, UINT64_C(64) << 20, HWT_MIN(60)                                   \
    }

/*
 * HWT_DELAY_OPTIONS_INIT as a function, for languages that cannot read macros. It sets the fields
 * of a struct of `size` bytes, which is what sizeof(hwt_delay_options) is for the caller.
 * Wait-free.
 *
 * -EINVAL: NULL; a size that no release has
 */
HWT_PUBLIC int hwt_delay_options_init(hwt_delay_options *options, size_t size);

/* A message, as it is put and as it is taken. Zero it before its fields are set. */
typedef struct hwt_delay_message {
    uint64_t due;   /* any but HWT_NEVER; in the past: next */
    const void *id; /* 1 to HWT_DELAY_ID_MAX bytes */
    size_t id_size;
    const void *payload; /* may be NULL if payload_size is 0 */
    size_t payload_size;
    uint64_t lease;      /* taken: what hwt_delay_done() wants; not looked at by put */
    uint32_t retries;    /* how often hwt_delay_retry() put it back; put: where that count begins */
    uint32_t expired;    /* taken: how many leases on it have ended since the store was opened */
    uint32_t deliveries; /* taken: how often it was handed over, this time included; see
                            hwt_delay_take(). Not looked at by put */
    uint32_t reserved32; /* 0 */
    uint64_t first_due;  /* the due time of its first put, retried and moved or not. put: 0, or
                            another due time than its own; see hwt_delay_ticket() */
    uint64_t reserved[2]; /* 0 */
} hwt_delay_message;

/*
 * ---- The store ----
 */

/*
 * Opens the store in a directory. NULL options are the defaults. With HWT_DELAY_CREATE, the
 * directory is made too, with mode 0750, but not the one above it. Files have mode 0640. The
 * directory above is flushed, too, so that the name of the store stays. If this process may not
 * read it, or it cannot be flushed, it is left alone, unless the store is made in it now.
 *
 * With HWT_DELAY_SALVAGE, a damaged checkpoint is made anew out of the other files. Then messages
 * that were done come once more, some that were cancelled or replaced come back, and some that were
 * leased are lost. Messages that were kept back because of damage are delivered, even if they were
 * cancelled or replaced by records that cannot be read.
 *
 * -EINVAL: an option out of its range, unknown flags, READ_ONLY with another flag, a segment_size
 *   below eight times payload_max, or memory below 32 times that
 * -ENOENT: no store is there; with HWT_DELAY_CREATE: the directory above it is not there
 * -ENOTEMPTY: HWT_DELAY_CREATE, and the directory has other things in it
 * -ENOTDIR, -EACCES, -EROFS, -ENOSPC, -EMFILE, -ENFILE, -EAGAIN (no thread), -ENOMEM
 * -EBUSY: another process, or this one, owns it; also while children live that were forked and not
 *   executed anew by a process that has ended without hwt_delay_close()
 * -ENOTSUP: it was made by a later release, or has records that only a later one knows
 * -EPROTONOSUPPORT: it has format 1 or 2, which no release has made: deliver what is in it with the
 *   program that made it, or write it out with `hwt-delay dump --messages` of that time and put it
 *   into a new store
 * -EBADMSG: it is damaged, in the log, the checkpoint or the file `store`, or a file of messages is
 *   gone or too short; see HWT_DELAY_SALVAGE. With HWT_DELAY_READ_ONLY no damage to a file of
 *   messages prevents the opening
 * -ESTALE: HWT_DELAY_READ_ONLY, and the owner has changed too much meanwhile: open it again
 */
HWT_PUBLIC int hwt_delay_open(const char *directory, const hwt_delay_options *options,
                              hwt_delay **ret_store);

/*
 * Waits until what was put is durable, and until the callbacks that are still to be called have
 * returned, with those of what they put. Then it closes the store. Messages that are leased will be
 * handed over again. No other call may be under way or follow. NULL is fine. Nothing is lost if it
 * is never called. Not from a callback.
 *
 * The store is closed whatever this returns. -EIO: a flush has failed, now or earlier, so it is not
 * known whether the disk has what hwt_delay_put_async() took; all other calls have had their own
 * answers
 */
HWT_PUBLIC int hwt_delay_close(hwt_delay *store);

/*
 * What an error of these calls means for a store, and what to do about it: a text of one line, which
 * stays. The error is what a call has returned, negative or not. For other numbers the text is that
 * of strerror(). Wait-free for what the calls return.
 */
HWT_PUBLIC const char *hwt_delay_strerror(int error);

/* The time by the store's clock, in nanoseconds since 1970. 0 for NULL. */
HWT_PUBLIC uint64_t hwt_delay_now(const hwt_delay *store);

/*
 * ---- Producers ----
 */

/*
 * Puts messages, from an array, all or none. Returns when they are on the disk. One that has the
 * due time and id of a pending one replaces it. If two in one batch have the same, the last one
 * counts. If a leased message is put once more, it is pending anew beside the lease, and the leased
 * one does not come back when its lease ends.
 *
 * May block while the disk is behind, so that memory stays bounded. Calls that wait for room
 * get it in no particular order.
 *
 * -EINVAL: a count of 0, an id of 0 or more than HWT_DELAY_ID_MAX bytes, a due time of
 *   HWT_NEVER, a first due time of that, a NULL id or payload, retries over HWT_DELAY_RETRIES_MAX,
 *   `reserved` is not 0
 * -EMSGSIZE: a payload over options.payload_max, or a batch, with the heads of its records, over a
 *   quarter of the segment_size with which the store was made
 * -ENOSPC: the disk is full. Nothing was put. Goes away by itself when there is room again.
 * -EIO: it is not known whether the messages will be there when the store is opened again
 */
HWT_PUBLIC int hwt_delay_put(hwt_delay *store, const hwt_delay_message *messages, size_t count);

/*
 * Is called once for each hwt_delay_put_async() that returned 0. The result is 0 when its messages
 * are on the disk, or -EIO. A thread of the library calls it, one call after the other, in the
 * order of their puts, so it should be short. It may put again with hwt_delay_put_async(), but may
 * not call functions that wait for the disk or for messages.
 */
typedef void (*hwt_delay_durable)(int result, void *arg);

/*
 * The same, without waiting for the disk. `durable` is called when it is done, which may be before
 * this returns. The messages have been copied when this returns. Calls of one thread become durable
 * in their order. On failure `durable` is not called.
 *
 * With HWT_DELAY_NO_WAIT it does not wait for room in memory or in the log either, nor long for
 * other threads, so an event loop may call it. It returns -EAGAIN in less than a millisecond, as
 * far as the processor is free. Try again a little later.
 *
 * As hwt_delay_put(); -EAGAIN: see above; -EINVAL also: no function
 */
HWT_PUBLIC int hwt_delay_put_async(hwt_delay *store, const hwt_delay_message *messages,
                                   size_t count, hwt_delay_durable durable, void *arg);

/*
 * Cancels a message. 0: it will never be handed over from now on, nor after a crash. For a time
 * still to come the disk is not read to see whether there is such a message, so the result may be 0
 * even if there is none.
 *
 * -ENOENT: there is none, as far as the store knows: it is done or cancelled, or was never put
 * -EBUSY: it is leased
 * -EINVAL: an id or due time that no message can have
 * -ENOSPC: the disk is full, and the room reserved for cancels is used up
 */
HWT_PUBLIC int hwt_delay_cancel(hwt_delay *store, uint64_t due, const void *id, size_t id_size);

/*
 * Cancels the message (due, id) and puts another, in one step, so both happen or none. If the
 * cancel fails, this returns the error of hwt_delay_cancel(), and nothing was put.
 *
 * As hwt_delay_cancel() and hwt_delay_put()
 */
HWT_PUBLIC int hwt_delay_replace(hwt_delay *store, uint64_t due, const void *id, size_t id_size,
                                 const hwt_delay_message *message);

/*
 * ---- Consumers ----
 */

/*
 * Takes up to `max` messages that are due, each with a lease of options.lease, and returns how
 * many. 0: none became due within `wait` nanoseconds. A `wait` of 0 does not wait, and HWT_NEVER
 * waits for ever. The messages are one allocation, which hwt_delay_free() ends. Their bytes stay
 * until then, whatever happens to the leases. With 0 or an error *ret_messages is left alone. A
 * call hands over no more than about one message for 110 bytes of the segment_size, so it may
 * return fewer than `max` although more are due.
 *
 * Any number of threads may take, and a message goes to one of them.
 *
 * `deliveries` of each message says how often it was handed over since it was put, retries and this
 * time included. The count is written before this returns, and not flushed. So it has also those
 * deliveries whose process was killed, and may lack the last ones if the machine was lost. On a
 * full disk, or if the write fails, the messages are handed over all the same. If consumers hand
 * over so much that the file is full before the next checkpoint, a take waits for that one. With a
 * `wait` of 0 it does not. A count that is not written is written by the next checkpoint or
 * hwt_delay_close(). "At most three deliveries, then a dead letter" is
 *
 *     if (taken->deliveries > 3) {
 *         hwt_delay_message dead = { .due = HWT_NEVER - 1, .id = taken->id, .id_size = taken->id_size,
 *                                    .payload = taken->payload,
 *                                    .payload_size = taken->payload_size };
 *         hwt_delay_change changes[] = { { .op = HWT_DELAY_OP_DONE, .lease = taken->lease },
 *                                        { .op = HWT_DELAY_OP_PUT, .message = &dead } };
 *         hwt_delay_apply(store, changes, 2, NULL);             // both, or none
 *     }
 *
 * While there is a reason to hand nothing over, a take with a wait sleeps, and returns the reason
 * when its time is over. -ETIME and failures of reading are told at once, too, when they begin, to
 * all that wait, or else to the next take.
 *
 * -EINVAL: a max of 0
 * -EPERM: HWT_DELAY_STANDBY, and hwt_delay_lead() was not called
 * -ENOBUFS: options.leased_max are leased, or leased messages fill an eighth of options.memory,
 *   until a lease ends
 * -ETIME: the clock has leapt forward; see hwt_delay_accept_clock()
 * -EBADMSG: nothing else is due, and a part of a file was found that cannot be read. Nothing is
 *   handed over that is due between the record before it and the next one that can be read, in
 *   whatever file, because its cancel may be there. All else is. This is told once for each such
 *   gap, also at each opening; see hwt_delay_stats.gaps, hwt_delay_check() and HWT_DELAY_SALVAGE
 * -EIO: a flush has failed, so each take returns this at once; or reading has, which is tried again
 *   every second
 * -ECANCELED: hwt_delay_wake() was called, and there is nothing
 */
HWT_PUBLIC int64_t hwt_delay_take(hwt_delay *store, size_t max, uint64_t wait,
                                  const hwt_delay_message **ret_messages);

/*
 * The same, and sets *ret_frontier to a due time before which nothing is left. Each message that
 * was on the disk when this was called, and is due before the frontier, is leased or has ended. It
 * has ended if it is done, cancelled, replaced or dropped, and that is on the disk too. The
 * frontier is at most the clock's time and 1. A message whose lease has ended by itself holds it
 * down until it is taken again, and so does what cannot be read. A message that is put later may be
 * due before it. It is set whatever the result is, unless the arguments or the store do not allow
 * the call at all.
 *
 * As hwt_delay_take()
 */
HWT_PUBLIC int64_t hwt_delay_take_frontier(hwt_delay *store, size_t max, uint64_t wait,
                                           const hwt_delay_message **ret_messages,
                                           uint64_t *ret_frontier);

/*
 * Ends HWT_DELAY_STANDBY. Under that flag a store takes all changes, reads no slot and hands
 * nothing over. It is for the copy of a store that another process owns, until this one takes over.
 * From now on messages are loaded and handed over. Does nothing if that is so already.
 */
HWT_PUBLIC int hwt_delay_lead(hwt_delay *store);

/* Frees what hwt_delay_take() returned. NULL is fine. */
HWT_PUBLIC void hwt_delay_free(const hwt_delay_message *messages);

/*
 * Makes every hwt_delay_take() that waits now return, with -ECANCELED if it has nothing. If none
 * waits, the next one that would wait does so. Several calls then count as one. To end several
 * threads that take, set a flag, call this, and let each thread call it again when it has seen the
 * flag.
 */
HWT_PUBLIC int hwt_delay_wake(hwt_delay *store);

/*
 * Ends leases, from an array. The messages were dealt with and never come again. Returns when that
 * is on the disk, and how many of the leases were still held. Each call waits for a flush of the
 * disk, so end all that a take has given by one call: a consumer that ends them one by one waits for
 * a flush for each, and falls behind. A lease that is over is not counted and not a failure: it was
 * done already, or it has ended, and the message may be with another consumer. A very long array is
 * ended in several parts. If a part after the first fails, unless a flush has failed, this returns
 * how many leases it has ended, and the others are still held.
 *
 * -EINVAL: no leases; -ENOSPC: as hwt_delay_cancel()
 */
HWT_PUBLIC int64_t hwt_delay_done(hwt_delay *store, const uint64_t *leases, size_t count);

/*
 * Puts a leased message back for later, in one step. It is done with at its old time, and put at
 * the new one. From now on its new due time and its id identify it.
 *
 * -EEXIST: another message has these, pending or leased, as far as memory knows. For a time still
 *   to come the disk is not read. If there is one on the disk that memory does not have, it is
 *   replaced, as a put replaces it
 * -ENOENT: the lease is over; -EINVAL: a due time of HWT_NEVER; -ENOSPC; -EMSGSIZE: with the end of
 *   its lease it is too long for the log, as only what an older library has put can be
 */
HWT_PUBLIC int hwt_delay_retry(hwt_delay *store, uint64_t lease, uint64_t due);

/*
 * Makes a lease end `duration` nanoseconds from now. With 0 it ends at once, and the message is
 * handed over again. Writes nothing.
 *
 * -ENOENT: the lease is over
 */
HWT_PUBLIC int hwt_delay_extend(hwt_delay *store, uint64_t lease, uint64_t duration);

/*
 * A descriptor for poll, epoll and their like, readable when a call of hwt_delay_take() is worth
 * while, although that may get nothing. Call it with a wait of 0 until it returns 0 or an error.
 * That makes the descriptor unreadable, until there is something new. Watch it level-triggered, and
 * do not read from it. It belongs to the store, is the same at each call, and is closed by
 * hwt_delay_close().
 *
 * -EINVAL; -EROFS; -EMFILE, -ENFILE, -ENOMEM
 */
HWT_PUBLIC int hwt_delay_fd(hwt_delay *store);

/*
 * The earliest instant at which something can be due, an ended lease included. HWT_NEVER: nothing
 * is pending. Nothing is due before it. At it there may be nothing, because what was there has been
 * cancelled.
 */
HWT_PUBLIC uint64_t hwt_delay_next(hwt_delay *store);

/*
 * Says that the time that the clock shows now is the time, although it has leapt.
 *
 * The clock is CLOCK_REALTIME. If it is set back, messages wait until it has come to their time,
 * and none that was done comes again. If it leaps forward against CLOCK_BOOTTIME by more than
 * options.clock_leap, take returns -ETIME, and nothing is handed over, until the clock is right
 * again or this is called. If the clock is behind what the store has seen when it is opened, it may
 * be set right, to any time from there on. If it is ahead then, it is believed, because it cannot
 * be told from a machine that was off for so long.
 */
HWT_PUBLIC int hwt_delay_accept_clock(hwt_delay *store);

/*
 * ---- Tickets ----
 *
 * A ticket is a short text that names a message from its put to its end, retried and moved or not,
 * for operators and other programs. It is made of the due time of the first put and of the id, so
 * it is known before the put. If the same is put once more after the first has been retried or
 * moved, the ticket names the later one. It names the first one as long as memory has that one, and
 * files alone have the later one. A message that was put with a due time of 0 gets another ticket
 * when it is retried or moved, made of its new time.
 *
 * A call with a ticket may read files, also if it does not wait for the disk. These are the files
 * of the ticket's own due time, and those that have messages which were retried or moved and first
 * due about then.
 */

/* A ticket has less than so many bytes, with its final zero byte. Usually it has about thirty. */
#define HWT_DELAY_TICKET_MAX 784

/*
 * Writes the ticket of a message, which is to be put, was taken or is visited. It consists of
 * letters, digits, and -._~%. The buffer and the result are as for hwt_stats_prometheus().
 * Wait-free.
 *
 * -EINVAL: NULL; an id or due time that no message can have; a NULL buffer with a size
 */
HWT_PUBLIC int64_t hwt_delay_ticket(const hwt_delay_message *message, char *buffer, size_t size);

/*
 * The message with a ticket, as it is now. Its `lease` is not 0 if it is leased. It is one
 * allocation, which hwt_delay_free() ends.
 *
 * -ENOENT: there is none: it is done, cancelled, replaced or dropped, or was never put
 * -EBADMSG: none was found, and a part of a file where it may be cannot be read
 * -EINVAL: NULL, or no ticket; -ESTALE: as hwt_delay_visit()
 */
HWT_PUBLIC int hwt_delay_look_up(hwt_delay *store, const char *ticket,
                                 const hwt_delay_message **ret_message);

/*
 * Cancels the message with a ticket. Unlike hwt_delay_cancel(), it knows whether there is one.
 *
 * -EBUSY: it is leased; -ENOSPC: as hwt_delay_cancel(); -ENOENT, -EBADMSG, -EINVAL: as
 *   hwt_delay_look_up()
 */
HWT_PUBLIC int hwt_delay_cancel_ticket(hwt_delay *store, const char *ticket);

/*
 * Moves the message with a ticket to another due time, in one step. It keeps its ticket, its
 * retries and its deliveries.
 *
 * -EEXIST: as hwt_delay_retry()
 * -EBUSY: it is leased; -ENOSPC: as hwt_delay_put(); -EINVAL: also a due time of HWT_NEVER
 * -ENOENT, -EBADMSG: as hwt_delay_look_up()
 */
HWT_PUBLIC int hwt_delay_move(hwt_delay *store, const char *ticket, uint64_t due);

/*
 * ---- Batches ----
 *
 * Several changes in one step, and the note. All are on the disk, or none is. The calls above are
 * short ways of this one.
 */

/* hwt_delay_change.op */
enum {
    HWT_DELAY_OP_PUT = 1, /* `message`, as hwt_delay_put() */
    HWT_DELAY_OP_CANCEL,  /* (`due`, `id`), as hwt_delay_cancel() */
    HWT_DELAY_OP_REPLACE, /* (`due`, `id`) by `message`, as hwt_delay_replace() */
    HWT_DELAY_OP_DONE,    /* `lease`, as hwt_delay_done() for one; a lease that is over: -ENOENT */
    HWT_DELAY_OP_RETRY,   /* `lease`, at `due`, as hwt_delay_retry(); with `message` its payload is
                             the new one, and the rest of `message` is not looked at */
    HWT_DELAY_OP_DROP,    /* all that is due at or before `due` and was put up to `mark` */
    HWT_DELAY_OP_MOVE     /* what has `ticket`, to `due`, as hwt_delay_move() */
};

/* hwt_delay_change.flags */
#define HWT_DELAY_MAY_FAIL                                                                         \
    UINT32_C(1) /* if this one is refused, the others are made all the same */

/* Zero it before its fields are set. An op looks only at the fields that are named beside it. */
typedef struct hwt_delay_change {
    uint32_t op;
    uint32_t flags;
    int32_t result;      /* set by hwt_delay_apply(): see there */
    uint32_t reserved32; /* 0 */
    const hwt_delay_message *message;
    uint64_t lease;
    uint64_t due;
    const void *id;
    size_t id_size;
    uint64_t mark;
    const char *ticket;   /* CANCEL, REPLACE: in the place of (`due`, `id`), if it is not NULL */
    uint64_t reserved[2]; /* 0 */
} hwt_delay_change;

typedef struct hwt_delay_batch {
    size_t size;       /* sizeof(hwt_delay_batch) */
    uint32_t flags;    /* HWT_DELAY_NO_WAIT, with `durable`; or 0 */
    uint32_t reserved; /* 0 */
    const void *note;  /* the new note, of up to HWT_DELAY_NOTE_MAX bytes; NULL: it stays */
    size_t note_size;
    hwt_delay_durable durable; /* NULL: hwt_delay_apply() waits for the disk */
    void *arg;                 /* of `durable` */
    uint64_t mark; /* set by hwt_delay_apply(): where the batch is in the store's order */
} hwt_delay_batch;

#define HWT_DELAY_BATCH_INIT                                                                       \
    {                                                                                              \
        sizeof(hwt_delay_batch), 0, 0, NULL, 0, NULL, NULL, 0                                      \
    }

/*
 * HWT_DELAY_BATCH_INIT as a function. It zeroes a struct of `size` bytes, and sets its size.
 * Wait-free.
 *
 * -EINVAL: NULL; a size that no release has
 */
HWT_PUBLIC int hwt_delay_batch_init(hwt_delay_batch *batch, size_t size);

/*
 * Makes changes, from an array, in its order, and sets the note if the batch has one. A NULL batch
 * has no note, and waits. 0: they are made and on the disk. With `durable`, 0 says that they are
 * made, and `durable` is called once they are on the disk, as for hwt_delay_put_async(). The
 * library copies all that changes and batch point to.
 *
 * Each change sees what those before it make. One that cannot be made, such as the cancel of a
 * message that is not there or the end of a lease that is over, is refused. Then nothing at all is
 * done, and the call returns why. If the change has HWT_DELAY_MAY_FAIL, it alone is left out
 * instead. A change whose arguments are wrong (-EINVAL, -EMSGSIZE) refuses the whole batch, with
 * that flag too.
 *
 * `result` of each change says what became of it. 0: it was made. A failure that its short way
 * could return: it was refused. -ECANCELED: it was not made because the call failed. Results are
 * set if the call returns 0 or one of the failures below that come from a change. Else they are
 * left alone or -ECANCELED.
 *
 * A DROP ends all messages that are due at or before `due` and were put up to `mark`, leased or
 * not, in memory or not. `mark` is the mark of an earlier batch. A drop is one record in the log,
 * whatever the number of messages. Slots that are wholly under it are deleted and not read. A
 * message that was put or retried after the mark stays. Drops of a batch are made after its other
 * changes. To repeat one changes nothing. No call sees a part of a drop, so one call goes through
 * all leases, and all messages in memory that are due up to `due`. That takes 0.2 to 0.5 us for
 * each. Others wait so long, or get -EAGAIN, and HWT_DELAY_NO_WAIT does not make it shorter.
 *
 * The batch's `mark` goes up from batch to batch, also through reopenings. hwt_delay_note() says
 * the mark of the last batch with a note.
 *
 * -EINVAL: no changes and no note; an op or a flag that is not known, `reserved` is not 0;
 *   HWT_DELAY_NO_WAIT without `durable`; a DROP up to a mark that no batch has had; the short way
 *   of a change would return it, and then `result` says which change
 * -EMSGSIZE: a payload over options.payload_max, a note over HWT_DELAY_NOTE_MAX, or a batch, with
 *   the heads of its records, over a quarter of the segment_size with which the store was made
 * -ENOENT, -EBUSY, -EEXIST: a change was refused
 * -ENOBUFS: a DROP was refused: there are 64 of which none covers another, and slots have something
 *   under each. A checkpoint may end some
 * -ENOSPC: as hwt_delay_put() where something is put, else as hwt_delay_cancel()
 * -EAGAIN: HWT_DELAY_NO_WAIT; as hwt_delay_put_async(). Nothing was done
 * -EIO: it is not known whether the changes will be there when the store is opened again
 */
HWT_PUBLIC int hwt_delay_apply(hwt_delay *store, hwt_delay_change *changes, size_t count,
                               hwt_delay_batch *batch);

/*
 * Copies the note to a buffer, up to its size, and returns how long the note is. 0: there is none,
 * or it is empty. *ret_mark, which may be NULL, becomes the mark of the batch that has set it, or
 * 0. After hwt_delay_open() that is the last note that is on the disk. Later it may be one whose
 * call has not returned yet.
 *
 * -EINVAL: a NULL buffer with a size
 */
HWT_PUBLIC int64_t hwt_delay_note(hwt_delay *store, void *buffer, size_t size, uint64_t *ret_mark);

/*
 * ---- Seeing inside ----
 */

/*
 * Calls `visitor` with the pending messages whose due time is at least `from` and below `to`, in
 * order, until it returns something else than 0, which is then returned. Leased messages are
 * included, and their lease is not 0. For blocks that it reads it takes as much memory as
 * options.memory at the most, while it runs. It may or may not see the changes that others make
 * meanwhile. The visitor may not call functions of this store.
 *
 * 0: all were visited; -EBADMSG: all but those of a time of which something cannot be read, because
 * that may have cancelled them; -ESTALE: the store was opened with
 * HWT_DELAY_READ_ONLY, and its owner has deleted what was to be read: open it again
 */
HWT_PUBLIC int hwt_delay_visit(hwt_delay *store, uint64_t from, uint64_t to,
                               int (*visitor)(const hwt_delay_message *message, void *data),
                               void *data);

typedef struct hwt_delay_stats {
    size_t size;             /* sizeof(hwt_delay_stats) */
    uint64_t pending;        /* not done and not cancelled, leased ones included; see below */
    uint64_t leased;         /* leased now */
    uint64_t put;            /* messages put since the store was opened, as all that follow */
    uint64_t cancelled;      /* cancels that returned 0 */
    uint64_t taken;          /* messages handed over */
    uint64_t done;           /* leases ended by done or retry */
    uint64_t retried;        /* of those, by retry */
    uint64_t expired;        /* leases that ended by themselves: these come twice */
    uint64_t rejected;       /* messages refused with -ENOSPC */
    uint64_t commits;        /* writes of the log */
    uint64_t syncs;          /* flushes of files and directories */
    uint64_t log_bytes;      /* bytes written to the log */
    uint64_t slot_bytes;     /* bytes written to slots and checkpoints */
    uint64_t checkpoints;    /* checkpoints written */
    uint64_t replayed;       /* records that opening read from the log */
    uint64_t cut;            /* bytes of an unfinished write that opening cut from the log */
    uint64_t salvaged;       /* damaged blocks put aside */
    uint64_t salvaged_bytes; /* and their bytes */
    uint64_t clock_leaps;    /* leaps of the clock that held deliveries */
    uint64_t memory;         /* bytes held for messages */
    uint64_t disk;           /* bytes of the log, the slots and the reserve for a full disk;
                                checkpoints and what was put aside are not in it */
    uint64_t files;          /* slot files */
    uint64_t hand;           /* the latest instant the store has seen; it never goes back */
    uint64_t next;           /* as hwt_delay_next() */
    uint64_t gaps;           /* stretches of time that are kept back because of damage */
    uint32_t held;           /* 1: the clock has leapt, and nothing is handed over */
    uint32_t full;           /* 1: the disk is full, puts are refused */
    uint32_t poisoned;       /* 1: a flush has failed */
    uint32_t not_durable; /* 1: the file system is in memory (tmpfs): nothing survives power loss */
    uint64_t lateness_max; /* ns from due time (or put, if that was later) to take */
    uint64_t lateness[64]; /* [i]: messages late by 2^i to 2^(i+1) - 1 ns; 0 ns is in [0] */
    uint64_t lateness_sum; /* ns, over all; modulo 2^64 */
} hwt_delay_stats;

#define HWT_DELAY_STATS_INIT                                                                       \
    {                                                                                              \
        sizeof(hwt_delay_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
            0, 0, 0, 0, 0, 0, 0, 0, { 0 }, 0                                                       \
    }

/*
 * HWT_DELAY_STATS_INIT as a function. It zeroes a struct of `size` bytes, and sets its size.
 * Wait-free.
 *
 * -EINVAL: NULL; a size that no release has
 */
HWT_PUBLIC int hwt_delay_stats_init(hwt_delay_stats *stats, size_t size);

/*
 * Reads the counters. `pending` is exact, also after a crash, with these exceptions. A message that
 * is put a second time counts twice if memory does not have the first. A cancel of a message that
 * is not there counts as if it was, if memory cannot know. A message that is dropped may count on
 * if files have others of about its time. Each of these errors is over when the message's time has
 * come. On a full disk, and after salvage, the number is about right until then. ret_stats->size
 * says how much the caller knows. Fields that this build does not know are set to 0.
 *
 * -EINVAL: NULL; a size that no release has
 */
HWT_PUBLIC int hwt_delay_get_stats(hwt_delay *store, hwt_delay_stats *ret_stats);

/*
 * Writes the stats of `count` stores, from an array, as a page in Prometheus' text exposition
 * format, version 0.0.4. The i-th store's samples have the label store="names[i]", escaped as need
 * be. Names are UTF-8, and no two are the same. Without names, count is 1 and there is no label.
 * Each metric is described once, so a page of several stores cannot be put together from several
 * calls. It goes together with the page of hwt_stats_prometheus(). The metrics are called
 * hwt_delay_...
 *
 * The buffer and the result are as for hwt_stats_prometheus(). Wait-free.
 *
 * -EINVAL: NULL, a count of 0, no names for several; a size that no release has, or not the same in
 *   all
 */
HWT_PUBLIC int64_t hwt_delay_stats_prometheus(const hwt_delay_stats *stats,
                                              const char *const *names, size_t count, char *buffer,
                                              size_t size);

/*
 * Writes the parts of the store as a text for a human, which may change with each release: the
 * checkpoint, the log, the memory, the note, the drops that are kept, how far deliveries were
 * written, and each slot file with its stretch of time, its length and how far it has been handed
 * over. The buffer and the result are as for hwt_stats_prometheus().
 */
HWT_PUBLIC int64_t hwt_delay_dump(hwt_delay *store, char *buffer, size_t size);

/* Something that hwt_delay_check() found. */
typedef struct hwt_delay_damage {
    size_t size;        /* of this struct, as the library knows it */
    const char *file;   /* its name in the directory */
    uint64_t offset;    /* where in the file, in bytes */
    uint64_t length;    /* how many bytes cannot be used */
    const char *reason; /* for a human */
} hwt_delay_damage;

/*
 * Reads everything and looks at every checksum. Calls `found`, which may be NULL, for each damage.
 * Returns how many there are. The store goes on with its work meanwhile. But while the log is read,
 * no checkpoint is made, so a put that needs one waits. `found` may not call functions of this
 * store. The file `handed` is not looked at. It is never flushed, so a lost machine leaves bytes
 * there that look like damage, and they cost counts of deliveries alone.
 *
 * If opening cut off the end of the log, `found` is called for that too, and it is not counted. It
 * was a write that did not end when the power failed, and nobody was told that it is on the disk.
 * Damage to the last write looks the same. But if the store was closed by hwt_delay_close() behind
 * that write, it is damage, and is counted.
 *
 * A file of messages that is gone, or too short, is damage. hwt_delay_open() opens a store with
 * such damage only with HWT_DELAY_READ_ONLY or HWT_DELAY_SALVAGE.
 *
 * -ESTALE: as hwt_delay_visit()
 */
HWT_PUBLIC int64_t hwt_delay_check(hwt_delay *store,
                                   void (*found)(const hwt_delay_damage *damage, void *data),
                                   void *data);

/*
 * Moves what is in the log to the slots now, rather than when the log is full. Returns when that is
 * on the disk. It is for tests, and nobody else needs it.
 */
HWT_PUBLIC int hwt_delay_checkpoint(hwt_delay *store);

/*
 * Copies the store to another directory, for a backup, as it is at one moment of this call, with
 * every message whose put has returned before the call. The directory is made if it is not there,
 * but not the one above it. When this returns 0, the copy is on the disk, and is a store like any
 * other. A copy that did not end, because it failed or the machine did, is no store.
 * hwt_delay_open() does not open it, and does not make a store there. Remove it.
 *
 * The store goes on with its work meanwhile. But while the log is copied, no checkpoint is made, so
 * a put that needs one waits, and what is done with keeps its disk until the call returns. A store
 * that was opened with HWT_DELAY_READ_ONLY is copied as it was when it was opened, with a
 * descriptor open for each slot. Messages that are leased are pending in the copy. Their
 * `deliveries` there are those of the last checkpoint or retry, so the copy may lack the ones since
 * then.
 *
 * -ENOTEMPTY: there is something in that directory
 * -EBADMSG: a file of the store is not there, or too short. Checksums are not looked at: that is
 *   for hwt_delay_check()
 * -ENOENT, -ENOTDIR, -EACCES, -ENOSPC: of the new directory
 * -ESTALE: HWT_DELAY_READ_ONLY, and the owner has made a checkpoint since: open it again
 * -EIO: a flush of the store has failed; or a flush of the copy has failed, or reading or writing,
 *   which does the store no harm
 * -EINVAL, -EROFS, -ENOMEM, -EMFILE, -ENFILE
 */
HWT_PUBLIC int hwt_delay_copy(hwt_delay *store, const char *path);

#ifdef __cplusplus
}
#endif

#endif
