/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Timers' stats in Prometheus' text exposition format, version 0.0.4. */

#include <errno.h>
#include <inttypes.h>

#include "hwt/base/text.h"
#include "hwt/worker/counters.h"

/*
 * The powers of two, of the histogram's 64, that say something about a timer. They go from the
 * shortest tick there is to half a minute. They are always the same, so that timers can be compared
 * and summed. A bucket includes its upper end and the counters do not, hence 2^i - 1 ns.
 */
#define POWER_FIRST 10 /* 1.023 us */
#define POWER_LAST 35  /* 34.36 s */

#define LE_NONE 0
#define LE_INFINITE UINT64_MAX

static const struct metric {
    const char *name, *type, *help;
    size_t field;
} metrics[] = {
    { "timeouts_pending", "gauge", "Timeouts that are pending.", offsetof(hwt_stats, pending) },
    { "timeouts_added_total", "counter", "Timeouts accepted.", offsetof(hwt_stats, added) },
    { "timeouts_expired_total", "counter", "Runs of tasks, those of re-armed timeouts included.",
      offsetof(hwt_stats, expired) },
    { "timeouts_cancelled_total", "counter", "Timeouts cancelled while they were pending.",
      offsetof(hwt_stats, cancelled) },
    { "timeouts_unprocessed_total", "counter", "Timeouts left over when the timer was stopped.",
      offsetof(hwt_stats, unprocessed) },
    { "timeouts_rescheduled_total", "counter", "Timeouts moved or re-armed.",
      offsetof(hwt_stats, rescheduled) },
    { "timeouts_rejected_total", "counter", "Timeouts refused for want of room or of a thread.",
      offsetof(hwt_stats, rejected) },
    { "worker_wakeups_total", "counter", "Times the worker came out of a sleep.",
      offsetof(hwt_stats, wakeups) },
    { "memory_bytes", "gauge", "Memory held.", offsetof(hwt_stats, memory) },
};

/* The numbers to write. The caller's hwt_stats may be shorter or longer than this build's. */
struct timers {
    const hwt_stats *stats;
    const char *const *names; /* NULL: one timer, without a label */
    size_t count;
};

static const hwt_stats *stats_of(const struct timers *timers, size_t i)
{
    const char *first = (const char *)timers->stats;
    return (const hwt_stats *)(const void *)(first + i * timers->stats->size);
}

static uint64_t value_of(const hwt_stats *stats, size_t field)
{
    return *(const uint64_t *)(const void *)((const char *)stats + field);
}

static void add_head(struct hwt_text *text, const char *name, const char *type, const char *help)
{
    hwt_text_add(text, "# HELP hwt_%s %s\n# TYPE hwt_%s %s\n", name, help, name, type);
}

static void add_escaped(struct hwt_text *text, const char *value)
{
    for (; *value; value++) {
        if (*value == '\n')
            hwt_text_add(text, "\\n");
        else
            hwt_text_add(text, *value == '\\' || *value == '"' ? "\\%c" : "%c", *value);
    }
}

/* Adds the text before the value, which is the name and the labels, if any. */
static void add_name(struct hwt_text *text, const char *name, const char *timer, uint64_t le)
{
    hwt_text_add(text, "hwt_%s", name);
    if (timer) {
        hwt_text_add(text, "{timer=\"");
        add_escaped(text, timer);
        hwt_text_add(text, "\"");
    }
    if (le != LE_NONE) {
        hwt_text_add(text, timer ? ",le=\"" : "{le=\"");
        if (le == LE_INFINITE)
            hwt_text_add(text, "+Inf");
        else
            hwt_text_add_seconds(text, le);
        hwt_text_add(text, "\"");
    }
    hwt_text_add(text, timer || le != LE_NONE ? "} " : " ");
}

static void add_number(struct hwt_text *text, const char *name, const char *timer, uint64_t le,
                       uint64_t value)
{
    add_name(text, name, timer, le);
    hwt_text_add(text, "%" PRIu64 "\n", value);
}

static void add_seconds(struct hwt_text *text, const char *name, const char *timer, uint64_t value)
{
    add_name(text, name, timer, LE_NONE);
    hwt_text_add_seconds(text, value);
    hwt_text_add(text, "\n");
}

static void add_histogram(struct hwt_text *text, const char *timer, const hwt_stats *stats)
{
    uint64_t count = 0;
    for (unsigned power = 1; power <= 64; power++) {
        count += stats->lateness[power - 1];
        if (power >= POWER_FIRST && power <= POWER_LAST)
            add_number(text, "lateness_seconds_bucket", timer, (UINT64_C(1) << power) - 1, count);
    }
    add_number(text, "lateness_seconds_bucket", timer, LE_INFINITE, count);
    /* A program built with an older header does not know the sum, so it gets rather none than a
     * wrong one. */
    if (stats->size >= offsetof(hwt_stats, lateness_sum) + sizeof(stats->lateness_sum))
        add_seconds(text, "lateness_seconds_sum", timer, stats->lateness_sum);
    add_number(text, "lateness_seconds_count", timer, LE_NONE, count);
}

static const char *name_of(const struct timers *timers, size_t i)
{
    return timers->names ? timers->names[i] : NULL;
}

static int check(const struct timers *timers)
{
    if (!timers->stats || timers->count == 0 || (!timers->names && timers->count > 1))
        return -EINVAL;
    if (timers->stats->size < HWT_STATS_SIZE_MIN)
        return -EINVAL;
    for (size_t i = 0; i < timers->count; i++) {
        if (stats_of(timers, i)->size != timers->stats->size ||
            (timers->names && !timers->names[i]))
            return -EINVAL;
    }
    return 0;
}

int64_t hwt_stats_prometheus(const hwt_stats *stats, const char *const *names, size_t count,
                             char *buffer, size_t size)
{
    struct timers timers = { stats, names, count };
    struct hwt_text text;
    if (check(&timers) < 0 || hwt_text_init(&text, buffer, size) < 0)
        return -EINVAL;
    for (size_t m = 0; m < sizeof(metrics) / sizeof(*metrics); m++) {
        const struct metric *metric = &metrics[m];
        add_head(&text, metric->name, metric->type, metric->help);
        for (size_t i = 0; i < count; i++)
            add_number(&text, metric->name, name_of(&timers, i), LE_NONE,
                       value_of(stats_of(&timers, i), metric->field));
    }
    add_head(&text, "lateness_max_seconds", "gauge", "The most that a task started late.");
    for (size_t i = 0; i < count; i++)
        add_seconds(&text, "lateness_max_seconds", name_of(&timers, i),
                    stats_of(&timers, i)->lateness_max);
    add_head(&text, "lateness_seconds", "histogram",
             "From a timeout's deadline to the start of its task.");
    for (size_t i = 0; i < count; i++)
        add_histogram(&text, name_of(&timers, i), stats_of(&timers, i));
    return (int64_t)text.length;
}
