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

void relay_entry_write(const struct relay_entry *entry, char text[RELAY_ENTRY_MAX])
{
    const struct relay_watermark *mark = &entry->watermark;

    snprintf(text, RELAY_ENTRY_MAX,
             "owner=%s life=%" PRIu64 " incarnation=%" PRIu64 " position=%" PRIu64
             " timestamp=%" PRIu64 " due=%" PRIu64,
             entry->owner, entry->life, mark->place.incarnation, mark->place.position,
             mark->place.timestamp, mark->due);
}

int relay_entry_read(const char *text, struct relay_entry *ret_entry)
{
    struct relay_entry entry = { .owner = "-" };
    struct relay_watermark *mark = &entry.watermark;
    int end = -1;

    if (*text) {
        sscanf(text,
               "owner=%63s life=%" SCNu64 " incarnation=%" SCNu64 " position=%" SCNu64
               " timestamp=%" SCNu64 " due=%" SCNu64 "%n",
               entry.owner, &entry.life, &mark->place.incarnation, &mark->place.position,
               &mark->place.timestamp, &mark->due, &end);
        if (end < 0 || text[end])
            return -EBADMSG;
    }
    *ret_entry = entry;
    return 0;
}

bool relay_place_is_forgotten(const struct relay_place *place)
{
    return place->incarnation == UINT64_MAX;
}

/* Returns its length. */
static size_t write_place(const struct relay_place *place, char text[RELAY_ENTRY_MAX])
{
    return (size_t)snprintf(text, RELAY_ENTRY_MAX,
                            "incarnation=%" PRIu64 " position=%" PRIu64 " timestamp=%" PRIu64,
                            place->incarnation, place->position, place->timestamp);
}

/* The end of it; NULL: it is none. */
static const char *read_place(const char *text, struct relay_place *ret_place)
{
    int end = -1;

    sscanf(text, "incarnation=%" SCNu64 " position=%" SCNu64 " timestamp=%" SCNu64 "%n",
           &ret_place->incarnation, &ret_place->position, &ret_place->timestamp, &end);
    return end < 0 ? NULL : text + end;
}

void relay_note_write(const struct relay_place *place, const struct relay_place *top,
                      char text[RELAY_ENTRY_MAX])
{
    size_t length = write_place(place, text);

    snprintf(text + length, RELAY_ENTRY_MAX - length, " top=%" PRIu64 " top_timestamp=%" PRIu64,
             top->position, top->timestamp);
}

int relay_note_read(const char *text, struct relay_place *ret_place, struct relay_place *ret_top)
{
    struct relay_place place = { 0, 0, 0 }, top = { 0, 0, 0 };
    const char *at = *text ? read_place(text, &place) : NULL;
    int end = -1;

    if (at)
        sscanf(at, " top=%" SCNu64 " top_timestamp=%" SCNu64 "%n", &top.position, &top.timestamp,
               &end);
    top.incarnation = place.incarnation;
    if (*text && (end < 0 || at[end]))
        return -EBADMSG;
    *ret_place = place;
    *ret_top = top;
    return 0;
}

void relay_member_write(const struct relay_member *member, char text[RELAY_ENTRY_MAX])
{
    size_t length = write_place(&member->place, text);

    snprintf(text + length, RELAY_ENTRY_MAX - length, " life=%" PRIu64 " ready=%d", member->life,
             member->ready);
}

int relay_member_read(const char *text, struct relay_member *ret_member)
{
    struct relay_member member = { .ready = false };
    const char *at = *text ? read_place(text, &member.place) : NULL;
    int ready = 0, end = -1;

    if (at)
        sscanf(at, " life=%" SCNu64 " ready=%d%n", &member.life, &ready, &end);
    if (*text && (end < 0 || at[end] || ready < 0 || ready > 1))
        return -EBADMSG;
    member.ready = ready;
    *ret_member = member;
    return 0;
}
