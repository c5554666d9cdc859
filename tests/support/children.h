/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_CHILDREN_H
#define HWT_TESTS_CHILDREN_H

/*
 * A child process that does one thing, and how it ended. In the child, child_must() takes the
 * place of ck_assert. A child that hangs is ended by SIGALRM.
 */

#include <sys/resource.h>
#include <sys/wait.h>

#include "api_fixture.h"

#if defined(__has_feature)
#define CHILD_HAS_FEATURE(feature) __has_feature(feature)
#else
#define CHILD_HAS_FEATURE(feature) 0
#endif

/* A sanitizer itself needs what some tests take away, and objects to what others do by intent. */
#if defined(__SANITIZE_THREAD__) || CHILD_HAS_FEATURE(thread_sanitizer)
enum { WITH_THREAD_SANITIZER = 1 };
#else
enum { WITH_THREAD_SANITIZER = 0 };
#endif
#if defined(__SANITIZE_ADDRESS__) || CHILD_HAS_FEATURE(address_sanitizer)
enum { WITH_SANITIZER = 1 };
#else
enum { WITH_SANITIZER = WITH_THREAD_SANITIZER };
#endif

/* Seconds. A sanitizer makes slow what many threads do, the more so on a machine that is busy. */
enum { CHILD_PATIENCE = WITH_SANITIZER ? 150 : 30 };

#define child_must(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);          \
            _exit(EXIT_FAILURE);                                                                   \
        }                                                                                          \
    } while (0)

typedef struct child_end {
    int status;      /* as of waitpid() */
    char said[2048]; /* on stderr */
} child_end;

static inline _Noreturn void child_main(void (*work)(void *), void *arg, int messages)
{
    const struct rlimit none = { 0, 0 };
    setrlimit(RLIMIT_CORE, &none);
    dup2(messages, STDERR_FILENO);
    signal(SIGALRM, SIG_DFL); /* Check's own handler would end the parent too */
    alarm(CHILD_PATIENCE);
    work(arg);
    _exit(EXIT_SUCCESS);
}

static inline child_end run_child(void (*work)(void *), void *arg)
{
    child_end end = { .status = -1 };
    int messages[2];
    size_t length = 0;
    ssize_t n;
    ck_assert_int_eq(pipe(messages), 0);
    fflush(NULL);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0)
        child_main(work, arg, messages[1]);
    close(messages[1]);
    while (length < sizeof(end.said) - 1 &&
           (n = read(messages[0], end.said + length, sizeof(end.said) - 1 - length)) > 0)
        length += (size_t)n;
    ck_assert_int_eq(waitpid(child, &end.status, 0), child);
    close(messages[0]);
    return end;
}

static inline const char *child_words(const child_end *end)
{
    static char words[64];
    if (WIFSIGNALED(end->status) && WTERMSIG(end->status) == SIGALRM)
        return "it hung";
    if (WIFSIGNALED(end->status))
        snprintf(words, sizeof(words), "it was ended by signal %d", WTERMSIG(end->status));
    else
        snprintf(words, sizeof(words), "it ended with %d", WEXITSTATUS(end->status));
    return words;
}

/* All that was to hold in the child held. */
static inline void expect_well(const char *what, void (*work)(void *), void *arg)
{
    child_end end = run_child(work, arg);
    if (!WIFEXITED(end.status) || WEXITSTATUS(end.status) != EXIT_SUCCESS)
        ck_abort_msg("%s: %s. It said: %s", what, child_words(&end), end.said);
}

#endif
