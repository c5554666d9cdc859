/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Refusing what the library asks of the system. See faults.h. */

#include "faults.h"

#include "hwt/base/pieces.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

/* ---- what is refused ---- */

static struct faults_plan plan; /* kinds are read by any thread, in `kinds` */
static _Atomic unsigned kinds;
static _Atomic uint64_t calls, refused;

void faults_begin(struct faults_plan new_plan)
{
    plan = new_plan;
    atomic_store(&calls, 0);
    atomic_store(&refused, 0);
    atomic_store(&kinds, plan.kinds);
}

uint64_t faults_end(void)
{
    atomic_store(&kinds, 0);
    return atomic_load(&refused);
}

const char *faults_words(void)
{
    static const char *const reaches[] = { "", " and all after it", " and every other after it" };
    static char words[128];
    snprintf(words, sizeof(words), "call %" PRIu64 "%s of the kinds %#x refused", plan.nth,
             reaches[plan.reach], plan.kinds);
    return words;
}

static bool refuse(unsigned kind)
{
    if (!(atomic_load(&kinds) & kind))
        return false;
    uint64_t n = atomic_fetch_add(&calls, 1) + 1;
    bool now = n == plan.nth || (n > plan.nth && plan.reach == FAULTS_FROM_THERE_ON) ||
               (n > plan.nth && plan.reach == FAULTS_EVERY_OTHER && (n - plan.nth) % 2 == 0);
    if (now)
        atomic_fetch_add(&refused, 1);
    return now;
}

/* ---- what is held ---- */

#define BLOCKS_MAX 65536

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block {
    void *address;
    size_t size;
} blocks[BLOCKS_MAX];
static struct faults_held held;
static uint64_t strangers;
static void (*then)(void);

void faults_watch(void)
{
    pthread_mutex_lock(&lock);
    held = (struct faults_held){ 0 };
    strangers = 0;
    pthread_mutex_unlock(&lock);
}

uint64_t faults_strangers(void)
{
    return strangers;
}

void faults_meanwhile(void (*new_then)(void))
{
    then = new_then;
}

static void call_then(void)
{
    if (then)
        then();
}

struct faults_held faults_held(void)
{
    pthread_mutex_lock(&lock);
    struct faults_held copy = held;
    pthread_mutex_unlock(&lock);
    return copy;
}

static void *note_block(void *address, size_t size)
{
    pthread_mutex_lock(&lock);
    if (address) {
        if (held.blocks == BLOCKS_MAX)
            abort();
        blocks[held.blocks++] = (struct block){ address, size };
        held.bytes += size;
    }
    pthread_mutex_unlock(&lock);
    call_then();
    return address;
}

static void forget_block(void *address)
{
    pthread_mutex_lock(&lock);
    uint64_t i = held.blocks;
    while (i > 0 && blocks[i - 1].address != address)
        i--;
    if (i > 0) {
        held.bytes -= blocks[i - 1].size;
        blocks[i - 1] = blocks[--held.blocks];
    }
    strangers += address && i == 0;
    pthread_mutex_unlock(&lock);
}

static void note_mapped(uint64_t size)
{
    pthread_mutex_lock(&lock);
    held.mapped += size;
    pthread_mutex_unlock(&lock);
    call_then();
}

/* ---- stories ---- */

void faults_tell_all(uint64_t (*tell)(struct faults_plan plan, bool by_executor),
                     struct faults_plan first, bool by_executor, uint64_t least)
{
    do {
        first.nth++;
    } while (tell(first, by_executor) > 0);
    ck_assert_uint_gt(first.nth, least);
    ck_assert_uint_eq(faults_settimes_refused(), 0);
    printf("%s: the last of %" PRIu64 " tellings\n", faults_words(), first.nth);
}

/* ---- what the process has ---- */

