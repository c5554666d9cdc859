/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Random programs of heartbeats on a set clock, checked against an oracle that keeps the
 * whole history of each and works out anew, whenever it is asked, what is due when:
 *
 * - what is told is due, counted rightly, and in order within a look;
 * - after each advance, nothing is left whose tick is over. So an event comes within the tick
 *   after its instant: at the end of that tick at the latest, or in a look before it.
 *
 *     HWT_TEST_SCALE=n    an nth of the steps
 *     HWT_TEST_SEED=n     the seed, as printed
 */

#include <hwt/heartbeat.h>

#include "model.h"

#include <errno.h>

enum { EVENTS = HWT_HEARTBEAT_SEND + 1, OBJECTS = 6, HISTORY_MAX = 400 };

/* What happened to one object in this life. */
struct happening {
    enum { READ, WRITTEN, TOLD } what;
    int event;     /* TOLD */
    uint64_t when; /* the instant noted, or at which the event was due */
};

struct object {
    hwt_heartbeat heartbeat; /* first: the object is where it is */
    hwt_heartbeat_rules rules;
    hwt_heartbeat_rules asking; /* for the limits of `rules` */
    bool own_limits;
    bool started;
    uint64_t born;
    struct happening history[HISTORY_MAX];
    size_t length;
    bool looked; /* in this advance, */
    uint64_t look_now;
    int look_event;
};

static struct object objects[OBJECTS];
static struct object *telling; /* whose callback runs */
static uint64_t told_count[EVENTS], starts, stops, restarts;

static uint64_t below(uint64_t limit)
{
    return limit ? test_random(&model.random) % limit : 0;
}

static bool one_in(uint64_t n)
{
    return below(n) == 0;
}

static uint64_t clock_now(void *data)
{
    (void)data;
    return model.clock;
}

/* ---- the oracle ---- */

