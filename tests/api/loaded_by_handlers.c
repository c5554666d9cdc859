/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A program that has handlers of fork() before it loads the library, as a language that loads
 * plugins. Its handlers run closer to the fork than the library's own could.
 *
 *     loaded_by_handlers LIBRARY CASE
 *
 *     prepare   the handler waits for a thread that has used the library, and ends
 *     child     the handler makes timers in the child, and uses them; the parent's are refused
 *     bare      no handler runs in the child at all, which a bare clone() makes
 *     refused   the kernel wipes no memory in children: the library's own handler does
 *
 * What hangs is ended by SIGALRM.
 */

#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hwt/hwt.h"

enum { SKIPPED = 77, PATIENCE = 60, FORKS = 100 };

#define must(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);          \
            _exit(EXIT_FAILURE);                                                                   \
        }                                                                                          \
    } while (0)

static struct {
    int (*create)(const hwt_options *, hwt_timer **);
    int (*add)(hwt_timer *, const hwt_task *, void *, uint64_t, hwt_timeout *);
    bool (*move)(hwt_timeout, uint64_t);
    bool (*cancel)(hwt_timeout);
    uint64_t (*dispatch)(hwt_timer *);
    int (*fd)(hwt_timer *);
    void (*destroy)(hwt_timer *);
} hwt;

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    must(found);
    return found;
}

static void load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    must(library);
    *(void **)&hwt.create = symbol(library, "hwt_timer_create");
    *(void **)&hwt.add = symbol(library, "hwt_timer_new_timeout");
    *(void **)&hwt.move = symbol(library, "hwt_timeout_reschedule");
    *(void **)&hwt.cancel = symbol(library, "hwt_timeout_cancel");
    *(void **)&hwt.dispatch = symbol(library, "hwt_timer_dispatch");
    *(void **)&hwt.fd = symbol(library, "hwt_timer_fd");
    *(void **)&hwt.destroy = symbol(library, "hwt_timer_destroy");
}

static _Atomic uint64_t runs;

static void count_run(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
    runs++;
}

static const hwt_task counting = { count_run, NULL };

static hwt_timer *make(uint32_t flags)
{
    hwt_options options = HWT_OPTIONS_INIT;
    hwt_timer *timer = NULL;
    options.tick_duration = HWT_MS(1);
    options.flags = flags;
    must(hwt.create(&options, &timer) == 0);
    return timer;
}

static bool reaches(const _Atomic uint64_t *count, uint64_t wanted)
{
    for (int i = 0; i < PATIENCE * 1000 && *count < wanted; i++)
        usleep(1000);
    return *count >= wanted;
}

