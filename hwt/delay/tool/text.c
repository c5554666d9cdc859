/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/delay/tool/tool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Numbers, durations and instants ---- */

/* Digits alone; strtoull takes signs and white space too. */
static bool read_digits(const char **at, uint64_t *ret_number)
{
    char *end;

    if (**at < '0' || **at > '9')
        return false;
    errno = 0;
    *ret_number = strtoull(*at, &end, 10);
    *at = end;
    return errno == 0;
}

bool parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *ret_number)
{
    uint64_t number;

    if (!read_digits(&text, &number) || *text != '\0' || number < least || number > most)
        return false;
    *ret_number = number;
    return true;
}

bool parse_duration(const char *text, uint64_t *ret_duration)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {
        { "ns", 1 },          { "us", HWT_US(1) },    { "ms", HWT_MS(1) },    { "s", HWT_SEC(1) },
        { "m", HWT_SEC(60) }, { "h", HWT_SEC(3600) }, { "d", HWT_SEC(86400) }
    };
    uint64_t number;

    if (strcmp(text, "forever") == 0) {
        *ret_duration = HWT_NEVER;
        return true;
    }
    if (!read_digits(&text, &number))
        return false;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strcmp(text, units[i].name) == 0)
            return !__builtin_mul_overflow(number, units[i].ns, ret_duration);
    return false;
}

/* Reads what may follow whole seconds. ".5" is 500000000 ns. */
static bool read_fraction(const char **at, uint64_t *ret_ns)
{
    uint64_t unit = HWT_SEC(1);

    *ret_ns = 0;
    if (**at != '.')
        return true;
    do {
        ++*at;
        if (**at < '0' || **at > '9')
            return unit < HWT_SEC(1) && **at != '.';
        unit /= 10;
        *ret_ns += unit * (uint64_t)(**at - '0');
    } while (unit > 1);
    ++*at;
    return true;
}

static bool add_seconds(uint64_t seconds, uint64_t fraction, uint64_t *ret_time)
{
    return !__builtin_mul_overflow(seconds, HWT_SEC(1), ret_time) &&
           !__builtin_add_overflow(*ret_time, fraction, ret_time) && *ret_time != HWT_NEVER;
}

static bool parse_date(const char *text, uint64_t *ret_time)
{
    struct tm date = { 0 };
    char again[TIME_ROOM];
    uint64_t fraction;

    /* strptime is lenient, so the date that it has read, written again, must be the same. */
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &date);
    time_t seconds = timegm(&date);
    if (!end || seconds < 0 || strftime(again, sizeof(again), "%Y-%m-%dT%H:%M:%S", &date) == 0 ||
        strlen(again) != (size_t)(end - text) || memcmp(again, text, (size_t)(end - text)) != 0)
        return false;
    return read_fraction(&end, &fraction) && strcmp(end, "Z") == 0 &&
           add_seconds((uint64_t)seconds, fraction, ret_time);
}

bool parse_time(const char *text, uint64_t now, uint64_t *ret_time)
{
    uint64_t number, fraction;

    if (strcmp(text, "now") == 0) {
        *ret_time = now;
        return true;
    }
    if (text[0] == '+')
        return parse_duration(text + 1, &number) && number != HWT_NEVER &&
               !__builtin_add_overflow(now, number, ret_time) && *ret_time != HWT_NEVER;
    if (text[0] != '@')
        return parse_date(text, ret_time);
    text++;
    return read_digits(&text, &number) && read_fraction(&text, &fraction) && *text == '\0' &&
           add_seconds(number, fraction, ret_time);
}

uint64_t clock_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return HWT_SEC((uint64_t)now.tv_sec) + (uint64_t)now.tv_nsec;
}

void format_time(uint64_t time, char text[TIME_ROOM])
{
    time_t seconds = (time_t)(time / HWT_SEC(1));
    struct tm date;
    char head[TIME_ROOM - sizeof(".123456789Z") + 1];

    if (time == HWT_NEVER) {
        strcpy(text, "never");
        return;
    }
    strftime(head, sizeof(head), "%Y-%m-%dT%H:%M:%S", gmtime_r(&seconds, &date));
    snprintf(text, TIME_ROOM, "%s.%09" PRIu64 "Z", head, time % HWT_SEC(1));
}

/* ---- Bytes ---- */

void print_escaped(const void *bytes, size_t size)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < size; i++) {
        if (at[i] == '\\')
            fputs("\\\\", stdout);
        else if (at[i] >= ' ' && at[i] <= '~')
            putchar(at[i]);
        else
            printf("\\x%02x", at[i]);
    }
}

static int hex_digit(char c)
{
    const char *digits = "0123456789abcdef";
    const char *found = c == '\0' ? NULL : strchr(digits, c | 0x20);

    return found ? (int)(found - digits) : -1;
}

bool unescape(char *text, size_t *ret_size)
{
    char *to = text;

    for (const char *from = text; *from != '\0'; from++) {
        if (*from != '\\') {
            *to++ = *from;
        } else if (from[1] == '\\') {
            *to++ = *++from;
        } else {
            if (from[1] != 'x' || hex_digit(from[2]) < 0 || hex_digit(from[3]) < 0)
                return false;
            *to++ = (char)(hex_digit(from[2]) << 4 | hex_digit(from[3]));
            from += 3;
        }
    }
    *ret_size = (size_t)(to - text);
    return true;
}

void print_message(const hwt_delay_message *message)
{
    char due[TIME_ROOM];

    format_time(message->due, due);
    printf("%s\t", due);
    print_escaped(message->id, message->id_size);
    putchar('\t');
    print_escaped(message->payload, message->payload_size);
    putchar('\n');
}
