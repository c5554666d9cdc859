/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/metrics.h"

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
    const char *space;
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
    fprintf(page->file, "hwt_relay_%s{space=\"%s\",shard=\"%u\"} ", name, page->space,
            page->shards[i].shard);
}

static void add_seconds(const struct page *page, uint64_t ns)
{
    fprintf(page->file, "%" PRIu64 ".%09" PRIu64 "\n", ns / HWT_SEC(1), ns % HWT_SEC(1));
}

static void add_metrics(const struct page *page)
{
    for (size_t m = 0; m < sizeof(metrics) / sizeof(metrics[0]); m++) {
        add_head(page, metrics[m].name, metrics[m].type, metrics[m].help);
        for (size_t i = 0; i < page->count; i++) {
            const void *at = (const char *)page->shards[i].counts + metrics[m].field;
            add_name(page, metrics[m].name, i);
            fprintf(page->file, "%" PRIu64 "\n", relay_count_get(at));
        }
    }
}

static void add_lags(const struct page *page)
{
    struct timespec time;

    add_head(page, "lag_messages", "gauge",
             "Messages of the stream that this replica has not read.");
    for (size_t i = 0; i < page->count; i++) {
        const struct relay_counts *counts = page->shards[i].counts;
        uint64_t position = relay_count_get(&counts->position),
                 last = relay_count_get(&counts->last);
        add_name(page, "lag_messages", i);
        fprintf(page->file, "%" PRIu64 "\n", last > position ? last - position : 0);
    }
    add_head(
        page, "watermark_age_seconds", "gauge",
        "How long ago all has ended that was due, as this replica knows; none before the first.");
    clock_gettime(CLOCK_REALTIME, &time);
    for (size_t i = 0; i < page->count; i++) {
        uint64_t now = HWT_SEC((uint64_t)time.tv_sec) + (uint64_t)time.tv_nsec;
        uint64_t due = relay_count_get(&page->shards[i].counts->watermark_due);
        if (due == 0)
            continue;
        add_name(page, "watermark_age_seconds", i);
        add_seconds(page, now > due ? now - due : 0);
    }
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
                page->space, page->shards[i].shard, end, count);
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
    int64_t length;
    char *text;

    for (size_t i = 0; i < page->count; i++) {
        stats[i] = (hwt_delay_stats)HWT_DELAY_STATS_INIT;
        hwt_delay_get_stats(page->shards[i].store, &stats[i]);
        snprintf(names[i], sizeof(names[i]), "%s.%u", page->space, page->shards[i].shard);
        pointers[i] = names[i];
    }
    length = hwt_delay_stats_prometheus(stats, pointers, page->count, NULL, 0);
    text = length > 0 ? malloc((size_t)length + 1) : NULL;
    if (text) {
        hwt_delay_stats_prometheus(stats, pointers, page->count, text, (size_t)length + 1);
        fputs(text, page->file);
    }
    free(text);
}

char *relay_metrics_page(const struct relay_config *config, const struct relay_metrics *shards,
                         size_t count)
{
    char *text = NULL;
    size_t size;
    struct page page = { open_memstream(&text, &size), config->space, shards, count };
    bool failed;

    if (!page.file)
        return NULL;
    add_metrics(&page);
    add_lags(&page);
    add_head(&page, "lateness_seconds", "histogram",
             "From the due time, or from the stream's if that was later, to the acknowledgement.");
    for (size_t i = 0; i < count; i++)
        add_histogram(&page, i);
    if (count > 0)
        add_stores(&page);
    failed = ferror(page.file) != 0;
    if (fclose(page.file) == 0 && !failed)
        return text;
    free(text);
    return NULL;
}