static void wait_for(pid_t child)
{
    int status = -1;
    must(child > 0 && waitpid(child, &status, 0) == child);
    must(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
}

/* ---- prepare ---- */

static pthread_t user;
static _Atomic uint64_t used, end;

static void *use(void *timer)
{
    must(hwt.add(timer, &counting, NULL, HWT_SEC(3600), NULL) == 0);
    used = 1;
    must(reaches(&end, 1));
    return NULL;
}

static void join_user(void)
{
    end = 1;
    pthread_join(user, NULL);
}

static void check_prepare(const char *path)
{
    must(pthread_atfork(join_user, NULL, NULL) == 0);
    load(path);
    hwt_timer *timer = make(0);
    must(pthread_create(&user, NULL, use, timer) == 0);
    must(reaches(&used, 1));
    pid_t child = fork();
    if (child == 0)
        _exit(EXIT_SUCCESS);
    wait_for(child);
    hwt.destroy(timer);
}

/* ---- child ---- */

static hwt_timer *started, *along, *own, *driven;
static hwt_timeout pending;

static void dispatch_some(hwt_timer *timer)
{
    uint64_t before = runs;
    must(hwt.add(timer, &counting, NULL, 0, NULL) == 0);
    for (struct pollfd one = { hwt.fd(timer), POLLIN, 0 }; runs == before; hwt.dispatch(timer))
        must(poll(&one, 1, PATIENCE * 1000) == 1);
}

static void use_in_child(bool with_threads)
{
    must(hwt.add(started, &counting, NULL, 0, NULL) == -ESHUTDOWN);
    must(!hwt.move(pending, 0));
    must(hwt.cancel(pending));
    must(!hwt.cancel(pending));
    driven = make(HWT_NO_WORKER);
    dispatch_some(driven);
    must(hwt.add(driven, &counting, NULL, 0, NULL) == 0);
    if (with_threads) {
        own = make(0);
        must(hwt.add(own, &counting, NULL, 0, NULL) == 0);
        must(hwt.add(along, &counting, NULL, 0, NULL) == 0);
    }
}

static void use_in_handler(void)
{
    runs = 0;
    alarm(PATIENCE);
    use_in_child(true);
}

/* What the handler has made stays. */
static void go_on_in_child(void)
{
    must(reaches(&runs, 3));
    must(hwt.dispatch(driven) <= 1);
    must(hwt.add(own, &counting, NULL, 0, NULL) == 0);
    must(hwt.add(along, &counting, NULL, 0, NULL) == 0);
    must(reaches(&runs, 6));
    dispatch_some(driven);
    must(hwt.add(started, &counting, NULL, 0, NULL) == -ESHUTDOWN);
    hwt.destroy(started);
    hwt.destroy(along);
    hwt.destroy(own);
    hwt.destroy(driven);
    _exit(EXIT_SUCCESS);
}

/* Timers come and go, so that the fork comes in the midst of that. */
static void *come_and_go(void *data)
{
    (void)data;
    while (end == 0)
        hwt.destroy(make(HWT_NO_WORKER));
    return NULL;
}

static void check_child(const char *path)
{
    must(pthread_atfork(NULL, NULL, use_in_handler) == 0);
    load(path);
    started = make(0);
    along = make(0);
    must(hwt.add(started, &counting, NULL, HWT_SEC(3600), &pending) == 0);
    must(pthread_create(&user, NULL, come_and_go, NULL) == 0);
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        if (child == 0)
            go_on_in_child();
        wait_for(child);
        alarm(2 * PATIENCE);
    }
    join_user();
    hwt.destroy(started);
    hwt.destroy(along);
}

/* ---- bare ---- */

static void check_bare(const char *path)
{
    load(path);
    started = make(0);
    must(hwt.add(started, &counting, NULL, HWT_SEC(3600), &pending) == 0);
    /* SIGCHLD comes first on some machines, second on others. */
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        alarm(PATIENCE);
        use_in_child(false);
        dispatch_some(driven);
        hwt.destroy(driven);
        hwt.destroy(started);
        _exit(EXIT_SUCCESS);
    }
    wait_for(child);
    must(hwt.cancel(pending));
    hwt.destroy(started);
}

/* ---- refused ---- */

static bool refuse_madvise(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

static int check_refused(const char *path)
{
    if (!refuse_madvise())
        return SKIPPED;
    load(path);
    started = make(0);
    along = make(0);
    must(hwt.add(started, &counting, NULL, HWT_SEC(3600), &pending) == 0);
    must(pthread_create(&user, NULL, come_and_go, NULL) == 0);
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        if (child == 0) {
            use_in_handler();
            go_on_in_child();
        }
        wait_for(child);
    }
    join_user();
    hwt.destroy(started);
    hwt.destroy(along);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: loaded_by_handlers LIBRARY prepare|child|bare|refused\n");
        return 2;
    }
    alarm(2 * PATIENCE);
    if (strcmp(argv[2], "prepare") == 0)
        check_prepare(argv[1]);
    else if (strcmp(argv[2], "child") == 0)
        check_child(argv[1]);
    else if (strcmp(argv[2], "bare") == 0)
        check_bare(argv[1]);
    else
        return check_refused(argv[1]);
    return EXIT_SUCCESS;
}