static int entries_of(const char *path)
{
    DIR *dir = opendir(path);
    int count = 0;
    if (!dir)
        abort();
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static void *tell_number(void *data)
{
    *(pid_t *)data = (pid_t)syscall(SYS_gettid);
    return NULL;
}

/* A sanitizer has a thread of its own from the first one on that is started. One that was
 * joined may still be seen for a moment. */
static void see_first_thread_off(void)
{
    char path[64];
    pid_t number = 0;
    join(spawn(tell_number, &number));
    snprintf(path, sizeof(path), "/proc/self/task/%d", (int)number);
    while (access(path, F_OK) == 0)
        usleep(1000);
}

struct census census(void)
{
    static bool begun;
    if (!begun)
        see_first_thread_off();
    begun = true;
    return (struct census){ entries_of("/proc/self/fd"), entries_of("/proc/self/task") };
}

bool await_census(struct census before)
{
    for (int i = 0; i < 30000; i++) {
        struct census now = census();
        if (now.descriptors == before.descriptors && now.threads == before.threads)
            return true;
        usleep(1000);
    }
    return false;
}

/* ---- memory ---- */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *address);
void __wrap_free(void *address);

static int refused_with(int reason)
{
    errno = reason;
    return -1;
}

static void *no_memory(void)
{
    errno = ENOMEM;
    return NULL;
}

