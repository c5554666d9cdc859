/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The structs of hwt/delay.h: programs that know shorter or longer ones than the library, and what
 * the library writes of them for Prometheus.
 */

#include "tests/delay/support/delay_fixture.h"

/*
 * Programs that are built already know these places, on machines of 64 bits. What has no size does not
 * become longer.
 */
#define AT(type, field, offset)                                                                    \
    _Static_assert(sizeof(void *) != 8 || offsetof(type, field) == (offset), #type "." #field)
#define OF(type, size) _Static_assert(sizeof(void *) != 8 || sizeof(type) == (size), #type)

AT(hwt_delay_options, flags, 8);
AT(hwt_delay_options, payload_max, 12);
AT(hwt_delay_options, lease, 16);
AT(hwt_delay_options, leased_max, 24);
AT(hwt_delay_options, memory, 32);
AT(hwt_delay_options, segment_size, 40);
AT(hwt_delay_options, clock_leap, 48);
AT(hwt_delay_message, due, 0);
AT(hwt_delay_message, id, 8);
AT(hwt_delay_message, id_size, 16);
AT(hwt_delay_message, payload, 24);
AT(hwt_delay_message, payload_size, 32);
AT(hwt_delay_message, lease, 40);
AT(hwt_delay_message, retries, 48);
AT(hwt_delay_message, expired, 52);
AT(hwt_delay_message, deliveries, 56);
AT(hwt_delay_message, first_due, 64);
OF(hwt_delay_message, 88);
AT(hwt_delay_change, op, 0);
AT(hwt_delay_change, flags, 4);
AT(hwt_delay_change, result, 8);
AT(hwt_delay_change, message, 16);
AT(hwt_delay_change, lease, 24);
AT(hwt_delay_change, due, 32);
AT(hwt_delay_change, id, 40);
AT(hwt_delay_change, id_size, 48);
AT(hwt_delay_change, mark, 56);
AT(hwt_delay_change, ticket, 64);
OF(hwt_delay_change, 88);
AT(hwt_delay_batch, flags, 8);
AT(hwt_delay_batch, note, 16);
AT(hwt_delay_batch, note_size, 24);
AT(hwt_delay_batch, durable, 32);
AT(hwt_delay_batch, arg, 40);
AT(hwt_delay_batch, mark, 48);
AT(hwt_delay_stats, pending, 8);
AT(hwt_delay_stats, gaps, 200);
AT(hwt_delay_stats, held, 208);
AT(hwt_delay_stats, lateness_max, 224);
AT(hwt_delay_stats, lateness, 232);
AT(hwt_delay_stats, lateness_sum, 744);
AT(hwt_delay_damage, file, 8);
AT(hwt_delay_damage, offset, 16);
AT(hwt_delay_damage, length, 24);
AT(hwt_delay_damage, reason, 32);

static hwt_delay *store;

/* As a later release may have them. */
struct later_options {
    hwt_delay_options now;
    uint64_t more[2];
};
struct later_stats {
    hwt_delay_stats now;
    uint64_t more[2];
};

static void setup(void)
{
    make_directory_name();
    store = NULL;
}

static void teardown(void)
{
    ck_assert_int_eq(hwt_delay_close(store), 0);
    remove_store();
}

static void open_small(void)
{
    hwt_delay_options options = small_options();
    ck_assert_int_eq(hwt_delay_open(store_directory, &options, &store), 0);
}

/* ---- options ---- */

START_TEST(init_sets_what_the_macro_sets)
{
    const hwt_delay_options wanted = HWT_DELAY_OPTIONS_INIT;
    struct later_options later;
    memset(&later, 1, sizeof(later));
    ck_assert_int_eq(hwt_delay_options_init(&later.now, sizeof(later)), 0);
    ck_assert_uint_eq(later.now.size, sizeof(later));
    ck_assert_uint_eq(later.more[0] | later.more[1], 0);
    later.now.size = sizeof(wanted);
    ck_assert_mem_eq(&later, &wanted, sizeof(wanted));

    memset(&later, 1, sizeof(later));
    size_t shorter = offsetof(hwt_delay_options, memory);
    ck_assert_int_eq(hwt_delay_options_init(&later.now, shorter), 0);
    ck_assert_uint_eq(later.now.leased_max, wanted.leased_max);
    ck_assert_uint_eq(later.now.memory, UINT64_C(0x0101010101010101));

    ck_assert_int_eq(hwt_delay_options_init(NULL, sizeof(wanted)), -EINVAL);
    ck_assert_int_eq(hwt_delay_options_init(&later.now, 7), -EINVAL);
    ck_assert_int_eq(hwt_delay_options_init(&later.now, sizeof(size_t)), -EINVAL);
    ck_assert_uint_eq(later.now.size, shorter);
}
END_TEST

/* A program that was built with fewer options, and one that was built with more of them. */
START_TEST(programs_of_other_releases_open_a_store)
{
    struct later_options later = { .now = small_options() };
    later.now.size = offsetof(hwt_delay_options, leased_max);
    later.now.leased_max = later.now.memory = 1; /* beyond its struct */
    ck_assert_int_eq(hwt_delay_open(store_directory, &later.now, &store), 0);
    ck_assert_int_eq(hwt_delay_close(store), 0);
    store = NULL;

    later.now = small_options();
    later.now.size = sizeof(later);
    later.more[1] = 1;
    ck_assert_int_eq(hwt_delay_open(store_directory, &later.now, &store), -EINVAL);
    later.more[1] = 0;
    ck_assert_int_eq(hwt_delay_open(store_directory, &later.now, &store), 0);
}
END_TEST

START_TEST(options_of_zeros_are_the_defaults)
{
    static char payload[(1 << 20) + 1];
    const hwt_delay_options options = { .size = sizeof(options), .flags = HWT_DELAY_CREATE };
    ck_assert_int_eq(hwt_delay_open(store_directory, &options, &store), 0);
    hwt_delay_message message = message_of(1, "x", "");
    message.payload = payload;
    message.payload_size = sizeof(payload);
    ck_assert_int_eq(hwt_delay_put(store, &message, 1), -EMSGSIZE);
    message.payload_size--;
    ck_assert_int_eq(hwt_delay_put(store, &message, 1), 0);
    const hwt_delay_message *taken;
    ck_assert_int_eq(hwt_delay_take(store, 1, 0, &taken), 1);
    hwt_delay_free(taken);
}
END_TEST

/* ---- messages ---- */

START_TEST(what_is_reserved_is_zero)
{
    open_small();
    hwt_delay_message message = message_of(1, "x", "y");
    for (int i = 0; i < 2; i++) {
        message.reserved[i] = 1;
        ck_assert_int_eq(hwt_delay_put(store, &message, 1), -EINVAL);
        ck_assert_int_eq(hwt_delay_replace(store, 1, "x", 1, &message), -EINVAL);
        message.reserved[i] = 0;
    }
    ck_assert_int_eq(hwt_delay_put(store, &message, 1), 0);
    const hwt_delay_message *taken;
    ck_assert_int_eq(hwt_delay_take(store, 1, 0, &taken), 1);
    ck_assert_mem_eq(taken->reserved, message.reserved, sizeof(message.reserved));
    hwt_delay_free(taken);
}
END_TEST

/* ---- stats ---- */

START_TEST(programs_of_other_releases_read_stats)
{
    struct later_stats stats;
    open_small();
    hwt_delay_message message = message_of(1, "x", "y");
    ck_assert_int_eq(hwt_delay_put(store, &message, 1), 0);
    for (size_t size = 0; size <= sizeof(stats); size++) {
        size_t least = offsetof(hwt_delay_stats, lateness_max);
        memset(&stats, 1, sizeof(stats));
        int wanted = size >= least && size % 8 == 0 ? 0 : -EINVAL;
        ck_assert_int_eq(hwt_delay_stats_init(&stats.now, size), wanted);
        stats.now.size = size;
        ck_assert_int_eq(hwt_delay_get_stats(store, &stats.now), wanted);
        if (wanted < 0)
            continue;
        const unsigned char *bytes = (const unsigned char *)&stats;
        ck_assert_uint_eq(stats.now.put, 1);
        ck_assert_uint_eq(stats.now.size, size);
        ck_assert(size == sizeof(stats) || bytes[size] == 1);
        ck_assert(size < sizeof(stats) || (stats.more[0] | stats.more[1]) == 0);
    }
    ck_assert_int_eq(hwt_delay_stats_init(NULL, sizeof(stats)), -EINVAL);
    ck_assert_int_eq(hwt_delay_get_stats(store, NULL), -EINVAL);
}
END_TEST

/* ---- a page ---- */

static char page[65536];

static unsigned count_of(const char *text)
{
    unsigned count = 0;
    for (const char *at = page; (at = strstr(at, text)); at++)
        count++;
    return count;
}

static void expect_line(const char *line)
{
    ck_assert_msg(strstr(page, line), "no line %s in\n%s", line, page);
}

static void fill(hwt_delay_stats *stats, uint64_t n)
{
    ck_assert_int_eq(hwt_delay_stats_init(stats, sizeof(*stats)), 0);
    stats->pending = n;
    stats->held = (uint32_t)n;
    stats->lateness[0] = n;
    stats->lateness[9] = n;  /* up to 1.023 us */
    stats->lateness[10] = n; /* up to 2.047 us */
    stats->lateness[63] = n;
    stats->lateness_sum = 3 * HWT_SEC(1) + n;
    stats->lateness_max = HWT_MS(n);
}

START_TEST(a_page_of_two_stores_describes_each_metric_once)
{
    static const char *const names[] = { "plain", "a\\b\"c\nd" };
    hwt_delay_stats stats[2];
    fill(&stats[0], 1);
    fill(&stats[1], 2);
    int64_t length = hwt_delay_stats_prometheus(stats, names, 2, page, sizeof(page));
    ck_assert_int_eq(length, (int64_t)strlen(page));
    ck_assert_uint_eq(count_of("# HELP hwt_delay_pending "), 1);
    ck_assert_uint_eq(count_of("# TYPE hwt_delay_lateness_seconds histogram\n"), 1);
    ck_assert_uint_eq(count_of("# HELP "), count_of("# TYPE "));
    ck_assert_uint_eq(count_of("_bucket{store=\"plain\","), 27);
    expect_line("\nhwt_delay_pending{store=\"plain\"} 1\n"
                "hwt_delay_pending{store=\"a\\\\b\\\"c\\nd\"} 2\n");
    expect_line("\nhwt_delay_held{store=\"plain\"} 1\n");
    expect_line("\nhwt_delay_lateness_seconds_bucket{store=\"plain\",le=\"0.000001023\"} 2\n");
    expect_line("\nhwt_delay_lateness_seconds_bucket{store=\"plain\",le=\"0.000002047\"} 3\n");
    expect_line("\nhwt_delay_lateness_seconds_bucket{store=\"plain\",le=\"34.359738367\"} 3\n");
    expect_line("\nhwt_delay_lateness_seconds_bucket{store=\"plain\",le=\"+Inf\"} 4\n");
    expect_line("\nhwt_delay_lateness_seconds_sum{store=\"plain\"} 3.000000001\n");
    expect_line("\nhwt_delay_lateness_seconds_count{store=\"plain\"} 4\n");
    expect_line("\nhwt_delay_lateness_max_seconds{store=\"plain\"} 0.001000000\n");
}
END_TEST

START_TEST(each_metric_is_its_own_number)
{
    hwt_delay_stats stats;
    const struct {
        const char *name;
        uint64_t *field;
    } metrics[] = {
        { "pending", &stats.pending },
        { "leased", &stats.leased },
        { "put_total", &stats.put },
        { "cancelled_total", &stats.cancelled },
        { "taken_total", &stats.taken },
        { "done_total", &stats.done },
        { "retried_total", &stats.retried },
        { "expired_total", &stats.expired },
        { "rejected_total", &stats.rejected },
        { "commits_total", &stats.commits },
        { "syncs_total", &stats.syncs },
        { "log_bytes_total", &stats.log_bytes },
        { "slot_bytes_total", &stats.slot_bytes },
        { "checkpoints_total", &stats.checkpoints },
        { "salvaged_total", &stats.salvaged },
        { "clock_leaps_total", &stats.clock_leaps },
        { "memory_bytes", &stats.memory },
        { "disk_bytes", &stats.disk },
        { "slots", &stats.files },
        { "gaps", &stats.gaps },
    };
    const size_t count = sizeof(metrics) / sizeof(metrics[0]);
    char line[100];
    fill(&stats, 1);
    for (size_t i = 0; i < count; i++)
        *metrics[i].field = 1000 + i;
    stats.held = 2000;
    stats.full = 2001;
    stats.poisoned = 2002;
    ck_assert_int_gt(hwt_delay_stats_prometheus(&stats, NULL, 1, page, sizeof(page)), 0);
    for (size_t i = 0; i < count; i++) {
        snprintf(line, sizeof(line), "\nhwt_delay_%s %zu\n", metrics[i].name, 1000 + i);
        expect_line(line);
    }
    expect_line("\nhwt_delay_held 2000\n");
    expect_line("\nhwt_delay_full 2001\n");
    expect_line("\nhwt_delay_poisoned 2002\n");
    ck_assert_uint_eq(count_of("# TYPE "), count + 3 + 2); /* and the histogram, and its maximum */
}
END_TEST

START_TEST(a_page_of_one_store_needs_no_name)
{
    hwt_delay_stats stats;
    fill(&stats, 7);
    int64_t length = hwt_delay_stats_prometheus(&stats, NULL, 1, NULL, 0);
    ck_assert_int_eq(hwt_delay_stats_prometheus(&stats, NULL, 1, page, sizeof(page)), length);
    expect_line("\nhwt_delay_pending 7\n");
    expect_line("\nhwt_delay_lateness_seconds_bucket{le=\"+Inf\"} 28\n");
    expect_line("\nhwt_delay_lateness_seconds_count 28\n");
    ck_assert_uint_eq(count_of("store="), 0);
    char whole[sizeof(page)];
    memcpy(whole, page, sizeof(page));
    ck_assert_int_eq(hwt_delay_stats_prometheus(&stats, NULL, 1, page, 100), length);
    ck_assert_uint_eq(strlen(page), 99);
    ck_assert_mem_eq(page, whole, 99);
}
END_TEST

/* The stride is the caller's; who does not know the histogram gets none. */
START_TEST(pages_of_shorter_and_longer_stats)
{
    static const char *const names[] = { "a", "b" };
    struct later_stats later[2];
    uint64_t shorter[2 * sizeof(hwt_delay_stats) / 8];
    size_t size = offsetof(hwt_delay_stats, lateness_max);
    for (int i = 0; i < 2; i++) {
        fill(&later[i].now, 5 + (uint64_t)i);
        later[i].now.size = size;
        memcpy((char *)shorter + (size_t)i * size, &later[i], size);
        later[i].now.size = sizeof(later[i]);
    }
    ck_assert_int_gt(hwt_delay_stats_prometheus(&later[0].now, names, 2, page, sizeof(page)), 0);
    expect_line("\nhwt_delay_pending{store=\"b\"} 6\n");
    expect_line("\nhwt_delay_lateness_seconds_count{store=\"b\"} 24\n");
    ck_assert_int_gt(hwt_delay_stats_prometheus((const hwt_delay_stats *)(const void *)shorter,
                                                names, 2, page, sizeof(page)),
                     0);
    expect_line("\nhwt_delay_pending{store=\"b\"} 6\n");
    ck_assert_uint_eq(count_of("lateness"), 0);
}
END_TEST

START_TEST(a_page_that_cannot_be_written)
{
    static const char *const names[] = { "a", NULL };
    hwt_delay_stats stats[2];
    fill(&stats[0], 1);
    fill(&stats[1], 1);
    ck_assert_int_eq(hwt_delay_stats_prometheus(NULL, NULL, 1, page, 10), -EINVAL);
    ck_assert_int_eq(hwt_delay_stats_prometheus(stats, NULL, 0, page, 10), -EINVAL);
    ck_assert_int_eq(hwt_delay_stats_prometheus(stats, NULL, 2, page, 10), -EINVAL);
    ck_assert_int_eq(hwt_delay_stats_prometheus(stats, names, 2, page, 10), -EINVAL);
    ck_assert_int_eq(hwt_delay_stats_prometheus(stats, NULL, 1, NULL, 10), -EINVAL);
    stats[1].size += 8;
    ck_assert_int_eq(hwt_delay_stats_prometheus(stats, names, 1, page, 10) > 0, 1);
    static const char *const both[] = { "a", "b" };
    ck_assert_int_eq(hwt_delay_stats_prometheus(stats, both, 2, page, 10), -EINVAL);
    stats[0].size = offsetof(hwt_delay_stats, lateness_max) - 8;
    ck_assert_int_eq(hwt_delay_stats_prometheus(stats, NULL, 1, page, 10), -EINVAL);
}
END_TEST

/* What the header says of errors is more than the system knows of them. */
START_TEST(test_errors_have_words)
{
    static const int errors[] = { EINVAL, ENOENT,   ENOTEMPTY, ENOTDIR,         EACCES,   EROFS,
                                  ENOSPC, EMFILE,   ENFILE,    EAGAIN,          ENOMEM,   EBUSY,
                                  EEXIST, EPERM,    ENOTSUP,   EPROTONOSUPPORT, EBADMSG,  ESTALE,
                                  EIO,    EMSGSIZE, ENOBUFS,   ETIME,           ECANCELED };
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        const char *text = hwt_delay_strerror(-errors[i]);
        ck_assert_ptr_eq(text, hwt_delay_strerror(errors[i]));
        ck_assert_str_ne(text, strerror(errors[i]));
        ck_assert_ptr_null(strchr(text, '\n'));
    }
    ck_assert_str_eq(hwt_delay_strerror(-EDOM), strerror(EDOM));
    ck_assert_ptr_nonnull(strstr(hwt_delay_strerror(INT_MIN), "-2147483648"));
    ck_assert_ptr_nonnull(strstr(hwt_delay_strerror(-EBADMSG), "damaged"));
    ck_assert_ptr_nonnull(strstr(hwt_delay_strerror(-ETIME), "clock"));
    ck_assert_ptr_nonnull(strstr(hwt_delay_strerror(-ENOBUFS), "leased"));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_structs");
    TCase *tcase = tcase_create("structs");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, init_sets_what_the_macro_sets);
    tcase_add_test(tcase, programs_of_other_releases_open_a_store);
    tcase_add_test(tcase, options_of_zeros_are_the_defaults);
    tcase_add_test(tcase, what_is_reserved_is_zero);
    tcase_add_test(tcase, programs_of_other_releases_read_stats);
    tcase_add_test(tcase, a_page_of_two_stores_describes_each_metric_once);
    tcase_add_test(tcase, each_metric_is_its_own_number);
    tcase_add_test(tcase, a_page_of_one_store_needs_no_name);
    tcase_add_test(tcase, pages_of_shorter_and_longer_stats);
    tcase_add_test(tcase, a_page_that_cannot_be_written);
    tcase_add_test(tcase, test_errors_have_words);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
