/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/watermark.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool relay_watermark_covers(const struct relay_watermark *watermark,
                            const struct relay_place *place, uint64_t due)
{
    const struct relay_place *mark = &watermark->place;

    return place->incarnation == mark->incarnation && place->position <= mark->position &&
           place->timestamp <= mark->timestamp && due <= watermark->due;
}

/* ---- Texts: name=value, with a blank between ---- */

/* A value that is read: a number, or else a word of up to RELAY_NAME_MAX. */
struct want {
    const char *name;
    uint64_t *number;
    char *word;
    bool may_lack;
};

enum { WANTS_MAX = 16 };

static bool read_value(const struct want *want, const char *value, size_t length)
{
    char copy[RELAY_NAME_MAX];

    if (length == 0 || length >= sizeof(copy))
        return false;
    memcpy(copy, value, length);
    copy[length] = 0;
    if (want->number)
        return relay_number_read(copy, want->number);
    strcpy(want->word, copy);
    return true;
}

/* A word of another name is a later version's. Each that is wanted is there once. */
static int read_words(const char *text, const struct want *wants, size_t count)
{
    bool seen[WANTS_MAX] = { false };

    while (*text) {
        size_t length = strcspn(text, " "), name = strcspn(text, "= ");
        if (name == 0 || name == length)
            return -EBADMSG;
        for (size_t i = 0; i < count; i++) {
            if (strlen(wants[i].name) != name || strncmp(wants[i].name, text, name) != 0)
                continue;
            if (seen[i] || !read_value(&wants[i], text + name + 1, length - name - 1))
                return -EBADMSG;
            seen[i] = true;
        }
        text += length;
        text += *text == ' ' && text[1] != 0;
        if (*text == ' ')
            return -EBADMSG;
    }
    for (size_t i = 0; i < count; i++)
        if (!seen[i] && !wants[i].may_lack)
            return -EBADMSG;
    return 0;
}

#define PLACE_WANTS(place)                                                                         \
    { .name = "incarnation", .number = &(place).incarnation },                                     \
        { .name = "position", .number = &(place).position },                                       \
    {                                                                                              \
        .name = "timestamp", .number = &(place).timestamp                                          \
    }

/* Returns its length. */
static size_t write_place(const struct relay_place *place, char *text, size_t room)
{
    return (size_t)snprintf(text, room,
                            "incarnation=%" PRIu64 " position=%" PRIu64 " timestamp=%" PRIu64,
                            place->incarnation, place->position, place->timestamp);
}

void relay_entry_write(const struct relay_entry *entry, char text[RELAY_ENTRY_MAX])
{
    const struct relay_watermark *mark = &entry->watermark;
    size_t length = (size_t)snprintf(text, RELAY_ENTRY_MAX, "owner=%s life=%" PRIu64 " ",
                                     entry->owner, entry->life);

    length += write_place(&mark->place, text + length, RELAY_ENTRY_MAX - length);
    snprintf(text + length, RELAY_ENTRY_MAX - length, " due=%" PRIu64, mark->due);
}

int relay_entry_read(const char *text, struct relay_entry *ret_entry)
{
    struct relay_entry entry = { .owner = "-" };
    const struct want wants[] = { { .name = "owner", .word = entry.owner },
                                  { .name = "life", .number = &entry.life },
                                  PLACE_WANTS(entry.watermark.place),
                                  { .name = "due", .number = &entry.watermark.due } };
    int r = *text ? read_words(text, wants, sizeof(wants) / sizeof(wants[0])) : 0;

    if (r == 0)
        *ret_entry = entry;
    return r;
}

bool relay_place_is_forgotten(const struct relay_place *place)
{
    return place->incarnation == UINT64_MAX;
}

void relay_note_write(const struct relay_place *place, const struct relay_place *top,
                      char text[RELAY_ENTRY_MAX])
{
    size_t length = write_place(place, text, RELAY_ENTRY_MAX);

    snprintf(text + length, RELAY_ENTRY_MAX - length, " top=%" PRIu64 " top_timestamp=%" PRIu64,
             top->position, top->timestamp);
}

int relay_note_read(const char *text, struct relay_place *ret_place, struct relay_place *ret_top)
{
    struct relay_place place = { 0, 0, 0 }, top = { 0, 0, 0 };
    const struct want wants[] = { PLACE_WANTS(place),
                                  { .name = "top", .number = &top.position },
                                  { .name = "top_timestamp", .number = &top.timestamp } };
    int r = *text ? read_words(text, wants, sizeof(wants) / sizeof(wants[0])) : 0;

    if (r < 0)
        return r;
    top.incarnation = place.incarnation;
    *ret_place = place;
    *ret_top = top;
    return 0;
}

void relay_member_write(const struct relay_member *member, char text[RELAY_ENTRY_MAX])
{
    size_t length = write_place(&member->place, text, RELAY_ENTRY_MAX);

    length += (size_t)snprintf(text + length, RELAY_ENTRY_MAX - length,
                               " life=%" PRIu64 " ready=%d", member->life, member->ready);
    if (member->policy > 0)
        length += (size_t)snprintf(text + length, RELAY_ENTRY_MAX - length, " policy=%" PRIu64,
                                   member->policy);
    if (*member->why)
        length += (size_t)snprintf(text + length, RELAY_ENTRY_MAX - length, " why=%s", member->why);
    if (*member->server && !strpbrk(member->server, " \t"))
        length +=
            (size_t)snprintf(text + length, RELAY_ENTRY_MAX - length, " server=%s", member->server);
    if (member->lease > 0)
        snprintf(text + length, RELAY_ENTRY_MAX - length, " lease=%" PRIu64, member->lease);
}

int relay_member_read(const char *text, struct relay_member *ret_member)
{
    struct relay_member member = { .ready = false };
    uint64_t ready = 0;
    const struct want wants[] = {
        PLACE_WANTS(member.place),
        { .name = "life", .number = &member.life },
        { .name = "ready", .number = &ready },
        { .name = "policy", .number = &member.policy, .may_lack = true },
        { .name = "why", .word = member.why, .may_lack = true },
        { .name = "server", .word = member.server, .may_lack = true },
        { .name = "lease", .number = &member.lease, .may_lack = true },
    };
    int r = *text ? read_words(text, wants, sizeof(wants) / sizeof(wants[0])) : 0;

    if (r == 0 && ready > 1)
        r = -EBADMSG;
    member.ready = ready > 0;
    if (r == 0)
        *ret_member = member;
    return r;
}

void relay_secret_write(const uint64_t secret[2], char text[RELAY_ENTRY_MAX])
{
    snprintf(text, RELAY_ENTRY_MAX, "secret=%" PRIu64 " more=%" PRIu64, secret[0], secret[1]);
}

int relay_secret_read(const char *text, uint64_t ret_secret[2])
{
    const struct want wants[] = { { .name = "secret", .number = &ret_secret[0] },
                                  { .name = "more", .number = &ret_secret[1] } };

    return read_words(text, wants, sizeof(wants) / sizeof(wants[0]));
}
