/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/delay/tool/tool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- stat ---- */

static const struct row {
    const char *name;
    size_t field;
    const char *remark;
} rows[] = {
    { "pending", offsetof(hwt_delay_stats, pending), "messages" },
    { "disk", offsetof(hwt_delay_stats, disk), "bytes of log, slots and reserve" },
    { "files", offsetof(hwt_delay_stats, files), "of slots" },
    { "replayed", offsetof(hwt_delay_stats, replayed), "records in the log" },
    { "cut", offsetof(hwt_delay_stats, cut), "bytes of an unfinished write" },
    { "memory", offsetof(hwt_delay_stats, memory), "bytes" },
    { "gaps", offsetof(hwt_delay_stats, gaps), "stretches of time, kept back because of damage" },
};

static void print_stats(const hwt_delay_stats *stats)
{
    char time[TIME_ROOM];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        printf("%-9s %12" PRIu64 "  %s\n", rows[i].name,
               *(const uint64_t *)(const void *)((const char *)stats + rows[i].field),
               rows[i].remark);
    format_time(stats->hand, time);
    printf("%-9s %s\n", "hand", time);
    format_time(stats->next, time);
    printf("%-9s %s\n", "next", time);
    if (stats->not_durable)
        printf("The file system is in memory: nothing here survives power loss.\n");
}

/* A text of which only writing it tells the length. */
static char *text_of(int64_t (*write)(const void *arg, char *buffer, size_t size), const void *arg)
{
    int64_t length = write(arg, NULL, 0);
    char *text = NULL;

    for (int64_t room = 0; length >= room;) {
        room = length + 1;
        char *larger = realloc(text, (size_t)room);
        if (!larger) {
            length = -ENOMEM;
            break;
        }
        text = larger;
        length = write(arg, text, (size_t)room);
    }
    if (length >= 0)
        return text;
    free(text);
    exit(fail("%s", hwt_delay_strerror((int)length)));
}

static int64_t write_metrics(const void *stats, char *buffer, size_t size)
{
    return hwt_delay_stats_prometheus(stats, NULL, 1, buffer, size);
}

int command_stat(const struct request *request)
{
    hwt_delay *store = open_store(request->directory, HWT_DELAY_READ_ONLY);
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    int r = hwt_delay_get_stats(store, &stats);

    hwt_delay_close(store);
    if (r < 0)
        return fail("%s: %s", request->directory, hwt_delay_strerror(r));
    if (request->prometheus) {
        char *text = text_of(write_metrics, &stats);
        fputs(text, stdout);
        free(text);
    } else {
        print_stats(&stats);
    }
    return finish_output();
}

/* ---- dump ---- */

static int64_t write_dump(const void *store, char *buffer, size_t size)
{
    return hwt_delay_dump(*(hwt_delay *const *)store, buffer, size);
}

static int print_visited(const hwt_delay_message *message, void *data)
{
    (void)data;
    print_message(message);
    return ferror(stdout) ? 1 : 0;
}

static int dump_messages(const struct request *request, uint64_t from, uint64_t to)
{
    hwt_delay *store = open_store(request->directory, HWT_DELAY_READ_ONLY);
    int r = hwt_delay_visit(store, from, to, print_visited, NULL);

    hwt_delay_close(store);
    return r < 0 ? fail("%s: %s", request->directory, hwt_delay_strerror(r)) : finish_output();
}

int command_dump(const struct request *request)
{
    uint64_t from = 0, to = HWT_NEVER;

    if (!request->messages && (request->from || request->to))
        misuse("dump: --from and --to go with --messages");
    if (request->from && !parse_time(request->from, clock_now(), &from))
        misuse("--from %s: not a time", request->from);
    if (request->to && !parse_time(request->to, clock_now(), &to))
        misuse("--to %s: not a time", request->to);
    if (request->messages)
        return dump_messages(request, from, to);

    hwt_delay *store = open_store(request->directory, HWT_DELAY_READ_ONLY);
    char *text = text_of(write_dump, &store);
    fputs(text, stdout);
    free(text);
    hwt_delay_close(store);
    return finish_output();
}

/* ---- check ---- */

static void print_damage(const hwt_delay_damage *damage, void *data)
{
    (void)data;
    printf("%s: %" PRIu64 " bytes at %" PRIu64 ": %s\n", damage->file, damage->length,
           damage->offset, damage->reason);
}

int command_check(const struct request *request)
{
    hwt_delay *store = open_store(request->directory, HWT_DELAY_READ_ONLY);
    int64_t found = hwt_delay_check(store, print_damage, NULL);

    hwt_delay_close(store);
    if (found < 0)
        return fail("%s: %s", request->directory, hwt_delay_strerror((int)found));
    if (finish_output() != 0)
        return FAILED;
    if (found > 0)
        return fail("%s: damaged in %" PRId64 " places: hwt-delay salvage saves the rest",
                    request->directory, found);
    return 0;
}
