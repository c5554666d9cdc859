/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Prints a program, run with a journal, as a C test that needs check and <hwt/hwt.h> only. */

#include "one_thread.h"
#include "simulate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const char head[] = "#include <check.h>\n"
                           "#include <errno.h>\n"
                           "#include <stdint.h>\n"
                           "#include <stdlib.h>\n"
                           "#include <time.h>\n"
                           "\n"
                           "#include <hwt/hwt.h>\n"
                           "\n";

static const char read_clock[] = "static hwt_timer *timer;\n"
                                 "static uint64_t now;\n"
                                 "\n"
                                 "static uint64_t read_clock(void *data)\n"
                                 "{\n"
                                 "    (void)data;\n"
                                 "    return now;\n"
                                 "}\n"
                                 "\n";

static const char stats[] = "static hwt_stats stats_of(const hwt_timer *of)\n"
                            "{\n"
                            "    hwt_stats stats = HWT_STATS_INIT;\n"
                            "    ck_assert_int_eq(hwt_timer_stats(of, &stats), 0);\n"
                            "    return stats;\n"
                            "}\n"
                            "\n";

static const char executor[] = "static enum { AT_ONCE, REFUSE, LATER } mode;\n"
                               "static struct work {\n"
                               "    void (*run)(void *);\n"
                               "    void *arg;\n"
                               "} works[2 * TIMEOUTS];\n"
                               "static size_t work_count;\n"
                               "\n"
                               "static int execute(void *data, void (*run)(void *), void *arg)\n"
                               "{\n"
                               "    (void)data;\n"
                               "    if (mode == REFUSE)\n"
                               "        return -1;\n"
                               "    if (mode == AT_ONCE)\n"
                               "        run(arg);\n"
                               "    else\n"
                               "        works[work_count++] = (struct work){ run, arg };\n"
                               "    return 0;\n"
                               "}\n"
                               "\n"
                               "static void run_work(size_t index)\n"
                               "{\n"
                               "    struct work work = works[index];\n"
                               "    for (work_count--; index < work_count; index++)\n"
                               "        works[index] = works[index + 1];\n"
                               "    work.run(work.arg);\n"
                               "}\n"
                               "\n";

/* ---- what happened where ---- */

static bool same_place(const struct line *a, const struct line *b)
{
    return a->place == b->place && a->owner == b->owner && a->nth == b->nth;
}

/* The first of its place: the others are printed with it. */
static bool is_first(const struct journal *journal, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++) {
        if (same_place(&journal->lines[i], &journal->lines[index]))
            return false;
    }
    return true;
}

static void print_lines(const struct journal *journal, const struct line *like, const char *indent)
{
    for (uint32_t i = 0; i < journal->length; i++) {
        if (same_place(&journal->lines[i], like))
            printf("%s%s\n", indent, journal->lines[i].text);
    }
}

static void print_callbacks(const struct journal *journal, enum place place, const char *counter)
{
    for (uint32_t i = 0; i < journal->length; i++) {
        const struct line *line = &journal->lines[i];
        if (line->place != place || !is_first(journal, i))
            continue;
        printf("    if (i == %" PRIu32 " && %s[i] == %" PRIu32 ") {\n", line->owner, counter,
               line->nth);
        print_lines(journal, line, "        ");
        puts("    }");
    }
}

static bool mentions(const struct journal *journal, const char *word)
{
    for (uint32_t i = 0; i < journal->length; i++) {
        if (strstr(journal->lines[i].text, word))
            return true;
    }
    return false;
}

/* ---- the parts of the test ---- */

static void print_callback(const struct journal *journal, enum place place, const char *name,
                           const char *counter)
{
    printf("static void %s(hwt_timeout timeout, void *arg)\n"
           "{\n"
           "    size_t i = (size_t)((hwt_timeout *)arg - t);\n"
           "    t[i] = timeout;\n"
           "    %s[i]++;\n",
           name, counter);
    if (place == IN_RUN)
        puts("    began[i] = ++begun;");
    print_callbacks(journal, place, counter);
    puts("}\n");
}

static void print_visitor(const struct journal *journal)
{
    puts("static void visit(const hwt_task *task, void *arg, uint64_t remaining, void *data)\n"
         "{\n"
         "    size_t i = (size_t)((hwt_timeout *)arg - t);\n"
         "    (void)task;\n"
         "    (void)data;\n"
         "    visits[i]++;\n"
         "    remained[i] = remaining;");
    print_callbacks(journal, IN_VISIT, "visits");
    puts("}\n");
}

/* What the lines name, and no more, or compilers would warn. */
struct needs {
    bool handles, run, quiet, told, cancelled, visit, stats, descriptor;
};

static struct needs needs_of(const struct journal *journal)
{
    return (struct needs){
        .handles = mentions(journal, "t[") || mentions(journal, "visit, NULL"),
        .run = mentions(journal, "&t["),
        .quiet = mentions(journal, "&quiet"),
        .told = mentions(journal, "&telling"),
        .cancelled = mentions(journal, "&telling") || mentions(journal, "cancelled["),
        .visit = mentions(journal, "visit, NULL"),
        .stats = mentions(journal, "stats_of"),
        .descriptor = mentions(journal, "descriptor"),
    };
}

