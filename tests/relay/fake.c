/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/relay/fake.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "hwt/relay/log.h"

static const struct relay_engine_calls calls;

static bool talks(void)
{
    static int talks = -1;

    if (talks < 0) {
        const char *verbosity = getenv("CK_VERBOSITY");
        talks = verbosity && strcmp(verbosity, "verbose") == 0;
    }
    return talks;
}

void relay_log(unsigned shard, const char *format, ...)
{
    va_list arguments;

    if (!talks())
        return;
    printf("%u: ", shard);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}

uint64_t fake_draw(struct fake *fake, uint64_t below)
{
    return test_random(&fake->random) % below;
}

/* One in `rarity`. */
static bool happens(struct fake *fake, unsigned kind, uint64_t rarity)
{
    if (!fake->faults || fake_draw(fake, rarity) != 0)
        return false;
    fake->made[kind]++;
    return true;
}

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

static void arrive(struct fake *fake, struct fake_message *made)
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

static void end_list(struct fake_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->messages[i]);
    list->count = 0;
}

/* ---- Faults ---- */

/* In the first lines of each call: the process may be dead, die, or stand still. */
static bool is_dead(struct fake_replica *replica)
{
    struct fake *fake = replica->fake;

    if (happens(fake, FAULT_CRASH, 400))
        replica->crashes = replica->process.dead = true;
    if (happens(fake, FAULT_DISK, 400))
        replica->process.die_at = replica->process.calls + 1 + fake_draw(fake, 8);
    if (!replica->crashes && fake->depth == 0 && happens(fake, FAULT_PAUSE, 400)) {
        uint64_t until = fake->boottime + fake_draw(fake, 3 * FAKE_LEASE);
        replica->paused = true;
        fake->depth++;
        while (fake->boottime < until)
            fake_step(fake);
        fake->depth--;
        replica->paused = false;
    }
    return replica->crashes;
}

enum outcome { DONE, NOT_DONE, DONE_UNSAID, DONE_LATE };

static enum outcome draw_outcome(struct fake *fake)
{
    if (!happens(fake, FAULT_LOST, 10))
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

static int change(struct fake *fake, const char *name, uint64_t revision, const char *text)
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

    if (is_dead(replica) || replica->fake->entries_silent || draw_outcome(replica->fake) != DONE)
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

    if (is_dead(replica) || replica->fake->entries_silent || draw_outcome(replica->fake) != DONE)
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

    if (is_dead(replica) || fake->entries_silent)
        return -ETIMEDOUT;
    switch (draw_outcome(fake)) {
    case NOT_DONE:
        return -ETIMEDOUT;
    case DONE_UNSAID:
        change(fake, name, revision, text);
        return -ETIMEDOUT;
    case DONE_LATE:
        late = add_late(fake);
        strcpy(late->name, name);
        strcpy(late->text, text);
        late->revision = revision;
        return -ETIMEDOUT;
    default:
        r = change(fake, name, revision, text);
        *ret_revision = revision + 1;
        replica->reported = replica->reported || (r == 0 && strncmp(name, "place.", 6) == 0);
        return is_dead(replica) ? -ETIMEDOUT : r;
    }
}

/* ---- The stream ---- */

/* Which message is the first one behind a position, of those that are not purged. */
static size_t behind(const struct fake *fake, uint64_t position)
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

    if (is_dead(replica))
        return -EIO;
    if (happens(fake, FAULT_FEW, 200))
        replica->pulls = false;
    if (!replica->pulls || replica->pulled_to != after) {
        replica->pulls = true;
        replica->pulled_to = after;
        return -ESTALE;
    }
    if (happens(fake, FAULT_FEW, 20))
        max = 1;
    for (size_t i = 0; i < fake->stream.count && count < max && count < 32; i++) {
        const struct relay_message *message = &fake->stream.messages[i]->message;
        if (message->position > after &&
            (message->position >= fake->first || message->position <= replica->on_the_way))
            replica->pulled[count++] = *message;
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

    if (is_dead(replica) || fake->stream_silent || draw_outcome(fake) != DONE)
        return -ETIMEDOUT;
    *ret_extent = (struct relay_extent){ fake->incarnation, fake->first, fake->last };
    return 0;
}

