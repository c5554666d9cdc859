/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_SIMULATE_DRAW_H
#define HWT_TESTS_SIMULATE_DRAW_H

/* For simulate_run.c: operations and their numbers, drawn from random numbers or bytes. No two are
 * drawn in one expression, or each compiler would have its own order. */

#include "simulate_state.h"

static uint64_t draw_word(struct source *source, unsigned bytes)
{
    uint64_t word = 0;
    if (!source->bytes)
        return test_random(&source->random);
    for (; bytes > 0 && source->size > 0; bytes--, source->size--)
        word = word << 8 | *source->bytes++;
    return word;
}

/* A number below `limit`, which is 0 once the bytes are used up. */
static uint64_t draw(struct source *source, uint64_t limit)
{
    if (limit <= 1)
        return 0;
    return draw_word(source, limit <= 256 ? 1 : limit <= 65536 ? 2 : 8) % limit;
}

static bool draw_one_in(struct source *source, uint64_t n)
{
    return draw(source, n) == n - 1;
}

static uint64_t draw_magnitude(struct source *source)
{
    uint64_t word = draw_word(source, 8);
    return word >> draw(source, 64);
}

static bool drawn_out(const struct source *source)
{
    return source->bytes && source->size == 0;
}

/* ---- settings ---- */

static uint64_t draw_tick(struct source *source)
{
    static const uint64_t ticks[] = { HWT_US(1), 1001,        1024,       65536,
                                      HWT_MS(1), HWT_MS(100), HWT_SEC(1), HWT_MIN(60) };
    if (draw_one_in(source, 4))
        return HWT_US(1) + draw_magnitude(source) % HWT_MIN(600);
    return ticks[draw(source, sizeof ticks / sizeof *ticks)];
}

static uint64_t draw_start(struct source *source, uint64_t tick)
{
    switch (draw(source, 6)) {
    case 0:
        return 0;
    case 1:
        return 1;
    case 2:
        return INT64_MAX;
    case 3:
        return UINT64_MAX - draw_magnitude(source);
    case 4:
        return UINT64_MAX - product(tick, draw(source, 2000));
    default:
        return draw_magnitude(source);
    }
}

static void draw_settings(struct source *source, uint64_t settings[SETTINGS])
{
    uint64_t tick = draw_tick(source);
    settings[TICK_DURATION] = tick;
    settings[WHEEL] = 1 + draw(source, UINT64_C(1) << draw(source, 17));
    settings[START] = draw_start(source, tick);
    settings[MAX_PENDING] = draw_one_in(source, 4) ? 1 + draw(source, 40) : 0;
    settings[EXECUTOR] = draw_one_in(source, 3);
    settings[VISITED] = draw_one_in(source, 2);
    settings[ODDITIES] = draw_one_in(source, 4) ? draw(source, ODDITIES_ALL + 1) : 0;
}

/* ---- instants ---- */

/* Around a few revolutions, a tick and a nanosecond more or less. */
static void draw_revolutions(struct source *source, uint64_t *n)
{
    n[TICKS] = draw(source, 3);
    n[NANOSECONDS] = draw(source, 2);
    n[SIGNS] = draw(source, BACKWARDS);
    if (sim.far_apart) {
        n[REVOLUTIONS] = draw(source, 9) << 28;
        return;
    }
    n[REVOLUTIONS] = draw_one_in(source, 16) ? draw_magnitude(source) : draw(source, 6);
    if (draw_one_in(source, 16)) { /* about as far as rounds can be told apart */
        n[REVOLUTIONS] = UINT64_C(1) << (29 + draw(source, 4));
        n[REVOLUTIONS] -= draw(source, 4);
    }
}

static void draw_boundary(struct source *source, uint64_t *n)
{
    n[BASE] = BASE_BOUNDARY;
    n[TICKS] = draw(source, 4);
    n[NANOSECONDS] = draw(source, 2);
    n[SIGNS] = draw(source, BACKWARDS);
}

static void draw_ticks(struct source *source, uint64_t *n, uint64_t limit)
{
    n[TICKS] = draw(source, limit);
    n[NANOSECONDS] = draw(source, model.tick);
}

