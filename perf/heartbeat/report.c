/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heartbeat.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void report_head(const struct run *run)
{
    const struct options *o = &run->options;

    printf("hwt %s: %" PRIu64 " connections, %" PRIu64 " s, tick %" PRIu64 " us, heartbeat %" PRIu64
           " ms, idle limit %" PRIu64 " ms, seed %" PRIu64 "%s\n\n",
           hwt_version(), o->connections, o->seconds, o->tick_us, o->heartbeat_ms, o->idle_ms,
           o->seed, o->loop ? ", no worker" : "");
    printf("   time    open pending armed/s  moved/s cancel/s fired/s silent found dropped\n");
    fflush(stdout);
}

static double rate(uint64_t now, uint64_t before, double seconds)
{
    return (double)(now - before) / seconds;
}

void report_line(struct run *run, const hwt_stats *now, const hwt_stats *before, double seconds)
{
    struct counts *c = &run->counts;

    printf("%5.1f s %7" PRIu64 " %7" PRIu64 " %7.0f %8.0f %8.0f %7.0f %6" PRIu64 " %5" PRIu64
           " %7" PRIu64 "\n",
           (double)(now_ns() - run->begin) / 1e9, counted(&c->open), now->pending,
           rate(now->added, before->added, seconds),
           rate(now->rescheduled, before->rescheduled, seconds),
           rate(now->cancelled, before->cancelled, seconds),
           rate(now->expired, before->expired, seconds), counted(&c->silenced), counted(&c->found),
           counted(&c->dropped));
    fflush(stdout);
}

/* ---- The table ---- */

static void row(const char *name, uint64_t value, const char *remark)
{
    printf("  %-24s %12" PRIu64 "%s%s\n", name, value, remark[0] != '\0' ? "  " : "", remark);
}

static void row_ms(const char *name, uint64_t ns, const char *remark)
{
    printf("  %-24s %12.3f  ms%s%s\n", name, (double)ns / 1e6, remark[0] != '\0' ? "; " : "",
           remark);
}

static void table_timeouts(struct run *run)
{
    const hwt_stats *s = &run->stats;

    printf("\ntimeouts\n");
    row("armed", s->added, "");
    row("moved", s->rescheduled, "most of them re-armed by their own task");
    row("cancelled", s->cancelled, "");
    row("fired", s->expired, "");
    row("fired early", counted(&run->counts.early), "");
    row_ms("fired late, at most", s->lateness_max, "a tick, and what the scheduler adds");
    row_ms("scheduler, at most", run->overslept, "how late the main thread's own sleeps ended");
}

static uint64_t missed(struct run *run)
{
    return counted(&run->counts.silenced) - counted(&run->counts.found);
}

/* Nobody could tell whether they would have been found. */
static uint64_t not_silenced(struct run *run)
{
    return run->client.silence_count - counted(&run->counts.silenced);
}

static void table_peers(struct run *run, uint64_t wrong)
{
    struct counts *c = &run->counts;
    const struct histogram *late = &run->server.lateness;
    uint64_t n = counted(&c->found);
    uint64_t starved = counted(&c->live_closed) - wrong;

    printf("\npeers\n");
    row("silenced", counted(&c->silenced), "");
    row("found", n, "");
    row("missed", missed(run), "");
    row("wrongly closed", wrong, "");
    if (starved > 0)
        row("starved", starved, "closed, as this program got no processor to write in time");
    if (counted(&c->spared) > 0)
        row("spared", counted(&c->spared), "at the limit, but read from in that moment");
    if (n > 0) {
        row_ms("found late by, p50", histogram_at(late, 0.5), "from the idle limit to the close");
        row_ms("               p99", histogram_at(late, 0.99), "");
        row_ms("               max", histogram_at(late, 1), "");
    }
}

static void table_requests(struct run *run)
{
    struct counts *c = &run->counts;
    uint64_t late = counted(&c->timed_out) - counted(&c->timed_out_unanswered);

    printf("\nrequests\n");
    row("sent", counted(&c->requests), "");
    row("answered in time", counted(&c->answers), "");
    row("left unanswered", counted(&c->unanswered), "on purpose");
    row("timed out", counted(&c->timed_out), "");
    if (late > 0)
        row("though answered, late", late, "");
    if (counted(&c->timed_out_missed) > 0)
        row("time-outs that never came", counted(&c->timed_out_missed), "");
    row("retries", counted(&c->retries), "");
    row("given up", counted(&c->given_up), "after four tries");
    row("heartbeats sent", counted(&c->beats), "");
}

static void table_connections(struct run *run)
{
    struct counts *c = &run->counts;

    printf("\nconnections\n");
    row("opened", counted(&c->opened), "");
    row("dropped", counted(&c->dropped), "on purpose");
    row("turned away", counted(&c->turned_away), "on purpose, one in four that come back");
    row("tries that failed", counted(&c->connect_failed), "");
    row("reconnects", counted(&c->reconnected), "");
    if (counted(&c->not_reconnected) > 0)
        row("that never came", counted(&c->not_reconnected), "");
}

