/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The policy and the nice value of a worker whose starter has no privilege: Linux lets it leave
 * SCHED_IDLE, or become less nice, only as far as RLIMIT_NICE allows. By the system itself, where it
 * lets the test set that limit; and by the system's rules, in place of its answers.
 */

#include <sys/resource.h>

#include "children.h"

enum { NOBODY = 65534, CANNOT_BE_HAD = 77 };

typedef struct starter {
    rlim_t limit; /* RLIMIT_NICE: 20 - the least nice value */
    int policy, nice;
    int worker_policy, worker_nice; /* what is to come of it; the process has SCHED_OTHER and 0 */
} starter;

static const starter starters[] = {
    { 0, SCHED_OTHER, 0, SCHED_OTHER, 0 },    { 0, SCHED_OTHER, 19, SCHED_OTHER, 19 },
    { 0, SCHED_IDLE, 0, SCHED_IDLE, 0 },      { 0, SCHED_BATCH, 0, SCHED_OTHER, 0 },
    { 10, SCHED_OTHER, 19, SCHED_OTHER, 10 }, { 10, SCHED_OTHER, 5, SCHED_OTHER, 5 },
    { 10, SCHED_IDLE, 0, SCHED_OTHER, 10 },   { 10, SCHED_IDLE, 19, SCHED_OTHER, 10 },
    { 20, SCHED_OTHER, 19, SCHED_OTHER, 0 },  { 20, SCHED_IDLE, 19, SCHED_OTHER, 0 },
    { 30, SCHED_IDLE, 5, SCHED_OTHER, 0 },    { RLIM_INFINITY, SCHED_IDLE, 19, SCHED_OTHER, 0 },
};

enum { STARTERS = sizeof(starters) / sizeof(*starters) };

/* ---- the system's rules ---- */

static struct {
    bool answers;
    starter thread; /* as it is now */
} rules;

int __real_setpriority(int which, id_t who, int value);
int __real_getpriority(int which, id_t who);
int __real_sched_setscheduler(pid_t who, int policy, const struct sched_param *param);
int __real_sched_getscheduler(pid_t who);
int __real_getrlimit(int resource, struct rlimit *limit);
int __real_getrlimit64(int resource, struct rlimit *limit) __attribute__((weak)); /* glibc's */

int __wrap_setpriority(int which, id_t who, int value);
int __wrap_getpriority(int which, id_t who);
int __wrap_sched_setscheduler(pid_t who, int policy, const struct sched_param *param);
int __wrap_sched_getscheduler(pid_t who);
int __wrap_getrlimit(int resource, struct rlimit *limit);
int __wrap_getrlimit64(int resource, struct rlimit *limit);

static bool may_have_nice(int value)
{
    return rules.thread.limit >= (rlim_t)(20 - value); /* no limit is the greatest number */
}

static int refuse(int error)
{
    errno = error;
    return -1;
}

int __wrap_setpriority(int which, id_t who, int value)
{
    if (!rules.answers)
        return __real_setpriority(which, who, value);
    if (value < rules.thread.nice && !may_have_nice(value))
        return refuse(EACCES);
    rules.thread.nice = value;
    return 0;
}

int __wrap_getpriority(int which, id_t who)
{
    return rules.answers ? rules.thread.nice : __real_getpriority(which, who);
}

int __wrap_sched_setscheduler(pid_t who, int policy, const struct sched_param *param)
{
    if (!rules.answers)
        return __real_sched_setscheduler(who, policy, param);
    if (rules.thread.policy == SCHED_IDLE && policy != SCHED_IDLE &&
        !may_have_nice(rules.thread.nice))
        return refuse(EPERM);
    rules.thread.policy = policy;
    return 0;
}

int __wrap_sched_getscheduler(pid_t who)
{
    return rules.answers ? rules.thread.policy : __real_sched_getscheduler(who);
}

static bool answer_limit(int resource, struct rlimit *limit)
{
    if (rules.answers && resource == RLIMIT_NICE)
        *limit = (struct rlimit){ rules.thread.limit, rules.thread.limit };
    return rules.answers && resource == RLIMIT_NICE;
}

int __wrap_getrlimit(int resource, struct rlimit *limit)
{
    return answer_limit(resource, limit) ? 0 : __real_getrlimit(resource, limit);
}

/* The same by its other name: each program calls the one, or the other. */
int __wrap_getrlimit64(int resource, struct rlimit *limit)
{
    return answer_limit(resource, limit) ? 0 : __real_getrlimit64(resource, limit);
}

/* ---- a worker ---- */

typedef struct sight {
    shared_count seen;
    int policy, nice;
} sight;

static void see(hwt_timeout timeout, void *arg)
{
    sight *s = arg;
    (void)timeout;
    s->policy = sched_getscheduler(0);
    s->nice = getpriority(PRIO_PROCESS, 0);
    s->seen++;
}

static const hwt_task seeing = { see, NULL };

static void expect_worker_of(const starter *s)
{
    sight worker = { 0 };
    hwt_timer *timer = create_ticking(HWT_MS(1));
    arm(timer, &seeing, &worker, 0);
    child_must(await_count(&worker.seen, 1));
    hwt_timer_destroy(timer);
    if (worker.policy != s->worker_policy || worker.nice != s->worker_nice)
        printf("policy %d, nice %d\n", worker.policy, worker.nice);
    child_must(worker.policy == s->worker_policy);
    child_must(worker.nice == s->worker_nice);
}

static void start_by_the_rules(void *data)
{
    const starter *s = data;
    if (__real_getpriority(PRIO_PROCESS, 0) != 0) /* that is what the worker is to have */
        _exit(CANNOT_BE_HAD);
    rules.thread = *s;
    rules.answers = true;
    expect_worker_of(s);
}

static void *be_low(void *data)
{
    const starter *s = data;
    const struct sched_param none = { 0 };
    child_must(setpriority(PRIO_PROCESS, 0, s->nice) == 0); /* of this thread alone */
    child_must(sched_setscheduler(0, s->policy, &none) == 0);
    expect_worker_of(s);
    return NULL;
}

static void start_without_a_privilege(void *data)
{
    const starter *s = data;
    const struct rlimit limit = { s->limit, s->limit };
    if (getpriority(PRIO_PROCESS, 0) != 0 || setrlimit(RLIMIT_NICE, &limit) != 0 ||
        setresuid(NOBODY, NOBODY, NOBODY) != 0)
        _exit(CANNOT_BE_HAD);
    join(spawn(be_low, data));
}

static void expect_end(void (*call)(void *), int number)
{
    starter s = starters[number];
    child_end end = run_child(call, &s);
    if (!WIFEXITED(end.status) ||
        (WEXITSTATUS(end.status) != EXIT_SUCCESS && WEXITSTATUS(end.status) != CANNOT_BE_HAD))
        ck_abort_msg("starter %d: %s. It said: %s", number, child_words(&end), end.said);
}

START_TEST(by_the_rules_the_worker_is_as_near_to_the_process_as_the_limit_allows)
{
    expect_end(start_by_the_rules, _i);
}
END_TEST

START_TEST(so_it_is_by_the_system_itself)
{
    expect_end(start_without_a_privilege, _i);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api: scheduling");
    TCase *tcase = add_case(suite, "scheduling");
    tcase_add_loop_test(
        tcase, by_the_rules_the_worker_is_as_near_to_the_process_as_the_limit_allows, 0, STARTERS);
    if (!is_emulated()) /* which has no scheduling of its own */
        tcase_add_loop_test(tcase, so_it_is_by_the_system_itself, 0, STARTERS);
    return run_suite(suite);
}
