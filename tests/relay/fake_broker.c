/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The broker, as an engine for each replica. */

#include "tests/relay/fake_inside.h"

#include <errno.h>
#include <string.h>

/* ---- Messages ---- */

static void add_field(struct fake_message *to, const char *name, const char *value)
{
    size_t n = to->message.fields_count++;

    must(n < FAKE_FIELDS && strlen(name) < FAKE_TEXT && strlen(value) < FAKE_TEXT);
    strcpy(to->text[n][0], name);
    strcpy(to->text[n][1], value);
    to->fields[n] = (struct relay_field){ to->text[n][0], to->text[n][1] };
}

static struct fake_message *make_message(const void *payload, size_t size)
{
    struct fake_message *made = calloc(1, sizeof(*made));

    must(made && size < FAKE_TEXT);
    if (size > 0)
        memcpy(made->payload, payload, size);
    made->message.fields = made->fields;
    made->message.payload = made->payload;
    made->message.payload_size = size;
    return made;
}

static void append(struct fake *fake, struct fake_list *list, struct fake_message *made)
{
    must(list->count < FAKE_MESSAGES);
    made->at = fake->realtime;
    list->messages[list->count++] = made;
}

static void append_stream(struct fake *fake, struct fake_message *made)
{
    made->message.position = ++fake->last;
    made->message.timestamp = ++fake->realtime;
    append(fake, &fake->stream, made);
}

void fake_publish(struct fake *fake, const char *payload, const char *const *headers)
{
    struct fake_message *made = make_message(payload, strlen(payload) + 1);

    for (; headers[0]; headers += 2)
        add_field(made, headers[0], headers[1]);
    append_stream(fake, made);
}

/* A list that has had this id within the window keeps one. */
static bool has_id(const struct fake *fake, const struct fake_list *list, const char *id)
{
    for (size_t i = list->count; i-- > 0;)
        if (strcmp(list->messages[i]->id, id) == 0 &&
            fake->realtime - list->messages[i]->at < FAKE_WINDOW)
            return true;
    return false;
}

void fake_arrive(struct fake *fake, struct fake_message *made)
{
    struct fake_list *list = strcmp(made->target, "<") == 0 ? &fake->stream
                             : *made->target                ? &fake->targets
                                                            : &fake->dead;

    if (has_id(fake, list, made->id)) {
        free(made);
        fake->repeats++;
    } else if (list == &fake->stream)
        append_stream(fake, made);
    else
        append(fake, list, made);
}

void fake_end_list(struct fake_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->messages[i]);
    list->count = 0;
}

/* ---- What becomes of a request ---- */

enum outcome { DONE, NOT_DONE, DONE_UNSAID, DONE_LATE };

static enum outcome draw_outcome(struct fake *fake)
{
    if (!fake_happens(fake, FAULT_LOST, 10))
        return DONE;
    return fake->late_count < FAKE_LATE ? 1 + fake_draw(fake, 3) : 1 + fake_draw(fake, 2);
}

static struct fake_late *add_late(struct fake *fake)
{
    struct fake_late *late = &fake->late[fake->late_count++];

    memset(late, 0, sizeof(*late));
    late->at = fake->boottime + fake_draw(fake, 2 * FAKE_LEASE);
    return late;
}

/* ---- Entries ---- */

static struct fake_entry *entry_of(struct fake *fake, const char *name)
{
    for (size_t i = 0; i < fake->entries_count; i++)
        if (strcmp(fake->entries[i].name, name) == 0)
            return &fake->entries[i];
    must(fake->entries_count < 16);
    strcpy(fake->entries[fake->entries_count].name, name);
    return &fake->entries[fake->entries_count++];
}

int fake_change(struct fake *fake, const char *name, uint64_t revision, const char *text)
{
    struct fake_entry *entry = entry_of(fake, name);

    if (entry->revision != revision)
        return -EAGAIN;
    strcpy(entry->text, text);
    entry->revision++;
    entry->written = fake->realtime;
    return 0;
}

static int fake_read(struct relay_engine *engine, const char *name, char ret_text[RELAY_ENTRY_MAX],
                     uint64_t *ret_revision)
{
    struct fake_replica *replica = (struct fake_replica *)engine;
    const struct fake_entry *entry = entry_of(replica->fake, name);

    if (fake_is_dead(replica) || replica->fake->entries_silent ||
        draw_outcome(replica->fake) != DONE)
        return -ETIMEDOUT;
    strcpy(ret_text, entry->text);
    *ret_revision = entry->revision;
    return 0;
}