static int fake_stamp(struct relay_engine *engine, uint64_t position, uint64_t *ret_timestamp)
{
    struct fake_replica *replica = (struct fake_replica *)engine;
    const struct fake *fake = replica->fake;

    if (is_dead(replica) || draw_outcome(replica->fake) != DONE)
        return -ETIMEDOUT;
    size_t i = behind(fake, position - 1);

    if (i == fake->stream.count || fake->stream.messages[i]->message.position != position)
        return -ENOENT;
    *ret_timestamp = fake->stream.messages[i]->message.timestamp;
    return 0;
}

static int fake_purge(struct relay_engine *engine, uint64_t incarnation, uint64_t below)
{
    struct fake_replica *replica = (struct fake_replica *)engine;
    struct fake *fake = replica->fake;

    if (is_dead(replica))
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

static void answer(struct fake_replica *replica, uint64_t cookie, int result)
{
    struct fake *fake = replica->fake;
    size_t n = replica->answers_count++;

    must(n < RELAY_FLIGHTS_MAX);
    replica->answers[n] = (struct relay_answer){ .cookie = cookie, .result = result };
    replica->answer_at[n] = fake->boottime + fake_draw(fake, HWT_MS(100));
}

static int fake_send(struct relay_engine *engine, const struct relay_outgoing *outgoing,
                     uint64_t cookie)
{
    struct fake_replica *replica = (struct fake_replica *)engine;
    struct fake *fake = replica->fake;
    const char *target = outgoing->target ? outgoing->target : "<";
    struct fake_message *made;

    if (is_dead(replica))
        return -EIO;
    if (strcmp(target, "t.nobody") == 0 || happens(fake, FAULT_REFUSED, 20)) {
        answer(replica, cookie, -EHOSTUNREACH);
        return 0;
    }
    made = make_message(outgoing->payload, outgoing->payload_size);
    for (size_t i = 0; i < outgoing->fields_count; i++)
        add_field(made, outgoing->fields[i].name, outgoing->fields[i].value);
    must(strlen(target) < FAKE_TEXT && strlen(outgoing->id) < FAKE_TEXT);
    strcpy(made->target, target);
    strcpy(made->id, outgoing->id);
    switch (draw_outcome(fake)) {
    case NOT_DONE:
        free(made);
        answer(replica, cookie, -ETIMEDOUT);
        break;
    case DONE_UNSAID:
        arrive(fake, made);
        answer(replica, cookie, -ETIMEDOUT);
        break;
    case DONE_LATE:
        add_late(fake)->message = made;
        answer(replica, cookie, -ETIMEDOUT);
        break;
    default:
        arrive(fake, made);
        answer(replica, cookie, 0);
    }
    return 0;
}

static size_t fake_answers(struct relay_engine *engine, size_t max,
                           struct relay_answer *ret_answers)
{
    struct fake_replica *replica = (struct fake_replica *)engine;
    size_t count = 0, kept = 0;

    if (is_dead(replica))
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

static uint64_t fake_clock(struct relay_engine *engine)
{
    return ((struct fake_replica *)engine)->fake->boottime;
}

static const struct relay_engine_calls calls = {
    .pull = fake_pull,
    .extent = fake_extent,
    .stamp = fake_stamp,
    .send = fake_send,
    .answers = fake_answers,
    .read = fake_read,
    .swap = fake_swap,
    .written = fake_written,
    .purge = fake_purge,
    .clock = fake_clock,
};

/* ---- Replicas ---- */

static void set_clock(struct fake_replica *replica)
{
    replica->realtime = replica->fake->realtime + replica->ahead;
}

void fake_stop(struct fake_replica *replica)
{
    if (!replica->shard)
        return;
    relay_shard_close(replica->shard);
    replica->shard = NULL;
    hwt_delay_close(replica->store);
    process_end(&replica->process);
    replica->answers_count = 0;
    replica->pulls = replica->crashes = false;
}

void fake_start(struct fake_replica *replica)
{
    struct fake *fake = replica->fake;
    hwt_delay_options options = relay_shard_store(&replica->config);
    int r;

    options.payload_max = 8192;
    options.memory = 1 << 20;
    options.segment_size = 64 << 10;
    set_clock(replica);
    process_start(&replica->process, replica->disk, &replica->realtime, &fake->boottime);
    replica->process.random = &fake->random;
    r = hwt_delay_open_on("store", &options, &replica->process.system, true, &replica->store);
    ck_assert_int_eq(r, 0);
    r = relay_shard_open(&replica->config, 0, &replica->engine, replica->store,
                         1 + fake_draw(fake, UINT64_MAX), &replica->shard);
    ck_assert_int_eq(r, 0);
}

/* From whom, is drawn. */
static void lose_disk(struct fake_replica *replica)
{
    struct fake *fake = replica->fake;
    const struct fake_replica *from = &fake->replicas[fake_draw(fake, FAKE_REPLICAS)];

    fake_lose_disk(replica, fake->first > 1 || fake->lacks || from == replica ? from : NULL);
}

/* What the stream does not have any more is in the stores of the others: only then may a disk be lost, since
 * nothing brings back what all have lost. */
static bool others_have_all(const struct fake_replica *replica)
{
    const struct fake *fake = replica->fake;

    for (size_t i = 0; i < FAKE_REPLICAS; i++) {
        const struct fake_replica *other = &fake->replicas[i];
        if (other == replica || !other->fake)
            continue;
        if (!other->shard || !other->reported ||
            other->shard->at.incarnation != fake->incarnation ||
            other->shard->at.position + 1 < fake->first)
            return false;
    }
    return true;
}

static void step(struct fake_replica *replica)
{
    struct fake *fake = replica->fake;
    int r;

    if (replica->paused)
        return;
    if (!replica->shard) {
        if (fake->boottime >= replica->starts_at)
            fake_start(replica);
        return;
    }
    r = relay_shard_step(replica->shard);
    if (r < 0 && replica->may_fail) {
        replica->failed = r;
        replica->starts_at = HWT_NEVER;
        fake_stop(replica);
        return;
    }
    if (r == -ENODATA &&
        (fake->lacks || replica->lost_disk)) { /* see hwt-relay(1): it is given a copy */
        fake_stop(replica);
        lose_disk(replica);
        return;
    }
    if (!replica->process.dead && !replica->crashes) {
        if (r < 0)
            ck_abort_msg("a step has failed with %d", r);
        if (replica->shard->over && !replica->drained)
            fake_stop(replica);
        return;
    }
    replica->crashes = true;
    fake_stop(replica);
    if (fake_draw(fake, 2) == 0) { /* the power, too */
        struct disk *left = disk_crashed(replica->disk, &fake->random);
        disk_free(replica->disk);
        replica->disk = left;
    }
    if (others_have_all(replica) && happens(fake, FAULT_LOST_DISK, 4))
        lose_disk(replica);
    replica->starts_at = fake->boottime + fake_draw(fake, 2 * FAKE_LEASE);
}

/* The broker's and the clocks' faults. */
static void make_trouble(struct fake *fake)
{
    struct fake_replica *replica = &fake->replicas[fake_draw(fake, FAKE_REPLICAS)];

    if (!fake->keeps && happens(fake, FAULT_TAIL, 300))
        fake_lose_tail(fake, 1 + fake_draw(fake, 4));
    if (!fake->keeps && happens(fake, FAULT_ANEW, 1000))
        fake_stream_anew(fake);
    if (happens(fake, FAULT_CLOCK, 200))
        replica->ahead = fake_draw(fake, 2 * FAKE_WRONG) - FAKE_WRONG;
    else if (fake->faults && fake_draw(fake, 100) == 0)
        replica->ahead = 0;
}

static void arrive_late(struct fake *fake)
{
    for (size_t i = 0; i < fake->late_count; i++) {
        struct fake_late late = fake->late[i];
        if (late.at > fake->boottime)
            continue;
        fake->late[i--] = fake->late[--fake->late_count];
        if (late.message)
            arrive(fake, late.message);
        else
            change(fake, late.name, late.revision, late.text);
    }
}

void fake_step(struct fake *fake)
{
    uint64_t passes = fake_draw(fake, fake->pace);
    unsigned first = (unsigned)fake_draw(fake, FAKE_REPLICAS);

    fake->realtime += passes;
    fake->boottime += passes;
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        if (fake->replicas[i].fake)
            set_clock(&fake->replicas[i]);
    arrive_late(fake);
    make_trouble(fake);
    if (fake->between)
        fake->between(fake);
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        if (fake->replicas[(first + i) % FAKE_REPLICAS].fake)
            step(&fake->replicas[(first + i) % FAKE_REPLICAS]);
}

void fake_begin(struct fake *fake, uint64_t seed, unsigned replicas)
{
    static const char *const names[FAKE_REPLICAS] = { "a", "b", "c" };

    memset(fake, 0, sizeof(*fake));
    fake->random = seed;
    fake->realtime = FAKE_START;
    fake->pace = HWT_MS(50);
    fake->boottime = HWT_SEC(100);
    fake->incarnation = FAKE_START;
    for (unsigned i = 0; i < replicas; i++) {
        struct fake_replica *replica = &fake->replicas[i];
        replica->engine.calls = &calls;
        replica->fake = fake;
        replica->number = i;
        replica->disk = disk_new();
        replica->config = (struct relay_config){ .space = "shop",
                                                 .replica = names[i],
                                                 .targets = { { "t.>" }, 1 },
                                                 .shards = 1,
                                                 .lease = FAKE_LEASE,
                                                 .clock_bound = FAKE_BOUND,
                                                 .attempts = 6,
                                                 .message_max = 4096 };
        memcpy(replica->config.replicas.word, names, sizeof(names));
        replica->config.replicas.count = replicas;
    }
}

void fake_end(struct fake *fake)
{
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        if (fake->replicas[i].fake) {
            fake_stop(&fake->replicas[i]);
            disk_free(fake->replicas[i].disk);
        }
    for (size_t i = 0; i < fake->late_count; i++)
        free(fake->late[i].message);
    end_list(&fake->stream);
    end_list(&fake->targets);
    end_list(&fake->dead);
}

/* The stream has that message still, or it was purged. */
static bool is_there(const struct fake *fake, const struct relay_place *place)
{
    size_t i = behind(fake, place->position - 1);

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
    end_list(&fake->stream);
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

void fake_lose_disk(struct fake_replica *replica, const struct fake_replica *from)
{
    struct disk *disk = from ? disk_crashed(from->disk, &replica->fake->random) : disk_new();

    must(!replica->shard);
    disk_free(replica->disk);
    replica->disk = disk;
    replica->reported = false;
    replica->lost_disk = true;
}

/* ---- What tests do ---- */

void fake_run(struct fake *fake, uint64_t time)
{
    uint64_t end = fake->boottime + time;
    while (fake->boottime < end)
        fake_step(fake);
}

void fake_put(struct fake *fake, uint64_t due, const char *key, const char *payload)
{
    char text[RELAY_DUE_ROOM];
    relay_due_write(due, text);
    fake_publish(fake, payload,
                 (const char *const[]){ "Hwt-Due", text, "Hwt-Target", "t.a",
                                        key ? "Hwt-Key" : NULL, key, NULL });
}

struct fake_replica *fake_owner(struct fake *fake)
{
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        if (fake->replicas[i].shard && fake->replicas[i].shard->role == RELAY_OWNS)
            return &fake->replicas[i];
    return NULL;
}

unsigned fake_arrived(const struct fake *fake, const char *payload)
{
    unsigned count = 0;
    for (size_t i = 0; i < fake->targets.count; i++)
        count += strcmp(fake->targets.messages[i]->payload, payload) == 0;
    return count;
}