static void table_timer(const struct run *run)
{
    double seconds = (double)run->elapsed / 1e9;
    uint64_t peak = run->pending_peak > 0 ? run->pending_peak : 1;

    printf("\ntimer\n");
    printf("  %-24s %12.2f  %% of a processor, %s\n", "CPU",
           100.0 * (double)run->timer_cpu / (double)run->elapsed,
           run->options.loop ? "of the server's thread" : "of the worker");
    printf("  %-24s %12.1f  a second\n", "wake-ups", (double)run->wakeups / seconds);
    row("pending at most", run->pending_peak, "");
    row("bytes held", run->stats.memory, "");
    row("  by an empty timer", run->memory_before, "");
    printf("  %-24s %12.1f  without that; about 54 where a million are pending\n",
           "  by each timeout", (double)(run->stats.memory - run->memory_before) / (double)peak);
}

/* ---- The verdict ---- */

/* How much later than the period a heartbeat may be before the server misses it. */
static uint64_t heartbeat_slack(const struct options *options)
{
    return HWT_MS(options->idle_ms - options->heartbeat_ms);
}

/*
 * A peer that the server closed although it had not fallen silent is the timer's fault, unless
 * a thread was kept from running meanwhile: a loop that had post waiting, the main thread whose
 * sleep was over, or any thread that waited for a processor, as the kernel says (threads.c).
 * These are in order, and do not touch.
 */
void stall_note(struct run *run, uint64_t begin, uint64_t end)
{
    if (end < begin + heartbeat_slack(&run->options) / 4)
        return;
    pthread_mutex_lock(&run->stall_lock);
    while (run->stall_count > 0) {
        const struct stall *last = &run->stalls[run->stall_count - 1];
        if (begin > last->end && run->stall_count < STALLS)
            break;
        begin = begin < last->begin ? begin : last->begin;
        end = end > last->end ? end : last->end;
        run->stall_count--;
    }
    run->stalls[run->stall_count++] = (struct stall){ begin, end };
    pthread_mutex_unlock(&run->stall_lock);
}

/* How long between two instants nobody was kept from running. */
uint64_t stall_free(struct run *run, uint64_t from, uint64_t to)
{
    uint64_t left = to > from ? to - from : 0;

    pthread_mutex_lock(&run->stall_lock);
    for (size_t i = 0; i < run->stall_count; i++) {
        uint64_t begin = run->stalls[i].begin > from ? run->stalls[i].begin : from;
        uint64_t end = run->stalls[i].end < to ? run->stalls[i].end : to;
        left -= end > begin ? end - begin : 0;
    }
    pthread_mutex_unlock(&run->stall_lock);
    return left;
}

static bool was_stalled(const struct run *run, uint64_t closed)
{
    for (size_t i = 0; i < run->stall_count; i++)
        if (run->stalls[i].begin <= closed &&
            run->stalls[i].end + HWT_MS(run->options.idle_ms) >= closed)
            return true;
    return false;
}

static uint64_t count_wrong(struct run *run)
{
    uint64_t wrong = 0;

    for (size_t i = 0; i < run->server.suspect_count; i++)
        if (!was_stalled(run, run->server.suspect[i]))
            wrong++;
    return wrong;
}

static bool verdict(const char *what, uint64_t n)
{
    if (n > 0)
        printf("FAILED: %s: %" PRIu64 "\n", what, n);
    return n == 0;
}

/* A program that got no processor for a second cannot say whether the timer would have let them
 * fall silent. */
static bool is_known(struct run *run)
{
    uint64_t stalled = run->elapsed - stall_free(run, run->begin, run->begin + run->elapsed);

    if (not_silenced(run) == 0 || stalled < HWT_SEC(1))
        return true;
    printf("NOT KNOWN: peers never long enough connected to fall silent: %" PRIu64
           "; this program got no processor for %.1f s\n",
           not_silenced(run), (double)stalled / 1e9);
    return false;
}

int report_end(struct run *run)
{
    uint64_t wrong = count_wrong(run);
    bool well = true, known;

    table_timeouts(run);
    table_peers(run, wrong);
    table_requests(run);
    table_connections(run);
    table_timer(run);

    printf("\n");
    well &= verdict("silent peers missed", missed(run));
    known = is_known(run);
    if (known)
        well &= verdict("peers never long enough connected to fall silent", not_silenced(run));
    well &= verdict("live peers closed", wrong);
    well &= verdict("timeouts fired early", counted(&run->counts.early));
    well &= verdict("time-outs that never came", counted(&run->counts.timed_out_missed));
    well &= verdict("reconnects that never came", counted(&run->counts.not_reconnected));
    if (well && known)
        printf("All well: every silent peer was found, none closed wrongly, nothing early.\n");
    fflush(stdout);
    return !well ? REPORT_FAILED : known ? REPORT_WELL : REPORT_NOT_KNOWN;
}
