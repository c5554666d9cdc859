/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef SIGNAL_H
#define SIGNAL_H

/* GenMC knows no signals, and the system's header defines GenMC's types of threads once more. */

#define SIGABRT 6
#define SIGBUS 7
#define SIGFPE 8
#define SIGILL 4
#define SIGSEGV 11
#define SIGSYS 31
#define SIGTRAP 5
#define SIG_SETMASK 2

typedef int sigset_t;

#define sigfillset(set) ((void)(*(set) = -1))
#define sigdelset(set, number) ((void)(*(set) &= ~(1 << (number))))
#define pthread_sigmask(how, set, ret_before) ((void)(set), (void)(ret_before))

#endif