void *__wrap_malloc(size_t size)
{
    return refuse(FAULTS_MEMORY) ? no_memory() : note_block(__real_malloc(size), size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    if (refuse(FAULTS_MEMORY))
        return no_memory();
    return note_block(__real_calloc(count, size), count * size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    if (refuse(FAULTS_MEMORY))
        return no_memory();
    return note_block(__real_aligned_alloc(alignment, size), size);
}

void __wrap_free(void *address)
{
    forget_block(address);
    __real_free(address);
    call_then();
}

/* ---- pieces: a timer's memory, which it takes from mappings ---- */

void *__real_hwt_pieces_take(struct hwt_pieces *pieces, unsigned kind);
void *__wrap_hwt_pieces_take(struct hwt_pieces *pieces, unsigned kind);
void *__real_hwt_pieces_map(struct hwt_pieces *pieces, size_t size);
void *__wrap_hwt_pieces_map(struct hwt_pieces *pieces, size_t size);
void __real_hwt_pieces_give(struct hwt_pieces *pieces, void *piece);
void __wrap_hwt_pieces_give(struct hwt_pieces *pieces, void *piece);

void *__wrap_hwt_pieces_take(struct hwt_pieces *pieces, unsigned kind)
{
    if (refuse(FAULTS_MEMORY))
        return no_memory();
    call_then();
    return __real_hwt_pieces_take(pieces, kind);
}

void *__wrap_hwt_pieces_map(struct hwt_pieces *pieces, size_t size)
{
    return refuse(FAULTS_MEMORY) ? no_memory() : __real_hwt_pieces_map(pieces, size);
}

void __wrap_hwt_pieces_give(struct hwt_pieces *pieces, void *piece)
{
    __real_hwt_pieces_give(pieces, piece);
    call_then();
}

/* ---- mappings: with _FILE_OFFSET_BITS, glibc's mmap() is mmap64() ---- */

#ifdef __GLIBC__
#define REAL_MMAP __real_mmap64
#define WRAP_MMAP __wrap_mmap64
#else
#define REAL_MMAP __real_mmap
#define WRAP_MMAP __wrap_mmap
#endif

void *REAL_MMAP(void *address, size_t size, int protection, int flags, int fd, off_t offset);
void *WRAP_MMAP(void *address, size_t size, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *address, size_t size);
int __wrap_munmap(void *address, size_t size);

void *WRAP_MMAP(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    if (refuse(FAULTS_MAPPING)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    void *mapped = REAL_MMAP(address, size, protection, flags, fd, offset);
    if (mapped != MAP_FAILED)
        note_mapped(size);
    return mapped;
}

int __wrap_munmap(void *address, size_t size)
{
    int r = __real_munmap(address, size);
    if (r == 0)
        note_mapped(-(uint64_t)size);
    return r;
}

/* ---- threads ---- */

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *arg);
int __real_sched_setaffinity(pid_t thread, size_t size, const cpu_set_t *processors);
int __wrap_sched_setaffinity(pid_t thread, size_t size, const cpu_set_t *processors);
int __real_prctl(int option, ...);
int __wrap_prctl(int option, ...);
int __real_pthread_setspecific(pthread_key_t key, const void *value);
int __wrap_pthread_setspecific(pthread_key_t key, const void *value);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *arg)
{
    return refuse(FAULTS_THREAD) ? EAGAIN : __real_pthread_create(thread, attributes, run, arg);
}

int __wrap_sched_setaffinity(pid_t thread, size_t size, const cpu_set_t *processors)
{
    return refuse(FAULTS_AFFINITY) ? refused_with(ENOMEM)
                                   : __real_sched_setaffinity(thread, size, processors);
}

int __wrap_prctl(int option, ...)
{
    va_list more;
    va_start(more, option);
    unsigned long first = va_arg(more, unsigned long);
    va_end(more);
    return refuse(FAULTS_MANNERS) ? refused_with(EPERM) : __real_prctl(option, first);
}

int __wrap_pthread_setspecific(pthread_key_t key, const void *value)
{
    return refuse(FAULTS_NUMBER) ? ENOMEM : __real_pthread_setspecific(key, value);
}

/* ---- sleeping, the timer descriptor, and what is called by number ---- */

static _Atomic uint64_t settimes_refused, sleeps, sleeps_interrupted;
static _Atomic unsigned interrupted_in_a_row;

int __real_timerfd_create(int clock, int flags);
int __wrap_timerfd_create(int clock, int flags);
int __real_timerfd_settime(int fd, int flags, const struct itimerspec *at, struct itimerspec *old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *at, struct itimerspec *old);
ssize_t __real_read(int fd, void *buffer, size_t size);
ssize_t __wrap_read(int fd, void *buffer, size_t size);
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
int __real_madvise(void *address, size_t size, int advice);
int __wrap_madvise(void *address, size_t size, int advice);

int __wrap_timerfd_create(int clock, int flags)
{
    if (refuse(FAULTS_DESCRIPTOR)) {
        errno = plan.descriptor_error ? plan.descriptor_error : EMFILE;
        return -1;
    }
    return __real_timerfd_create(clock, flags);
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *at, struct itimerspec *old)
{
    int r = __real_timerfd_settime(fd, flags, at, old);
    if (r != 0)
        atomic_fetch_add(&settimes_refused, 1);
    return r;
}

uint64_t faults_settimes_refused(void)
{
    return atomic_load(&settimes_refused);
}

void faults_interrupt_sleeps(unsigned in_a_row)
{
    atomic_store(&interrupted_in_a_row, in_a_row);
}

uint64_t faults_sleeps_interrupted(void)
{
    return atomic_load(&sleeps_interrupted);
}

static bool interrupt(void)
{
    unsigned in_a_row = atomic_load(&interrupted_in_a_row);
    bool now = in_a_row > 0 && atomic_fetch_add(&sleeps, 1) % (in_a_row + 1) < in_a_row;
    if (now)
        atomic_fetch_add(&sleeps_interrupted, 1);
    return now;
}

ssize_t __wrap_read(int fd, void *buffer, size_t size)
{
    return interrupt() ? refused_with(EINTR) : __real_read(fd, buffer, size);
}

/* Of a futex that is waited for. */
static bool is_sleep(long number, long operation)
{
#ifdef SYS_futex_time64
    if (number == SYS_futex_time64)
        number = SYS_futex;
#endif
    return number == SYS_futex && (operation & 127) == 9;
}

long __wrap_syscall(long number, ...)
{
    long args[6];
    va_list more;
    va_start(more, number);
    for (int i = 0; i < 6; i++)
        args[i] = va_arg(more, long);
    va_end(more);
    if (number == SYS_membarrier && refuse(FAULTS_BARRIER))
        return refused_with(EPERM);
    if (is_sleep(number, args[1]) && interrupt())
        return refused_with(EINTR);
    return __real_syscall(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}

int __wrap_madvise(void *address, size_t size, int advice)
{
    return refuse(FAULTS_ADVICE) ? refused_with(EAGAIN) : __real_madvise(address, size, advice);
}
