/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "compare.h"

#include <dirent.h>
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
#include <sys/stat.h>
#include <sys/sysmacros.h>
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

static uint64_t read_clock(clockid_t id)
{
    struct timespec now;

    clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

uint64_t elapsed_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t realtime_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

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

/* splitmix64 */
uint64_t random_next(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

double random_unit(uint64_t *state)
{
    return (double)(random_next(state) >> 11) * 0x1p-53;
}

static unsigned char noise[1 << 16];
static pthread_once_t noise_made = PTHREAD_ONCE_INIT;

static void make_noise(void)
{
    uint64_t state = options.seed;

    for (size_t i = 0; i < sizeof(noise); i++)
        noise[i] = (unsigned char)random_next(&state);
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

/* The number behind `key` in a file of /proc; 0: there is none. */
static uint64_t number_in(const char *path, const char *key)
{
    char line[256];
    uint64_t number = 0;
    FILE *file = fopen(path, "re");

    if (!file)
        return 0;
    while (fgets(line, sizeof(line), file))
        if (strncmp(line, key, strlen(key)) == 0)
            number = strtoull(line + strlen(key), NULL, 10);
    fclose(file);
    return number;
}

static uint64_t number_of(pid_t pid, const char *name, const char *key)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    return number_in(path, key);
}

uint64_t resident_bytes(pid_t pid)
{
    return number_of(pid, "status", "VmRSS:") * 1024;
}

uint64_t peak_resident_bytes(pid_t pid)
{
    return number_of(pid, "status", "VmHWM:") * 1024;
}

/* 0: it is not known. */
static uint64_t device_written(void)
{
    struct stat status;
    char line[256];
    uint64_t sectors = 0;
    FILE *file = fopen("/proc/diskstats", "re");

    if (!file)
        return 0;
    if (stat(options.directory, &status) < 0)
        die("%s: %s", options.directory, strerror(errno));
    while (fgets(line, sizeof(line), file)) {
        unsigned major, minor;
        uint64_t written;
        if (sscanf(line, "%u %u %*s %*u %*u %*u %*u %*u %*u %" SCNu64, &major, &minor, &written) ==
                3 &&
            makedev(major, minor) == status.st_dev)
            sectors = written;
    }
    fclose(file);
    return sectors * 512;
}

struct written written_now(void)
{
    sync();
    return (struct written){ device_written(), number_of(store_pid(), "io", "write_bytes:") };
}

void print_written(const struct written *begin, double payload)
{
    struct written now = written_now();

    if (now.device > 0)
        print_metric("device_per_byte", (double)(now.device - begin->device) / payload);
    else
        print_metric("process_per_byte", (double)(now.process - begin->process) / payload);
}

static uint64_t bytes_below(int directory)
{
    uint64_t bytes = 0;
    DIR *stream = fdopendir(directory);
    const struct dirent *entry;

    while (stream && (entry = readdir(stream))) {
        struct stat status;
        if (entry->d_name[0] == '.' ||
            fstatat(directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (S_ISDIR(status.st_mode))
            bytes += bytes_below(openat(directory, entry->d_name, O_RDONLY | O_CLOEXEC));
        else
            bytes += (uint64_t)status.st_blocks * 512;
    }
    if (stream)
        closedir(stream);
    return bytes;
}

uint64_t directory_bytes(void)
{
    return bytes_below(open(options.directory, O_RDONLY | O_CLOEXEC));
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
    uint64_t end = elapsed_ns() + 600 * SECOND;

    strcpy(address.sun_path, socket_path);
    for (;;) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            die("socket: %s", strerror(errno));
        if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
            return fd;
        if (elapsed_ns() > end || waitpid(store_pid(), NULL, WNOHANG) != 0)
            die("the server does not answer at %s: %s", socket_path, strerror(errno));
        close(fd);
        nanosleep(&(struct timespec){ 0, 500000 }, NULL);
    }
}
