/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_RELAY_FAKE_H
#define HWT_TESTS_RELAY_FAKE_H

/*
 * A broker in one process, with faults, and the replicas of one shard that use it: an engine for each,
 * and a store on a simulated disk. Everything follows from one number; one thread.
 *
 * The faults, by the chance of each call of an engine:
 *
 *     lost        the broker does not do it, or does it, or does it later; the answer is -ETIMEDOUT
 *     refused     a target that nobody has now
 *     crash       the replica's process dies in the call; the disk's cache lives on, or not
 *     disk crash  it dies in a call of the disk soon
 *     pause       the others go on for up to three leases before the call goes on
 *     few         a pull returns one message only
 *     still       a replica's pulls bring nothing for up to eight leases, as when the server of its consumer is stopped
 *     tail        the broker loses the last messages, after they were acknowledged and perhaps read
 *     anew        the stream is deleted and made anew
 *     clock       a replica's clock is wrong for a while
 *     lost disk   a replica that has died begins again with what another one's disk had, or, while the
 *                 stream has all, with nothing
 */

#include "hwt/relay/shard.h"
#include "tests/delay/support/disk.h"
#include "kit.h"

enum { FAKE_REPLICAS = 3, FAKE_MESSAGES = 8192, FAKE_TEXT = 256, FAKE_FIELDS = 16, FAKE_LATE = 64 };

#define FAKE_START UINT64_C(1800000000000000000)
#define FAKE_LEASE HWT_SEC(2)
#define FAKE_BOUND HWT_SEC(1)
#define FAKE_WRONG HWT_SEC(3)   /* faults of the clock are up to so much */
#define FAKE_WINDOW HWT_SEC(60) /* for so long a target knows an id; the attempts take 31 s */

struct fake_message {
    struct relay_message message;
    struct relay_field fields[FAKE_FIELDS];
    char text[FAKE_FIELDS][2][FAKE_TEXT];
    char payload[FAKE_TEXT];
    char target[FAKE_TEXT], id[FAKE_TEXT];
    uint64_t at; /* when it arrived */
};

struct fake_list {
    struct fake_message *messages[FAKE_MESSAGES];
    size_t count;
};

struct fake_entry {
    char name[FAKE_TEXT], text[RELAY_ENTRY_MAX];
    uint64_t revision;
    uint64_t written;
};

struct fake;

enum {
    FAULT_LOST,
    FAULT_REFUSED,
    FAULT_CRASH,
    FAULT_DISK,
    FAULT_PAUSE,
    FAULT_FEW,
    FAULT_STILL,
    FAULT_TAIL,
    FAULT_ANEW,
    FAULT_CLOCK,
    FAULT_LOST_DISK,
    FAULTS
};

/* An entry's change, or a message, on its way after its sender has given up. */
struct fake_late {
    uint64_t at;
    char name[FAKE_TEXT], text[RELAY_ENTRY_MAX];
    uint64_t revision;
    struct fake_message *message; /* or NULL: an entry */
};

struct fake_replica {
    struct relay_engine engine;
    struct fake *fake;
    unsigned number;
    struct relay_config config;
    struct disk *disk;
    struct process process;
    uint64_t realtime; /* by its own clock, */
    uint64_t ahead;    /* which is ahead by so much, modulo 2^64 */
    hwt_delay *store;
    struct relay_shard *shard; /* NULL: it does not run */
    bool crashes;              /* its process is dead */
    bool may_fail;             /* an error ends it; else the test */
    int failed;                /* the error */
    bool paused;
    bool lost_disk;
    bool reported; /* how far it has read, since it has lost its disk */
    bool drained;  /* by the test, so it does not begin again by itself */
    uint64_t starts_at;
    struct relay_answer answers[RELAY_FLIGHTS_MAX];
    uint64_t answer_at[RELAY_FLIGHTS_MAX];
    size_t answers_count;
    struct fake_message
        *held[RELAY_FLIGHTS_MAX]; /* sent with engine.together, and not visible yet */
    uint64_t held_cookies[RELAY_FLIGHTS_MAX];
    size_t held_count;
    bool untold; /* it does not know what has become of its transaction, so answers wait */
    bool pulls;  /* it has begun to, and the broker's last failure was before that */
    uint64_t pulled_to;
    uint64_t still_until; /* its pulls bring nothing */
    uint64_t lacks;  /* the copy that it pulls from lacks the message of this position; 0: none */
    bool leaves_gap; /* and those behind it keep their positions */
    bool unanswered; /* the stream's leader does not tell it what the stream has */
    uint64_t on_the_way; /* up to here messages have left the stream for it, purged since or not */
    struct relay_message pulled[RELAY_PULL_MAX];
};

