/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The timer's metrics over HTTP, for Prometheus or curl: GET /metrics, on loopback. A thread that
 * answers one request at a time and then closes the connection; it hangs up on who dawdles.
 */

#include "heartbeat.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE HWT_SEC(1) /* for the request, and for the answer */

/* Until the empty line that ends it. False: it does not come in time, or is too long. */
static bool read_request(int fd, char *request, size_t size)
{
    uint64_t limit = now_ns() + PATIENCE;
    size_t length = 0;

    while (length + 1 < size) {
        struct pollfd ready = { .fd = fd, .events = POLLIN };
        uint64_t now = now_ns();
        if (now >= limit || poll(&ready, 1, (int)((limit - now) / HWT_MS(1)) + 1) < 1)
            return false;
        ssize_t n = recv(fd, request + length, size - 1 - length, MSG_DONTWAIT);
        if (n <= 0)
            return false;
        length += (size_t)n;
        request[length] = '\0';
        if (strstr(request, "\r\n\r\n") || strstr(request, "\n\n"))
            return true;
    }
    return false;
}

static void send_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t n = send(fd, bytes, length, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        bytes += n;
        length -= (size_t)n;
    }
}

static void answer(int fd, const char *status, const char *body)
{
    struct timeval patience = { .tv_sec = (time_t)(PATIENCE / HWT_SEC(1)) };
    char head[256];

    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    int n = snprintf(head, sizeof(head),
                     "HTTP/1.1 %s\r\n"
                     "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
                     "Content-Length: %zu\r\n"
                     "Connection: close\r\n\r\n",
                     status, strlen(body));
    send_all(fd, head, (size_t)n);
    send_all(fd, body, strlen(body));
}

static void answer_metrics(int fd, const hwt_timer *timer)
{
    static const char *const names[] = { "heartbeat" };
    hwt_stats stats = HWT_STATS_INIT;

    hwt_timer_stats(timer, &stats);
    int64_t length = hwt_stats_prometheus(&stats, names, 1, NULL, 0);
    char *page = malloc((size_t)length + 1);
    if (page == NULL) {
        answer(fd, "503 Service Unavailable", "no memory\n");
        return;
    }
    hwt_stats_prometheus(&stats, names, 1, page, (size_t)length + 1);
    answer(fd, "200 OK", page);
    free(page);
}

static void serve(const struct metrics *metrics, int fd)
{
    char request[4096], method[16], path[256], version;

    if (!read_request(fd, request, sizeof(request)))
        return;
    if (sscanf(request, "%15s %255s HTTP/1.%c", method, path, &version) != 3)
        answer(fd, "400 Bad Request", "this is not HTTP\n");
    else if (strcmp(path, "/metrics") != 0)
        answer(fd, "404 Not Found", "there is only /metrics\n");
    else if (strcmp(method, "GET") != 0)
        answer(fd, "405 Method Not Allowed\r\nAllow: GET", "there is only GET\n");
    else
        answer_metrics(fd, metrics->timer);
}

static void *metrics_main(void *arg)
{
    const struct metrics *metrics = arg;

    for (;;) {
        int fd = accept4(metrics->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) {
            serve(metrics, fd);
            close(fd);
        } else if (errno != EINTR && errno != ECONNABORTED) {
            return NULL;
        }
    }
}

static int listen_on(uint16_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                   .sin_port = htons(port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    char what[64];

    if (fd < 0)
        die("no socket for the metrics", errno);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    snprintf(what, sizeof(what), "--metrics: cannot listen on 127.0.0.1:%u", port);
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 16) < 0)
        die(what, errno);
    return fd;
}

void metrics_start(struct metrics *metrics, const hwt_timer *timer, uint16_t port)
{
    metrics->timer = timer;
    metrics->listener = listen_on(port);
    int r = pthread_create(&metrics->thread, NULL, metrics_main, metrics);
    if (r != 0)
        die("no thread", r);
    pthread_setname_np(metrics->thread, "metrics");
}

void metrics_stop(struct metrics *metrics)
{
    shutdown(metrics->listener, SHUT_RDWR); /* accept() fails */
    pthread_join(metrics->thread, NULL);
    close(metrics->listener);
}
