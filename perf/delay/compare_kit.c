/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "compare.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

_Noreturn void die(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fprintf(stderr, "%s: ", contender.name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

_Noreturn void decline(const char *why)
{
    fprintf(stderr, "%s: %s\n", contender.name, why);
    exit(3);
}

void print_metric(const char *name, double value)
{
    printf("%s %.6g\n", name, value);
}

/* ---- Time and chance ---- */

void sleep_until(uint64_t realtime)
{
    struct timespec end = { (time_t)(realtime / SECOND), (long)(realtime % SECOND) };

    while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &end, NULL) == EINTR)
        ;
}

_Atomic uint64_t set_clock;

uint64_t clock_now(void)
{
    uint64_t now = atomic_load(&set_clock);

    return now != 0 ? now : realtime_ns();
}

double random_unit(uint64_t *state)
{
    return (double)(splitmix(state) >> 11) * 0x1p-53;
}

static unsigned char noise[1 << 16];
static pthread_once_t noise_made = PTHREAD_ONCE_INIT;

static void make_noise(void)
{
    uint64_t state = options.seed;

    for (size_t i = 0; i < sizeof(noise); i++)
        noise[i] = (unsigned char)splitmix(&state);
}

void message_make(struct message *message, uint64_t number, uint64_t due)
{
    char id[ID_SIZE + 1];

    pthread_once(&noise_made, make_noise);
    snprintf(id, sizeof(id), "%016" PRIx64, number);
    memcpy(message->id, id, ID_SIZE);
    message->due = due;
    message->payload = noise + number * 61 % (sizeof(noise) - options.payload);
    message->payload_size = options.payload;
}

/* ---- What the system knows ---- */

uint64_t resident_bytes(void)
{
    return number_in(store_pid(), "status", "VmRSS:") * 1024;
}

uint64_t peak_resident_bytes(void)
{
    return number_in(store_pid(), "status", "VmHWM:") * 1024;
}

struct written written_now(void)
{
    sync();
    return (struct written){ device_written(options.directory),
                             number_in(store_pid(), "io", "write_bytes:") };
}

void print_written(const struct written *begin, double payload)
{
    struct written now = written_now();

    if (now.device > 0)
        print_metric("device_per_byte", (double)(now.device - begin->device) / payload);
    else
        print_metric("process_per_byte", (double)(now.process - begin->process) / payload);
}

pid_t store_pid(void)
{
    return contender.server ? contender.server() : getpid();
}

/* ---- Servers ---- */

pid_t server_start(const char *const arguments[])
{
    pid_t parent = getpid();
    pid_t pid = fork();

    if (pid < 0)
        die("fork: %s", strerror(errno));
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    execvp(arguments[0], (char **)arguments);
    fprintf(stderr, "%s: %s\n", arguments[0], strerror(errno));
    _exit(1);
}

void server_kill(pid_t pid)
{
    kill(pid, SIGKILL);
    if (waitpid(pid, NULL, 0) < 0)
        die("waitpid: %s", strerror(errno));
}

char socket_path[64];

int server_connect(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    uint64_t end = now_ns() + 600 * SECOND;

    strcpy(address.sun_path, socket_path);
    for (;;) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            die("socket: %s", strerror(errno));
        if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
            return fd;
        if (now_ns() > end || waitpid(store_pid(), NULL, WNOHANG) != 0)
            die("the server does not answer at %s: %s", socket_path, strerror(errno));
        close(fd);
        nanosleep(&(struct timespec){ 0, 500000 }, NULL);
    }
}
