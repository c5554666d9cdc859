/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Draws a program, runs it, and makes small what fails. See program.h. */

#include "tests/delay/support/run.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { LENGTH_USUAL = 40, LENGTH_LONG = PROGRAM_MAX, SECONDS_MAX = 120 };

/* How often each is drawn. */
static const unsigned char weights[OPERATIONS] = {
    [OP_PUT] = 60,        [OP_PUT_ASYNC] = 10, [OP_CANCEL] = 25, [OP_REPLACE] = 12, [OP_TAKE] = 40,
    [OP_DONE] = 30,       [OP_RETRY] = 12,     [OP_EXTEND] = 6,  [OP_ADVANCE] = 30, [OP_LEAP] = 4,
    [OP_CHECKPOINT] = 12, [OP_VISIT] = 6,      [OP_LOOK] = 6,    [OP_NONSENSE] = 2, [OP_FLOOD] = 1,
    [OP_CLEAR] = 3,       [OP_REOPEN] = 5,     [OP_KILL] = 4,    [OP_DIE] = 6,      [OP_CRASH] = 5,
    [OP_FILL] = 4,        [OP_SYNC_FAIL] = 4,  [OP_APPLY] = 30,  [OP_ROUNDS] = 8,   [OP_COPY] = 15,
    [OP_SHORT] = 30,
};

static const char *const names[OPERATIONS] = {
    [OP_PUT] = "put",
    [OP_PUT_ASYNC] = "put_async",
    [OP_CANCEL] = "cancel",
    [OP_REPLACE] = "replace",
    [OP_TAKE] = "take",
    [OP_DONE] = "done",
    [OP_CLEAR] = "clear",
    [OP_RETRY] = "retry",
    [OP_EXTEND] = "extend",
    [OP_APPLY] = "apply",
    [OP_ADVANCE] = "advance",
    [OP_LEAP] = "leap",
    [OP_CHECKPOINT] = "checkpoint",
    [OP_VISIT] = "visit",
    [OP_LOOK] = "look",
    [OP_NONSENSE] = "nonsense",
    [OP_FLOOD] = "flood",
    [OP_REOPEN] = "reopen",
    [OP_KILL] = "kill",
    [OP_DIE] = "die",
    [OP_ROUNDS] = "rounds",
    [OP_CRASH] = "crash",
    [OP_FILL] = "fill",
    [OP_SYNC_FAIL] = "sync fails",
    [OP_COPY] = "copy",
    [OP_SHORT] = "shortage",
};

static enum operation_kind draw_kind(uint64_t *random, bool faults, bool shortages)
{
    unsigned sum = 0, kinds = shortages ? OPERATIONS : OP_COPY;
    for (unsigned i = 0; i < kinds; i++)
        sum += weights[i];
    for (;;) {
        unsigned kind = 0, at = (unsigned)(test_random(random) % sum);
        while (at >= weights[kind])
            at -= weights[kind++];
        if (faults || (kind != OP_FILL && kind != OP_SYNC_FAIL))
            return (enum operation_kind)kind;
    }
}

void program_draw(struct program *program, uint64_t seed, bool faults, bool shortages)
{
    uint64_t random = seed;
    memset(program, 0, sizeof(*program));
    program->seed = seed;
    program->faults = faults;
    program->shortages = shortages;
    /* Long ones without a power failure at each step get to more states. */
    program->crashes = test_random(&random) % 8 > 0;
    program->length =
        1 + (unsigned)(test_random(&random) % (program->crashes ? LENGTH_USUAL : LENGTH_LONG));
    for (unsigned i = 0; i < program->length; i++) {
        program->operations[i].kind = draw_kind(&random, faults, shortages);
        program->operations[i].seed = test_random(&random);
    }
}

static void operation_make(struct run *run, const struct operation *operation);

static void rounds_make(struct run *run)
{
    static const enum operation_kind kinds[] = { OP_TAKE, OP_EXTEND, OP_CHECKPOINT, OP_KILL };
    for (uint64_t n = 4 + draw(run, 12); n > 0 && !run->result->failed; n--) {
        const struct operation operation = { .kind = kinds[draw(run, 4)] };
        said(run, "  %s", names[operation.kind]);
        operation_make(run, &operation);
    }
}

static void begin_shortage(struct run *run)
{
    static const int errors[] = { -EMFILE, -ENFILE, -ENOMEM, -ENOSPC, -EDQUOT };
    struct process *process = &run->process;
    run->uncounted = true;
    process->fail_with = errors[draw(run, 5)];
    process->fail_only = 1u << DISK_OPEN | 1u << DISK_WRITE | 1u << DISK_ALLOCATE |
                         1u << DISK_TRUNCATE | 1u << DISK_UNLINK;
    run->no_room |= process->fail_with == -ENOSPC || process->fail_with == -EDQUOT;
    process->calls = 0;
    process->die_at = 0;
    process->fail_at = 1 + draw(run, 30);
    process->fail_count = 1 + draw(run, draw(run, 2) ? 3 : 60);
}

