/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/program/http.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "hwt/relay/address.h"

enum { REQUEST_MAX = 4096 };

static int listen_at(const struct addrinfo *at)
{
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1, error;

    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, 16) == 0)
        return fd;
    error = errno;
    close(fd);
    return -error;
}

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Until the empty line that ends it. False: it does not come in time, or is too long. */
static bool read_request(int fd, char request[REQUEST_MAX])
{
    uint64_t until = now_ms() + 1000, now;
    size_t length = 0;

    while (length + 1 < REQUEST_MAX && (now = now_ms()) < until) {
        struct pollfd ready = { .fd = fd, .events = POLLIN };
        ssize_t n = poll(&ready, 1, (int)(until - now)) == 1
                        ? recv(fd, request + length, REQUEST_MAX - 1 - length, MSG_DONTWAIT)
                        : 0;
        if (n <= 0)
            return false;
        length += (size_t)n;
        request[length] = 0;
        if (strstr(request, "\r\n\r\n") || strstr(request, "\n\n"))
            return true;
    }
    return false;
}

/* False: not all was taken in time. */
static bool send_all(int fd, const char *text, uint64_t until)
{
    size_t length = strlen(text);
    uint64_t now;

    while (length > 0 && (now = now_ms()) < until) {
        struct pollfd ready = { .fd = fd, .events = POLLOUT };
        ssize_t n = poll(&ready, 1, (int)(until - now)) == 1
                        ? send(fd, text, length, MSG_NOSIGNAL | MSG_DONTWAIT)
                        : 0;
        if (n <= 0)
            return false;
        length -= (size_t)n;
        text += n;
    }
    return length == 0;
}

static void answer(int fd, const char *status, const char *body)
{
    const uint64_t until = now_ms() + 5000;
    char head[256];

    snprintf(head, sizeof(head),
             "HTTP/1.1 %s\r\n"
             "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
             "Content-Length: %zu\r\n"
             "Connection: close\r\n\r\n",
             status, strlen(body));
    if (send_all(fd, head, until))
        send_all(fd, body, until);
}

static void answer_page(const struct relay_http *http, const struct relay_http_page *page, int fd)
{
    bool well = true;
    char *text = page->make(http->arg, &well);

    answer(fd, text && well ? "200 OK" : "503 Service Unavailable", text ? text : "no memory\n");
    free(text);
}

static const struct relay_http_page *find_page(const struct relay_http *http, const char *path)
{
    const struct relay_http_page *page = http->pages;

    while (page->path && strcmp(page->path, path) != 0)
        page++;
    return page->path ? page : NULL;
}

static void serve(const struct relay_http *http, int fd)
{
    char request[REQUEST_MAX], method[16], path[256], version;
    const struct relay_http_page *page;

    if (!read_request(fd, request))
        return;
    if (sscanf(request, "%15s %255s HTTP/1.%c", method, path, &version) != 3)
        answer(fd, "400 Bad Request", "this is not HTTP\n");
    else if (!(page = find_page(http, path)))
        answer(fd, "404 Not Found", "there is no such page\n");
    else if (strcmp(method, "GET") != 0)
        answer(fd, "405 Method Not Allowed\r\nAllow: GET", "there is only GET\n");
    else
        answer_page(http, page, fd);
}

static void *run(void *arg)
{
    const struct relay_http *http = arg;
    const struct timespec a_while = { .tv_nsec = 100000000 };

    for (;;) {
        int fd = accept4(http->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) {
            serve(http, fd);
            close(fd);
        } else if (errno == EINVAL || errno == EBADF) {
            return NULL; /* it was shut down */
        } else if (errno != EINTR && errno != ECONNABORTED) {
            nanosleep(&a_while, NULL); /* there are too many descriptors, or too little memory */
        }
    }
}

int relay_http_begin(struct relay_http *http, const char *address,
                     const struct relay_http_page *pages, void *arg)
{
    struct addrinfo *at = relay_address_read(address);
    int r;

    if (!at)
        return -EINVAL;
    *http = (struct relay_http){ .listener = listen_at(at), .pages = pages, .arg = arg };
    freeaddrinfo(at);
    if (http->listener < 0)
        return http->listener;
    r = pthread_create(&http->thread, NULL, run, http);
    if (r != 0)
        close(http->listener);
    return -r;
}

void relay_http_end(struct relay_http *http)
{
    shutdown(http->listener, SHUT_RDWR);
    pthread_join(http->thread, NULL);
    close(http->listener);
}