struct fake {
    uint64_t random;
    bool faults;
    uint64_t realtime, boottime;
    uint64_t pace; /* so much time passes in a step at most */
    struct fake_list stream, targets, dead;
    uint64_t incarnation, first, last; /* of the stream */
    bool lacks;                        /* it has lost something */
    bool keeps;                        /* it never does */
    struct fake_entry entries[16];
    size_t entries_count;
    struct fake_late late[FAKE_LATE];
    size_t late_count;
    struct fake_replica replicas[FAKE_REPLICAS];
    unsigned repeats;                   /* messages that their targets had already */
    bool entries_silent;                /* reads and changes of entries are not answered */
    bool stream_silent;                 /* questions about the stream are not */
    bool messages_silent;               /* nor those about one of its messages */
    unsigned depth;                     /* of pauses */
    unsigned made[FAULTS];              /* by kind */
    void (*between)(struct fake *fake); /* what the producer does in each step */
    /* The stream loses a message. Known: all replicas have said that they have it. */
    void (*lost)(const struct fake_message *message, bool known);
};

void fake_begin(struct fake *fake, uint64_t seed, unsigned replicas);
void fake_end(struct fake *fake);

/* A while passes, of up to `pace`, and each replica that runs makes a step. */
void fake_step(struct fake *fake);
void fake_start(struct fake_replica *replica);
void fake_stop(struct fake_replica *replica);

/* What a producer publishes: headers in pairs of name and value, NULL at the end. */
void fake_publish(struct fake *fake, const char *payload, const char *const *headers);

uint64_t fake_draw(struct fake *fake, uint64_t below);

void fake_run(struct fake *fake, uint64_t time);
/* With a due time, to the target t.a; its key, which may be NULL, and its payload. */
void fake_put(struct fake *fake, uint64_t due, const char *key, const char *payload);
/* The replica that owns the shard; NULL: none. */
struct fake_replica *fake_owner(struct fake *fake);
/* How many of the newest lines of the logs of all have this text. */
unsigned fake_logged(const char *text);
/* How many with this payload have arrived at the target. */
unsigned fake_arrived(const struct fake *fake, const char *payload);

/* Messages m0, m1, ... from a number on, a tenth of a second apart. The half of them have no key, and each has a due time
 * of its own. */
void fake_put_some(struct fake *fake, unsigned from, unsigned count, uint64_t due);
/* Those up to a number have arrived, each once, and none was sent twice. */
void fake_check_arrived(const struct fake *fake, unsigned count);
/* The stores of the replicas that run have nothing left. */
void fake_check_empty(const struct fake *fake);

/* Whoever pulls begins anew, as when servers have died. */
void fake_break_pulls(struct fake *fake);

/* The stream is deleted and made anew. */
void fake_stream_anew(struct fake *fake);

/* The broker loses the last messages of the stream. */
void fake_lose_tail(struct fake *fake, size_t count);

/* Somebody deletes one message. */
void fake_delete(struct fake *fake, uint64_t position);

/* A copy of the stream leads that lacks one message, so those behind it have lower positions. */
void fake_lose_one(struct fake *fake, uint64_t position);

/* A copy leads that has the newest message at this position, and lacks the one that is behind it. Further on, both copies are
 * the same. */
void fake_exchange(struct fake *fake, uint64_t position);

/* A replica that does not run loses its disk. It finds that of another one, as the power would leave it, or an
 * empty one if `from` is NULL. */
void fake_lose_disk(struct fake_replica *replica, const struct fake_replica *from);

#endif
