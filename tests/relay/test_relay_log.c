/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The log's lines, at a terminal and for the journal. */

#include "hwt/relay/log.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check_main.h"

static FILE *errors;
static int saved;
static char said[8192];

static void begin(void)
{
    errors = tmpfile();
    saved = dup(2);
    ck_assert(errors && saved >= 0 && dup2(fileno(errors), 2) == 2);
}

/* What was logged is in said[] then. */
static void end(void)
{
    dup2(saved, 2);
    close(saved);
    rewind(errors);
    said[fread(said, 1, sizeof(said) - 1, errors)] = 0;
    fclose(errors);
}

/* Says that the journal is the file of that number. */
static void set_stream(int fd, unsigned more)
{
    char stream[64];
    struct stat stat;

    ck_assert_int_eq(fstat(fd, &stat), 0);
    snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)stat.st_dev,
             (uintmax_t)stat.st_ino + more);
    setenv("JOURNAL_STREAM", stream, 1);
}

/* Behind a time of 24 characters. */
static void expect_timed(const char *rest)
{
    ck_assert_msg(strncmp(said, "time=20", 7) == 0 && strlen(said) > 29 && said[28] == 'Z' &&
                      strcmp(said + 29, rest) == 0,
                  "%s is not %s", said, rest);
}

START_TEST(a_line_has_time_level_shard_and_text)
{
    begin();
    relay_log_begin();
    relay_log(3, RELAY_ERROR "the disk is %s", "full");
    end();
    expect_timed(" level=error shard=3 msg=\"the disk is full\"\n");
    begin();
    relay_log(RELAY_NO_SHARD, RELAY_INFO "all");
    end();
    expect_timed(" level=info msg=\"all\"\n");
    begin();
    relay_log(0, "without");
    end();
    expect_timed(" level=warning shard=0 msg=\"without\"\n");
}
END_TEST

START_TEST(the_journal_gets_the_level_and_no_time)
{
    begin();
    set_stream(2, 0);
    relay_log_begin();
    relay_log(0, RELAY_NOTICE "it has changed");
    end();
    ck_assert_str_eq(said, "<5>level=notice shard=0 msg=\"it has changed\"\n");
}
END_TEST

/* stderr may have been turned elsewhere since. */
START_TEST(another_file_is_no_journal)
{
    begin();
    set_stream(2, 1);
    relay_log_begin();
    relay_log(0, RELAY_NOTICE "it has changed again");
    end();
    expect_timed(" level=notice shard=0 msg=\"it has changed again\"\n");
}
END_TEST

START_TEST(a_text_stays_one_line_and_one_value)
{
    char longest[5000];

    begin();
    relay_log(0, "<9>%s",
              "a\n<3>level=error msg=\"b\\\"\t\x7f\x01"
              "c\xc3\xa9");
    end();
    expect_timed(" level=warning shard=0 "
                 "msg=\"<9>a\\x0a<3>level=error msg=\\\"b\\\\\\\"\\x09\\x7f\\x01"
                 "c\xc3\xa9\"\n");
    memset(longest, '\n', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = 0;
    begin();
    relay_log(0, "%s", longest);
    end();
    ck_assert_ptr_eq(strchr(said, '\n'), said + strlen(said) - 1);
    ck_assert_uint_gt(strlen(said), 4000);
}
END_TEST

START_TEST(what_was_said_last_is_not_said_again)
{
    begin();
    for (int i = 0; i < 3; i++) {
        relay_log(0, "no broker");
        relay_log(1, "no broker");
    }
    relay_log(0, "another");
    relay_log(0, "no broker");
    end();
    ck_assert_uint_eq(strlen(said), strlen("time=2026-11-22T10:00:00.500Z level=warning shard=0 "
                                           "msg=\"no broker\"\n") *
                                            3 +
                                        strlen("time=2026-11-22T10:00:00.500Z level=warning "
                                               "shard=0 msg=\"another\"\n"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("relay_log");
    TCase *tcase = tcase_create("lines");

    tcase_add_test(tcase, a_line_has_time_level_shard_and_text);
    tcase_add_test(tcase, the_journal_gets_the_level_and_no_time);
    tcase_add_test(tcase, another_file_is_no_journal);
    tcase_add_test(tcase, a_text_stays_one_line_and_one_value);
    tcase_add_test(tcase, what_was_said_last_is_not_said_again);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
