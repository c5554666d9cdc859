/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Makes a program that fails small: leaves out operations, by halves first and one by one
 * last, then makes what is left simpler, until neither gets any further. Whatever still fails is
 * kept, if another check fails too; but none that hangs in place of one that differs. Each try is
 * made in a process of its own, so that a timer that crashes or hangs can be tried as well.
 */

#include "simulate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    SECONDS = 2, /* for one try, which takes some milliseconds if it does not hang */
    PATIENCE = 90
};

static enum outcome wanted;
static time_t give_up;
static bool thorough; /* tries more than the simplest of numbers: for programs that are short */
static struct itimerval allowance; /* of processor time, for one try; 0: not limited */

static void run_alone(const struct program *program, struct journal *journal)
{
    const struct rlimit none = { 0, 0 };
    alarm(SECONDS);
    setitimer(ITIMER_PROF, &allowance, NULL);
    setrlimit(RLIMIT_CORE, &none);
    if (!freopen("/dev/null", "w", stderr))
        _exit(EXIT_FAILURE);
    simulate_journal = journal;
    simulate_replay(program);
    _exit(EXIT_SUCCESS);
}

enum outcome simulate_alone(const struct program *program, struct journal *journal)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        run_alone(program, journal);
    if (child < 0 || waitpid(child, &status, 0) < 0) {
        perror("simulate: cannot run a program in a process of its own");
        exit(EXIT_FAILURE);
    }
    if (!WIFEXITED(status))
        return DIES;
    return WEXITSTATUS(status) == EXIT_SUCCESS ? AGREES : DIFFERS;
}

static void copy(struct program *to, const struct program *from)
{
    memcpy(to, from,
           offsetof(struct program, operations) + from->length * sizeof *from->operations);
}

/* Goes back to `before` if the program does not fail any more. True: it does. */
static bool keep_if_fails(struct program *program, const struct program *before)
{
    if (time(NULL) < give_up && simulate_alone(program, NULL) == wanted)
        return true;
    copy(program, before);
    return false;
}

/* ---- leaving out ---- */

static void leave_out(struct program *program, uint32_t at, uint32_t count)
{
    struct operation *first = program->operations + at;
    memmove(first, first + count, (program->length - at - count) * sizeof *first);
    program->length -= count;
}

/* From the end on: what comes last often needs what came before, hardly ever the reverse. */
static bool leave_out_chunks(struct program *program, struct program *before, uint32_t chunk)
{
    bool any = false;
    for (uint32_t end = program->length; end > 0;) {
        uint32_t count = chunk < end ? chunk : end;
        copy(before, program);
        end -= count;
        leave_out(program, end, count);
        any |= keep_if_fails(program, before);
    }
    return any;
}

static bool shorten(struct program *program, struct program *before)
{
    bool any = false;
    for (uint32_t chunk = program->length; chunk > 1; chunk = (chunk + 1) / 2)
        any |= leave_out_chunks(program, before, chunk);
    while (leave_out_chunks(program, before, 1))
        any = true;
    return any;
}

/* ---- simpler numbers ---- */

static bool try_number(struct program *program, struct program *before, uint64_t *value,
                       uint64_t candidate)
{
    copy(before, program);
    *value = candidate;
    return keep_if_fails(program, before);
}

/* The least; or if that will not do, and there is time, one of which the next smaller will not. */
static bool simplify(struct program *program, struct program *before, uint64_t *value,
                     uint64_t least)
{
    const uint64_t most = *value;
    if (most <= least || try_number(program, before, value, least))
        return most > least;
    for (uint64_t will_not = least; thorough && *value - will_not > 1;) {
        uint64_t candidate = will_not + (*value - will_not) / 2;
        if (!try_number(program, before, value, candidate))
            will_not = candidate;
    }
    return *value < most;
}

static bool simplify_settings(struct program *program, struct program *before)
{
    static const uint64_t least[SETTINGS] = { [TICK_DURATION] = 1000, [WHEEL] = 1 };
    bool any = false;
    for (unsigned i = 0; i < SETTINGS; i++)
        any |= simplify(program, before, &program->settings[i], least[i]);
    return any;
}

