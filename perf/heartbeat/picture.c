/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What happened, as a picture that gnuplot draws: pending timeouts, wake-ups and runs, and how late runs
 * were, over time. The main thread notes a sample now and then, four hundred in a run of its usual length.
 */

#include "heartbeat.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Samples ---- */

void picture_note(struct picture *picture, struct run *run, const hwt_stats *stats, uint64_t now)
{
    const hwt_stats *before = &picture->before;
    uint64_t wakeups = stats->wakeups + counted(&run->counts.dispatches);
    uint64_t since = picture->noted, each = HWT_SEC(run->options.seconds) / PICTURE_USUAL;
    struct picture_sample *sample = &picture->samples[picture->count];

    if (picture->count == PICTURE_SAMPLES || now - run->begin < since + each)
        return;
    *sample = (struct picture_sample){ .begin = since,
                                       .end = now - run->begin,
                                       .pending = stats->pending,
                                       .open = counted(&run->counts.open),
                                       .wakeups = wakeups - picture->wakeups_before,
                                       .fired = stats->expired - before->expired,
                                       .lateness_max = stats->lateness_max };
    for (size_t i = 0; i < 64; i++)
        sample->lateness[i] = (uint32_t)(stats->lateness[i] - before->lateness[i]);
    picture->count++;
    picture->noted = sample->end;
    picture->before = *stats;
    picture->wakeups_before = wakeups;
}

/* ---- What is drawn of a sample ---- */

/*
 * So many of a hundred runs were at most as late, in ms; none: NAN. Runs are counted by powers of two:
 * those of one power are taken to lie evenly between its ends, 2^i and 2^(i + 1). None was later than
 * the latest of the run. A run that was not late at all is drawn as 1 ns, because the axis is logarithmic.
 */
static double lateness(const struct picture_sample *sample, uint64_t percent)
{
    uint64_t rank = (sample->fired * percent + 99) / 100, below = 0;
    unsigned i = 0;

    if (sample->fired == 0)
        return (double)NAN;
    while (i < 63 && below + sample->lateness[i] < rank)
        below += sample->lateness[i++];
    double part = ((double)(rank - below) - 0.5) / (double)sample->lateness[i];
    double late = fmin(ldexp(1 + part, (int)i), (double)sample->lateness_max);
    return fmax(late, 1) / 1e6;
}

void picture_rows(const struct picture *picture, FILE *to)
{
    for (size_t i = 0; i < picture->count; i++) {
        const struct picture_sample *sample = &picture->samples[i];
        double seconds = (double)(sample->end - sample->begin) / 1e9;
        fprintf(to, "%.9g %" PRIu64 " %" PRIu64 " %.9g %.9g %.9g %.9g\n", (double)sample->end / 1e9,
                sample->pending, sample->open, (double)sample->fired / seconds,
                (double)sample->wakeups / seconds, lateness(sample, 50), lateness(sample, 100));
    }
}

static const char settings[] =
    "set terminal svg size 600,860 dynamic noenhanced background '#ffffff' font 'sans-serif,14'\n"
    "set grid lc rgb '#dddddd'\nset border 3\nset tics nomirror\nset key below samplen 2\n"
    "set lmargin 10\nset rmargin 3\nset yrange [0:*]\nset xrange [0:*]\n";

/* Two lines of a panel, whose columns of the rows follow each other. */
static void draw_panel(FILE *plot, const char *title, int column, const char *first,
                       const char *second)
{
    fprintf(plot,
            "set title '%s' offset 0,-0.7\n"
            "plot $rows using 1:%d with lines lw 1.5 lc rgb '#0072b2' title '%s', "
            "$rows using 1:%d with lines lw 1.5 lc rgb '#d55e00' title '%s'\n",
            title, column, first, column + 1, second);
}

static void draw(FILE *plot, const struct picture *picture, const struct options *o)
{
    fprintf(plot, "%s$rows << end\n", settings);
    picture_rows(picture, plot);
    fprintf(plot,
            "end\nset multiplot layout 3,1 title '%" PRIu64 " connections, heartbeat %" PRIu64
            " ms, idle %" PRIu64 " ms, tick %" PRIu64 " us%s'\n",
            o->connections, o->heartbeat_ms, o->idle_ms, o->tick_us, o->loop ? ", no worker" : "");
    draw_panel(plot, "timeouts pending, connections open", 2, "pending", "open");
    draw_panel(plot, "a second: tasks run, wake-ups of the timer", 4, "run", "wake-ups");
    fprintf(plot,
            "set logscale y\nset yrange [*:*]\nset xlabel 's'\n"
            "set arrow from graph 0, first %g to graph 1, first %g nohead dt 2\n",
            (double)o->tick_us / 1e3, (double)o->tick_us / 1e3);
    draw_panel(plot, "how late tasks ran, in ms (tick: dashed)", 6, "half of them", "latest");
}

bool picture_write(const struct picture *picture, const struct run *run, const char *path)
{
    FILE *file = fopen(path, "w"), *plot = NULL;

    if (file != NULL)
        plot = popen("gnuplot 2>/dev/null", "w");
    if (file == NULL || plot == NULL) {
        fprintf(stderr, "heartbeat: cannot write %s: %s\n", path, strerror(errno));
        return false;
    }
    fclose(file);
    fprintf(plot, "set output '%s'\n", path);
    draw(plot, picture, &run->options);
    if (pclose(plot) == 0)
        return true;
    fprintf(stderr, "heartbeat: gnuplot did not draw %s: is it installed?\n", path);
    return false;
}
