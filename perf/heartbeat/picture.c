/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What happened, as an SVG: pending timeouts, wake-ups and runs, and how late runs were, over time.
 * The main thread notes a sample each time it looks; when there is no room left, each two are
 * made one, so that a run of any length fits.
 */

#include "heartbeat.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define WIDTH 900
#define LEFT 70
#define RIGHT 790 /* names of the lines are to the right of it */
#define PANEL 150
#define GAP 45
#define TOP 30

static const char blue[] = "#0072b2", orange[] = "#d55e00", grey[] = "#888888";

/* ---- Samples ---- */

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Of two that follow each other one. */
static void join(struct picture_sample *first, const struct picture_sample *second)
{
    first->end = second->end;
    first->pending = later(first->pending, second->pending);
    first->open = later(first->open, second->open);
    first->wakeups += second->wakeups;
    first->fired += second->fired;
    first->lateness_max = second->lateness_max;
    for (size_t i = 0; i < 64; i++)
        first->lateness[i] += second->lateness[i];
}

static void join_pairs(struct picture *picture)
{
    for (size_t i = 0; i < PICTURE_SAMPLES; i += 2) {
        join(&picture->samples[i], &picture->samples[i + 1]);
        picture->samples[i / 2] = picture->samples[i];
    }
    picture->count = PICTURE_SAMPLES / 2;
    picture->looks_each *= 2;
}

/* All samples are of as many looks, but the last. */
static void add(struct picture *picture, const struct picture_sample *look)
{
    if (picture->looks_each == 0)
        picture->looks_each = 1;
    if (picture->looks++ % picture->looks_each > 0) {
        join(&picture->samples[picture->count - 1], look);
        return;
    }
    if (picture->count == PICTURE_SAMPLES)
        join_pairs(picture);
    picture->samples[picture->count++] = *look;
}

void picture_note(struct picture *picture, struct run *run, const hwt_stats *stats, uint64_t now)
{
    const hwt_stats *before = &picture->before;
    uint64_t wakeups = stats->wakeups + counted(&run->counts.dispatches);
    struct picture_sample look = { .begin = picture->noted,
                                   .end = now - run->begin,
                                   .pending = stats->pending,
                                   .open = counted(&run->counts.open),
                                   .wakeups = wakeups - picture->wakeups_before,
                                   .fired = stats->expired - before->expired,
                                   .lateness_max = stats->lateness_max };

    for (size_t i = 0; i < 64; i++)
        look.lateness[i] = (uint32_t)(stats->lateness[i] - before->lateness[i]);
    add(picture, &look);
    picture->noted = look.end;
    picture->before = *stats;
    picture->wakeups_before = wakeups;
}

/* ---- What is drawn of a sample ---- */

static double seconds_of(const struct picture_sample *sample)
{
    return (double)(sample->end - sample->begin) / 1e9;
}

static double draw_pending(const struct picture_sample *sample)
{
    return (double)sample->pending;
}

static double draw_open(const struct picture_sample *sample)
{
    return (double)sample->open;
}

static double draw_wakeups(const struct picture_sample *sample)
{
    return (double)sample->wakeups / seconds_of(sample);
}

static double draw_fired(const struct picture_sample *sample)
{
    return (double)sample->fired / seconds_of(sample);
}

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

static double draw_median(const struct picture_sample *sample)
{
    return lateness(sample, 50);
}

static double draw_latest(const struct picture_sample *sample)
{
    return lateness(sample, 100);
}

/* ---- Panels ---- */

typedef double (*reading)(const struct picture_sample *sample);

struct line {
    const char *name, *colour;
    reading read;
};

struct panel {
    const char *title;
    bool logarithmic;
    struct line lines[2];
};

static const struct panel panels[] = {
    { "timeouts pending, connections open",
      false,
      { { "pending", blue, draw_pending }, { "open", orange, draw_open } } },
    { "a second: tasks run, wake-ups of the timer",
      false,
      { { "run", blue, draw_fired }, { "wake-ups", orange, draw_wakeups } } },
    { "how late tasks ran, in ms (tick: dashed)",
      true,
      { { "half of them", blue, draw_median }, { "latest", orange, draw_latest } } },
};
#define PANELS (sizeof(panels) / sizeof(panels[0]))

/* From the numbers to the paper. */
struct axes {
    double least, most, seconds;
    bool logarithmic;
    int top;
};

static double x_of(const struct axes *axes, double seconds)
{
    return LEFT + (RIGHT - LEFT) * seconds / axes->seconds;
}

static double y_of(const struct axes *axes, double value)
{
    double part = axes->logarithmic ? log(value / axes->least) / log(axes->most / axes->least)
                                    : (value - axes->least) / (axes->most - axes->least);

    return axes->top + PANEL * (1 - part);
}

/* 1, 2, 4, 6 or 8 times a power of ten, so that a quarter of it is round too: at least so much. */
static double round_number(double value)
{
    double power = pow(10, floor(log10(value)));
    double times = ceil(value / power * 0.999999);

    return power * (times <= 2 ? times : times <= 8 ? 2 * ceil(times / 2) : 10);
}

static struct axes measure(const struct picture *picture, const struct panel *panel, int top)
{
    struct axes axes = { .least = 1e9, .most = 0, .logarithmic = panel->logarithmic, .top = top };