/* Made outside, right where the callback would have made it. */
static bool move_outside(struct program *program, struct program *before, struct operation *op)
{
    if (op->place == OUTSIDE)
        return false;
    copy(before, program);
    op->place = OUTSIDE;
    op->owner = op->nth = 0;
    return keep_if_fails(program, before);
}

static bool names_new_ones(const struct operation *op)
{
    return op->kind == OP_NEW || op->kind == OP_CROWD;
}

/* An earlier timeout, the first of a crowd, in the place of the one that is meant. */
static bool simplify_id(struct program *program, struct program *before, uint32_t *id)
{
    for (uint32_t i = 0; i < program->length; i++) {
        const struct operation *op = &program->operations[i];
        if (!names_new_ones(op) || op->target >= *id)
            continue;
        copy(before, program);
        *id = op->target;
        if (keep_if_fails(program, before))
            return true;
    }
    return false;
}

/* One timeout for an instant, in place of a crowd or a window. */
static bool make_new(struct program *program, struct program *before, struct operation *op)
{
    if (op->kind != OP_CROWD && op->kind != OP_WINDOW)
        return false;
    copy(before, program);
    op->kind = OP_NEW;
    return keep_if_fails(program, before);
}

static bool simplify_operations(struct program *program, struct program *before)
{
    bool any = false;
    for (uint32_t i = 0; i < program->length; i++) {
        struct operation *op = &program->operations[i];
        any |= move_outside(program, before, op);
        any |= make_new(program, before, op);
        if (op->numbers[BASE] == BASE_DEADLINE)
            any |= simplify_id(program, before, &op->other);
        if (!names_new_ones(op))
            any |= simplify_id(program, before, &op->target);
        if (op->place != OUTSIDE)
            any |= simplify_id(program, before, &op->owner);
        for (unsigned number = 0; number < NUMBERS; number++)
            any |= simplify(program, before, &op->numbers[number], 0);
    }
    return any;
}

/* ---- names ---- */

/* Numbers the timeouts anew, in the order in which they are added. */
static void rename_timeouts(struct program *program)
{
    static uint32_t names[IDS_MAX + 1];
    uint32_t next = 0;
    memset(names, 0xff, sizeof names);
    for (uint32_t i = 0; i < program->length; i++) {
        const struct operation *op = &program->operations[i];
        if (!names_new_ones(op))
            continue;
        for (uint64_t n = op->kind == OP_NEW ? 1 : op->numbers[COUNT], id = op->target;
             n > 0 && id < IDS_MAX; n--)
            names[id++] = next++;
    }
    for (uint32_t id = 0; id < IDS_MAX && next < IDS_MAX; id++)
        names[id] = names[id] == UINT32_MAX ? next : names[id]; /* those that nobody adds */
    for (uint32_t i = 0; i < program->length; i++) {
        struct operation *op = &program->operations[i];
        op->owner = op->place == OUTSIDE ? 0 : names[op->owner];
        op->target = names[op->target];
        op->other = names[op->other];
    }
    program->ids = next + 1;
}

static uint64_t microseconds_of_children(void)
{
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
           (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* Runs the whole program, and allows each try a multiple of what that took: there may be many
 * that hang. */
static void take_measure(const struct program *program)
{
    uint64_t before = microseconds_of_children();
    allowance = (struct itimerval){ 0 };
    wanted = simulate_alone(program, NULL);
    uint64_t most = 50000 + 10 * (microseconds_of_children() - before);
    allowance.it_value.tv_sec = (time_t)(most / 1000000);
    allowance.it_value.tv_usec = (suseconds_t)(most % 1000000);
    give_up = time(NULL) + PATIENCE;
}

static bool make_smaller(struct program *program, struct program *before)
{
    bool any = shorten(program, before);
    copy(before, program);
    rename_timeouts(program);
    keep_if_fails(program, before);
    any |= simplify_settings(program, before);
    any |= simplify_operations(program, before);
    return any && time(NULL) < give_up;
}

void simulate_shrink(struct program *program)
{
    static struct program before;
    take_measure(program);
    for (int pass = 0; pass < 2; pass++) {
        thorough = pass > 0;
        while (make_smaller(program, &before))
            ;
    }
}
