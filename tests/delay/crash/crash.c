/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Crash states: random programs of all calls on a simulated disk, where the power fails after each
 * change and each call. What can be left then is opened and compared with an oracle, and now
 * and then everything is delivered from it. What fails is made small and printed; the same seed
 * does the same again. See --help, disk.h and program.h.
 */

#include "check_main.h"
#include "tests/delay/support/program.h"

#include <getopt.h>
#include <string.h>

enum { MISUSE = 2, EACH_CALL_LENGTH = 25 };

static void help(bool wanted)
{
    static const char text[] =
        "Usage: delay_crash [--states N] [--seed N] [--program N] [--no-faults] [--each-call]\n"
        "                   [--shortages] [--mistake WHAT]\n"
        "\n"
        "    --states N       look at so many states that a crash can leave: 5000\n"
        "    --seed N         where random numbers begin: HWT_TEST_SEED, or the time of day\n"
        "    --program N      only this program, as it was drawn, and say what it does\n"
        "    --each-call      instead: each call of the system fails in turn, in all ways that it\n"
        "                     can; so many such failures\n"
        "    --no-faults      the disk is never full, and no sync fails\n"
        "    --shortages      descriptors, memory and room are short now and then, and it is "
        "copied\n"
        "    --mistake WHAT   make a mistake while it runs: KIND:SYNC, with KIND one of none,\n"
        "                     no-sync, late, unawaited, and SYNC one of log, slot, checkpoint,\n"
        "                     store, new, rename\n"
        "    --help           this\n"
        "\n"
        "The exit status is 0, 1 if something was found, 2 for misuse.\n";
    fputs(text, wanted ? stdout : stderr);
    exit(wanted ? EXIT_SUCCESS : MISUSE);
}

static void misuse(const char *what, const char *why)
{
    fprintf(stderr, "delay_crash: %s: %s; see --help\n", what, why);
    exit(MISUSE);
}

static uint64_t number(const char *option, const char *text)
{
    char *end;
    uint64_t n = strtoull(text, &end, 0);
    if (!*text || *end || *text == '-')
        misuse(option, "not a number");
    return n;
}

static void set_mistake(struct program *program, const char *text)
{
    static const char *const kinds[] = { "none", "no-sync", "late", "unawaited" };
    static const char *const syncs[] = { "log", "slot", "checkpoint", "store", "new", "rename" };
    for (unsigned kind = 0; kind < 4; kind++) {
        for (unsigned sync = 0; sync < 6; sync++) {
            char name[32];
            snprintf(name, sizeof(name), "%s:%s", kinds[kind], syncs[sync]);
            if (strcmp(name, text) == 0) {
                program->mistake = (enum disk_mistake_kind)kind;
                program->mistaken = (enum disk_sync_kind)sync;
                program->moment = RUNNING;
                return;
            }
        }
    }
    misuse("--mistake", "there is no such mistake");
}

static void add(struct result *sum, const struct result *result)
{
    sum->states += result->states;
    sum->operations += result->operations;
    sum->mistakes += result->mistakes;
    sum->checkpoints += result->checkpoints;
    sum->cut += result->cut;
    sum->syncs += result->syncs;
}

static void say_sum(const struct result *sum, bool each_call)
{
    if (each_call) {
        printf("%" PRIu64 " failures of the system\n", sum->states);
        return;
    }
    printf("%" PRIu64 " states, %" PRIu64 " with an unfinished write cut, %" PRIu64
           " operations, %" PRIu64 " checkpoints, %" PRIu64 " syncs, %" PRIu64 " mistakes\n",
           sum->states, sum->cut, sum->operations, sum->checkpoints, sum->syncs, sum->mistakes);
}

static int report(struct program *program, struct result *result)
{
    printf("found: program %" PRIu64 ", operation %u: %s\n", program->seed, result->at,
           result->wrong);
    program_shrink(program, result);
    printf("made small: %u operations: %s\n", program->length, result->wrong);
    fflush(stdout);
    program_run(program, &(struct result){ 0 }, true);
    return EXIT_FAILURE;
}

struct wish {
    uint64_t states, seed, only;
    bool seeded, faults, shortages, say, each_call;
    struct program mistake; /* that part of a program */
};

static struct wish parse(int argc, char **argv)
{
    static const struct option options[] = {
        { "states", required_argument, NULL, 'n' },
        { "seed", required_argument, NULL, 's' },
        { "program", required_argument, NULL, 'p' },
        { "no-faults", no_argument, NULL, 'f' },
        { "mistake", required_argument, NULL, 'm' },
        { "each-call", no_argument, NULL, 'e' },
        { "help", no_argument, NULL, 'h' },
        { "shortages", no_argument, NULL, 'o' },
        { 0 },
    };
    struct wish wish = { .states = 5000, .faults = true };
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'n')
            wish.states = number("--states", optarg);
        else if (c == 's')
            wish.seed = number("--seed", optarg), wish.seeded = true;
        else if (c == 'p')
            wish.only = number("--program", optarg), wish.say = true;
        else if (c == 'f')
            wish.faults = false;
        else if (c == 'o')
            wish.shortages = true;
        else if (c == 'm')
            set_mistake(&wish.mistake, optarg);
        else if (c == 'e')
            wish.each_call = true, wish.faults = false;
        else
            help(c == 'h');
    }
    if (optind < argc)
        misuse(argv[optind], "takes no arguments");
    if (!wish.seeded)
        wish.seed = test_seed_get(!wish.say);
    return wish;
}

static void draw_wished(struct program *program, struct wish *wish)
{
    program_draw(program, wish->say ? wish->only : test_random(&wish->seed), wish->faults,
                 wish->shortages);
    program->mistake = wish->mistake.mistake;
    program->mistaken = wish->mistake.mistaken;
    program->moment = wish->mistake.moment;
    if (wish->each_call && program->length > EACH_CALL_LENGTH)
        program->length = EACH_CALL_LENGTH;
    /* Hundreds of calls of the same kind. */
    for (unsigned i = 0; wish->each_call && i < program->length; i++) {
        if (program->operations[i].kind == OP_FLOOD)
            program->operations[i].kind = OP_PUT;
    }
}

int main(int argc, char **argv)
{
    struct wish wish = parse(argc, argv);
    struct result sum = { 0 }, result;
    struct program program;
    while (sum.states < wish.states) {
        draw_wished(&program, &wish);
        if (wish.say) {
            program_run(&program, &(struct result){ 0 }, true);
            return EXIT_SUCCESS;
        }
        if (wish.each_call)
            program_run_faults(&program, &result);
        else
            program_run_apart(&program, &result);
        add(&sum, &result);
        if (result.failed)
            return report(&program, &result);
    }
    say_sum(&sum, wish.each_call);
    return EXIT_SUCCESS;
}
