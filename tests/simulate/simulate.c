/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Runs random programs of public calls beside the oracle; see usage() and simulate.h. Prints a
 * program that fails as a small C test.
 */

#include "simulate.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check_main.h"

enum { BYTES_MAX = 1 << 20, SECONDS = 60, MISUSE = 2 };

/* What the process that runs the programs leaves behind, however it ends. */
struct shared {
    struct program program; /* the last one */
    struct totals totals;
    char failure[512];
};

static struct shared *shared;

_Noreturn void simulate_failed(const char *what)
{
    snprintf(shared->failure, sizeof shared->failure, "%s", what);
    _exit(EXIT_FAILURE);
}

/* ---- options ---- */

struct choice {
    uint64_t seed;
    uint64_t operations;
    bool print;
    const char *file; /* NULL: random numbers */
};

static void usage(FILE *to)
{
    fputs("usage: simulate [option...] [file]\n"
          "\n"
          "Runs programs of random calls on timers whose clock is set, and compares all they do "
          "with\n"
          "what an oracle says. The first program that differs is made as small as can be and "
          "printed\n"
          "as a C test. With a file, its bytes make the program instead of random numbers.\n"
          "\n"
          "    --seed N          where the random numbers begin (default: $HWT_TEST_SEED, or any)\n"
          "    --operations N    how many operations to make, about (default: 1000000)\n"
          "    --print           make one program only, and print it as a C test in any case\n"
          "    --help            this\n"
          "\n"
          "It exits with 0 if nothing differed, with 1 if something did, and with 2 for misuse.\n",
          to);
}

static _Noreturn void misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

static _Noreturn void misuse(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("simulate: ", stderr);
    vfprintf(stderr, format, args);
    fputs(" (see --help)\n", stderr);
    va_end(args);
    exit(MISUSE);
}

static uint64_t parse_number(const char *option, const char *text, uint64_t least)
{
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 0);
    if (*text < '0' || *text > '9' || *end || errno)
        misuse("--%s takes a number, not \"%s\"", option, text);
    if (value < least)
        misuse("--%s is %" PRIu64 " at least", option, least);
    return value;
}

static struct choice parse(int argc, char **argv)
{
    static const struct option longs[] = { { "seed", required_argument, NULL, 's' },
                                           { "operations", required_argument, NULL, 'n' },
                                           { "print", no_argument, NULL, 'p' },
                                           { "help", no_argument, NULL, 'h' },
                                           { NULL, 0, NULL, 0 } };
    struct choice choice = { .operations = 1000000 };
    bool seeded = false;
    int option;
    while ((option = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        switch (option) {
        case 's':
            choice.seed = parse_number("seed", optarg, 0);
            seeded = true;
            break;
        case 'n':
            choice.operations = parse_number("operations", optarg, 1);
            break;
        case 'p':
            choice.print = true;
            break;
        case 'h':
            usage(stdout);
            exit(EXIT_SUCCESS);
        default:
            misuse("that is not an option it has");
        }
    }
    if (argc - optind > 1)
        misuse("one file at most");
    choice.file = argv[optind];
    if (!seeded && !choice.file)
        choice.seed = test_seed_get(false);
    return choice;
}

/* ---- running ---- */

static struct source open_source(const struct choice *choice)
{
    static uint8_t bytes[BYTES_MAX];
    if (!choice->file)
        return (struct source){ .random = choice->seed };
    FILE *file = fopen(choice->file, "rb");
    if (!file)
        misuse("cannot read %s: %s", choice->file, strerror(errno));
    size_t size = fread(bytes, 1, sizeof bytes, file);
    if (ferror(file) || !feof(file))
        misuse("cannot read %s, or it has a million bytes", choice->file);
    fclose(file);
    return (struct source){ .bytes = bytes, .size = size };
}

/* In a process of its own. */
static void run_programs(const struct choice *choice, struct source source)
{
    const struct rlimit none = { 0, 0 };
    const struct totals *totals = &shared->totals;
    uint64_t seed = source.random;
    setrlimit(RLIMIT_CORE, &none);
    do {
        alarm(SECONDS); /* a program takes some milliseconds, unless it hangs */
        source.random = seed + totals->programs * UINT64_C(0x2545f4914f6cdd1d);
        simulate_draw(&source, choice->operations - totals->operations, &shared->program,
                      &shared->totals);
    } while (!choice->file && !choice->print && totals->operations < choice->operations);
}

static bool any_fails(const struct choice *choice, struct source source)
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        run_programs(choice, source);
        _exit(EXIT_SUCCESS);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0) {
        perror("simulate: cannot run the programs in a process of their own");
        exit(EXIT_FAILURE);
    }
    if (WIFSIGNALED(status))
        snprintf(shared->failure, sizeof shared->failure, "%s",
                 WTERMSIG(status) == SIGALRM ? "it hangs" : strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) != EXIT_SUCCESS && !shared->failure[0])
        snprintf(shared->failure, sizeof shared->failure, "the process ended itself");
    return shared->failure[0] != '\0';
}

static void describe(const struct choice *choice, char *to, size_t size)
{
    if (choice->file)
        snprintf(to, size, "simulate %s", choice->file);
    else
        snprintf(to, size, "simulate --seed %" PRIu64 " --operations %" PRIu64, choice->seed,
                 choice->operations);
}

static void print_totals(const char *what)
{
    const struct totals *t = &shared->totals;
    printf("%s: %" PRIu64 " operations in %" PRIu64 " programs, as the oracle says\n"
           "%" PRIu64 " added, %" PRIu64 " refused, %" PRIu64 " rescheduled; %" PRIu64
           " run, %" PRIu64 " cancelled, %" PRIu64 " left at a stop\n",
           what, t->operations, t->programs, t->added, t->rejected, t->rescheduled, t->expired,
           t->cancelled, t->left);
}

static void shrink_and_print(const char *what)
{
    char title[2048];
    const struct totals *t = &shared->totals;
    uint32_t length = shared->program.length;
    snprintf(title, sizeof title, "%s\n * %s", what, shared->failure);
    fprintf(stderr, "%s\nprogram %" PRIu64 ", operation %" PRIu64 "; making it smaller\n", title,
            t->programs, t->operations + length);
    if (simulate_alone(&shared->program, NULL) != AGREES)
        simulate_shrink(&shared->program);
    else
        fputs("it does not fail when it is run again\n", stderr);
    fprintf(stderr, "%" PRIu32 " operations of %" PRIu32 " are left\n", shared->program.length,
            length);
    simulate_print(&shared->program, title);
}

int main(int argc, char **argv)
{
    char what[512];
    struct choice choice = parse(argc, argv);
    struct source source = open_source(&choice);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("simulate: no memory");
        return EXIT_FAILURE;
    }
    describe(&choice, what, sizeof what);
    if (any_fails(&choice, source)) {
        shrink_and_print(what);
        return EXIT_FAILURE;
    }
    if (choice.print)
        simulate_print(&shared->program, what);
    else
        print_totals(what);
    return EXIT_SUCCESS;
}
