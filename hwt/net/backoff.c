/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Delays that grow from one to the next and are spread at random. See retry.h for what they do.
 *
 * With a seed, the object has the sequence of its draws. Without one, they come from the calling
 * thread's own, so that what was begun before a fork() differs in every child.
 */

#include "hwt/net/random.h"
#include "hwt/net/options.h"

void hwt_retry_options_init(hwt_retry_options *options, size_t size)
{
    static const hwt_retry_options defaults = HWT_RETRY_OPTIONS_INIT;
    if (!options || size < HWT_RETRY_OPTIONS_SIZE_MIN)
        return;
    memset(options, 0, size);
    memcpy(options, &defaults, size < sizeof(defaults) ? size : sizeof(defaults));
    options->size = size;
}

int hwt_backoff_init(hwt_backoff *backoff, const hwt_retry_options *options)
{
    hwt_retry_options known;
    if (!backoff || hwt_retry_options_read(options, &known) < 0)
        return -EINVAL;
    *backoff = (hwt_backoff){
        .first_delay = known.first_delay,
        .max_delay = known.max_delay,
        .factor = known.factor,
        .delay = known.first_delay,
        .random = known.seed,
        .jitter = known.jitter,
        .seeded = known.seed != 0,
        .jitter_fraction = known.jitter_fraction,
    };
    return 0;
}

static uint64_t draw(hwt_backoff *backoff, uint64_t least, uint64_t most)
{
    uint64_t *sequence = backoff->seeded ? &backoff->random : hwt_random_own();
    return least + hwt_random_up_to(sequence, most - least);
}

/* Rounded up, so that the smallest delay grows too; never less than it was, nor over `most`. */
static uint64_t grow(uint64_t delay, double factor, uint64_t most)
{
    double product = (double)delay * factor;
    if (product >= (double)most)
        return most;
    uint64_t whole = (uint64_t)product;
    uint64_t grown = (double)whole < product ? whole + 1 : whole;
    return grown > delay ? grown : delay;
}

static uint64_t next_decorrelated(hwt_backoff *backoff)
{
    uint64_t most = grow(backoff->delay, backoff->factor, UINT64_MAX);
    uint64_t delay = draw(backoff, backoff->first_delay, most);
    backoff->delay = delay < backoff->max_delay ? delay : backoff->max_delay;
    return backoff->delay;
}

/* The range is cut at the cap, and not the delay that is drawn, because else many would come at the
 * cap itself. */
static uint64_t draw_around(hwt_backoff *backoff, uint64_t base)
{
    double product = (double)base * backoff->jitter_fraction;
    /* A double near 2^64 is rounded up to what no longer fits. */
    uint64_t aside = product >= (double)base ? base : (uint64_t)product;
    aside = aside < base ? aside : base;
    uint64_t room = backoff->max_delay - base;
    return draw(backoff, base - aside, base + (aside < room ? aside : room));
}

uint64_t hwt_backoff_next(hwt_backoff *backoff)
{
    if (!backoff)
        return HWT_NEVER;
    if (backoff->jitter == HWT_JITTER_DECORRELATED)
        return next_decorrelated(backoff);
    uint64_t base = backoff->delay;
    backoff->delay = grow(base, backoff->factor, backoff->max_delay);
    switch (backoff->jitter) {
    case HWT_JITTER_FULL:
        return draw(backoff, 0, base);
    case HWT_JITTER_EQUAL:
        return draw(backoff, base / 2, base);
    case HWT_JITTER_AROUND:
        return draw_around(backoff, base);
    default:
        return base;
    }
}
