/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/program/metrics.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FIELD(name) offsetof(struct relay_counts, name)

static const struct metric {
    const char *name, *type, *help;
    size_t field;
} metrics[] = {
    { "owner", "gauge", "1 while this replica owns the shard and forwards.", FIELD(owns) },
    { "position", "gauge", "The stream is in this replica's store up to here.", FIELD(position) },
    { "catching_up", "gauge", "1 while it has taken the shard, and reads what is missing.",
      FIELD(catches_up) },
    { "taken", "gauge", "Messages that are due and have not ended.", FIELD(taken) },
    { "forwarded_total", "counter", "Messages that targets have acknowledged.", FIELD(forwarded) },
    { "repeats_refused_total", "counter", "Of those, known to the target's stream before.",
      FIELD(repeats) },
    { "failures_total", "counter", "Messages that targets have not taken.", FIELD(failures) },
    { "dead_letters_total", "counter", "Messages sent to the dead letters.", FIELD(dead_letters) },
    { "policies_differ", "gauge",
      "Replicas whose targets or limits are not the owner's, as the owner knows.",
      FIELD(policies) },
    { "divergences_total", "counter", "How often the stream was not as it was read before.",
      FIELD(divergences) },
};

/* The page that is written, and its shards. */
struct page {
    FILE *file;
    const struct relay_config *config;
    const struct relay_metrics *shards;
    size_t count;
};

static void add_head(const struct page *page, const char *name, const char *type, const char *help)
{
    fprintf(page->file, "# HELP hwt_relay_%s %s\n# TYPE hwt_relay_%s %s\n", name, help, name, type);
}

/* The labels need no escapes, because a space is a name. */
static void add_name(const struct page *page, const char *name, size_t i)
{
    fprintf(page->file, "hwt_relay_%s{space=\"%s\",shard=\"%u\"} ", name, page->config->space,
            page->shards[i].shard);
}

static void add_seconds(const struct page *page, uint64_t ns)
{
    fprintf(page->file, "%" PRIu64 ".%09" PRIu64 "\n", ns / HWT_SEC(1), ns % HWT_SEC(1));
}

/* With one more label. */
static void add_labelled(const struct page *page, const char *name, size_t i, const char *label,
                         const char *value, uint64_t number)
{
    fprintf(page->file, "hwt_relay_%s{space=\"%s\",shard=\"%u\",%s=\"", name, page->config->space,
            page->shards[i].shard, label);
    for (; *value; value++) /* a pattern may have such characters */
        fprintf(page->file, strchr("\"\\", *value) ? "\\%c" : "%c", *value);
    fprintf(page->file, "\"} %" PRIu64 "\n", number);
}

static void add_numbers(const struct page *page)
{
    for (size_t m = 0; m < sizeof(metrics) / sizeof(metrics[0]); m++) {
        add_head(page, metrics[m].name, metrics[m].type, metrics[m].help);
        for (size_t i = 0; i < page->count; i++) {
            const void *at = (const char *)page->shards[i].counts + metrics[m].field;
            if (!page->shards[i].counts)
                continue;
            add_name(page, metrics[m].name, i);
            fprintf(page->file, "%" PRIu64 "\n", relay_count_get(at));
        }
    }
}

static void add_process(const struct page *page)
{
    add_head(page, "build_info", "gauge", "1, with what it is.");
    fprintf(page->file,
            "hwt_relay_build_info{version=\"%s\",engine=\"%s\",space=\"%s\",replica=\"%s\"} 1\n",
            hwt_version(), page->config->engine, page->config->space, page->config->replica);
    add_head(page, "ready", "gauge",
             "1 if this replica could own the shard as it should, or does.");
    for (size_t i = 0; i < page->count; i++) {
        add_name(page, "ready", i);
        fprintf(page->file, "%d\n", page->shards[i].unready == RELAY_READY);
    }
    add_head(page, "broker_errors_total", "counter",
             "Calls that the broker has failed, by the call.");
    for (size_t i = 0; i < page->count; i++)
        for (size_t call = 0; call < RELAY_CALLS; call++)
            add_labelled(page, "broker_errors_total", i, "call", relay_call_names[call],
                         relay_count_get(&page->shards[i].errors->count[call]));
}

static uint64_t read_clock(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return HWT_SEC((uint64_t)now.tv_sec) + (uint64_t)now.tv_nsec;
}

/* How long ago, by a clock, was the instant in a field. Without a sample where that is 0. */
static void add_ages(const struct page *page)
{
    static const struct {
        const char *name, *help;
        size_t field;
        clockid_t clock;
    } ages[] = {
        { "watermark_age_seconds",
          "How long ago all has ended that was due, as this replica knows; none before the first.",
          FIELD(watermark_due), CLOCK_REALTIME },
        { "lease_age_seconds", "Since the lease was renewed; none without a lease.",
          FIELD(lease_from), CLOCK_BOOTTIME },
        { "oldest_flight_age_seconds",
          "Since the due time of what was taken first and has not ended; none without such a "
          "message.",
          FIELD(oldest_due), CLOCK_REALTIME },
    };

    for (size_t m = 0; m < sizeof(ages) / sizeof(ages[0]); m++) {
        uint64_t now = read_clock(ages[m].clock);
        add_head(page, ages[m].name, "gauge", ages[m].help);
        for (size_t i = 0; i < page->count; i++) {
            const void *at = (const char *)page->shards[i].counts + ages[m].field;
            uint64_t from = page->shards[i].counts ? relay_count_get(at) : 0;
            if (from == 0)
                continue;
            add_name(page, ages[m].name, i);
            add_seconds(page, now > from ? now - from : 0);
        }
    }
}

