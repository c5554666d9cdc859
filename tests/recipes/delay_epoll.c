/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The durable store in an epoll loop: cc delay_epoll.c $(pkg-config --cflags --libs hwt-delay)
 *
 *     (echo 1500 tea; echo 500 coffee; sleep 2) | ./a.out DIRECTORY
 *
 * A line of input is a number of milliseconds and a name. "kept NAME" is the answer once it is on the
 * disk, and "due NAME" comes when its time is over. At the end of the input the program ends; what is
 * still to come is in the store, and comes when the program is started again. If it was killed, the last
 * names may be due a second time.
 *
 * There is one thread, which never waits for the disk. The library calls back on a thread of its own when
 * a change is durable, in the order of the changes. So the callback only adds 1 to an eventfd: when the
 * loop reads n from it, the n oldest of its changes are on the disk.
 */

#include <errno.h>
#include <hwt/delay.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { ON_THE_WAY_MAX = 256, RETRY_MS = 10 };

/* A change that is on the way to the disk. */
struct change {
    const hwt_delay_message *taken; /* NULL: a put, of `name` */
    char name[HWT_DELAY_ID_MAX + 1];
};

static struct change ring[ON_THE_WAY_MAX]; /* from first to end, modulo its length */
static unsigned first, end;
static hwt_delay *store;
static int epoll, durable_fd;
static char in[65536]; /* input that is not in the store yet */
static size_t in_size;
static bool in_ended;
static const hwt_delay_message *due; /* it was told; the store has yet to accept its end */

static int check(const char *what, int64_t r)
{
    if (r >= 0)
        return (int)r;
    fprintf(stderr, "delay_epoll: %s: %s\n", what, strerror((int)-r));
    exit(1);
}

/* For calls that say why in errno. */
static int checked(const char *what, int r)
{
    return check(what, r < 0 ? -errno : r);
}

static void watch(int operation, int fd, uint32_t events)
{
    struct epoll_event event = { 0 };
    event.events = events;
    event.data.fd = fd;
    checked("epoll", epoll_ctl(epoll, operation, fd, &event));
}

/* On a thread of the library. After -EIO only opening the store anew says what is on the disk. */
static void tell(int result, void *unused)
{
    const uint64_t one = 1;
    (void)unused;
    if (result < 0 || write(durable_fd, &one, sizeof(one)) < 0)
        _exit(1);
}

/* 0: the loop will hear of it. -EAGAIN, -ENOSPC: not now. */
static int submit(hwt_delay_change *what, const struct change *change)
{
    hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
    if (end - first == ON_THE_WAY_MAX)
        return -EAGAIN;
    batch.flags = HWT_DELAY_NO_WAIT;
    batch.durable = tell;
    int r = hwt_delay_apply(store, what, 1, &batch);
    if (r == 0)
        ring[end++ % ON_THE_WAY_MAX] = *change;
    return r;
}

static void hear_of_durable(void)
{
    uint64_t n;
    checked("eventfd", (int)read(durable_fd, &n, sizeof(n)));
    for (; n > 0; n--) {
        struct change *change = &ring[first++ % ON_THE_WAY_MAX];
        if (!change->taken)
            printf("kept %s\n", change->name);
        hwt_delay_free(change->taken);
    }
}

/* One line. -EAGAIN: the store has no room now. */
static int put(const char *line)
{
    struct change change = { 0 };
    hwt_delay_message message = { 0 };
    hwt_delay_change what = { 0 };
    uint64_t ms;
    int length = 0;
    sscanf(line, "%" SCNu64 " %255s %n", &ms, change.name, &length);
    if (length == 0 || line[length] != 0 || ms > UINT32_MAX) {
        fprintf(stderr, "delay_epoll: a line is MILLISECONDS NAME, and not: %s\n", line);
        return 0;
    }
    message.due = hwt_delay_now(store) + HWT_MS(ms);
    message.id = change.name;
    message.id_size = strlen(change.name);
    what.op = HWT_DELAY_OP_PUT;
    what.message = &message;
    int r = submit(&what, &change);
    if (r == -ENOSPC) {
        printf("refused %s\n", change.name);
        return 0;
    }
    return r == -EAGAIN ? r : check("put", r);
}