static int fake_written(struct relay_engine *engine, const char *name, uint64_t revision,
                        uint64_t *ret_written)
{
    struct fake_replica *replica = (struct fake_replica *)engine;
    const struct fake_entry *entry = entry_of(replica->fake, name);

    if (fake_is_dead(replica) || replica->fake->entries_silent ||
        draw_outcome(replica->fake) != DONE)
        return -ETIMEDOUT;
    *ret_written = entry->written;
    return entry->revision == revision ? 0 : -EAGAIN;
}

static int fake_swap(struct relay_engine *engine, const char *name, uint64_t revision,
                     const char *text, uint64_t *ret_revision)
{
    struct fake_replica *replica = (struct fake_replica *)engine;
    struct fake *fake = replica->fake;
    struct fake_late *late;
    int r;

    if (fake_is_dead(replica) || fake->entries_silent)
        return -ETIMEDOUT;
    if (engine->together && strncmp(name, "shard.", 6) == 0)
        return fake_swap_together(replica, name, revision, text, ret_revision);
    switch (draw_outcome(fake)) {
    case NOT_DONE:
        return -ETIMEDOUT;
    case DONE_UNSAID:
        fake_change(fake, name, revision, text);
        return -ETIMEDOUT;
    case DONE_LATE:
        late = add_late(fake);
        strcpy(late->name, name);
        strcpy(late->text, text);
        late->revision = revision;
        return -ETIMEDOUT;
    default:
        r = fake_change(fake, name, revision, text);
        *ret_revision = revision + 1;
        replica->reported = replica->reported || (r == 0 && strncmp(name, "place.", 6) == 0);
        return fake_is_dead(replica) ? -ETIMEDOUT : r;
    }
}

/* ---- The stream ---- */

size_t fake_behind(const struct fake *fake, uint64_t position)
{
    size_t i = fake->stream.count;

    while (i > 0 && fake->stream.messages[i - 1]->message.position > position &&
           fake->stream.messages[i - 1]->message.position >= fake->first)
        i--;
    return i;
}

static int64_t fake_pull(struct relay_engine *engine, uint64_t after, size_t max,
                         const struct relay_message **ret_messages)
{
    struct fake_replica *replica = (struct fake_replica *)engine;
    struct fake *fake = replica->fake;
    size_t count = 0;

    if (fake_is_dead(replica))
        return -EIO;
    if (fake_happens(fake, FAULT_FEW, 200))
        replica->pulls = false;
    if (!replica->pulls || replica->pulled_to != after) {
        replica->pulls = true;
        replica->pulled_to = after;
        return -ESTALE;
    }
    if (fake_happens(fake, FAULT_STILL, 300))
        replica->still_until = fake->boottime + fake_draw(fake, 8 * FAKE_LEASE);
    if (fake_happens(fake, FAULT_FEW, 20))
        max = 1;
    if (fake->boottime < replica->still_until)
        max = 0;
    for (size_t i = 0; i < fake->stream.count && count < max && count < 32; i++) {
        struct relay_message message = fake->stream.messages[i]->message;
        bool there = message.position >= fake->first || message.position <= replica->on_the_way;
        if (replica->lacks > 0 && message.position == replica->lacks)
            continue;
        if (replica->lacks > 0 && message.position > replica->lacks && !replica->leaves_gap)
            message.position--;
        if (there && message.position > after)
            replica->pulled[count++] = message;
    }
    if (count > 0)
        replica->pulled_to = replica->pulled[count - 1].position;
    *ret_messages = replica->pulled;
    return (int64_t)count;
}

static int fake_extent(struct relay_engine *engine, struct relay_extent *ret_extent)
{
    struct fake_replica *replica = (struct fake_replica *)engine;
    struct fake *fake = replica->fake;

    if (fake_is_dead(replica) || fake->stream_silent || replica->unanswered ||
        draw_outcome(fake) != DONE)
        return -ETIMEDOUT;
    *ret_extent = (struct relay_extent){ fake->incarnation, fake->first, fake->last };
    return 0;
}

static int fake_find(struct relay_engine *engine, uint64_t position, uint64_t *ret_position,
                     uint64_t *ret_timestamp)
{
    struct fake_replica *replica = (struct fake_replica *)engine;
    const struct fake *fake = replica->fake;

    if (fake_is_dead(replica) || fake->messages_silent || draw_outcome(replica->fake) != DONE)
        return -ETIMEDOUT;
    size_t i = fake_behind(fake, position - 1);

    if (i == fake->stream.count)
        return -ENOENT;
    *ret_position = fake->stream.messages[i]->message.position;
    *ret_timestamp = fake->stream.messages[i]->message.timestamp;
    return 0;
}

