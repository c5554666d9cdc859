/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * No store at all: the same bytes, one behind the other into a file that has been filled with
 * zeros, each batch with one write and one fdatasync. What the disk can do for one producer.
 */

#include "compare.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_SIZE (64 << 20)
#define PIECE (64 << 10)
#define HEADS 56 /* bytes beside the id and the payload, as in hwt's log */

static int file = -1;
static off_t position;
static char *buffer;

static void open_file(const char *directory)
{
    int place = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (options.producers != 1)
        decline("it has one producer");
    buffer = calloc(1, FILE_SIZE);
    file = openat(place, "bare", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0 || !buffer)
        die("%s: %s", directory, strerror(errno));
    /* In pieces: the page cache keeps what is written at once together. */
    for (off_t at = 0; at < FILE_SIZE; at += PIECE)
        if (pwrite(file, buffer, PIECE, at) != PIECE)
            die("%s: %s", directory, strerror(errno));
    if (fsync(file) < 0)
        die("%s: %s", directory, strerror(errno));
    close(place);
}

static void close_file(void)
{
    close(file);
    free(buffer);
}

static void put(void *handle, const struct message *messages, size_t count)
{
    size_t size = 0;

    (void)handle;
    for (size_t i = 0; i < count; i++) {
        memcpy(buffer + size, messages[i].id, ID_SIZE);
        memcpy(buffer + size + HEADS + ID_SIZE, messages[i].payload, messages[i].payload_size);
        size += HEADS + ID_SIZE + messages[i].payload_size;
    }
    if (position + (off_t)size > FILE_SIZE)
        position = 0;
    if (pwrite(file, buffer, size, position) != (ssize_t)size || fdatasync(file) < 0)
        die("write: %s", strerror(errno));
    position += (off_t)size;
}

const struct contender contender = {
    .name = "bare",
    .puts_only = true,
    .open = open_file,
    .close = close_file,
    .put = put,
};