/* All whole lines that the store has room for. False: it has none for the next one. */
static bool put_lines(void)
{
    char *line = in, *line_end;
    int r = 0;
    while ((line_end = memchr(line, '\n', in_size - (size_t)(line - in))) != NULL) {
        *line_end = 0;
        r = put(line);
        if (r == -EAGAIN) {
            *line_end = '\n';
            break;
        }
        line = line_end + 1;
    }
    in_size -= (size_t)(line - in);
    memmove(in, line, in_size);
    return r == 0;
}

static void read_input(void)
{
    if (in_size == sizeof(in))
        check("a line is too long", -EMSGSIZE);
    ssize_t n = read(STDIN_FILENO, in + in_size, sizeof(in) - in_size);
    in_size += (size_t)checked("input", (int)n);
    in_ended = n == 0;
    if (in_ended && in_size > 0)
        in[in_size++] = '\n';
}

/* All that is due: tells it, then ends its lease. False: the store has no room for such an end. */
static bool deliver(void)
{
    for (;;) {
        struct change change = { 0 };
        hwt_delay_change what = { 0 };
        if (!due) {
            int64_t n = hwt_delay_take(store, 1, 0, &due);
            if (n == -EIO)
                check("store", n);
            if (n < 0)
                fprintf(stderr, "delay_epoll: nothing is due: %s\n", strerror((int)-n));
            if (n != 1)
                return true;
            printf("due %.*s\n", (int)due->id_size, (const char *)due->id);
            fflush(stdout); /* before its lease can end */
        }
        what.op = HWT_DELAY_OP_DONE;
        what.flags = HWT_DELAY_MAY_FAIL; /* the lease is over: it comes again */
        what.lease = due->lease;
        change.taken = due;
        int r = submit(&what, &change);
        if (r == -EAGAIN || r == -ENOSPC)
            return false;
        check("done", r);
        due = NULL;
    }
}

/* An input that has ended cannot stay with no events, because epoll tells its end all the same. */
static void watch_input(bool on)
{
    static bool is_on;
    if (on != is_on)
        watch(on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, STDIN_FILENO, EPOLLIN);
    is_on = on;
}

static void open_all(const char *directory)
{
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    options.flags = HWT_DELAY_CREATE;
    options.payload_max = 4096;
    options.segment_size = 1 << 20;
    check(directory, hwt_delay_open(directory, &options, &store));
    epoll = checked("epoll", epoll_create1(EPOLL_CLOEXEC));
    durable_fd = checked("eventfd", eventfd(0, EFD_CLOEXEC));
    watch(EPOLL_CTL_ADD, durable_fd, EPOLLIN);
    watch(EPOLL_CTL_ADD, check("descriptor", hwt_delay_fd(store)), EPOLLIN);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
        return 2;
    }
    open_all(argv[1]);
    while (!in_ended || in_size > 0 || due || first != end) {
        struct epoll_event events[3];
        bool delivered = deliver(), read_on = put_lines();
        fflush(stdout);
        /* While the store has no room, its descriptor and the input stay readable: the loop would spin. */
        watch(EPOLL_CTL_MOD, hwt_delay_fd(store), delivered ? EPOLLIN : 0);
        watch_input(read_on && !in_ended);
        int n = epoll_wait(epoll, events, 3, delivered && read_on ? -1 : RETRY_MS);
        for (int i = 0; i < n; i++) {
            if (events[i].data.fd == durable_fd)
                hear_of_durable();
            else if (events[i].data.fd == STDIN_FILENO)
                read_input();
        }
    }
    return hwt_delay_close(store) < 0;
}
