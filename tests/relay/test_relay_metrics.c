/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The page of metrics, and the listener that serves it, whatever its clients say. */

#include "hwt/relay/program/metrics.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "check_main.h"
#include "hwt/relay/program/http.h"

static const struct relay_config config = {
    .space = "shop",
    .engine = "nats",
    .replica = "a",
    .replicas = { { "a", "b" }, 2 },
    .targets = { { "orders.>", "o\"\\" }, 2 },
    .shards = 2,
};

static void expect(const char *page, const char *line)
{
    ck_assert_msg(strstr(page, line), "no %s in %s", line, page);
}

START_TEST(a_page_of_no_shard_has_no_samples)
{
    char *page = relay_metrics_page(&config, NULL, 0);

    expect(page, "# TYPE hwt_relay_lateness_seconds histogram\n");
    expect(page, ",engine=\"nats\",space=\"shop\",replica=\"a\"} 1\n");
    ck_assert(!strstr(page, "{space=") && !strstr(page, "hwt_delay_"));
    free(page);
}
END_TEST

START_TEST(a_page_says_what_was_counted)
{
    static struct relay_counts counts[2];
    static struct relay_errors errors[3];
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    char path[64], command[128];
    hwt_delay *store;

    snprintf(path, sizeof(path), "relay-metrics-%d", (int)getpid());
    options.flags = HWT_DELAY_CREATE;
    options.segment_size = UINT64_C(16) << 20;
    ck_assert_int_eq(hwt_delay_open(path, &options, &store), 0);
    relay_count_set(&counts[0].position, 5);
    relay_count_set(&counts[0].last, 12);
    relay_count_set(&counts[1].position, 12);
    relay_count_set(&counts[1].last, 5);
    relay_count_set(&counts[1].watermark_due, UINT64_MAX);
    relay_count_add(&counts[1].repeats, 2);
    relay_count_add(&counts[1].repeats, 1);
    relay_count_lateness(&counts[1], HWT_MS(1));
    relay_count_lateness(&counts[1], HWT_MS(1) + 1);
    relay_count_lateness(&counts[1], HWT_SEC(301));
    relay_count_set(&counts[1].oldest_due, UINT64_MAX);
    relay_count_set(&counts[0].clock_ahead, (uint64_t)-HWT_MS(1500));
    relay_count_set(&counts[1].clock_ahead, HWT_MS(20));
    relay_count_set(&counts[0].trim_waits, 2);
    relay_count_set(&counts[0].failures_of[0], 3);
    relay_count_set(&counts[0].failures_of[1], 4);
    relay_count_set(&counts[0].dead_letters_of[RELAY_DEAD_SIZE], 5);
    relay_count_set(&errors[2].count[RELAY_CALL_SWAP], 6);
    const struct relay_metrics shards[] = {
        { 0, &counts[0], store, &errors[0], RELAY_READY },
        { 1, &counts[1], store, &errors[1], RELAY_BEHIND },
        { 2, NULL, NULL, &errors[2], RELAY_NO_BROKER }, /* it has not begun */
    };
    char *page = relay_metrics_page(&config, shards, 3);
    expect(page, "hwt_relay_ready{space=\"shop\",shard=\"0\"} 1\n");
    expect(page, "hwt_relay_ready{space=\"shop\",shard=\"1\"} 0\n");
    expect(page, "hwt_relay_ready{space=\"shop\",shard=\"2\"} 0\n");
    expect(page, "broker_errors_total{space=\"shop\",shard=\"2\",call=\"swap\"} 6\n");
    expect(page, "oldest_flight_age_seconds{space=\"shop\",shard=\"1\"} 0.000000000\n");
    ck_assert(!strstr(page, "oldest_flight_age_seconds{space=\"shop\",shard=\"0\"}"));
    ck_assert(!strstr(page, "hwt_relay_lease_age_seconds{"));
    expect(page, "clock_offset_seconds{space=\"shop\",shard=\"0\"} -1.500000000\n");
    expect(page, "clock_offset_seconds{space=\"shop\",shard=\"1\"} 0.020000000\n");
    expect(page, "trim_waits{space=\"shop\",shard=\"0\",replica=\"b\"} 1\n");
    ck_assert(!strstr(page, "trim_waits{space=\"shop\",shard=\"1\""));
    expect(page, "target_failures_total{space=\"shop\",shard=\"0\",pattern=\"orders.>\"} 3\n");
    expect(page, "target_failures_total{space=\"shop\",shard=\"0\",pattern=\"o\\\"\\\\\"} 4\n");
    expect(page, "by_reason_total{space=\"shop\",shard=\"0\",reason=\"size\"} 5\n");
    ck_assert(!strstr(page, "hwt_relay_owner{space=\"shop\",shard=\"2\"}"));
    expect(page, "hwt_relay_lag_messages{space=\"shop\",shard=\"0\"} 7\n");
    expect(page, "hwt_relay_lag_messages{space=\"shop\",shard=\"1\"} 0\n");
    expect(page, "hwt_relay_watermark_age_seconds{space=\"shop\",shard=\"1\"} 0.000000000\n");
    ck_assert(!strstr(page, "hwt_relay_watermark_age_seconds{space=\"shop\",shard=\"0\"}"));
    expect(page, "hwt_relay_repeats_refused_total{space=\"shop\",shard=\"1\"} 3\n");
    expect(page, "shard=\"1\",le=\"0.001\"} 1\n");
    expect(page, "shard=\"1\",le=\"0.002\"} 2\n");
    expect(page, "shard=\"1\",le=\"300\"} 2\n");
    expect(page, "shard=\"1\",le=\"+Inf\"} 3\n");
    expect(page, "hwt_relay_lateness_seconds_sum{space=\"shop\",shard=\"1\"} 301.002000001\n");
    expect(page, "hwt_delay_pending{store=\"shop.1\"} 0\n");
    free(page);
    ck_assert_int_eq(hwt_delay_close(store), 0);
    snprintf(command, sizeof(command), "rm -r %s", path);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

/* ---- the listener ---- */

static struct relay_http http;
static struct sockaddr_in address;

static char *make_page(void *arg, bool *ret_well)
{
    (void)ret_well;
    return arg ? strdup(arg) : NULL;
}

static char *make_fault(void *arg, bool *ret_well)
{
    (void)arg;
    *ret_well = false;
    return strdup("it is not well\n");
}

static const struct relay_http_page pages[] = { { "/metrics", make_page },
                                                { "/readyz", make_fault },
                                                { NULL, NULL } };

static void listen_with(char *page)
{
    socklen_t size = sizeof(address);

    ck_assert_int_eq(relay_http_begin(&http, "127.0.0.1:0", pages, page), 0);
    ck_assert_int_eq(getsockname(http.listener, (struct sockaddr *)&address, &size), 0);
}

/* Sends bytes, and whatever comes until the listener hangs up is in `answer`. */
static void talk(const char *bytes, size_t size, bool ends, char answer[1024])
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    size_t length = 0;
    ssize_t n;

    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(send(fd, bytes, size, MSG_NOSIGNAL), size);
    if (ends)
        shutdown(fd, SHUT_WR);
    while ((n = recv(fd, answer + length, 1023 - length, 0)) > 0)
        length += (size_t)n;
    answer[length] = 0;
    close(fd);
}

