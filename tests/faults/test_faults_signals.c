/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * EINTR wherever it can come: a worker whose sleep is interrupted time and again, and signals,
 * without SA_RESTART, that rain on all threads of the process.
 */

#include "hard_times.h"

#include <dirent.h>
#include <sys/syscall.h>

#include "faults.h"

/* ---- a sleep that is interrupted ---- */

enum { SLEEPERS = 500 };

/* Each loop: so many times in a row. The last is for ever: the worker then never sleeps. */
START_TEST(an_interrupted_sleep_is_neither_early_nor_the_end)
{
    static const unsigned in_a_row[] = { 1, 7, UINT32_MAX - 1 };
    static struct storm storm; /* for its places: its threads are not begun */
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_MS(1);
    hwt_timer *timer = create(&options);
    memset(&storm, 0, sizeof(storm));
    storm.rig.timer = timer;
    faults_interrupt_sleeps(in_a_row[_i]);
    for (int i = 0; i < SLEEPERS; i++) {
        struct storm_place *place = &storm.places[i % STORM_THREADS][i / STORM_THREADS];
        place->storm = &storm;
        storm_add(place, HWT_US(100) * (uint64_t)i);
    }
    ck_assert(await_count(&storm.ended, SLEEPERS));
    ck_assert_uint_gt(faults_sleeps_interrupted(), 0);
    faults_interrupt_sleeps(0);
    ck_assert_int_eq(hwt_timer_stop(timer, NULL, NULL), 0);
    hwt_timer_destroy(timer);
    ck_assert_uint_eq(storm.ended, SLEEPERS);
    ck_assert_uint_eq(storm.broken, 0);
}
END_TEST

/* ---- what the system says of the worker's signals ---- */

/* A line of a thread's status, in `line`. */
static bool read_status(const char *thread, const char *what, char *line, int size)
{
    char path[300];
    bool found = false;
    snprintf(path, sizeof(path), "/proc/self/task/%s/status", thread);
    FILE *status = fopen(path, "r");
    while (status && !found && fgets(line, size, status))
        found = strncmp(line, what, strlen(what)) == 0;
    if (status)
        fclose(status);
    return found;
}

/* The thread of this name; 0: there is none. */
static pid_t find_thread(const char *name, char *line, int size)
{
    char wanted[64];
    pid_t found = 0;
    snprintf(wanted, sizeof(wanted), "Name:\t%s\n", name);
    DIR *dir = opendir("/proc/self/task");
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *entry; !found && (entry = readdir(dir)) != NULL;) {
        if (read_status(entry->d_name, "Name:", line, size) && strcmp(line, wanted) == 0 &&
            read_status(entry->d_name, "SigBlk:", line, size))
            found = (pid_t)atoi(entry->d_name);
    }
    closedir(dir);
    return found;
}

/* The worker names itself, so it is awaited. */
static pid_t await_thread(const char *name, char *line, int size)
{
    uint64_t limit = monotonic() + HWT_SEC(30);
    pid_t thread;
    while ((thread = find_thread(name, line, size)) == 0)
        ck_assert(monotonic() < limit);
    return thread;
}

/* The signals from 32 to SIGRTMIN are the C library's own; and a crash in a task reaches the
 * program's handler. */
static bool is_to_be_blocked(int signal)
{
    static const int others[] = { SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE,
                                  SIGILL,  SIGTRAP, SIGABRT, SIGSYS };
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        if (signal == others[i])
            return false;
    }
    return signal < 32 || signal >= SIGRTMIN;
}

START_TEST(the_system_sees_the_signals_blocked_on_the_worker)
{
    hwt_options options = HWT_OPTIONS_INIT;
    char line[64];
    options.worker_name = "blocks-all";
    hwt_timer *timer = create(&options);
    ck_assert_int_eq(hwt_timer_start(timer), 0);
    await_thread("blocks-all", line, sizeof(line));
    uint64_t blocked = strtoull(line + strlen("SigBlk:"), NULL, 16);
    for (int signal = 1; signal <= SIGRTMAX; signal++) {
        bool wanted = is_to_be_blocked(signal);
        if ((blocked >> (signal - 1) & 1) != wanted && (signal < 32 || signal >= SIGRTMIN))
            ck_abort_msg("signal %d is %sblocked: %s", signal, wanted ? "not " : "", line);
    }
    hwt_timer_destroy(timer);
}
END_TEST

/* ---- rain ---- */

static const int drops[] = { SIGUSR1, SIGUSR2, SIGALRM, SIGHUP, SIGWINCH };

enum { DROPS = sizeof(drops) / sizeof(drops[0]) };

static shared_count handled, handled_by_worker;
static _Atomic pid_t worker; /* 0: there is none */

static void handle(int signal)
{
    (void)signal;
    handled++;
    handled_by_worker += (pid_t)syscall(SYS_gettid) == worker;
}

static void handle_drops(void)
{
    struct sigaction action = { .sa_handler = handle };
    for (int i = 0; i < DROPS; i++)
        ck_assert_int_eq(sigaction(drops[i], &action, NULL), 0);
}

/* Signals every thread of the process in turn, and the process as a whole. */
static void *rain(void *data)
{
    shared_count *over = data;
    uint64_t n = 0;
    while (!*over) {
        DIR *dir = opendir("/proc/self/task");
        for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL; n++) {
            if (atoi(entry->d_name) > 0)
                syscall(SYS_tgkill, getpid(), atoi(entry->d_name), drops[n % DROPS]);
        }
        if (dir)
            closedir(dir);
        kill(getpid(), drops[n++ % DROPS]);
    }
    return NULL;
}

/* Each loop: a way to drive the timer. */
START_TEST(signals_that_rain_on_all_threads_change_nothing)
{
    static struct storm storm;
    shared_count over = 0;
    char line[64];
    handle_drops();
    pthread_t rainer = spawn(rain, &over);
    for (unsigned round = 0; round < test_scaled(8); round++) {
        worker = 0;
        storm_open(&storm, _i);
        ck_assert(storm_goes_on(&storm, HWT_SEC(60), 1000));
        if (!(_i & BY_LOOP))
            worker = await_thread("hwt-worker", line, sizeof(line));
        ck_assert(storm_goes_on(&storm, HWT_SEC(60), 1000));
        ck_assert(await_count(&handled, handled + 1000));
        ck_assert(storm_goes_on(&storm, HWT_SEC(60), 1000));
        storm_close(&storm);
    }
    over = 1;
    join(rainer);
    ck_assert_uint_eq(handled_by_worker, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("faults: signals");
    TCase *sleeps = add_case(suite, "sleeps");
    tcase_add_loop_test(sleeps, an_interrupted_sleep_is_neither_early_nor_the_end, 0, 3);
    tcase_add_test(sleeps, the_system_sees_the_signals_blocked_on_the_worker);
    TCase *rains = add_case(suite, "rain");
    tcase_add_loop_test(rains, signals_that_rain_on_all_threads_change_nothing, 0, WAYS);
    return run_suite(suite);
}