static void add_lags(const struct page *page)
{
    add_head(page, "lag_messages", "gauge",
             "Messages of the stream that this replica has not read.");
    for (size_t i = 0; i < page->count; i++) {
        const struct relay_counts *counts = page->shards[i].counts;
        uint64_t position = counts ? relay_count_get(&counts->position) : 0,
                 last = counts ? relay_count_get(&counts->last) : 0;
        if (!counts)
            continue;
        add_name(page, "lag_messages", i);
        fprintf(page->file, "%" PRIu64 "\n", last > position ? last - position : 0);
    }
    add_head(page, "clock_offset_seconds", "gauge",
             "By how much this clock is ahead of the broker's at least; negative: behind.");
    for (size_t i = 0; i < page->count; i++) {
        const struct relay_counts *counts = page->shards[i].counts;
        if (!counts)
            continue;
        add_name(page, "clock_offset_seconds", i);
        fprintf(page->file, "%.9f\n", (double)(int64_t)relay_count_get(&counts->clock_ahead) / 1e9);
    }
    add_head(page, "trim_waits", "gauge",
             "1 for the replica that has read least, or something else, so that nothing more is "
             "deleted.");
    for (size_t i = 0; i < page->count; i++) {
        const struct relay_counts *counts = page->shards[i].counts;
        uint64_t waits = counts ? relay_count_get(&counts->trim_waits) : 0;
        if (waits > 0)
            add_labelled(page, "trim_waits", i, "replica", page->config->replicas.word[waits - 1],
                         1);
    }
}

static void add_failures(const struct page *page)
{
    static const char *const reasons[RELAY_DEADS] = { [RELAY_DEAD_ORDER] = "order",
                                                      [RELAY_DEAD_TARGET] = "target",
                                                      [RELAY_DEAD_SIZE] = "size",
                                                      [RELAY_DEAD_ATTEMPTS] = "attempts" };
    const struct relay_words *targets = &page->config->targets;

    add_head(page, "target_failures_total", "counter",
             "Of the failures, those by the pattern of `targets` that has the target.");
    for (size_t i = 0; i < page->count; i++)
        for (size_t n = 0; page->shards[i].counts && n < targets->count; n++)
            add_labelled(page, "target_failures_total", i, "pattern", targets->word[n],
                         relay_count_get(&page->shards[i].counts->failures_of[n]));
    add_head(page, "dead_letters_by_reason_total", "counter", "The dead letters, by their reason.");
    for (size_t i = 0; i < page->count; i++)
        for (size_t n = 0; page->shards[i].counts && n < RELAY_DEADS; n++)
            add_labelled(page, "dead_letters_by_reason_total", i, "reason", reasons[n],
                         relay_count_get(&page->shards[i].counts->dead_letters_of[n]));
}

static void add_histogram(const struct page *page, size_t i)
{
    const struct relay_counts *counts = page->shards[i].counts;
    uint64_t count = 0;

    for (size_t b = 0; b <= RELAY_LATE_BUCKETS; b++) {
        char end[32] = "+Inf";
        if (b < RELAY_LATE_BUCKETS)
            snprintf(end, sizeof(end), "%g", (double)relay_late_ends[b] / 1e9);
        count += relay_count_get(&counts->lateness[b]);
        fprintf(page->file,
                "hwt_relay_lateness_seconds_bucket{space=\"%s\",shard=\"%u\",le=\"%s\"} %" PRIu64
                "\n",
                page->config->space, page->shards[i].shard, end, count);
    }
    add_name(page, "lateness_seconds_sum", i);
    add_seconds(page, relay_count_get(&counts->lateness_sum));
    add_name(page, "lateness_seconds_count", i);
    fprintf(page->file, "%" PRIu64 "\n", count);
}

/* As hwt_delay_stats_prometheus() writes them, with the label store="SPACE.N". */
static void add_stores(const struct page *page)
{
    hwt_delay_stats stats[RELAY_SHARDS_MAX];
    char names[RELAY_SHARDS_MAX][RELAY_NAME_MAX + 16];
    const char *pointers[RELAY_SHARDS_MAX];
    size_t count = 0;
    int64_t length;
    char *text;

    for (size_t i = 0; i < page->count; i++) {
        if (!page->shards[i].counts)
            continue;
        stats[count] = (hwt_delay_stats)HWT_DELAY_STATS_INIT;
        hwt_delay_get_stats(page->shards[i].store, &stats[count]);
        snprintf(names[count], sizeof(names[count]), "%s.%u", page->config->space,
                 page->shards[i].shard);
        pointers[count] = names[count];
        count++;
    }
    length = count > 0 ? hwt_delay_stats_prometheus(stats, pointers, count, NULL, 0) : 0;
    text = length > 0 ? malloc((size_t)length + 1) : NULL;
    if (text) {
        hwt_delay_stats_prometheus(stats, pointers, count, text, (size_t)length + 1);
        fputs(text, page->file);
    }
    free(text);
}

char *relay_metrics_page(const struct relay_config *config, const struct relay_metrics *shards,
                         size_t count)
{
    char *text = NULL;
    size_t size;
    struct page page = { open_memstream(&text, &size), config, shards, count };
    bool failed;

    if (!page.file)
        return NULL;
    add_process(&page);
    add_numbers(&page);
    add_failures(&page);
    add_lags(&page);
    add_ages(&page);
    add_head(&page, "lateness_seconds", "histogram",
             "From the due time, or from the stream's if that was later, to the acknowledgement.");
    for (size_t i = 0; i < count; i++)
        if (shards[i].counts)
            add_histogram(&page, i);
    add_stores(&page);
    failed = ferror(page.file) != 0;
    if (fclose(page.file) == 0 && !failed)
        return text;
    free(text);
    return NULL;
}