/* On a machine with much to do the request may be later than the listener waits: then it is made again. */
static void expect_answer(const char *request, const char *begins)
{
    char answer[1024] = "";

    while (!*answer)
        talk(request, strlen(request), false, answer);
    ck_assert_msg(strncmp(answer, begins, strlen(begins)) == 0, "%s: %s", request, answer);
}

START_TEST(each_request_has_its_answer)
{
    static char page[] = "page\n";

    listen_with(page);
    expect_answer("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\n");
    expect_answer("GET /metrics HTTP/1.0\n\n", "HTTP/1.1 200 OK\r\n");
    expect_answer("GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 404 ");
    expect_answer("GET /readyz HTTP/1.1\r\n\r\n", "HTTP/1.1 503 ");
    expect_answer("GET /metrics/ HTTP/1.1\r\n\r\n", "HTTP/1.1 404 ");
    expect_answer("PUT /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405 ");
    expect_answer("hello\r\n\r\n", "HTTP/1.1 400 ");
    relay_http_end(&http);
    listen_with(NULL);
    expect_answer("GET /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 503 ");
    relay_http_end(&http);
}
END_TEST

START_TEST(who_does_not_finish_gets_nothing)
{
    static char page[] = "page\n", long_request[4095];
    char answer[1024];

    listen_with(page);
    memset(long_request, 'x', sizeof(long_request));
    talk(long_request, sizeof(long_request), false, answer);
    ck_assert_str_eq(answer, "");
    talk("GET /met", 8, true, answer);
    ck_assert_str_eq(answer, "");
    talk("GET /met", 8, false, answer); /* for a second */
    ck_assert_str_eq(answer, "");
    expect_answer("GET /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n");
    relay_http_end(&http);
}
END_TEST

/* It takes a little again and again, so that each send goes on. With all of the page it would be at it for
 * minutes, and so would be who ends the listener. */
START_TEST(who_takes_the_page_slowly_does_not_get_all)
{
    static const char request[] = "GET /metrics HTTP/1.1\r\n\r\n";
    const struct timespec while_it_waits = { .tv_nsec = 10000000 };
    const size_t size = (size_t)64 << 20;
    int fd = socket(AF_INET, SOCK_STREAM, 0), room = 4096;
    char *page = malloc(size), part[4096];
    size_t length = 0;
    ssize_t n;

    memset(page, 'x', size - 1);
    page[size - 1] = 0;
    listen_with(page);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL), sizeof(request) - 1);
    while ((n = recv(fd, part, sizeof(part), 0)) > 0) {
        length += (size_t)n;
        nanosleep(&while_it_waits, NULL);
    }
    ck_assert_uint_lt(length, size);
    relay_http_end(&http);
    close(fd);
    free(page);
}
END_TEST

START_TEST(an_address_that_cannot_be_had_is_an_error)
{
    static char page[] = "page\n";
    struct relay_http other;
    char taken[32];

    listen_with(page);
    snprintf(taken, sizeof(taken), "127.0.0.1:%d", ntohs(address.sin_port));
    ck_assert_int_eq(relay_http_begin(&other, taken, pages, NULL), -EADDRINUSE);
    ck_assert_int_eq(relay_http_begin(&other, "192.0.2.1:1", pages, NULL), -EADDRNOTAVAIL);
    ck_assert_int_eq(relay_http_begin(&other, "nowhere", pages, NULL), -EINVAL);
    relay_http_end(&http);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("relay_metrics");
    TCase *tcase = tcase_create("metrics");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_page_of_no_shard_has_no_samples);
    tcase_add_test(tcase, a_page_says_what_was_counted);
    tcase_add_test(tcase, each_request_has_its_answer);
    tcase_add_test(tcase, who_does_not_finish_gets_nothing);
    tcase_add_test(tcase, who_takes_the_page_slowly_does_not_get_all);
    tcase_add_test(tcase, an_address_that_cannot_be_had_is_an_error);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
