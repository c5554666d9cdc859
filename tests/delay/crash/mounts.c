/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What mounts.sh runs on its file systems:
 *
 *     delay_mounts write DIRECTORY NOTES     puts and cancels for ever; notes what was acknowledged
 *     delay_mounts verify DIRECTORY NOTES    compares the store with the notes
 *     delay_mounts fill DIRECTORY            puts until the disk is full; then all but puts goes on
 *     delay_mounts fill-copies DIRECTORY     the same, where nothing is written in place
 *     delay_mounts look DIRECTORY NUMBER     a read-only file system with so many messages
 *     delay_mounts make DIRECTORY NUMBER     puts so many
 *
 * Message i has i as its id. The exit status is 0, 1 where something is wrong, 2 for misuse.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <stdbool.h>
#include <unistd.h>

#include "hwt/delay.h"

enum {
    MISUSE = 2,
    MANY = 100000,
    CANCEL_EACH = 10,
    CANCEL_BACK = 5,
    CANCELS = 200,
    TAKEN_MAX = 50,
    TIMES_MAX = 100,
    WAITS_MAX = 6000
};

#define FAR UINT64_C(4000000000000000000) /* in the year 2096 */

struct notes {
    _Atomic uint64_t put, cancels; /* so many were acknowledged */
};

static hwt_delay *store;

static void fail(const char *what, int64_t r)
{
    fprintf(stderr, "delay_mounts: %s: %s (%" PRId64 ")\n", what,
            r < 0 ? strerror((int)-r) : "wrong", r);
    exit(EXIT_FAILURE);
}

static int try_open(const char *directory, uint32_t flags)
{
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    options.flags = flags;
    options.payload_max = 8192;
    options.segment_size = 1 << 17;
    options.memory = 1 << 20;
    return hwt_delay_open(directory, &options, &store);
}

static void open_store(const char *directory)
{
    int r = try_open(directory, HWT_DELAY_CREATE);
    if (r != 0)
        fail("open", r);
}

static int put(uint64_t due, uint32_t i, size_t size)
{
    static const char payload[8192];
    const hwt_delay_message message = {
        .due = due,
        .id = &i,
        .id_size = sizeof(i),
        .payload = payload,
        .payload_size = size,
    };
    return hwt_delay_put(store, &message, 1);
}

static int cancel(uint64_t due, uint32_t i)
{
    return hwt_delay_cancel(store, due, &i, sizeof(i));
}