/* From the base on. */
static void draw_distance(struct source *source, uint64_t *n)
{
    switch (sim.far_apart && draw(source, 2) ? 1 : draw(source, 14)) {
    case 0:
        n[NANOSECONDS] = draw(source, 2);
        break;
    case 1:
    case 2:
        draw_revolutions(source, n);
        break;
    case 3:
        draw_boundary(source, n);
        break;
    case 4:
        n[NANOSECONDS] = draw_magnitude(source);
        break;
    case 5:
        if (draw_one_in(source, 4))
            n[BASE] = BASE_NEVER;
        n[TICKS] = draw(source, 4);
        n[SIGNS] = BACKWARDS;
        break;
    case 6:
        draw_ticks(source, n, 3 * model.wheel);
        break;
    case 7:
        draw_ticks(source, n, model.wheel);
        break;
    case 8:
    case 9:
        n[TICKS] = draw(source, 4);
        break;
    default:
        draw_ticks(source, n, 40);
        break;
    }
}

/* Mostly small steps, to where something is due or just not; now and then a leap. */
static void draw_advance(struct source *source, uint64_t *n)
{
    static const uint64_t leaps[] = { HWT_MIN(60), HWT_MIN(60 * 24 * 365) };

    n[HOW] = draw(source, 4);
    n[COUNT] = n[HOW] & HOW_OLDER ? draw(source, product(model.tick, 3)) : 0;
    switch (sim.far_apart && draw(source, 2) ? 4 : draw(source, 16)) {
    case 0:
        n[NANOSECONDS] = draw(source, model.tick);
        break;
    case 1:
    case 2:
    case 3:
        n[BASE] = BASE_DUE;
        n[NANOSECONDS] = draw_one_in(source, 3);
        n[SIGNS] = MINUS_NANOSECONDS | BACKWARDS;
        break;
    case 4:
        draw_revolutions(source, n);
        n[REVOLUTIONS] %= sim.far_apart ? UINT64_MAX : 8;
        break;
    case 5:
        draw_boundary(source, n);
        break;
    case 6:
        draw_ticks(source, n, 4 * model.wheel);
        break;
    case 7:
        n[TICKS] = draw(source, 200);
        break;
    case 8:
        if (draw_one_in(source, 8))
            n[NANOSECONDS] = leaps[draw(source, 2)];
        if (draw_one_in(source, 64))
            draw_revolutions(source, n);
        if (draw_one_in(source, 64)) {
            n[BASE] = BASE_NEVER;
            n[NANOSECONDS] = draw_magnitude(source);
            n[SIGNS] = BACKWARDS;
        }
        break;
    default:
        draw_ticks(source, n, 6);
        break;
    }
}

/* ---- operations ---- */

/* Mostly one that is pending, or the callback's own; also old ones, and one that is to come. */
static uint32_t draw_target(struct source *source, uint32_t ids)
{
    if (sim.place != OUTSIDE && draw_one_in(source, 2))
        return sim.owner;
    if (model.live_count > 0 && !draw_one_in(source, 6))
        return seat_of(live_item(draw(source, model.live_count)))->id;
    return (uint32_t)draw(source, ids + (uint64_t)draw_one_in(source, 8));
}

/* How many in 256 are of each kind; what is left over is OP_ADVANCE. */
static const uint8_t shares_outside[OP_KINDS] = {
    [OP_NEW] = 58,   [OP_CROWD] = 1, [OP_WINDOW] = 4,     [OP_CANCEL] = 24,    [OP_RESCHEDULE] = 50,
    [OP_REPEAT] = 2, [OP_ASK] = 12,  [OP_ASK_ALL] = 1,    [OP_NEXT_TICK] = 22, [OP_SET_CLOCK] = 4,
    [OP_STATS] = 3,  [OP_TEXT] = 2,  [OP_DESCRIPTOR] = 1, [OP_START] = 1,      [OP_NONSENSE] = 1,
    [OP_MODE] = 3,   [OP_WORK] = 18, [OP_STOP] = 1,
};
static const uint8_t shares_inside[OP_KINDS] = {
    [OP_NEW] = 48,    [OP_CROWD] = 1, [OP_WINDOW] = 4,     [OP_CANCEL] = 36,   [OP_RESCHEDULE] = 60,
    [OP_REPEAT] = 44, [OP_ASK] = 10,  [OP_ASK_ALL] = 1,    [OP_NEXT_TICK] = 3, [OP_SET_CLOCK] = 12,
    [OP_STATS] = 3,   [OP_TEXT] = 4,  [OP_DESCRIPTOR] = 1, [OP_START] = 2,     [OP_NONSENSE] = 3,
    [OP_MODE] = 3,    [OP_WORK] = 12, [OP_STOP] = 3,
};

