/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Redis, through hiredis: a sorted set of ids by due time, a hash of payloads; appendfsync always,
 * so an answer comes after the flush, and one flush serves all clients of one turn of its loop.
 * Scores are doubles: milliseconds.
 */

#include "compare.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pid_t pid;

static pid_t server(void)
{
    return pid;
}

static redisReply *expect(redisReply *reply, redisContext *context)
{
    if (!reply)
        die("%s", context->errstr);
    if (reply->type == REDIS_REPLY_ERROR)
        die("%s", reply->str);
    return reply;
}

static void *connect_server(void)
{
    redisContext *context = redisConnectUnix(socket_path);

    if (!context || context->err)
        die("connect: %s", context ? context->errstr : "no memory");
    return context;
}

static void disconnect(void *handle)
{
    redisFree(handle);
}

static void open_server(const char *directory)
{
    pid = server_start((const char *[]){
        "redis-server", "--port", "0", "--unixsocket", socket_path, "--dir", directory, "--save",
        "", "--appendonly", "yes", "--appendfsync", "always", "--loglevel", "warning", NULL });
    close(server_connect());
    redisContext *context = connect_server();
    for (bool loading = true; loading;) { /* the log that it finds */
        redisReply *reply = redisCommand(context, "PING");
        if (!reply)
            die("%s", context->errstr);
        loading = reply->type == REDIS_REPLY_ERROR;
        freeReplyObject(reply);
        usleep(loading ? 500 : 0);
    }
    disconnect(context);
}

static void close_server(void)
{
    server_kill(pid);
    unlink(socket_path);
}

static void append(redisContext *context, size_t count, const char **arguments,
                   const size_t *lengths)
{
    if (redisAppendCommandArgv(context, (int)count, arguments, lengths) != REDIS_OK)
        die("%s", context->errstr);
}

/* Reads as many answers, and looks at each. */
static void read_replies(redisContext *context, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        redisReply *reply = NULL;
        redisGetReply(context, (void **)&reply);
        freeReplyObject(expect(reply, context));
    }
}

static void put(void *handle, const struct message *messages, size_t count)
{
    const char **arguments = calloc(2 + 2 * count, sizeof(*arguments));
    size_t *lengths = calloc(2 + 2 * count, sizeof(*lengths));
    char(*scores)[24] = calloc(count, sizeof(*scores));

    redisAppendCommand(handle, "MULTI");
    arguments[0] = "HSET", lengths[0] = 4;
    arguments[1] = "payload", lengths[1] = 7;
    for (size_t i = 0; i < count; i++) {
        arguments[2 + 2 * i] = messages[i].id, lengths[2 + 2 * i] = ID_SIZE;
        arguments[3 + 2 * i] = messages[i].payload, lengths[3 + 2 * i] = messages[i].payload_size;
    }
    append(handle, 2 + 2 * count, arguments, lengths);
    arguments[0] = "ZADD";
    arguments[1] = "due", lengths[1] = 3;
    for (size_t i = 0; i < count; i++) {
        snprintf(scores[i], sizeof(scores[i]), "%" PRIu64, messages[i].due / 1000000);
        arguments[2 + 2 * i] = scores[i], lengths[2 + 2 * i] = strlen(scores[i]);
        arguments[3 + 2 * i] = messages[i].id, lengths[3 + 2 * i] = ID_SIZE;
    }
    append(handle, 2 + 2 * count, arguments, lengths);
    redisAppendCommand(handle, "EXEC");
    read_replies(handle, 4);
    free(scores);
    free(lengths);
    free(arguments);
}

/* For one consumer: two would find the same ids. */
static size_t take(void *handle, uint64_t now, size_t max, taken_function taken, void *arg)
{
    unsigned long long over = now / 1000000 - 1; /* the last millisecond that is over */
    redisReply *due = redisCommand(handle, "ZRANGEBYSCORE due -inf %llu WITHSCORES LIMIT 0 %llu",
                                   over, (unsigned long long)max);
    expect(due, handle);
    size_t count = due->elements / 2, got = 0;

    if (count > 0) {
        const char **arguments = calloc(2 + count, sizeof(*arguments));
        size_t *lengths = calloc(2 + count, sizeof(*lengths));
        for (size_t i = 0; i < count; i++) {
            arguments[2 + i] = due->element[2 * i]->str;
            lengths[2 + i] = due->element[2 * i]->len;
        }
        arguments[0] = "HMGET", lengths[0] = 5;
        arguments[1] = "payload", lengths[1] = 7;
        append(handle, 2 + count, arguments, lengths);
        read_replies(handle, 1);
        redisAppendCommand(handle, "MULTI");
        arguments[0] = "HDEL", lengths[0] = 4;
        append(handle, 2 + count, arguments, lengths);
        arguments[0] = "ZREM", lengths[0] = 4;
        arguments[1] = "due", lengths[1] = 3;
        append(handle, 2 + count, arguments, lengths);
        redisAppendCommand(handle, "EXEC");
        read_replies(handle, 3);
        redisReply *reply = NULL;
        redisGetReply(handle, (void **)&reply);
        got = (size_t)expect(reply, handle)->element[1]->integer;
        freeReplyObject(reply);
        if (got != count)
            die("there is another consumer");
        for (size_t i = 0; taken && i < got; i++)
            taken(strtoull(due->element[2 * i + 1]->str, NULL, 10) * 1000000, arg);
        free(lengths);
        free(arguments);
    }
    freeReplyObject(due);
    return got;
}

const struct contender contender = {
    .name = "redis",
    .open = open_server,
    .close = close_server,
    .server = server,
    .connect = connect_server,
    .disconnect = disconnect,
    .put = put,
    .take = take,
};
