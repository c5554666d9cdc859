/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/header.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char first_line[] = "NATS/1.0";

static int compare(const void *a, const void *b)
{
    const struct relay_field *left = a, *right = b;
    int order = strcmp(left->name, right->name);

    return order != 0 ? order : (left->value > right->value) - (left->value < right->value);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static struct relay_field bad_line(char *line, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (line[i] == 0)
            line[i] = '?';
    return (struct relay_field){ "", line };
}

/* There is a byte 0 behind it. */
static struct relay_field read_line(char *line, size_t length)
{
    char *colon = memchr(line, ':', length), *value, *end = line + length;

    if (!colon || colon == line || is_blank(*line) || memchr(line, 0, length))
        return bad_line(line, length);
    *colon = 0;
    for (value = colon + 1; is_blank(*value); value++)
        ;
    while (end > value && is_blank(end[-1]))
        *--end = 0;
    return (struct relay_field){ line, value };
}

/* The length of a line, without its end. */
static size_t length_of(const char *line, const char *end)
{
    const char *feed = memchr(line, '\n', (size_t)(end - line));
    size_t length = (size_t)((feed ? feed : end) - line);

    return length > 0 && line[length - 1] == '\r' ? length - 1 : length;
}

static size_t count_lines(const char *bytes, size_t size)
{
    const char *at = bytes, *end = bytes + size;
    size_t count = 1;

    for (; (at = memchr(at, '\n', (size_t)(end - at))); at++)
        count++;
    return count;
}

/* Of a copy, which has a byte 0 behind it. */
static size_t read_lines(char *text, size_t size, struct relay_field *fields)
{
    char *at = text, *end = text + size, *next;
    bool is_over = false;
    size_t count = 0;

    for (; at < end; at = next) {
        size_t length = length_of(at, end);
        char *feed = memchr(at, '\n', (size_t)(end - at));
        next = feed ? feed + 1 : end;
        at[length] = 0;
        if (at == text && length >= strlen(first_line) &&
            memcmp(at, first_line, strlen(first_line)) == 0)
            continue;
        if (length == 0)
            is_over = true;
        else
            fields[count++] = is_over || at == text ? bad_line(at, length) : read_line(at, length);
    }
    return count;
}

int relay_header_read(const void *bytes, size_t size, struct relay_field **ret_fields,
                      size_t *ret_count)
{
    size_t lines = size > 0 ? count_lines(bytes, size) : 0, count;
    struct relay_field *fields = malloc(lines * sizeof(*fields) + size + 1);
    char *text;

    if (!fields)
        return -ENOMEM;
    text = (char *)(fields + lines);
    if (size > 0)
        memcpy(text, bytes, size);
    text[size] = 0;
    count = read_lines(text, size, fields);
    if (count <= 2 * RELAY_FIELDS_MAX)
        qsort(fields, count, sizeof(*fields), compare);
    *ret_fields = fields;
    *ret_count = count;
    return 0;
}

/* What would end a line becomes a blank. */
static char *put(char *at, const char *text)
{
    for (; *text; text++)
        *at++ = *text == '\r' || *text == '\n' ? ' ' : *text;
    return at;
}

char *relay_header_write(const char *id, const struct relay_field *fields, size_t count,
                         const char **ret_last)
{
    const struct relay_field first = { "Nats-Msg-Id", id ? id : "" };
    char *text = malloc(relay_fields_size(&first, 1) + relay_fields_size(fields, count));
    char *at = text;

    if (!text)
        return NULL;
    *ret_last = NULL;
    for (size_t i = id ? 0 : 1; i <= count; i++) {
        const struct relay_field *field = i == 0 ? &first : &fields[i - 1];
        if (*ret_last)
            at = stpcpy(put(stpcpy(at, ": "), *ret_last), "\r\n");
        at = put(at, field->name);
        *ret_last = field->value;
    }
    *at = 0;
    return text;
}