static uint8_t draw_kind(struct source *source)
{
    const uint8_t *shares = sim.place == OUTSIDE ? shares_outside : shares_inside;
    uint64_t left = draw(source, 256);
    for (uint8_t kind = 0; kind < OP_KINDS; kind++) {
        if (left < shares[kind])
            return kind == OP_STOP && !draw_one_in(source, 8) ? OP_ADVANCE : kind;
        left -= shares[kind];
    }
    return OP_ADVANCE;
}

/* Mostly from now on; also for about when another one is due, or long ago. */
static void draw_new(struct source *source, uint64_t *n)
{
    n[HOW] = draw(source, 4);
    n[HOW] |= draw_one_in(source, 32) ? HOW_UNASKED : 0;
    if (draw_one_in(source, 6)) {
        n[BASE] = BASE_DEADLINE;
        n[NANOSECONDS] = draw(source, 2);
        return;
    }
    draw_distance(source, n);
    if (draw_one_in(source, 10))
        n[SIGNS] ^= BACKWARDS;
}

static void draw_reschedule(struct source *source, uint64_t *n)
{
    n[HOW] = draw(source, 2);
    draw_distance(source, n);
    if (n[BASE] != BASE_NOW)
        return;
    if (draw_one_in(source, 2)) /* a busy timeout is pushed back at each packet */
        n[BASE] = BASE_DEADLINE;
    else if (draw_one_in(source, 8))
        n[SIGNS] |= BACKWARDS;
}

static void draw_numbers(struct source *source, struct operation *op)
{
    uint64_t *n = op->numbers;
    switch (op->kind) {
    case OP_CROWD:
        n[COUNT] = 1 + draw(source, draw_one_in(source, 8) ? CROWD_MAX : 200);
        n[STRIDE] = draw_one_in(source, 2) ? 0 : draw(source, product(model.tick, 3));
        n[HOW] = draw(source, 2) ? HOW_TOLD : 0;
        draw_distance(source, n);
        break;
    case OP_NEW:
        draw_new(source, n);
        break;
    case OP_WINDOW:
        n[HOW] = draw(source, 2) ? HOW_TOLD : 0;
        draw_distance(source, n);
        n[COUNT] = draw(source, 8) ? draw(source, product(model.tick, 1 + draw(source, 100)))
                                   : draw_magnitude(source);
        break;
    case OP_RESCHEDULE:
        draw_reschedule(source, n);
        break;
    case OP_REPEAT:
        draw_distance(source, n);
        break;
    case OP_ADVANCE:
        draw_advance(source, n);
        break;
    case OP_SET_CLOCK:
        draw_ticks(source, n, 3);
        break;
    case OP_CANCEL:
    case OP_STOP:
        n[HOW] = draw(source, 2);
        break;
    case OP_MODE:
        n[COUNT] = draw(source, MODES);
        break;
    case OP_WORK:
        n[COUNT] = draw(source, 16);
        break;
    default:
        break;
    }
}

static struct operation draw_operation(struct source *source, uint32_t ids)
{
    struct operation op = {
        .kind = draw_kind(source), .place = sim.place, .owner = sim.owner, .nth = sim.nth
    };
    if (op.kind == OP_NEW || op.kind == OP_CROWD || op.kind == OP_WINDOW)
        op.target = ids;
    else if (op.kind == OP_CANCEL || op.kind == OP_RESCHEDULE || op.kind == OP_REPEAT ||
             op.kind == OP_ASK)
        op.target = draw_target(source, ids);
    draw_numbers(source, &op);
    if (op.numbers[BASE] == BASE_DEADLINE)
        op.other =
            op.kind == OP_RESCHEDULE && draw(source, 4) ? op.target : draw_target(source, ids);
    return op;
}

#endif
