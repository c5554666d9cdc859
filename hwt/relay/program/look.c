/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/program/look.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hwt/relay/open.h"
#include "hwt/relay/program/program.h"
#include "hwt/relay/shard.h"

/* ---- At the broker ---- */

struct relay_engine *look_open_engine(const struct request *request, unsigned shard)
{
    struct relay_engine *engine;

    if (relay_engine_open(request->config, shard, &engine) < 0)
        exit(fail("the broker does not answer; see above"));
    return engine;
}

void look_member_name(unsigned shard, const char *replica, char name[RELAY_ENTRY_MAX])
{
    snprintf(name, RELAY_ENTRY_MAX, "place.%s.%u", replica, shard);
}

int look_read_member(struct relay_engine *engine, unsigned shard, const char *replica,
                     struct relay_member *ret_member, uint64_t *ret_revision)
{
    char name[RELAY_ENTRY_MAX], text[RELAY_ENTRY_MAX];
    int r;

    look_member_name(shard, replica, name);
    r = engine->calls->read(engine, name, text, ret_revision);
    return r < 0 ? r : relay_member_read(text, ret_member);
}

int look_read_entry(struct relay_engine *engine, unsigned shard, struct relay_entry *ret_entry)
{
    char name[RELAY_ENTRY_MAX], text[RELAY_ENTRY_MAX];
    uint64_t revision;
    int r;

    snprintf(name, sizeof(name), "shard.%u", shard);
    r = engine->calls->read(engine, name, text, &revision);
    return r < 0 ? r : relay_entry_read(text, ret_entry);
}

/* ---- In a state directory ---- */

const char *look_explain(int error)
{
    switch (error) {
    case -ENOENT:
        return "no store is there; name the state directory of a relay, or a copy of it";
    case -ENOTDIR:
        return "not a directory; name the state directory of a relay, or a copy of it";
    case -EACCES:
        return "not permitted: use the account of the relay";
    case -EBADMSG:
        return "it is damaged, or none of a relay; see hwt-delay check";
    case -ESTALE:
        return "its relay changes it too quickly to be read: try again";
    default:
        return strerror(-error);
    }
}

int look_open_store(const struct relay_config *config, const char *state, unsigned shard,
                    struct look *ret_look)
{
    hwt_delay_options options = relay_shard_store(config);
    char path[4096], text[RELAY_ENTRY_MAX] = "";
    struct relay_place top;
    int64_t size;
    int r = -ESTALE;

    if ((size_t)snprintf(path, sizeof(path), "%s/%u", state, shard) >= sizeof(path))
        return -ENAMETOOLONG;
    options.flags = HWT_DELAY_READ_ONLY;
    *ret_look = (struct look){ .state = state };
    for (int i = 0; i < LOOKS_MAX && r == -ESTALE; i++)
        r = hwt_delay_open(path, &options, &ret_look->store);
    if (r < 0)
        return r;
    size = hwt_delay_note(ret_look->store, text, sizeof(text) - 1, NULL);
    r = size < 0 || (size_t)size >= sizeof(text) ? -EBADMSG
                                                 : relay_note_read(text, &ret_look->place, &top);
    if (r < 0)
        hwt_delay_close(ret_look->store);
    return r;
}

/* ---- dump ---- */

void look_print_escaped(const void *bytes, size_t size)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < size; i++) {
        if (at[i] == '\\')
            fputs("\\\\", stdout);
        else if (at[i] >= ' ' && at[i] <= '~')
            putchar(at[i]);
        else
            printf("\\x%02x", at[i]);
    }
}

static void print_field(const char *text)
{
    putchar('\t');
    look_print_escaped(text, strlen(text));
}

/* A line; see hwt-relay(1). */
static int print_message(const hwt_delay_message *message, void *shard)
{
    struct relay_record record;
    char due[RELAY_DUE_ROOM];

    if (relay_record_read(message->payload, message->payload_size, &record) < 0)
        return -EBADMSG;
    relay_due_write(message->due, due);
    printf("%s\t%u:%" PRIu64 "\t%" PRIu64, due, *(const unsigned *)shard, record.place.position,
           record.attempt);
    print_field(record.target);
    print_field(record.key);
    putchar('\t');
    look_print_escaped(record.payload, record.payload_size);
    for (size_t i = 0; i < record.fields_count; i++) {
        print_field(record.fields[i].name);
        fputs(": ", stdout);
        look_print_escaped(record.fields[i].value, strlen(record.fields[i].value));
    }
    putchar('\n');
    return ferror(stdout) ? -EIO : 0;
}

static int dump_shard(const struct relay_config *config, unsigned shard)
{
    struct look look;
    int r = look_open_store(config, config->state, shard, &look);

    if (r == 0) {
        r = hwt_delay_visit(look.store, 0, HWT_NEVER, print_message, &shard);
        hwt_delay_close(look.store);
    }
    return r < 0 ? fail("%s/%u: %s", config->state, shard, look_explain(r)) : 0;
}

int command_dump(const struct request *request)
{
    uint64_t first = 0, last = request->config->shards - 1;
    int status = 0;

    if (request->shard && (!relay_number_read(request->shard, &first) || first > last))
        misuse("there is no shard %s", request->shard);
    if (request->shard)
        last = first;
    for (; status == 0 && first <= last; first++)
        status = dump_shard(request->config, (unsigned)first);
    if (fflush(stdout) < 0)
        return fail("writing the output failed");
    return status;
}