static int fake_purge(struct relay_engine *engine, uint64_t incarnation, uint64_t below)
{
    struct fake_replica *replica = (struct fake_replica *)engine;
    struct fake *fake = replica->fake;

    if (fake_is_dead(replica))
        return -ETIMEDOUT;
    if (fake->incarnation != incarnation)
        return -ESTALE;
    if (below <= fake->first)
        return 0;
    fake->first = below;
    if (below > fake->last) /* as nats-server does: no message gets a position that was purged */
        fake->last = below - 1;
    return 0;
}

/* ---- Targets ---- */

void fake_answer(struct fake_replica *replica, uint64_t cookie, int result)
{
    struct fake *fake = replica->fake;
    size_t n = replica->answers_count++;

    must(n < RELAY_FLIGHTS_MAX);
    replica->answers[n] = (struct relay_answer){ .cookie = cookie, .result = result };
    replica->answer_at[n] =
        fake->boottime + (replica->engine.together ? 0 : fake_draw(fake, HWT_MS(100)));
}

static int fake_send(struct relay_engine *engine, const struct relay_outgoing *outgoing,
                     uint64_t cookie)
{
    struct fake_replica *replica = (struct fake_replica *)engine;
    struct fake *fake = replica->fake;
    const char *target = outgoing->target ? outgoing->target : "<";
    struct fake_message *made;

    if (fake_is_dead(replica))
        return -EIO;
    if (replica->untold)
        return -EAGAIN;
    if (strcmp(target, "t.nobody") == 0 || fake_happens(fake, FAULT_REFUSED, 20)) {
        fake_answer(replica, cookie, -EHOSTUNREACH);
        return 0;
    }
    made = make_message(outgoing->payload, outgoing->payload_size);
    for (size_t i = 0; i < outgoing->fields_count; i++)
        add_field(made, outgoing->fields[i].name, outgoing->fields[i].value);
    must(strlen(target) < FAKE_TEXT && strlen(outgoing->id) < FAKE_TEXT);
    strcpy(made->target, target);
    strcpy(made->id, outgoing->id);
    if (engine->together) {
        fake_hold(replica, made, cookie);
        return 0;
    }
    switch (draw_outcome(fake)) {
    case NOT_DONE:
        free(made);
        fake_answer(replica, cookie, -ETIMEDOUT);
        break;
    case DONE_UNSAID:
        fake_arrive(fake, made);
        fake_answer(replica, cookie, -ETIMEDOUT);
        break;
    case DONE_LATE:
        add_late(fake)->message = made;
        fake_answer(replica, cookie, -ETIMEDOUT);
        break;
    default:
        fake_arrive(fake, made);
        fake_answer(replica, cookie, 0);
    }
    return 0;
}

static size_t fake_answers(struct relay_engine *engine, size_t max,
                           struct relay_answer *ret_answers)
{
    struct fake_replica *replica = (struct fake_replica *)engine;
    size_t count = 0, kept = 0;

    if (fake_is_dead(replica) || replica->untold)
        return 0;
    for (size_t i = 0; i < replica->answers_count; i++) {
        if (count < max && replica->answer_at[i] <= replica->fake->boottime)
            ret_answers[count++] = replica->answers[i];
        else {
            replica->answers[kept] = replica->answers[i];
            replica->answer_at[kept++] = replica->answer_at[i];
        }
    }
    replica->answers_count = kept;
    return count;
}

void fake_arrive_late(struct fake *fake)
{
    for (size_t i = 0; i < fake->late_count; i++) {
        struct fake_late late = fake->late[i];
        if (late.at > fake->boottime)
            continue;
        fake->late[i--] = fake->late[--fake->late_count];
        if (late.message)
            fake_arrive(fake, late.message);
        else
            fake_change(fake, late.name, late.revision, late.text);
    }
}

static uint64_t fake_clock(struct relay_engine *engine)
{
    return ((struct fake_replica *)engine)->fake->boottime;
}

const struct relay_engine_calls fake_calls = {
    .pull = fake_pull,
    .extent = fake_extent,
    .find = fake_find,
    .send = fake_send,
    .answers = fake_answers,
    .read = fake_read,
    .swap = fake_swap,
    .written = fake_written,
    .purge = fake_purge,
    .clock = fake_clock,
};
