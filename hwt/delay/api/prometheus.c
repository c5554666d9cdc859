/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Stores' stats in Prometheus' text exposition format, version 0.0.4. */

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "hwt/delay/whole.h"
#include "hwt/delay/base/text.h"

/* The ends of the histogram's buckets are 2^i - 1 ns, from 1 us to 34 s. */
#define POWER_FIRST 10
#define POWER_LAST 35

#define FIELD(name) offsetof(hwt_delay_stats, name)

static const struct metric {
    const char *name, *type, *help;
    size_t field;
    bool narrow; /* a uint32_t */
} metrics[] = {
    { "pending", "gauge", "Messages that are not done and not cancelled.", FIELD(pending), false },
    { "leased", "gauge", "Messages that are leased.", FIELD(leased), false },
    { "put_total", "counter", "Messages put.", FIELD(put), false },
    { "cancelled_total", "counter", "Messages cancelled.", FIELD(cancelled), false },
    { "taken_total", "counter", "Messages handed over.", FIELD(taken), false },
    { "done_total", "counter", "Leases ended by done or retry.", FIELD(done), false },
    { "retried_total", "counter", "Messages put back for later.", FIELD(retried), false },
    { "expired_total", "counter", "Leases that ended by themselves.", FIELD(expired), false },
    { "rejected_total", "counter", "Messages refused because the disk was full.", FIELD(rejected),
      false },
    { "commits_total", "counter", "Writes of the log.", FIELD(commits), false },
    { "syncs_total", "counter", "Flushes of files and directories.", FIELD(syncs), false },
    { "log_bytes_total", "counter", "Bytes written to the log.", FIELD(log_bytes), false },
    { "slot_bytes_total", "counter", "Bytes written to slots and checkpoints.", FIELD(slot_bytes),
      false },
    { "checkpoints_total", "counter", "Checkpoints written.", FIELD(checkpoints), false },
    { "salvaged_total", "counter", "Damaged blocks put aside.", FIELD(salvaged), false },
    { "clock_leaps_total", "counter", "Leaps of the clock that held deliveries.",
      FIELD(clock_leaps), false },
    { "memory_bytes", "gauge", "Memory held for messages.", FIELD(memory), false },
    { "disk_bytes", "gauge", "Bytes of the log, the slots and the reserve.", FIELD(disk), false },
    { "slots", "gauge", "Slot files.", FIELD(files), false },
    { "held", "gauge", "1 while the clock has leapt and nothing is handed over.", FIELD(held),
      true },
    { "full", "gauge", "1 while the disk is full and puts are refused.", FIELD(full), true },
    { "poisoned", "gauge", "1 after a flush has failed.", FIELD(poisoned), true },
    { "gaps", "gauge", "Stretches of time that are kept back because of damage.", FIELD(gaps),
      false },
};

/* The stores of a page. The caller's hwt_delay_stats may be shorter or longer than this build's. */
struct stores {
    const hwt_delay_stats *stats;
    const char *const *names; /* NULL: one store, without a label */
    size_t count;
};

static const hwt_delay_stats *stats_of(const struct stores *stores, size_t i)
{
    const char *first = (const char *)stores->stats;
    return (const hwt_delay_stats *)(const void *)(first + i * stores->stats->size);
}

static const char *name_of(const struct stores *stores, size_t i)
{
    return stores->names ? stores->names[i] : NULL;
}

static void add_label(struct hwt_delay_text *text, const char *store)
{
    hwt_delay_text_add(text, "store=\"");
    for (; *store; store++) {
        if (*store == '\n')
            hwt_delay_text_add(text, "\\n");
        else
            hwt_delay_text_add(text, *store == '\\' || *store == '"' ? "\\%c" : "%c", *store);
    }
    hwt_delay_text_add(text, "\"");
}

static void add_name(struct hwt_delay_text *text, const char *name, const char *store)
{
    hwt_delay_text_add(text, "hwt_delay_%s", name);
    if (store) {
        hwt_delay_text_add(text, "{");
        add_label(text, store);
        hwt_delay_text_add(text, "}");
    }
    hwt_delay_text_add(text, " ");
}

static void add_head(struct hwt_delay_text *text, const char *name, const char *type,
                     const char *help)
{
    hwt_delay_text_add(text, "# HELP hwt_delay_%s %s\n# TYPE hwt_delay_%s %s\n", name, help, name,
                       type);
}

