/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/delay/tool/tool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- put ---- */

struct batch {
    hwt_delay_message *messages;
    size_t count, room;
};

/* Appends a message of three texts, which are changed and must stay; payload may be NULL. */
static void add_message(struct batch *batch, uint64_t now, const char *time, char *id,
                        char *payload, const char *where)
{
    hwt_delay_message message = { .id = id, .payload = payload };

    if (!parse_time(time, now, &message.due))
        misuse("%s%s: not a time", where, time);
    if (!unescape(id, &message.id_size) || message.id_size == 0 ||
        message.id_size > HWT_DELAY_ID_MAX)
        misuse("%sthe id is not 1 to %d bytes, or has a backslash without \\ or xHH", where,
               HWT_DELAY_ID_MAX);
    if (payload && !unescape(payload, &message.payload_size))
        misuse("%sthe payload has a backslash without \\ or xHH", where);
    if (batch->count == batch->room) {
        size_t room = batch->room == 0 ? 64 : 2 * batch->room;
        hwt_delay_message *larger = reallocarray(batch->messages, room, sizeof(*larger));
        if (!larger)
            exit(fail("%s", hwt_delay_strerror(-ENOMEM)));
        batch->messages = larger;
        batch->room = room;
    }
    batch->messages[batch->count++] = message;
}

/* TIME, ID and PAYLOAD of a line, with tabs between; the last one may be absent. */
static void add_line(struct batch *batch, uint64_t now, char *line, size_t number)
{
    char where[48];
    char *id = strchr(line, '\t');
    char *payload = id ? strchr(id + 1, '\t') : NULL;

    snprintf(where, sizeof(where), "line %zu: ", number);
    if (!id)
        misuse("%sno tab after the time", where);
    *id++ = '\0';
    if (payload)
        *payload++ = '\0';
    add_message(batch, now, line, id, payload, where);
}

/* The messages refer to the lines, which stay. */
static void read_lines(struct batch *batch, uint64_t now)
{
    for (size_t number = 1;; number++) {
        char *line = NULL;
        size_t room = 0;
        ssize_t length = getline(&line, &room, stdin);

        if (length < 0) {
            free(line);
            if (ferror(stdin))
                exit(fail("reading stdin failed: %s", strerror(errno)));
            return;
        }
        if (memchr(line, '\0', (size_t)length))
            misuse("line %zu: a zero byte; write it as \\x00", number);
        if (line[length - 1] == '\n')
            line[--length] = '\0';
        if (length > 0 && line[length - 1] == '\r') /* of a file with lines that end in CRLF */
            line[length - 1] = '\0';
        add_line(batch, now, line, number);
    }
}

int command_put(const struct request *request)
{
    static struct batch batch; /* is there until the program ends */
    char **operands = request->operands;

    if (request->lines ? request->count != 0 : request->count < 2)
        misuse("put: it is: put DIRECTORY TIME ID [PAYLOAD], or put --lines DIRECTORY");
    if (request->lines)
        read_lines(&batch, clock_now());
    else
        add_message(&batch, clock_now(), operands[0], operands[1],
                    request->count > 2 ? operands[2] : NULL, "");
    hwt_delay *store = open_store(request->directory, request->create ? HWT_DELAY_CREATE : 0);
    int r = batch.count == 0 ? 0 : hwt_delay_put(store, batch.messages, batch.count);
    int closed = hwt_delay_close(store);
    if (r == 0)
        r = closed;
    if (r == -EMSGSIZE)
        return fail("a payload over 4 MiB, or too many lines for one batch: put fewer at a time");
    if (r < 0)
        return fail("%s: %s", request->directory, hwt_delay_strerror(r));
    for (size_t i = 0; i < batch.count; i++)
        print_message(&batch.messages[i]);
    return finish_output();
}

/* ---- cancel ---- */

int command_cancel(const struct request *request)
{
    char *id = request->operands[1];
    uint64_t due;
    size_t id_size;

    if (!unescape(id, &id_size) || id_size == 0 || id_size > HWT_DELAY_ID_MAX)
        misuse("cancel: the id is not 1 to %d bytes, or has a backslash without \\ or xHH",
               HWT_DELAY_ID_MAX);
    /* The due time of a message that is to be named is known, so nothing is relative to now. */
    if (!parse_time(request->operands[0], 0, &due) || strchr("+n", request->operands[0][0]))
        misuse("cancel: %s: not the due time that put and dump print", request->operands[0]);

    hwt_delay *store = open_store(request->directory, 0);
    int r = hwt_delay_cancel(store, due, id, id_size);
    int closed = hwt_delay_close(store);
    if (r == 0)
        r = closed;
    if (r == -ENOENT)
        return fail("no such message is pending: it was done or cancelled, or never put");
    return r < 0 ? fail("%s: %s", request->directory, hwt_delay_strerror(r)) : 0;
}

/* ---- take ---- */

/* Is done with them only once they have been printed, so that they come rather twice than not at
 * all. */
static int print_and_end(hwt_delay *store, const hwt_delay_message *messages, size_t count)
{
    uint64_t *leases = calloc(count, sizeof(*leases));

    if (!leases)
        return fail("%s", hwt_delay_strerror(-ENOMEM));
    for (size_t i = 0; i < count; i++) {
        print_message(&messages[i]);
        leases[i] = messages[i].lease;
    }
    int status = finish_output();
    if (status == 0) {
        int64_t ended = hwt_delay_done(store, leases, count);
        if (ended < 0)
            status = fail("what was printed will come again: %s", hwt_delay_strerror((int)ended));
        else if ((size_t)ended < count)
            status = fail("printing took so long that some of it will come again");
    }
    free(leases);
    return status;
}

int command_take(const struct request *request)
{
    uint64_t max = 1, wait = 0;
    const hwt_delay_message *messages;
    int status = FAILED;

    if (request->max && !parse_number(request->max, 1, 65536, &max))
        misuse("--max %s: not a number from 1 to 65536", request->max);
    if (request->wait && !parse_duration(request->wait, &wait))
        misuse("--wait %s: not a duration", request->wait);

    hwt_delay *store = open_store(request->directory, 0);
    int64_t n = hwt_delay_take(store, (size_t)max, wait, &messages);
    if (n > 0) {
        status = print_and_end(store, messages, (size_t)n);
        hwt_delay_free(messages);
    } else if (n < 0) {
        fail("%s: %s", request->directory, hwt_delay_strerror((int)n));
    }
    int closed = hwt_delay_close(store);
    return status == 0 && closed < 0
               ? fail("%s: %s", request->directory, hwt_delay_strerror(closed))
               : status;
}