static void operation_make(struct run *run, const struct operation *operation)
{
    switch (operation->kind) {
    case OP_REOPEN:
        life_close(run);
        oracle_restart(&run->before);
        oracle_copy(&run->after, &run->before);
        life_open(run);
        if (run->store)
            life_answer(run, "open", 0);
        break;
    case OP_KILL:
    case OP_CRASH:
        life_again(run, operation->kind == OP_CRASH);
        break;
    case OP_DIE:
        run->process.die_at = run->process.calls + 1 + draw(run, 40);
        break;
    case OP_ROUNDS:
        rounds_make(run);
        break;
    case OP_FILL:
        run->uncounted = true;
        run->disk->capacity =
            draw(run, 3) == 0 ? UINT64_MAX : disk_size(run->disk) + draw(run, 40000);
        break;
    case OP_SYNC_FAIL:
        run->process.fail_with = -EIO;
        run->process.fail_only = 1u << DISK_SYNC | 1u << DISK_SYNC_DIRECTORY;
        run->process.calls = 0;
        run->process.die_at = 0;
        run->process.fail_at = 1 + draw(run, 6);
        run->process.fail_count = 1;
        break;
    case OP_SHORT:
        begin_shortage(run);
        break;
    default:
        call_make(run, operation);
        break;
    }
}

void program_run(const struct program *program, struct result *result, bool say)
{
    struct run run = { .program = program, .result = result, .say = say };
    run.disk = disk_new();
    run.realtime = RUN_START;
    run.boottime = HWT_SEC(1000);
    run.random = run.luck = program->seed;
    run.uncounted = program->fail_with != 0;
    life_open(&run);
    for (unsigned i = 0; i < program->length && !result->failed; i++) {
        const struct operation *operation = &program->operations[i];
        run.random = run.luck = operation->seed;
        (void)test_random(&run.luck);
        result->at = i;
        said(&run, "%u: %s", i, names[operation->kind]);
        operation_make(&run, operation);
        result->operations++;
        result->calls[operation->kind]++;
    }
    life_close(&run);
    disk_free(run.disk);
    oracle_free(&run.before);
    oracle_free(&run.after);
}

void program_run_apart(const struct program *program, struct result *result)
{
    struct result *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        abort();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(SECONDS_MAX);
        program_run(program, shared, false);
        exit(0); /* and so LeakSanitizer looks */
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
        abort();
    *result = *shared;
    munmap(shared, sizeof(*shared));
    if (status == 0 || result->failed)
        return;
    result->failed = true;
    if (WIFSIGNALED(status))
        snprintf(result->wrong, sizeof(result->wrong), "ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(result->wrong, sizeof(result->wrong), "ended with %d", WEXITSTATUS(status));
}

void program_run_faults(struct program *program, struct result *result)
{
    static const struct {
        int with;
        uint64_t count;
    } faults[] = {
        { -EIO, 1 },    { -EIO, UINT64_MAX },    { -ENOSPC, 1 }, { -ENOSPC, UINT64_MAX },
        { -ENOMEM, 1 }, { -ENOMEM, UINT64_MAX }, { -EMFILE, 1 }, { -EMFILE, UINT64_MAX },
        { 1, 1 },       { 1, UINT64_MAX },       { -EINTR, 3 },
    };
    struct result sum = { 0 };
    program->crashes = program->faults = false;
    for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
        program->fail_with = faults[i].with;
        program->fail_count = faults[i].count;
        program->fail_at = 1;
        do {
            program_run_apart(program, result);
            sum.states += result->fault_made;
            program->fail_at++;
        } while (result->fault_made && !result->failed);
        if (result->failed) {
            program->fail_at--;
            return;
        }
    }
    *result = sum;
}

void program_shrink(struct program *program, struct result *result)
{
    unsigned part = program->length;
    if (result->at + 1 < program->length)
        program->length = result->at + 1;
    while (part > 0) {
        bool smaller = false;
        for (unsigned from = 0; from < program->length;) {
            struct program tried = *program;
            struct result of_tried;
            unsigned end = from + part < tried.length ? from + part : tried.length;
            memmove(&tried.operations[from], &tried.operations[end],
                    (tried.length - end) * sizeof(*tried.operations));
            tried.length -= end - from;
            program_run_apart(&tried, &of_tried);
            if (of_tried.failed) {
                *program = tried;
                *result = of_tried;
                smaller = true;
            } else {
                from = end;
            }
        }
        if (!smaller)
            part /= 2;
    }
}
