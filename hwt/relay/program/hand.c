/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/program/program.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hwt/relay/program/look.h"
#include "hwt/relay/open.h"

/* ---- status ---- */

/* For how many seconds a replica has said nothing, by the broker's clock and this one's. */
static uint64_t silence(struct relay_engine *engine, unsigned shard, const char *replica,
                        uint64_t revision)
{
    char name[RELAY_ENTRY_MAX];
    struct timespec now;
    uint64_t written;

    look_member_name(shard, replica, name);
    if (engine->calls->written(engine, name, revision, &written) < 0)
        return 0;
    clock_gettime(CLOCK_REALTIME, &now);
    written /= HWT_SEC(1);
    return (uint64_t)now.tv_sec > written ? (uint64_t)now.tv_sec - written : 0;
}

static const char *why_unready(const struct relay_member *member)
{
    for (size_t i = 0; i < RELAY_UNREADY; i++)
        if (strcmp(relay_whys[i].word, member->why) == 0)
            return relay_whys[i].text;
    return member->ready ? "ready" : "not ready";
}

/* Each replica says once a lease what is with it. */
static int print_replica(const struct relay_config *config, struct relay_engine *engine,
                         unsigned shard, const char *replica, uint64_t last)
{
    struct relay_member member;
    uint64_t revision, silent;
    int r = look_read_member(engine, shard, replica, &member, &revision);

    if (r < 0)
        return r;
    if (relay_place_is_forgotten(&member.place)) {
        printf("    %s is forgotten\n", replica);
        return 0;
    }
    printf("    %s has read up to %" PRIu64 " of %" PRIu64, replica, member.place.position, last);
    if (revision == 0) {
        printf("; it has never run\n");
        return 0;
    }
    silent = silence(engine, shard, replica, revision);
    if (silent > 4 * config->lease / HWT_SEC(1) + 1)
        printf("; silent for %" PRIu64 " s", silent);
    else
        printf("; %s", why_unready(&member));
    printf("%s%s\n", *member.server ? ", at " : "", member.server);
    return 0;
}

static int print_shard(const struct relay_config *config, struct relay_engine *engine,
                       unsigned shard)
{
    char due[RELAY_DUE_ROOM];
    struct relay_extent extent;
    struct relay_entry entry;
    int r = engine->calls->extent(engine, &extent);

    if (r == 0)
        r = look_read_entry(engine, shard, &entry);
    if (r < 0)
        return r;
    relay_due_write(entry.watermark.due, due);
    printf("shard %u: %s%s\n", shard, strcmp(entry.owner, "-") == 0 ? "free" : "owned by ",
           strcmp(entry.owner, "-") == 0 ? "" : entry.owner);
    if (*engine->server)
        printf("    this is what the server %s says\n", engine->server);
    if (*engine->fault)
        printf("    messages may be lost: %s\n", engine->fault);
    printf("    of the messages up to %" PRIu64 ", all due by %s have ended\n",
           entry.watermark.place.position, due);
    for (size_t i = 0; r == 0 && i < config->replicas.count; i++)
        r = print_replica(config, engine, shard, config->replicas.word[i], extent.last);
    return r;
}

int command_status(const struct request *request)
{
    char fault[RELAY_ENTRY_MAX] = "";
    int r = 0;

    for (unsigned i = 0; r == 0 && i < request->config->shards; i++) {
        struct relay_engine *engine = look_open_engine(request, i);
        r = print_shard(request->config, engine, i);
        if (i == 0)
            relay_engine_shards_fault(request->config, engine, fault);
        engine->calls->close(engine);
    }
    if (r < 0)
        return fail("%s", strerror(-r));
    if (*fault)
        printf("%s\n", fault);
    return fflush(stdout) == 0 ? 0 : fail("writing the output failed");
}

/* ---- drain ---- */

/* The process that holds the lock; 0: none. */
static pid_t find_relay(int fd)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

    return fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK ? lock.l_pid : 0;
}

int command_drain(const struct request *request)
{
    const struct timespec while_it_ends = { .tv_nsec = 20000000 };
    char path[4096];
    pid_t pid;
    int fd;

    snprintf(path, sizeof(path), "%s/%s", request->config->state, LOCK_FILE);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    pid = fd < 0 ? 0 : find_relay(fd);
    if (pid <= 0)
        return fail("no relay runs with %s", request->config->state);
    if (kill(pid, SIGTERM) < 0)
        return fail("process %d: %s", (int)pid, strerror(errno));
    while (find_relay(fd) == pid)
        nanosleep(&while_it_ends, NULL);
    close(fd);
    return 0;
}

/* ---- forget ---- */

/* -EBUSY: it owns the shard; -EAGAIN: it has changed its entry meanwhile, so it runs. */
static int forget(struct relay_engine *engine, unsigned shard, const char *replica)
{
    char name[RELAY_ENTRY_MAX], text[RELAY_ENTRY_MAX];
    struct relay_member member;
    struct relay_entry entry;
    uint64_t revision;
    int r = look_read_member(engine, shard, replica, &member, &revision);

    if (r == 0)
        r = look_read_entry(engine, shard, &entry);
    if (r == 0 && strcmp(entry.owner, replica) == 0)
        r = -EBUSY;
    if (r < 0)
        return r;
    look_member_name(shard, replica, name);
    relay_member_write(&(struct relay_member){ .place = RELAY_FORGOTTEN }, text);
    return engine->calls->swap(engine, name, revision, text, &revision);
}

static bool has_word(const struct relay_words *words, const char *word)
{
    for (size_t i = 0; i < words->count; i++)
        if (strcmp(words->word[i], word) == 0)
            return true;
    return false;
}

int command_forget(const struct request *request)
{
    const char *replica = request->operands[0];
    int r = 0;

    if (!has_word(&request->config->replicas, replica))
        misuse("%s is none of the replicas", replica);
    for (unsigned i = 0; r == 0 && i < request->config->shards; i++) {
        struct relay_engine *engine = look_open_engine(request, i);
        r = forget(engine, i, replica);
        engine->calls->close(engine);
    }
    if (r == -EBUSY)
        return fail("%s owns a shard: drain it; or, if it is dead, wait until another one has "
                    "taken the shard",
                    replica);
    if (r == -EAGAIN)
        return fail("%s runs: drain it first", replica);
    return r < 0 ? fail("%s; try again", strerror(-r)) : 0;
}
