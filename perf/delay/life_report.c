/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "life.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

void report_head(const struct run *run)
{
    const struct options *o = &run->options;

    printf("hwt-delay %s: %" PRIu64 " messages of %" PRIu64 " bytes by %" PRIu64
           " threads, %" PRIu64 " kills, seed %" PRIu64 ", in %s\n\n",
           hwt_version(), o->messages, o->payload, o->threads, o->kills, o->seed, run->path);
    printf(
        "   time       phase life     put delivered cancelled  pending   put/s  taken/s    clock "
        "memory   disk\n");
    fflush(stdout);
}

void report_line(const struct run *run, struct watch *watch, uint64_t resident, uint64_t disk)
{
    static const char *const phases[PHASES] = { "putting", "waiting", "clock moved" };
    const struct shared *s = run->shared;
    double seconds = (double)(read_clock(CLOCK_MONOTONIC) - watch->last_line) / 1e9;
    uint64_t acknowledged = counted(&s->acknowledged), delivered = counted(&s->delivered);

    printf("%5.1f s %11s %4" PRIu32 " %7" PRIu64 " %9" PRIu64 " %9" PRIu64 " %8" PRIu64
           " %7.0f %8.0f %6.2f d %3.0f MB %3.0f MB\n",
           (double)(read_clock(CLOCK_MONOTONIC) - watch->begin) / 1e9, phases[counted(&s->phase)],
           s->life, acknowledged, delivered, counted(&s->cancelled), counted(&s->pending),
           (double)(acknowledged - watch->last_acknowledged) / seconds,
           (double)(delivered - watch->last_delivered) / seconds,
           (double)counted(&s->clock_offset) / 86400e9, (double)resident / 1e6, (double)disk / 1e6);
    watch->last_acknowledged = acknowledged;
    watch->last_delivered = delivered;
    fflush(stdout);
}

static void row(const char *name, uint64_t value, const char *remark)
{
    printf("  %-28s %12" PRIu64 "%s%s\n", name, value, remark[0] != '\0' ? "  " : "", remark);
}

static void row_of(const char *name, double value, const char *unit, const char *remark)
{
    printf("  %-28s %12.3f  %s%s%s\n", name, value, unit, remark[0] != '\0' ? "; " : "", remark);
}

/* ---- The tables ---- */

static uint64_t lost(const struct run *run)
{
    uint64_t n = 0;

    for (uint64_t i = 0; i < run->options.messages; i++) {
        const struct entry *e = &run->shared->entries[i];
        n += e->put == GRANTED && e->deliveries == 0 && e->cancel != GRANTED;
    }
    return n;
}

static void table_messages(const struct run *run)
{
    const struct shared *s = run->shared;

    printf("\nmessages\n");
    row("put and acknowledged", counted(&s->acknowledged), "");
    row("delivered", counted(&s->delivered), "");
    row("cancelled", counted(&s->cancelled), "");
    row("lost", lost(run), "");
    row("early", counted(&s->early), "");
    row("delivered after a cancel", counted(&s->after_cancel), "");
    row("with wrong content", counted(&s->wrong_content), "");
    row("out of order", counted(&s->out_of_order), "");
    printf("\ndeliveries of what had come before\n");
    row("its lease had ended", counted(&s->repeated[CAUSE_LEASE]), "one in a thousand, on purpose");
    row("killed before it was done", counted(&s->repeated[CAUSE_KILLED]), "");
    row("put again", counted(&s->repeated[CAUSE_PUT_AGAIN]), "killed before the put returned");
    row("without a cause", counted(&s->repeated[CAUSE_NONE]), "");
}

static void table_time(const struct run *run, const struct watch *watch)
{
    const struct shared *s = run->shared;

    printf("\ntime\n");
    row_of("all of it", (double)(read_clock(CLOCK_MONOTONIC) - watch->begin) / 1e9, "s", "");
    row_of("late by, p50", (double)histogram_at(&s->lateness, 0.5) / 1e6, "ms",
           "of what came in real time and no kill held up");
    row_of("         p99", (double)histogram_at(&s->lateness, 0.99) / 1e6, "ms", "");
    row_of("         max", (double)histogram_at(&s->lateness, 1) / 1e6, "ms", "");
    row_of("opening took, at most", (double)counted(&s->opening_max) / 1e6, "ms", "");
    row("kills", watch->kills, "");
    row_of("clock moved by", (double)counted(&s->clock_offset) / 86400e9, "days", "");
    row("leaps that the store saw", counted(&watch->ended.clock_leaps), "");
}

static void table_disk(const struct run *run, const struct watch *watch)
{
    const struct store_counts *c = &watch->ended;
    double payload = (double)counted(&run->shared->acknowledged) * (double)run->options.payload;

    if (payload == 0)
        payload = 1;
    printf("\ndisk and memory\n");
    row("syncs", counted(&c->syncs), "as last heard of each life");
    row("commits", counted(&c->commits), "");
    row("checkpoints", counted(&c->checkpoints), "");
    row("records read again", counted(&c->replayed), "from the log, after kills");
    row("bytes cut from the log", counted(&c->cut), "");
    row_of("bytes for a payload byte",
           (double)(counted(&c->log_bytes) + counted(&c->slot_bytes)) / payload, "",
           "as the store counts");
    uint64_t device = device_written(run->options.directory);
    if (device > 0)
        row_of("as the device counts", (double)(device - watch->device_begin) / payload, "",
               "whoever wrote, in blocks of 4 KiB");
    else
        row_of("as the system counts", (double)watch->written / payload, "",
               "for these processes, in whole pages and folios");
    row_of("memory, at most", (double)watch->resident_max / 1e6, "MB", "");
    row_of("disk, at most", (double)watch->disk_max / 1e6, "MB", "");
    row_of("disk, at the end", (double)disk_bytes(run->path) / 1e6, "MB", "an empty store's");
}

/* ---- The verdict ---- */

static bool verdict(const char *what, uint64_t n)
{
    if (n > 0)
        printf("FAILED: %s: %" PRIu64 "\n", what, n);
    return n == 0;
}

bool report_end(const struct run *run, const struct watch *watch)
{
    const struct shared *s = run->shared;
    const hwt_delay_options defaults = HWT_DELAY_OPTIONS_INIT;
    uint64_t disk = disk_bytes(run->path), allowed = 2 * defaults.segment_size + (1 << 20);
    bool well = true;

    sync();
    table_messages(run);
    table_time(run, watch);
    table_disk(run, watch);
    printf("\n");
    well &= verdict("messages not put", run->options.messages - counted(&s->acknowledged));
    well &= verdict("lost", lost(run));
    well &= verdict("early", counted(&s->early));
    well &= verdict("delivered after a cancel", counted(&s->after_cancel));
    well &= verdict("with wrong content", counted(&s->wrong_content));
    well &= verdict("out of order", counted(&s->out_of_order));
    well &= verdict("delivered again without a cause", counted(&s->repeated[CAUSE_NONE]));
    well &= verdict("pending at the end, by the store", counted(&s->pending));
    well &=
        verdict("bytes on the disk beyond an empty store's", disk > allowed ? disk - allowed : 0);
    well &= verdict("kills that did not come", run->options.kills - watch->kills);
    if (well)
        printf("All well: nothing lost, early, wrong, or delivered after a cancel.\n");
    fflush(stdout);
    return well;
}
