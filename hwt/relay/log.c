/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "hwt/relay/config.h"

enum { TEXT_MAX = 1024, LINE_ROOM = TEXT_MAX * 4 + 128 }; /* a byte becomes up to four */

static bool to_journal; /* written before there are threads */

/* systemd says which file of the process is the journal. */
void relay_log_begin(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    char own[64];
    struct stat stat;

    if (!stream || fstat(STDERR_FILENO, &stat) < 0)
        return;
    snprintf(own, sizeof(own), "%ju:%ju", (uintmax_t)stat.st_dev, (uintmax_t)stat.st_ino);
    to_journal = strcmp(stream, own) == 0;
}

/* The level of a format, which is passed then. */
static int read_level(const char **format)
{
    int level = 4;

    if ((*format)[0] == '<' && (*format)[1] >= '0' && (*format)[1] <= '7' && (*format)[2] == '>') {
        level = (*format)[1] - '0';
        *format += 3;
    }
    return level;
}

static size_t write_head(int level, unsigned shard, char *line, size_t room)
{
    static const char *const names[] = { "error",   "error",  "error", "error",
                                         "warning", "notice", "info",  "debug" };
    char date[RELAY_DUE_ROOM], where[32] = "";
    struct timespec now;

    if (shard != RELAY_NO_SHARD)
        snprintf(where, sizeof(where), "shard=%u ", shard);
    if (to_journal)
        return (size_t)snprintf(line, room, "<%d>level=%s %smsg=\"", level, names[level], where);
    clock_gettime(CLOCK_REALTIME, &now);
    relay_due_write((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec, date);
    return (size_t)snprintf(line, room, "time=%.23sZ level=%s %smsg=\"", date, names[level], where);
}

/* With what would end the text or the line in another form. Returns its length. */
static size_t write_quoted(const char *text, char *line)
{
    size_t length = 0;

    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            length += (size_t)sprintf(line + length, "\\%c", *text);
        else if ((unsigned char)*text < ' ' || *text == 0x7f)
            length += (size_t)sprintf(line + length, "\\x%02x", (unsigned)*text);
        else
            line[length++] = *text;
    }
    return length;
}

/* Whether a shard has said that last, within a minute. */
static bool is_repeated(unsigned shard, const char *text)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct {
        char text[TEXT_MAX];
        time_t time;
    } last[RELAY_SHARDS_MAX + 1];
    unsigned i = shard < RELAY_SHARDS_MAX ? shard : RELAY_SHARDS_MAX;
    struct timespec now;
    bool repeated;

    clock_gettime(CLOCK_BOOTTIME, &now);
    pthread_mutex_lock(&lock);
    repeated = strcmp(last[i].text, text) == 0 && now.tv_sec - last[i].time < 60;
    if (!repeated) {
        strcpy(last[i].text, text);
        last[i].time = now.tv_sec;
    }
    pthread_mutex_unlock(&lock);
    return repeated;
}

void relay_log(unsigned shard, const char *format, ...)
{
    char text[TEXT_MAX], line[LINE_ROOM];
    int level = read_level(&format);
    va_list arguments;
    size_t length;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (is_repeated(shard, text))
        return;
    length = write_head(level, shard, line, 128);
    length += write_quoted(text, line + length);
    line[length++] = '"';
    line[length++] = '\n';
    if (write(STDERR_FILENO, line, length) < 0) /* at once, so that threads' lines stay whole */
        return;                                 /* there is nobody to be told */
}