static void add_number(struct hwt_delay_text *text, const char *name, const char *store,
                       uint64_t value)
{
    add_name(text, name, store);
    hwt_delay_text_add(text, "%" PRIu64 "\n", value);
}

static void add_ns(struct hwt_delay_text *text, uint64_t ns)
{
    hwt_delay_text_add(text, "%" PRIu64 ".%09" PRIu64, ns / HWT_SEC(1), ns % HWT_SEC(1));
}

static void add_seconds(struct hwt_delay_text *text, const char *name, const char *store,
                        uint64_t ns)
{
    add_name(text, name, store);
    add_ns(text, ns);
    hwt_delay_text_add(text, "\n");
}

static uint64_t value_of(const hwt_delay_stats *stats, const struct metric *metric)
{
    const void *at = (const char *)stats + metric->field;
    return metric->narrow ? *(const uint32_t *)at : *(const uint64_t *)at;
}

static void add_metrics(struct hwt_delay_text *text, const struct stores *stores)
{
    for (size_t m = 0; m < sizeof(metrics) / sizeof(metrics[0]); m++) {
        add_head(text, metrics[m].name, metrics[m].type, metrics[m].help);
        for (size_t i = 0; i < stores->count; i++)
            add_number(text, metrics[m].name, name_of(stores, i),
                       value_of(stats_of(stores, i), &metrics[m]));
    }
}

static void add_bucket(struct hwt_delay_text *text, const char *store, uint64_t end, uint64_t count)
{
    hwt_delay_text_add(text, "hwt_delay_lateness_seconds_bucket{");
    if (store) {
        add_label(text, store);
        hwt_delay_text_add(text, ",");
    }
    hwt_delay_text_add(text, "le=\"");
    if (end == HWT_NEVER)
        hwt_delay_text_add(text, "+Inf");
    else
        add_ns(text, end);
    hwt_delay_text_add(text, "\"} %" PRIu64 "\n", count);
}

static void add_histogram(struct hwt_delay_text *text, const char *store,
                          const hwt_delay_stats *stats)
{
    uint64_t count = 0;
    for (int i = 0; i < 64; i++) {
        if (i >= POWER_FIRST && i <= POWER_LAST)
            add_bucket(text, store, (UINT64_C(1) << i) - 1, count);
        count += stats->lateness[i];
    }
    add_bucket(text, store, HWT_NEVER, count);
    add_seconds(text, "lateness_seconds_sum", store, stats->lateness_sum);
    add_number(text, "lateness_seconds_count", store, count);
}

static void add_lateness(struct hwt_delay_text *text, const struct stores *stores)
{
    add_head(text, "lateness_max_seconds", "gauge", "The most that a message was taken late.");
    for (size_t i = 0; i < stores->count; i++)
        add_seconds(text, "lateness_max_seconds", name_of(stores, i),
                    stats_of(stores, i)->lateness_max);
    add_head(text, "lateness_seconds", "histogram", "From due time, or put, to taking.");
    for (size_t i = 0; i < stores->count; i++)
        add_histogram(text, name_of(stores, i), stats_of(stores, i));
}

static bool is_fine(const struct stores *stores)
{
    if (!stores->stats || stores->count == 0 || (!stores->names && stores->count > 1) ||
        !hwt_delay_stats_is_size(stores->stats->size))
        return false;
    for (size_t i = 0; i < stores->count; i++) {
        if (stats_of(stores, i)->size != stores->stats->size ||
            (stores->names && !stores->names[i]))
            return false;
    }
    return true;
}

int64_t hwt_delay_stats_prometheus(const hwt_delay_stats *stats, const char *const *names,
                                   size_t count, char *buffer, size_t size)
{
    const struct stores stores = { stats, names, count };
    struct hwt_delay_text text;
    if (!is_fine(&stores) || hwt_delay_text_init(&text, buffer, size) < 0)
        return -EINVAL;
    add_metrics(&text, &stores);
    /* A caller that does not know the histogram gets none, rather than a wrong one. */
    if (stats->size >= offsetof(hwt_delay_stats, lateness_sum) + sizeof(stats->lateness_sum))
        add_lateness(&text, &stores);
    return (int64_t)text.length;
}