    for (size_t i = 0; i < picture->count; i++) {
        for (size_t j = 0; j < 2; j++) {
            double value = panel->lines[j].read(&picture->samples[i]);
            axes.most = value > axes.most ? value : axes.most;
            axes.least = value < axes.least ? value : axes.least;
        }
    }
    axes.most = axes.most > 0 ? axes.most : 1;
    if (panel->logarithmic) {
        axes.least =
            pow(10, floor(log10(axes.least < axes.most ? axes.least / 2 : axes.most / 20)));
        axes.most = pow(10, ceil(log10(axes.most)));
    } else {
        axes.least = 0;
        axes.most = round_number(axes.most);
    }
    axes.seconds = (double)picture->samples[picture->count - 1].end / 1e9;
    return axes;
}

static void draw_text(FILE *svg, double x, double y, const char *anchor, const char *colour,
                      const char *text)
{
    fprintf(svg, "<text x='%.1f' y='%.1f' text-anchor='%s' fill='%s'>%s</text>\n", x, y, anchor,
            colour, text);
}

static void draw_rule(FILE *svg, const struct axes *axes, double value)
{
    char text[32];
    double y = y_of(axes, value);

    snprintf(text, sizeof(text), "%.6g", value);
    fprintf(svg, "<path d='M%d %.1fH%d' stroke='#dddddd'/>\n", LEFT, y, RIGHT);
    draw_text(svg, LEFT - 6, y + 4, "end", grey, text);
}

static void draw_frame(FILE *svg, const struct axes *axes, const char *title)
{
    char text[32];
    double step = round_number(axes->seconds / 10);

    draw_text(svg, LEFT, axes->top - 8, "start", "#222222", title);
    if (axes->logarithmic) {
        for (double value = axes->least; value < axes->most * 1.5; value *= 10)
            draw_rule(svg, axes, value);
    } else {
        for (int i = 0; i <= 4; i++)
            draw_rule(svg, axes, axes->most * i / 4);
    }
    for (double at = 0; at <= axes->seconds * 1.001; at += step) {
        snprintf(text, sizeof(text), "%.6g s", at);
        draw_text(svg, x_of(axes, at), axes->top + PANEL + 16, "middle", grey, text);
    }
}

static void draw_line(FILE *svg, const struct picture *picture, const struct axes *axes,
                      const struct line *line)
{
    bool drawn = false;

    fprintf(svg, "<path fill='none' stroke='%s' stroke-width='1.5' d='", line->colour);
    for (size_t i = 0; i < picture->count; i++) {
        double value = line->read(&picture->samples[i]);
        if (isnan(value)) {
            drawn = false;
            continue;
        }
        fprintf(svg, "%c%.1f %.1f", drawn ? 'L' : 'M',
                x_of(axes, (double)picture->samples[i].end / 1e9), y_of(axes, value));
        drawn = true;
    }
    fprintf(svg, "'/>\n");
}

/* The names stand beside the panel, in the order of the lines' colours. */
static void draw_panel(FILE *svg, const struct picture *picture, const struct panel *panel, int top,
                       double tick_ms)
{
    struct axes axes = measure(picture, panel, top);

    draw_frame(svg, &axes, panel->title);
    if (panel->logarithmic && tick_ms > axes.least && tick_ms < axes.most)
        fprintf(svg, "<path d='M%d %.1fH%d' stroke='#222222' stroke-dasharray='4 4'/>\n", LEFT,
                y_of(&axes, tick_ms), RIGHT);
    for (size_t i = 0; i < 2; i++) {
        draw_line(svg, picture, &axes, &panel->lines[i]);
        draw_text(svg, RIGHT + 8, top + 14 + 18 * (double)i, "start", panel->lines[i].colour,
                  panel->lines[i].name);
    }
}

bool picture_write(const struct picture *picture, const struct run *run, const char *path)
{
    const struct options *o = &run->options;
    int height = TOP + (int)PANELS * (PANEL + GAP) + 25;
    FILE *svg = fopen(path, "w");

    if (svg == NULL) {
        fprintf(stderr, "heartbeat: cannot write %s: %s\n", path, strerror(errno));
        return false;
    }
    fprintf(svg,
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' font-family='sans-serif' "
            "font-size='12'>\n<rect width='%d' height='%d' fill='#ffffff'/>\n",
            WIDTH, height, WIDTH, height);
    for (size_t i = 0; i < PANELS; i++)
        draw_panel(svg, picture, &panels[i], TOP + (int)i * (PANEL + GAP),
                   (double)o->tick_us / 1e3);
    fprintf(svg,
            "<text x='%d' y='%d' fill='%s'>heartbeat: %llu connections, a heartbeat after %llu ms, "
            "idle limit %llu ms, tick %llu us%s</text>\n</svg>\n",
            LEFT, height - 8, grey, (unsigned long long)o->connections,
            (unsigned long long)o->heartbeat_ms, (unsigned long long)o->idle_ms,
            (unsigned long long)o->tick_us, o->loop ? ", no worker" : "");
    if (fclose(svg) != 0) {
        fprintf(stderr, "heartbeat: cannot write %s: %s\n", path, strerror(errno));
        return false;
    }
    return true;
}
