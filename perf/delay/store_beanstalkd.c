/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * beanstalkd, by its protocol: -b, and -f0, a flush for each message. A batch is sent at once,
 * then all answers are read. Delays are whole seconds of the machine's clock.
 */

#include "compare.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pid_t pid;

struct connection {
    FILE *in, *out;
};

static pid_t server(void)
{
    return pid;
}

static void *connect_server(void)
{
    struct connection *c = calloc(1, sizeof(*c));
    int fd = server_connect();

    c->in = fdopen(fd, "r");
    c->out = fdopen(dup(fd), "w");
    if (!c->in || !c->out)
        die("connect: %s", strerror(errno));
    return c;
}

static void disconnect(void *handle)
{
    struct connection *c = handle;

    fclose(c->in);
    fclose(c->out);
    free(c);
}

static void open_server(const char *directory)
{
    char address[80];

    snprintf(address, sizeof(address), "unix:%s", socket_path);
    unlink(socket_path);
    pid =
        server_start((const char *[]){ "beanstalkd", "-l", address, "-b", directory, "-f0", NULL });
    close(server_connect());
}

static void close_server(void)
{
    server_kill(pid);
    unlink(socket_path);
}

static void flush(struct connection *c)
{
    if (fflush(c->out) != 0)
        die("write: %s", strerror(errno));
}

/* Reads a line that begins with `word`; false: another one. */
static bool answer(struct connection *c, const char *word, char *line, size_t size)
{
    if (!fgets(line, (int)size, c->in))
        die("it has gone: %s", strerror(errno));
    return strncmp(line, word, strlen(word)) == 0;
}

/* An unfinished answer in both directions at once would block both: a few hundred at a time. */
#define AT_ONCE 200

static void put(void *handle, const struct message *messages, size_t count)
{
    struct connection *c = handle;
    uint64_t now = realtime_ns();
    char line[256];

    for (size_t first = 0; first < count; first += AT_ONCE) {
        size_t end = first + AT_ONCE < count ? first + AT_ONCE : count;
        for (size_t i = first; i < end; i++) {
            const struct message *m = &messages[i];
            uint64_t delay = m->due > now ? (m->due - now + SECOND - 1) / SECOND : 0;
            fprintf(c->out, "put 0 %" PRIu64 " 120 %zu\r\n", delay, ID_SIZE + m->payload_size);
            fwrite(m->id, 1, ID_SIZE, c->out);
            fwrite(m->payload, 1, m->payload_size, c->out);
            fputs("\r\n", c->out);
        }
        flush(c);
        for (size_t i = first; i < end; i++)
            if (!answer(c, "INSERTED ", line, sizeof(line)))
                die("put: %s", line);
    }
}

/* Returns the number of the job; 0: none is ready. */
static uint64_t read_reserved(struct connection *c)
{
    char line[256];
    uint64_t job;
    size_t size;

    if (!answer(c, "RESERVED ", line, sizeof(line))) {
        if (strncmp(line, "TIMED_OUT", 9) == 0 || strncmp(line, "DEADLINE_SOON", 13) == 0)
            return 0;
        die("reserve: %s", line);
    }
    if (sscanf(line, "RESERVED %" SCNu64 " %zu", &job, &size) != 2)
        die("reserve: %s", line);
    for (size += 2; size > 0;) {
        char body[4096];
        size_t n = fread(body, 1, size < sizeof(body) ? size : sizeof(body), c->in);
        if (n == 0)
            die("it has gone");
        size -= n;
    }
    return job;
}

static size_t take(void *handle, uint64_t now, size_t max, taken_function taken, void *arg)
{
    struct connection *c = handle;
    uint64_t jobs[AT_ONCE];
    size_t count = 0;
    char line[256];

    (void)now;
    max = max < AT_ONCE ? max : AT_ONCE;
    for (size_t i = 0; i < max; i++)
        fputs("reserve-with-timeout 0\r\n", c->out);
    flush(c);
    for (size_t i = 0; i < max; i++) {
        uint64_t job = read_reserved(c);
        if (job != 0)
            jobs[count++] = job;
    }
    for (size_t i = 0; i < count; i++)
        fprintf(c->out, "delete %" PRIu64 "\r\n", jobs[i]);
    flush(c);
    for (size_t i = 0; i < count; i++) {
        if (!answer(c, "DELETED", line, sizeof(line)))
            die("delete: %s", line);
        if (taken)
            taken(0, arg);
    }
    return count;
}

const struct contender contender = {
    .name = "beanstalkd",
    .real_clock = true,
    .open = open_server,
    .close = close_server,
    .server = server,
    .connect = connect_server,
    .disconnect = disconnect,
    .put = put,
    .take = take,
};