static struct notes *map_notes(const char *path)
{
    int file = open(path, O_RDWR | O_CREAT, 0666);
    struct notes *notes = MAP_FAILED;
    if (file >= 0 && ftruncate(file, sizeof(*notes)) == 0)
        notes = mmap(NULL, sizeof(*notes), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (notes == MAP_FAILED)
        fail(path, -errno);
    return notes;
}

static void write_for_ever(const char *directory, const char *path)
{
    struct notes *notes = map_notes(path);
    open_store(directory);
    for (uint32_t i = 0; i < MANY; i++) {
        int r = put(FAR + i * HWT_SEC(7), i, i % 500);
        if (r != 0)
            fail("put", r);
        atomic_store(&notes->put, i + 1);
        if (i % CANCEL_EACH != CANCEL_EACH - 1)
            continue;
        r = cancel(FAR + (i - CANCEL_BACK) * HWT_SEC(7), i - CANCEL_BACK);
        if (r != 0)
            fail("cancel", r);
        atomic_fetch_add(&notes->cancels, 1);
    }
    for (;;)
        pause();
}

static unsigned char found[MANY];

static int find_one(const hwt_delay_message *message, void *count)
{
    uint32_t i;
    memcpy(&i, message->id, sizeof(i));
    if (message->id_size != sizeof(i) || i >= MANY || found[i]++)
        fail("a message that was never put, or is there twice", i);
    ++*(uint64_t *)count;
    return 0;
}

static void verify(const char *directory, const char *path)
{
    const struct notes *notes = map_notes(path);
    uint64_t count = 0, put_count = notes->put, cancels = notes->cancels;
    open_store(directory);
    int r = hwt_delay_visit(store, 0, HWT_NEVER, find_one, &count);
    if (r != 0)
        fail("visit", r);
    for (uint32_t i = 0; i < put_count; i++) {
        bool is_cancelled = i % CANCEL_EACH == CANCEL_EACH - 1 - CANCEL_BACK;
        uint64_t number = i / CANCEL_EACH; /* of its cancel */
        if (is_cancelled ? number < cancels && found[i] : !found[i])
            fail(is_cancelled ? "cancelled, and there" : "lost", i);
    }
    if (put_count == 0)
        fail("nothing was put", 0);
    printf("%" PRIu64 " put, %" PRIu64 " cancelled, %" PRIu64 " there\n", put_count, cancels,
           count);
    hwt_delay_close(store);
}

/* Something else that takes room on the disk. */
static void make_ballast(const char *path)
{
    static const char bytes[1 << 20];
    int file = open(path, O_WRONLY | O_CREAT, 0666);
    if (file < 0 || write(file, bytes, sizeof(bytes)) != sizeof(bytes) || fsync(file) != 0)
        fail(path, -errno);
    close(file);
}

/* The account of each message: a call that was -EIO may have done it or not. */
enum state { NEVER, PUT, MAYBE_PUT, CANCELLED, MAYBE_GONE, DONE };
static unsigned char states[MANY];

/*
 * On a file system that writes nothing in place two things may happen that happen on no other:
 *
 *     what gives room needs some first, which is -ENOSPC: then somebody makes room, and the call is
 *     made again until it can be done;
 *
 *     a flush of the log itself finds no room, which is -EIO from then on: then somebody makes room, and
 *     the store is opened again.
 *
 * `spare` is the file that gives the room, once; NULL on other file systems.
 */
static const char *spare;

static void make_room(void)
{
    if (unlink(spare) != 0 && errno != ENOENT)
        fail(spare, -errno);
}

static bool room_was_made(int64_t r)
{
    static int waits;
    if (!spare || r != -ENOSPC || waits++ == WAITS_MAX)
        return false;
    make_room();
    usleep(10000);
    return true;
}

static unsigned opened_again;

static bool was_opened_again(const char *directory, int64_t error)
{
    if (!spare || error != -EIO || opened_again++ == TIMES_MAX)
        return false;
    make_room();
    int r = hwt_delay_close(store);
    if (r != -EIO)
        fail("close after a failed flush", r);
    do
        r = try_open(directory, 0);
    while (room_was_made(r));
    if (r != 0)
        fail("open after a failed flush", r);
    return true;
}

/* Puts message i and so on until the disk is full; the number of the first that was not put. */
static uint32_t put_until_full(const char *directory, uint64_t due, uint32_t i)
{
    int r;
    while ((r = put(due, i, 4000)) == 0 && i < MANY - 1)
        states[i++] = PUT;
    if (was_opened_again(directory, r))
        states[i++] = MAYBE_PUT;
    else if (r != -ENOSPC)
        fail("put on a full disk", r);
    return i;
}

/* The ballast goes: puts go on by themselves, until the disk is full again. */
static uint32_t fill_again(const char *directory, const char *ballast, uint64_t due, uint32_t i)
{
    int r = -ENOSPC;
    if (unlink(ballast) != 0)
        fail(ballast, -errno);
    for (int waits = 0; r == -ENOSPC && waits < WAITS_MAX; waits++) {
        usleep(10000);
        r = put(due, i, 4000);
    }
    bool again = was_opened_again(directory, r);
    if (r != 0 && !again)
        fail("put when there is room by itself", r);
    states[i] = again ? MAYBE_PUT : PUT;
    return put_until_full(directory, due, i + 1);
}

static void cancel_on_a_full_disk(const char *directory, uint64_t due, uint32_t i)
{
    int r;
    do
        r = cancel(due, i);
    while (room_was_made(r));
    bool again = was_opened_again(directory, r);
    if (r != 0 && !again && !(r == -ENOENT && states[i] == MAYBE_PUT))
        fail("cancel on a full disk", r);
    states[i] = again ? MAYBE_GONE : CANCELLED;
}

static uint32_t taken_id(const hwt_delay_message *message)
{
    uint32_t i;
    memcpy(&i, message->id, sizeof(i));
    if (i >= MANY || (states[i] != PUT && states[i] != MAYBE_PUT && states[i] != MAYBE_GONE))
        fail("taken, and was never put, or is gone", i);
    return i;
}

/* One by one; or all at once, where each flush takes long. */
static int be_done(const hwt_delay_message *taken, size_t count)
{
    const size_t step = spare ? count : 1;
    for (size_t i = 0; i < count; i += step) {
        uint64_t leases[TAKEN_MAX];
        for (size_t j = 0; j < step; j++)
            leases[j] = taken[i + j].lease;
        int64_t done;
        do
            done = hwt_delay_done(store, leases, step);
        while (room_was_made(done));
        for (size_t j = 0; j < step; j++)
            states[taken_id(&taken[i + j])] = done < 0 ? MAYBE_GONE : DONE;
        if (done < 0)
            return (int)done;
        if (done != (int64_t)step)
            fail("done of leases that had not ended", done);
    }
    return 0;
}

static void take_all(const char *directory)
{
    const hwt_delay_message *taken;
    for (int64_t n; (n = hwt_delay_take(store, TAKEN_MAX, 0, &taken)) != 0;) {
        int64_t r = n;
        if (n > 0) {
            r = be_done(taken, (size_t)n);
            hwt_delay_free(taken);
        }
        if (r < 0 && !was_opened_again(directory, r))
            fail(n < 0 ? "take on a full disk" : "done on a full disk", r);
    }
    for (uint32_t i = 0; i < MANY; i++)
        if (states[i] == PUT)
            fail("acknowledged on a full disk, and lost", i);
}

static void fill(const char *directory, bool copies)
{
    char ballast[4096], spare_name[4096];
    int r;
    snprintf(ballast, sizeof(ballast), "%s.ballast", directory);
    snprintf(spare_name, sizeof(spare_name), "%s.spare", directory);
    make_ballast(ballast);
    if (copies)
        make_ballast(spare = spare_name);
    open_store(directory);
    uint64_t due = hwt_delay_now(store);
    uint32_t i = fill_again(directory, ballast, due, put_until_full(directory, due, 0));
    for (uint32_t c = 0; c < CANCELS; c++)
        cancel_on_a_full_disk(directory, due, 2 * c);
    take_all(directory);
    do
        r = hwt_delay_checkpoint(store);
    while (was_opened_again(directory, r));
    if (r != 0)
        fail("checkpoint", r);
    do
        r = put(due, i, 4000);
    while (was_opened_again(directory, r));
    if (r != 0)
        fail("put when there is room again", r);
    printf("%u put, %u cancelled; opened again %u times\n", i, CANCELS, opened_again);
    hwt_delay_close(store);
}

static void look(const char *directory, uint64_t expected)
{
    uint64_t count = 0;
    int r = try_open(directory, 0);
    if (r != -EROFS)
        fail("open to write on a read-only file system", r);
    r = try_open(directory, HWT_DELAY_READ_ONLY);
    if (r == 0)
        r = hwt_delay_visit(store, 0, HWT_NEVER, find_one, &count);
    if (r != 0 || count != expected)
        fail("to look at a read-only file system", r ? r : (int64_t)count);
    hwt_delay_close(store);
}

static void make(const char *directory, uint64_t number)
{
    open_store(directory);
    for (uint32_t i = 0; i < number; i++) {
        int r = put(FAR, i, 100);
        if (r != 0)
            fail("put", r);
    }
    hwt_delay_close(store);
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    if (argc == 4 && strcmp(what, "write") == 0)
        write_for_ever(argv[2], argv[3]);
    else if (argc == 4 && strcmp(what, "verify") == 0)
        verify(argv[2], argv[3]);
    else if (argc == 3 && strcmp(what, "fill") == 0)
        fill(argv[2], false);
    else if (argc == 3 && strcmp(what, "fill-copies") == 0)
        fill(argv[2], true);
    else if (argc == 4 && strcmp(what, "look") == 0)
        look(argv[2], strtoull(argv[3], NULL, 10));
    else if (argc == 4 && strcmp(what, "make") == 0)
        make(argv[2], strtoull(argv[3], NULL, 10));
    else
        return fputs("delay_mounts: see mounts.c for its arguments\n", stderr), MISUSE;
    return EXIT_SUCCESS;
}
