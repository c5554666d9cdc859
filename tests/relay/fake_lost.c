/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the broker loses. */

#include "tests/relay/fake_inside.h"

#include <string.h>

/* The stream has that message still, or it was purged. */
static bool is_there(const struct fake *fake, const struct relay_place *place)
{
    size_t i = fake_behind(fake, place->position - 1);

    return place->position < fake->first ||
           (i < fake->stream.count &&
            fake->stream.messages[i]->message.position == place->position &&
            fake->stream.messages[i]->message.timestamp == place->timestamp);
}

/* Up to where the stores of all replicas have the stream, as the broker knows. */
static uint64_t common_place(const struct fake *fake)
{
    uint64_t lowest = fake->last;

    for (size_t i = 0; i < FAKE_REPLICAS && fake->replicas[i].fake; i++) {
        struct relay_member member = { .ready = false };
        for (size_t n = 0; n < fake->entries_count && fake->replicas[i].reported; n++)
            if (strncmp(fake->entries[n].name, "place.", 6) == 0 &&
                fake->entries[n].name[6] == *fake->replicas[i].config.replica)
                must(relay_member_read(fake->entries[n].text, &member) == 0);
        if (member.place.incarnation != fake->incarnation || !is_there(fake, &member.place))
            return 0;
        lowest = relay_min(lowest, member.place.position);
    }
    return lowest;
}

/* The last messages, from a number on. */
static void lose_from(struct fake *fake, size_t from)
{
    const uint64_t common = common_place(fake);

    while (fake->stream.count > from) {
        struct fake_message *message = fake->stream.messages[--fake->stream.count];
        if (fake->lost)
            fake->lost(message, message->message.position <= common);
        free(message);
        fake->last--;
        fake->lacks = true;
    }
    fake_break_pulls(fake);
}

void fake_stream_anew(struct fake *fake)
{
    lose_from(fake, 0);
    fake_end_list(&fake->stream);
    fake->incarnation = fake->realtime;
    fake->first = fake->last = 0;
}

void fake_break_pulls(struct fake *fake)
{
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        fake->replicas[i].pulls = false;
}

void fake_lose_tail(struct fake *fake, size_t count)
{
    lose_from(fake, fake->stream.count > count ? fake->stream.count - count : 0);
    if (fake->first > fake->last + 1)
        fake->first = fake->last + 1;
}

void fake_delete(struct fake *fake, uint64_t position)
{
    size_t i = fake_behind(fake, position - 1);

    must(i < fake->stream.count && fake->stream.messages[i]->message.position == position);
    free(fake->stream.messages[i]);
    fake->stream.count--;
    memmove(&fake->stream.messages[i], &fake->stream.messages[i + 1],
            (fake->stream.count - i) * sizeof(fake->stream.messages[0]));
}

void fake_lose_one(struct fake *fake, uint64_t position)
{
    size_t kept = 0;

    for (size_t i = 0; i < fake->stream.count; i++) {
        struct fake_message *message = fake->stream.messages[i];
        if (message->message.position == position) {
            free(message);
            continue;
        }
        message->message.position -= message->message.position > position;
        fake->stream.messages[kept++] = message;
    }
    fake->stream.count = kept;
    fake->last--;
    fake_break_pulls(fake);
}

void fake_exchange(struct fake *fake, uint64_t position)
{
    const size_t at = fake_behind(fake, position - 1), last = fake->stream.count - 1;
    struct fake_message **messages = fake->stream.messages, *newest = messages[last];

    must(at + 2 < last);
    free(messages[at + 1]);
    messages[at + 1] = messages[at];
    messages[at + 1]->message.position++;
    newest->message.position = position;
    newest->message.timestamp = messages[at]->message.timestamp - 1;
    messages[at] = newest;
    fake->stream.count--;
    fake->last--;
    fake_break_pulls(fake);
}