static void print_variables(const struct program *program, struct needs needs)
{
    printf("enum { TIMEOUTS = %" PRIu32 " };\n\n", program->ids + 1);
    if (needs.handles)
        puts("static hwt_timeout t[TIMEOUTS];");
    if (needs.run)
        puts("static unsigned runs[TIMEOUTS];\n"
             "static unsigned begun, began[TIMEOUTS]; /* the how manieth run was its last */");
    if (needs.cancelled)
        puts("static unsigned cancelled[TIMEOUTS];");
    if (needs.visit)
        puts("static unsigned visits[TIMEOUTS];\n"
             "static uint64_t remained[TIMEOUTS]; /* as the visitor was told */");
    fputs(read_clock, stdout);
    if (needs.stats)
        fputs(stats, stdout);
    if (program->settings[EXECUTOR])
        fputs(executor, stdout);
}

/* What callbacks name comes before them. */
static void print_declarations(struct needs needs)
{
    if (needs.run)
        puts("static void run(hwt_timeout timeout, void *arg);");
    if (needs.told)
        puts("static void told(hwt_timeout timeout, void *arg);");
    if (needs.visit)
        puts("static void visit(const hwt_task *task, void *arg, uint64_t remaining, void *data);");
    if (needs.quiet)
        puts("static const hwt_task quiet = { run, NULL };");
    if (needs.told)
        puts("static const hwt_task telling = { run, told };");
    putchar('\n');
}

static void print_settings(const uint64_t settings[SETTINGS])
{
    printf("    hwt_options options = HWT_OPTIONS_INIT;\n"
           "    options.tick_duration = UINT64_C(%" PRIu64 ");\n"
           "    options.ticks_per_wheel = %" PRIu64 ";\n"
           "    options.flags = HWT_NO_WORKER%s;\n"
           "    options.clock = read_clock;\n",
           settings[TICK_DURATION], settings[WHEEL], MODEL_FLAGS ? " | HWT_ONE_THREAD" : "");
    if (settings[MAX_PENDING])
        printf("    options.max_pending = %" PRIu64 ";\n", settings[MAX_PENDING]);
    if (settings[EXECUTOR])
        puts("    options.executor = execute;");
    if (settings[ODDITIES] & ODD_CLOCK)
        puts("    options.clock_id = CLOCK_BOOTTIME;");
    if (settings[ODDITIES] & ODD_CPU)
        puts("    options.worker_cpu = 0;");
    if (settings[ODDITIES] & ODD_NAME)
        puts("    options.worker_name = NULL;");
    printf("    now = UINT64_C(%" PRIu64 ");\n", settings[START]);
    puts("    ck_assert_int_eq(hwt_timer_create(&options, &timer), 0);");
}

static void print_test(const struct program *program, const struct journal *journal,
                       struct needs needs)
{
    static const struct line outside;
    puts("START_TEST(the_timer_does_as_the_oracle_says)\n{");
    if (needs.descriptor)
        puts("    int descriptor = -1;");
    print_settings(program->settings);
    print_lines(journal, &outside, "    ");
    if (program->settings[EXECUTOR])
        puts("    while (work_count > 0)\n"
             "        run_work(0);");
    puts("    hwt_timer_destroy(timer);\n"
         "}\n"
         "END_TEST\n");
}

static void print_main(void)
{
    puts("int main(void)\n"
         "{\n"
         "    Suite *suite = suite_create(\"simulated\");\n"
         "    TCase *tcase = tcase_create(\"simulated\");\n"
         "    tcase_add_test(tcase, the_timer_does_as_the_oracle_says);\n"
         "    suite_add_tcase(suite, tcase);\n"
         "    SRunner *runner = srunner_create(suite);\n"
         "    srunner_run_all(runner, CK_ENV);\n"
         "    int failed = srunner_ntests_failed(runner);\n"
         "    srunner_free(runner);\n"
         "    return failed ? EXIT_FAILURE : EXIT_SUCCESS;\n"
         "}");
}

void simulate_print(const struct program *program, const char *title)
{
    struct journal *journal =
        mmap(NULL, sizeof *journal, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (journal == MAP_FAILED) {
        perror("simulate: no memory for the journal");
        exit(EXIT_FAILURE);
    }
    simulate_alone(program, journal);
    struct needs needs = needs_of(journal);
    printf("/* SPDX-License-Identifier: LGPL-2.1-or-later */\n\n/* %s */\n\n%s", title, head);
    print_variables(program, needs);
    print_declarations(needs);
    if (needs.run)
        print_callback(journal, IN_RUN, "run", "runs");
    if (needs.told)
        print_callback(journal, IN_CANCELLED, "told", "cancelled");
    if (needs.visit)
        print_visitor(journal);
    print_test(program, journal, needs);
    print_main();
    munmap(journal, sizeof *journal);
}
