/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Runs a program: drawn as it goes, or recorded. See simulate.h. */

#include "simulate_calls.h"
#include "simulate_drive.h"
#include "simulate_draw.h"
#include "one_thread.h"

#include <time.h>

enum { NESTED_MAX = 4, DEPTH_MAX = 4, LENGTH_USUAL = 250, LENGTH_LONG = 4000, AFTER_STOP = 8 };

static struct source *source; /* NULL: a replay */
static struct program *record;
static const struct program *replayed;
static uint64_t operations; /* made in this program */

/* Of a replay, each timeout's operations inside of callbacks: the first, and the next after each;
 * OPERATIONS_MAX is none. */
static uint32_t first_inside[IDS_MAX], next_inside[OPERATIONS_MAX];

static void make(const struct operation *op)
{
    operations++;
    switch (op->kind) {
    case OP_NEW:
        do_new(op);
        break;
    case OP_CROWD:
        do_crowd(op);
        break;
    case OP_WINDOW:
        do_window(op);
        break;
    case OP_ASK_ALL:
        do_ask_all();
        break;
    case OP_ADVANCE:
        do_advance(op);
        break;
    case OP_NEXT_TICK:
        do_next_tick();
        break;
    case OP_SET_CLOCK:
        set_clock(instant_of(op));
        break;
    case OP_STATS:
        check_stats();
        break;
    case OP_TEXT:
        check_text();
        break;
    case OP_DESCRIPTOR:
        do_descriptor();
        break;
    case OP_START:
        do_start();
        break;
    case OP_NONSENSE:
        do_nonsense();
        break;
    case OP_MODE:
        sim.mode = op->numbers[COUNT] % MODES;
        if (sim.has_executor)
            say("mode = %s;", (const char *[]){ "AT_ONCE", "REFUSE", "LATER" }[sim.mode]);
        break;
    case OP_WORK:
        run_work(op->numbers[COUNT]);
        break;
    case OP_STOP:
        do_stop(op);
        break;
    default:
        do_with_handle(op);
        break;
    }
}

/* Draws an operation, records it and makes it. False: there is no room for more. */
static bool make_drawn(void)
{
    if (record->length == OPERATIONS_MAX || record->ids > IDS_MAX - CROWD_MAX)
        return false;
    struct operation *op = &record->operations[record->length];
    *op = draw_operation(source, record->ids);
    if (op->kind == OP_NEW || op->kind == OP_WINDOW)
        record->ids++;
    else if (op->kind == OP_CROWD)
        record->ids += (uint32_t)op->numbers[COUNT];
    record->length++;
    make(op);
    return true;
}

static void make_nested(void)
{
    uint64_t count = source && sim.depth <= DEPTH_MAX && draw_one_in(source, 2)
                         ? 1 + draw(source, NESTED_MAX)
                         : 0;
    for (; count > 0 && make_drawn(); count--)
        ;
    for (uint32_t i = source ? OPERATIONS_MAX : first_inside[sim.owner]; i < OPERATIONS_MAX;
         i = next_inside[i]) {
        const struct operation *op = &replayed->operations[i];
        if (op->place == sim.place && op->nth == sim.nth)
            make(op);
    }
}

/* ---- a program ---- */

static uint64_t read_clock(void *data)
{
    (void)data;
    return model.clock;
}

static void begin(const uint64_t settings[SETTINGS])
{
    hwt_options o = HWT_OPTIONS_INIT;

    memset(sim.by_id, 0, sizeof sim - offsetof(struct simulation, by_id));
    memset(&model, 0, sizeof model);
    model.items = sim.items;
    model.live = sim.live;
    model.tick = o.tick_duration = settings[TICK_DURATION];
    o.ticks_per_wheel = (uint32_t)settings[WHEEL];
    for (model.wheel = 1; model.wheel < o.ticks_per_wheel;)
        model.wheel *= 2;
    model.start = model.clock = settings[START];
    model.max_pending = o.max_pending = settings[MAX_PENDING];
    sim.descriptor = -1;
    sim.has_executor = settings[EXECUTOR];
    operations = 0;

    o.flags = HWT_NO_WORKER | MODEL_FLAGS;
    o.clock = read_clock;
    o.executor = sim.has_executor ? execute : NULL;
    o.executor_data = &sim;
    o.clock_id = settings[ODDITIES] & ODD_CLOCK ? CLOCK_BOOTTIME : CLOCK_MONOTONIC;
    o.worker_cpu = settings[ODDITIES] & ODD_CPU ? 0 : -1;
    o.worker_name = settings[ODDITIES] & ODD_NAME ? NULL : "simulated";
    must(hwt_timer_create(&o, &model.timer) == 0);
}

static void check_pending(void)
{
    expect(hwt_timer_pending(model.timer) == model.live_count,
           "ck_assert_uint_eq(hwt_timer_pending(timer), %zu);", model.live_count);
}

/* Every timeout has ended, once. */
static void end(const uint64_t settings[SETTINGS])
{
    const struct operation stop = { .kind = OP_STOP, .numbers = { [HOW] = settings[VISITED] } };

    make(&stop);
    for (size_t i = 0; i < model.count; i++)
        expect(model.items[i].ends == 1, "ck_assert_uint_eq(cancelled[%u], %u);", sim.seats[i].id,
               sim.seats[i].told + 1);
    do_ask_all();
    check_stats();
    check_pending();
    hwt_timer_destroy(model.timer);
}

static uint64_t draw_length(uint64_t most)
{
    uint64_t length = 1 + draw(source, draw_one_in(source, 32) ? LENGTH_LONG : LENGTH_USUAL);
    if (source->bytes)
        return most;
    return length < most ? length : most;
}

static void add_to(struct totals *totals)
{
    totals->programs++;
    totals->operations += operations;
    totals->added += model.added;
    totals->rescheduled += model.rescheduled;
    totals->expired += model.expired;
    totals->cancelled += model.cancelled;
    totals->left += model.left;
    totals->rejected += model.rejected;
}

void simulate_draw(struct source *from, uint64_t most, struct program *into, struct totals *totals)
{
    source = from;
    record = into;
    record->length = record->ids = 0;
    draw_settings(source, record->settings);
    begin(record->settings);
    sim.far_apart = draw_one_in(source, 12);
    uint64_t length = draw_length(most);
    bool stopped = false;
    for (uint64_t i = 0; i < length && !drawn_out(source) && make_drawn(); i++) {
        check_pending();
        if (model.stopped && !stopped)
            length = i + AFTER_STOP < length ? i + AFTER_STOP : length;
        stopped = model.stopped;
    }
    end(record->settings);
    add_to(totals);
}

static void index_inside(const struct program *program)
{
    for (uint32_t i = 0; i < IDS_MAX; i++)
        first_inside[i] = OPERATIONS_MAX;
    for (uint32_t i = program->length; i-- > 0;) {
        const struct operation *op = &program->operations[i];
        if (op->place == OUTSIDE)
            continue;
        next_inside[i] = first_inside[op->owner];
        first_inside[op->owner] = i;
    }
}

void simulate_replay(const struct program *program)
{
    source = NULL;
    replayed = program;
    index_inside(program);
    begin(program->settings);
    for (uint32_t i = 0; i < program->length; i++) {
        if (program->operations[i].place != OUTSIDE)
            continue;
        make(&program->operations[i]);
        check_pending();
    }
    end(program->settings);
}
