/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/message.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define SECOND UINT64_C(1000000000)

bool relay_number_read(const char *text, uint64_t *ret_number)
{
    uint64_t number = 0;

    if (!*text)
        return false;
    for (; *text; text++) {
        uint64_t digit = (uint64_t)(*text - '0');
        if (*text < '0' || *text > '9' || number > (UINT64_MAX - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    *ret_number = number;
    return true;
}

/* `count` digits, and `end` behind them unless it is 0. */
static bool digits_read(const char **text, int count, char end, int *ret_number)
{
    *ret_number = 0;
    for (int i = 0; i < count; i++) {
        if (**text < '0' || **text > '9')
            return false;
        *ret_number = *ret_number * 10 + (*(*text)++ - '0');
    }
    return end == 0 || *(*text)++ == end;
}

/* Digits behind a point, of which the first nine count. */
static bool fraction_read(const char **text, uint64_t *ret_nanoseconds)
{
    uint64_t unit = SECOND / 10;

    *ret_nanoseconds = 0;
    if (**text != '.')
        return true;
    ++*text;
    if (**text < '0' || **text > '9')
        return false;
    for (; **text >= '0' && **text <= '9'; ++*text) {
        *ret_nanoseconds += unit * (uint64_t)(**text - '0');
        unit /= 10;
    }
    return true;
}

/* "Z", "+01:00" or "-01:00", and nothing behind it. */
static bool zone_read(const char *text, int64_t *ret_seconds)
{
    int hours, minutes;
    char sign = *text++;

    *ret_seconds = 0;
    if (sign == 'Z' || sign == 'z')
        return !*text;
    if ((sign != '+' && sign != '-') || !digits_read(&text, 2, ':', &hours) ||
        !digits_read(&text, 2, 0, &minutes) || *text || hours > 23 || minutes > 59)
        return false;
    *ret_seconds = (sign == '-' ? -60 : 60) * (int64_t)(hours * 60 + minutes);
    return true;
}

static bool day_exists(int year, int month, int day)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

    return month >= 1 && month <= 12 && day >= 1 &&
           day <= days[month - 1] + (month == 2 && leap ? 1 : 0);
}

static bool rfc3339_read(const char *text, uint64_t *ret_due)
{
    struct tm date = { 0 };
    uint64_t fraction;
    int64_t zone, seconds;

    if (!digits_read(&text, 4, '-', &date.tm_year) || !digits_read(&text, 2, '-', &date.tm_mon) ||
        !digits_read(&text, 2, 0, &date.tm_mday) || (*text != 'T' && *text != 't'))
        return false;
    text++;
    if (!digits_read(&text, 2, ':', &date.tm_hour) || !digits_read(&text, 2, ':', &date.tm_min) ||
        !digits_read(&text, 2, 0, &date.tm_sec) || !fraction_read(&text, &fraction) ||
        !zone_read(text, &zone))
        return false;
    if (!day_exists(date.tm_year, date.tm_mon, date.tm_mday) || date.tm_hour > 23 ||
        date.tm_min > 59 || date.tm_sec > 60) /* 60: a leap second */
        return false;
    date.tm_year -= 1900;
    date.tm_mon--;
    seconds = (int64_t)timegm(&date) - zone;
    if (seconds < 0 || (uint64_t)seconds > (RELAY_DUE_MAX - fraction) / SECOND)
        return false;
    *ret_due = (uint64_t)seconds * SECOND + fraction;
    return *ret_due <= RELAY_DUE_MAX;
}

bool relay_due_read(const char *text, uint64_t *ret_due)
{
    uint64_t milliseconds;

    if (!relay_number_read(text, &milliseconds))
        return rfc3339_read(text, ret_due);
    if (milliseconds > RELAY_DUE_MAX / 1000000)
        return false;
    *ret_due = milliseconds * 1000000;
    return true;
}

void relay_due_write(uint64_t due, char text[RELAY_DUE_ROOM])
{
    time_t seconds = (time_t)(due / SECOND);
    struct tm date;
    size_t length;

    gmtime_r(&seconds, &date);
    length = strftime(text, RELAY_DUE_ROOM, "%Y-%m-%dT%H:%M:%S", &date);
    snprintf(text + length, RELAY_DUE_ROOM - length, ".%09uZ", (unsigned)(due % SECOND));
}
