/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_SIMULATE_STATE_H
#define HWT_TESTS_SIMULATE_STATE_H

/*
 * For simulate_run.c: what is known of a program while it runs; its journal; its instants.
 * A check that is no line of its own has a claim: the line that would fail in its place.
 */

#include <stdarg.h>
#include <string.h>

static void program_failed(const char *condition, const char *file, int line);
#define MODEL_FAILED program_failed

#include "model.h"
#include "simulate.h"

/* What is known of a timeout besides its item, at the same index. */
struct seat {
    uint32_t id;
    unsigned runs, told, visits; /* how often its callbacks were called */
    uint64_t ran_for;            /* deadline of the last run */
    bool waits;                  /* the executor has put its work off */
};

struct work {
    void (*run)(void *);
    void *arg;
    struct item *item;
};

static struct simulation {
    struct item items[IDS_MAX];
    size_t live[IDS_MAX];
    struct seat seats[IDS_MAX];
    struct work work[IDS_MAX];
    struct item *by_id[IDS_MAX]; /* zero when a program begins, as all below */

    uint8_t place; /* where operations are being made */
    uint32_t owner, nth;
    unsigned depth;             /* of callbacks */
    const struct item *entered; /* whose callback begins, and which */
    uint8_t entered_in;
    const struct item *last_begun;

    bool far_apart; /* drawing: by about 2^31 revolutions, where rounds wrap */
    bool has_executor;
    uint64_t mode;
    size_t work_count;

    int descriptor; /* -1: not asked for */
    uint64_t lateness[64], lateness_max, lateness_sum;
    char claim[TEXT_MAX];
} sim;

static struct seat *seat_of(const struct item *item)
{
    return &sim.seats[item - model.items];
}

/* ---- the journal ---- */

struct journal *simulate_journal;

static uint32_t say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void amend(uint32_t line, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void claim(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Adds a line here, and returns its number. */
static uint32_t say(const char *format, ...)
{
    if (!simulate_journal || simulate_journal->length == LINES_MAX)
        return LINES_MAX;
    struct line *line = &simulate_journal->lines[simulate_journal->length];
    line->place = sim.place;
    line->owner = sim.owner;
    line->nth = sim.nth;
    va_list args;
    va_start(args, format);
    vsnprintf(line->text, TEXT_MAX, format, args);
    va_end(args);
    return simulate_journal->length++;
}

/* Says it otherwise, now that the answer is known. */
static void amend(uint32_t line, const char *format, ...)
{
    if (!simulate_journal || line == LINES_MAX)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(simulate_journal->lines[line].text, TEXT_MAX, format, args);
    va_end(args);
}

static void claim(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(sim.claim, TEXT_MAX, format, args);
    va_end(args);
}

#define expect(condition, ...)                                                                     \
    do {                                                                                           \
        if (simulate_journal)                                                                      \
            claim(__VA_ARGS__);                                                                    \
        must(condition);                                                                           \
        sim.claim[0] = '\0';                                                                       \
    } while (0)

/* An instant or a duration in C; good until it is called four times more. */
static const char *number(uint64_t value)
{
    static char texts[4][32];
    static unsigned last;

    if (!simulate_journal)
        return "";
    if (value == HWT_NEVER)
        return "HWT_NEVER";
    last = (last + 1) % 4;
    snprintf(texts[last], sizeof texts[last], "UINT64_C(%" PRIu64 ")", value);
    return texts[last];
}

/* What a callback that ought not to have been called now, or not in this order, shows. */
static void claim_entered(void)
{
    const struct item *item = sim.entered;
    const struct seat *seat = seat_of(item);
    if (sim.entered_in == IN_CANCELLED)
        claim("ck_assert_uint_eq(cancelled[%u], %u);", seat->id, seat->told);
    else if (sim.entered_in == IN_VISIT && item->pending)
        claim("ck_assert_uint_eq(remained[%u], %s);", seat->id,
              item->deadline == HWT_NEVER ? "HWT_NEVER"
                                          : number(difference(item->deadline, model.clock)));
    else if (sim.entered_in == IN_VISIT)
        claim("ck_assert_uint_eq(visits[%u], %u);", seat->id, seat->visits);
    else if (model.advancing && model.moving && item->pending && item->due < model.current &&
             item->deadline <= model.now && sim.last_begun)
        claim("ck_assert_uint_lt(began[%u], began[%u]);", seat->id, seat_of(sim.last_begun)->id);
    else
        claim("ck_assert_uint_eq(runs[%u], %u);", seat->id, seat->runs);
    sim.place = OUTSIDE;
}

static void program_failed(const char *condition, const char *file, int line)
{
    char what[2 * TEXT_MAX];

    if (simulate_journal && sim.entered)
        claim_entered();
    if (simulate_journal && sim.claim[0])
        say("%s", sim.claim);
    snprintf(what, sizeof what, "%s:%d: not so: %s", file, line, condition);
    simulate_failed(what);
}

/* ---- instants ---- */

static uint64_t next_due(void)
{
    uint64_t least = HWT_NEVER;
    for (size_t i = 0; i < model.live_count; i++) {
        const struct item *item = live_item(i);
        if (!item->submitted && tick_end(item->due) < least)
            least = tick_end(item->due);
    }
    return least;
}

static struct item *item_of(uint32_t id)
{
    return id < IDS_MAX ? sim.by_id[id] : NULL;
}

static uint64_t base_of(const struct operation *op)
{
    uint64_t due;
    switch (op->numbers[BASE]) {
    case BASE_BOUNDARY:
        return tick_end(tick_of(model.clock));
    case BASE_DEADLINE:
        return item_of(op->other) ? item_of(op->other)->deadline : model.clock;
    case BASE_DUE:
        due = next_due(); /* what is very far stays there, or most programs would end soon */
        return difference(due, model.clock) < UINT64_MAX >> 8 ? due : model.clock;
    case BASE_ZERO:
        return 0;
    case BASE_NEVER:
        return HWT_NEVER;
    default:
        return model.clock;
    }
}

static uint64_t with_sign(uint64_t a, uint64_t b, uint64_t minus)
{
    return minus ? difference(a, b) : sum(a, b);
}

static uint64_t distance_of(const struct operation *op)
{
    const uint64_t *n = op->numbers;
    uint64_t ticks =
        with_sign(product(n[REVOLUTIONS], model.wheel), n[TICKS], n[SIGNS] & MINUS_TICKS);
    return with_sign(product(ticks, model.tick), n[NANOSECONDS], n[SIGNS] & MINUS_NANOSECONDS);
}

static uint64_t instant_of(const struct operation *op)
{
    return with_sign(base_of(op), distance_of(op), op->numbers[SIGNS] & BACKWARDS);
}

/* An instant can be told as a delay. */
static bool is_relative(const struct operation *op, uint64_t deadline)
{
    return op->numbers[HOW] & HOW_RELATIVE && deadline >= model.clock;
}

static uint64_t delay_of(uint64_t deadline)
{
    return deadline == HWT_NEVER ? HWT_NEVER : deadline - model.clock;
}

#endif