static uint64_t limit_of(const struct object *o, int event)
{
    const uint64_t limits[EVENTS] = { o->rules.dead, o->rules.reader_idle, o->rules.writer_idle,
                                      o->rules.all_idle, o->rules.send };
    return limits[event] ? limits[event] : HWT_NEVER;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t activity(int event, uint64_t read, uint64_t written)
{
    const uint64_t all[EVENTS] = { read, read, written, most(read, written), least(read, written) };
    return all[event];
}

/* When this event is due, and how many have been told since its activity last changed. */
static uint64_t due_by_history(const struct object *o, int event, uint64_t *ret_count)
{
    uint64_t read = o->born, written = o->born, told = 0;
    *ret_count = 0;
    for (size_t i = 0; i < o->length; i++) {
        const struct happening *h = &o->history[i];
        uint64_t before = activity(event, read, written);
        if (h->what == READ)
            read = most(read, h->when);
        else if (h->what == WRITTEN)
            written = most(written, h->when);
        else if (h->event == event)
            told = h->when;
        if (h->what == TOLD)
            *ret_count += h->event == event;
        else if (activity(event, read, written) != before)
            *ret_count = 0;
    }
    return sum(most(activity(event, read, written), told), limit_of(o, event));
}

static void happened(struct object *o, int what, int event, uint64_t when)
{
    must(o->length < HISTORY_MAX);
    o->history[o->length++] = (struct happening){ what, event, when };
}

static uint64_t next_due(void)
{
    uint64_t next = HWT_NEVER, count;
    for (int i = 0; i < OBJECTS; i++)
        for (int event = 0; objects[i].started && event < EVENTS; event++)
            next = least(next, due_by_history(&objects[i], event, &count));
    return next;
}

static void check_nothing_is_overdue(uint64_t now)
{
    uint64_t end = tick_end(tick_of(next_due()));
    must(end > now || end == HWT_NEVER);
}

/* The first instant of the series that is not before `now` is the next one. */
static uint64_t without_missed(uint64_t due, uint64_t limit, uint64_t now)
{
    while (sum(due, limit) < now)
        due += limit;
    return due;
}

static void check_told(struct object *o, int event, uint64_t count)
{
    uint64_t before, due = due_by_history(o, event, &before);
    must(o->started && model.advancing);
    must(!o->looked || event > o->look_event);
    if (!o->looked)
        o->look_now = model.clock;
    o->looked = true;
    o->look_event = event;
    must(due != HWT_NEVER && due <= o->look_now);
    must(count == before + 1);
    happened(o, TOLD, event, without_missed(due, limit_of(o, event), o->look_now));
    told_count[event]++;
}

/* ---- what is done to the objects ---- */

static void told(hwt_heartbeat *heartbeat, hwt_heartbeat_event event, uint64_t count, void *arg);

static uint64_t limit_asked(hwt_heartbeat_event event, void *arg)
{
    return limit_of(arg, event);
}

static uint64_t random_limit(void)
{
    switch (below(8)) {
    case 0:
        return 0;
    case 1:
        return one_in(2) ? HWT_NEVER : HWT_NEVER - below(HWT_MIN(100));
    case 2:
        return model.tick * (1 + below(3));
    case 3:
        return model.tick * model.wheel * (1 + below(4)) - 1 + below(3);
    case 4:
        return model.tick / 8 + below(model.tick * 2);
    default:
        return model.tick / 8 + below(model.tick * model.wheel);
    }
}

static void start(struct object *o)
{
    static hwt_heartbeat_rules none;
    if (o->started) {
        must(hwt_heartbeat_start(&o->heartbeat, model.timer, &o->rules, o) == -EALREADY);
        return;
    }
    must(hwt_heartbeat_start(&o->heartbeat, model.timer, &none, o) == -EINVAL);
    o->own_limits = one_in(2);
    o->rules = (hwt_heartbeat_rules){ .dead = random_limit(),
                                      .reader_idle = random_limit(),
                                      .writer_idle = random_limit(),
                                      .all_idle = random_limit(),
                                      .send = random_limit(),
                                      .notify = told };
    hwt_heartbeat_rules asking = { .dead = 1, .notify = told, .limit = limit_asked };
    o->asking = asking;
    must(hwt_heartbeat_start(&o->heartbeat, model.timer, o->own_limits ? &o->asking : &o->rules,
                             o) == 0);
    o->started = true;
    o->born = model.clock;
    o->length = 0;
    starts++;
    restarts += o == telling;
}

/* As one may free it then, it may as well become another object. */
static void stop(struct object *o)
{
    bool waits = one_in(2);
    must((waits ? hwt_heartbeat_stop_sync : hwt_heartbeat_stop)(&o->heartbeat) == o->started);
    stops += o->started;
    o->started = false;
    if (waits && one_in(2))
        memset(&o->heartbeat, 0, sizeof(o->heartbeat));
}

static uint64_t random_instant(void)
{
    uint64_t due = next_due();
    switch (below(8)) {
    case 0:
        return difference(model.clock, below(model.tick * model.wheel * 3));
    case 1:
        return sum(model.clock, below(model.tick * 3));
    case 2:
        return due <= model.clock ? due : model.clock; /* at the deadline exactly */
    default:
        return model.clock;
    }
}

static void note(struct object *o)
{
    uint64_t when = random_instant();
    bool read = one_in(2);
    if (o->length > HISTORY_MAX - 3 * EVENTS)
        stop(o);
    if (when == model.clock && one_in(2))
        (read ? hwt_heartbeat_read : hwt_heartbeat_written)(&o->heartbeat);
    else
        (read ? hwt_heartbeat_read_at : hwt_heartbeat_written_at)(&o->heartbeat, when);
    if (o->started)
        happened(o, read ? READ : WRITTEN, 0, when);
}

static void do_anything(struct object *o)
{
    switch (below(12)) {
    case 0:
        stop(o);
        break;
    case 1:
        stop(o);
        start(o);
        break;
    case 2:
    case 3:
        start(o);
        break;
    default:
        note(o);
        break;
    }
}

static void told(hwt_heartbeat *heartbeat, hwt_heartbeat_event event, uint64_t count, void *arg)
{
    struct object *o = arg;
    must(heartbeat == &o->heartbeat);
    check_told(o, event, count);
    telling = o;
    if (event == HWT_HEARTBEAT_SEND && one_in(2)) {
        hwt_heartbeat_written(heartbeat);
        happened(o, WRITTEN, 0, model.clock);
    }
    if (o->length > HISTORY_MAX - 3 * EVENTS)
        stop(o);
    if (one_in(6))
        model.clock = sum(model.clock, below(model.tick * 3)); /* it takes its time */
    for (uint64_t n = one_in(3) ? below(4) : 0; n > 0; n--)
        do_anything(one_in(3) ? &objects[below(OBJECTS)] : o);
    telling = NULL;
}

/* ---- a program ---- */

static uint64_t random_leap(void)
{
    uint64_t due = next_due();
    uint64_t gap = due == HWT_NEVER ? 0 : difference(due, model.clock);
    uint64_t whole = due == HWT_NEVER ? 0 : difference(tick_end(tick_of(due)), model.clock);
    switch (below(10)) {
    case 0:
        return gap < HWT_MIN(60) ? gap : 0;
    case 1:
        return whole < HWT_MIN(60) ? whole : 0;
    case 2:
        return whole < HWT_MIN(60) ? difference(whole, 1) : 0;
    case 3:
        return below(model.tick * model.wheel * 3);
    case 4:
        return 0;
    default:
        return below(model.tick * 3);
    }
}

static void advance(uint64_t leap)
{
    uint64_t now = model.clock = sum(model.clock, leap);
    for (int i = 0; i < OBJECTS; i++)
        objects[i].looked = false;
    model.advancing = true;
    if (one_in(2))
        hwt_timer_advance(model.timer, now);
    else
        hwt_timer_dispatch(model.timer);
    model.advancing = false;
    check_nothing_is_overdue(now);
}

static void step(void)
{
    uint64_t pending = 0;
    if (one_in(2))
        do_anything(&objects[below(OBJECTS)]);
    else
        advance(random_leap());
    for (int i = 0; i < OBJECTS; i++)
        pending += objects[i].started;
    must(hwt_timer_pending(model.timer) == pending);
}

static void program_begin(uint64_t program)
{
    static const uint64_t ticks[] = { HWT_US(1), 1024, HWT_US(1001), HWT_MS(100) };
    hwt_options options = HWT_OPTIONS_INIT;
    memset(&model, 0, sizeof(model));
    memset(objects, 0, sizeof(objects));
    model.seed = test_seed();
    model.program = program;
    model.random = model.seed + program * UINT64_C(0x2545f4914f6cdd1d);
    model.tick = options.tick_duration = ticks[below(sizeof(ticks) / sizeof(*ticks))];
    model.wheel = UINT64_C(1) << below(8);
    options.ticks_per_wheel = (uint32_t)model.wheel;
    options.flags = HWT_NO_WORKER;
    options.clock = clock_now;
    model.start = model.clock =
        one_in(4) ? UINT64_MAX - below(HWT_SEC(1)) : below(UINT64_C(1) << below(63));
    must(hwt_timer_create(&options, &model.timer) == 0);
}

START_TEST(random_programs_do_what_the_history_says)
{
    unsigned steps = test_scaled(200000);
    for (uint64_t program = 0; steps > 0; program++) {
        program_begin(program);
        uint64_t length = 1 + below(2000);
        for (model.step = 0; model.step < length && steps > 0; model.step++, steps--)
            step();
        hwt_timer_destroy(model.timer);
    }
    printf("%" PRIu64 " starts (%" PRIu64 " in the own callback), %" PRIu64 " stops; told:", starts,
           restarts, stops);
    for (int event = 0; event < EVENTS; event++)
        printf(" %" PRIu64, told_count[event]);
    printf("\n");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("model_heartbeat");
    TCase *test_case = tcase_create("random");
    tcase_set_timeout(test_case, 600);
    tcase_add_test(test_case, random_programs_do_what_the_history_says);
    suite_add_tcase(suite, test_case);
    return run_suite(suite);
}
