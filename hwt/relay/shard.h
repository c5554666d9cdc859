/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_RELAY_SHARD_H
#define HWT_RELAY_SHARD_H

/*
 * One shard of a space, on one replica. Every replica reads the shard's whole delay stream into
 * a store of its own. One of them owns the shard and forwards what is due. The stores of the others
 * stand by: they read nothing back, and drop what the owner's watermark covers. See watermark.h for
 * why nothing is lost.
 *
 * A store cannot stand by again once it has led. So a replica that has owned the shard, and does
 * not any more, is `over`: its caller closes shard and store, and opens both anew.
 *
 * A shard is driven by relay_shard_step(), which waits for nothing but the store's disk and the
 * engine's entries. One thread at a time.
 *
 * The files, by what they do in a step:
 *
 *     lease.c     who owns the shard: claim, renew, resign; the watermark that goes with it
 *     agree.c     whether the stream is the one that the store has read
 *     ingest.c    from the stream to the store
 *     drop.c      what the watermark covers leaves a follower's store
 *     flights.c   from the store to the target: take, answers, done
 *     send.c      what is sent, and where
 *     gate.c      how many are under way to a target
 *     proof.c     what a relay puts back is told from what a producer puts
 *     trim.c      how far the replicas have read; what all have read is deleted from the stream
 */

#include <hwt/hwt.h>
#include <hwt/delay.h>

#include "hwt/relay/config.h"
#include "hwt/relay/counts.h"
#include "hwt/relay/engine.h"
#include "hwt/relay/watermark.h"

enum { RELAY_FLIGHTS_MAX = 4096, RELAY_PULL_MAX = 256, RELAY_POINTS_MAX = 64 };

enum relay_role {
    RELAY_FOLLOWS,
    RELAY_CATCHES_UP, /* it has the entry, and reads up to the stream's end as it was then */
    RELAY_OWNS,
};

/* When the store's mark was this, it had read up to this place. */
struct relay_point {
    struct relay_place place;
    uint64_t mark;
};

/* The messages of one hwt_delay_take(). */
struct relay_taken {
    const hwt_delay_message *messages;
    size_t users; /* flights */
};

enum relay_state {
    RELAY_WAITS, /* for the owner to send it, or for a watermark */
    RELAY_SENT,  /* until it is answered */
    RELAY_ENDED, /* it is to be done in the store */
};

/* A target, by a hash of its name, while messages are under way to it. */
struct relay_gate {
    uint64_t target;
    unsigned under_way; /* 0: the place is free */
    uint64_t bytes;     /* likewise under way */
    uint64_t heard_at;  /* the clock when it has answered last, or the first one went */
};

enum { RELAY_GATES = 256 };

/* A message that is taken and not done. */
struct relay_flight {
    uint64_t number; /* ascends along shard->flights; in the cookie of what is sent */
    struct relay_taken *taken;
    const hwt_delay_message *message;
    struct relay_place place;
    enum relay_state state;
    int failed; /* why its target has not taken it: then it goes back or to the dead letters */
    bool dead;  /* it was sent to the dead letters */
    enum relay_dead why;
    bool refused;        /* by the dead letters, or by the delay stream */
    bool parks;          /* the dead letters do not take it now: it goes back to the delay stream */
    unsigned cut;        /* a dead letter was too long: with its payload; and with its headers: 2 */
    uint64_t not_before; /* the clock at which it may be sent again */
    struct relay_gate
        *gate; /* while it is under way to its target, unless that is not known; or NULL */
};

struct relay_shard {
    const struct relay_config *config;
    unsigned number;
    struct relay_engine *engine;
    hwt_delay *store;
    uint64_t life; /* as in relay_entry */

    /* Ingest. */
    struct relay_place at;     /* durable in the store, and so is all before it */
    struct relay_place agreed; /* the newest one at which the stream's leader has agreed */
    struct relay_place top; /* of the highest position that it ever has read in this incarnation */
    bool knows_stream;      /* the stream is the one of `at`, and has all behind it */
    uint64_t
        renamed; /* the number by which it is known now, if that is not the one of `at`; or 0 */
    uint64_t ingest_after; /* the clock at which it reads on */
    uint64_t compare_at;   /* the clock of the next comparison with the stream's leader */
    uint64_t moved_at;     /* when it has stored something last */
    uint64_t stores_at;    /* the clock at which its store may take messages again */
    /* The clock before the newest question about the stream's end all up to whose answer is in the store, or 0; and
     * before a later one, or 0, with its answer. */
    uint64_t read_at, end_at, end;
    struct relay_point points[RELAY_POINTS_MAX]; /* the newest is the last */
    size_t points_count;
    uint64_t dropped_due, dropped_mark; /* the last drop; 0: none */

    /* Ownership. */
    enum relay_role role;
    struct relay_entry entry; /* as it was read or written last */
    uint64_t revision;
    uint64_t unreadable;              /* the revision of an entry that cannot be read; 0: it can */
    struct relay_watermark inherited; /* the last one of the owner before */
    uint64_t seen_at;                 /* the clock when that revision was seen */
    uint64_t asked_at;   /* the clock before the first claim whose answer is not known; or 0 */
    uint64_t lease_from; /* the clock before the write that has renewed the lease */
    uint64_t look_at;    /* the clock of the next look at the entry, or renewal */
    uint64_t owned_from; /* the clock behind the claim, or when it was seen to be the heir */
    uint64_t lease_of;   /* the owner's process whose lease is engine->lease */
    bool leads;          /* the store does, and does not stand by */
    bool clock_agrees;   /* with the broker's, when both were compared last */
    bool clock_said;     /* that it does not */
    bool drains;
    uint64_t drains_since;
    uint64_t owns_since;
    const char *heir; /* who gets it when it is drained; NULL: whoever comes first */
    uint64_t heir_life;
    bool over; /* it has owned the shard, or was drained, and is to be closed */

    /* Flights. */
    struct relay_flight flights[RELAY_FLIGHTS_MAX];
    size_t flights_count;
    struct relay_gate gates[RELAY_GATES];
    uint64_t flight_last;         /* the number given last */
    uint64_t taken_due;           /* the latest due time of all that was taken */
    struct relay_watermark taken; /* all that it covers was taken, or had ended before */

    uint64_t secret[2]; /* see proof.h */
    bool knows_secret;

    /* Trim. */
    struct relay_place reported;
    uint64_t reported_as;      /* the revision of that entry; 0: none */
    uint64_t twin_said_at;     /* the clock */
    struct relay_place common; /* all replicas had said to have it at the trim before */
    uint64_t revisions[RELAY_REPLICAS_MAX]; /* of the entries of better owners, as seen last */
    bool differs[RELAY_REPLICAS_MAX];       /* the replica's policy does, from this one's */
    uint64_t report_at, trim_at;

    uint64_t dead_said_at; /* the clock when a dead letter was logged last */

    struct relay_counts counts;
};

/*
 * Begins with a store that is open. The caller keeps config, engine and store until
 * relay_shard_close(), and closes them itself.
 *
 * -EBADMSG: the store is not one of a relay: its note is another
 */
int relay_shard_open(const struct relay_config *config, unsigned number,
                     struct relay_engine *engine, hwt_delay *store, uint64_t life,
                     struct relay_shard **ret_shard);
void relay_shard_close(struct relay_shard *shard);

/* The options that a shard's store wants. */
hwt_delay_options relay_shard_store(const struct relay_config *config);

/*
 * Does what can be done now. A message that the broker refuses for now is tried again in a later
 * step.
 *
 * -ENODATA: the stream no longer has what this store lacks; -EBADMSG: the store is damaged, or an
 * entry is none of a relay; or what the store has failed with. It was logged, and the shard has to
 * be closed.
 */
int relay_shard_step(struct relay_shard *shard);

/* Goes by another configuration from now on, which differs in `targets` and `shards` alone, and stays. */
void relay_shard_configure(struct relay_shard *shard, const struct relay_config *config);

/* Why it could not own the shard as it should, or does not. */
enum relay_unready relay_shard_unready(const struct relay_shard *shard);

/* In how many ns a step is due, even if neither the store nor the engine has something new. */
uint64_t relay_shard_wait(struct relay_shard *shard);

/* Whether there is room for messages that the store would hand over. */
bool relay_shard_takes(const struct relay_shard *shard);

/* From now on nothing is taken. When what was taken has ended, or after a lease at most, the shard
 * is given to the others, and it is over. */
void relay_shard_drain(struct relay_shard *shard);

/* ---- lease.c ---- */

int relay_lease_step(struct relay_shard *shard);
/* Changes the entry if what was sent becomes visible with it. */
int relay_lease_commit(struct relay_shard *shard);
/* Whether the lease is certain to hold, and enough was read: asked before each send. */
bool relay_lease_holds(struct relay_shard *shard);
/* How many replicas should own the shard rather than this one. */
uint64_t relay_rank(const struct relay_shard *shard, const char *replica);
/* Gives the shard back, if it is this replica's. */
int relay_lease_release(struct relay_shard *shard);
/* The same, and logs why; and if the broker does not answer, nothing is sent any more all the
 * same. */
void relay_lease_resign(struct relay_shard *shard, const char *why);

/* ---- agree.c ---- */

int relay_agree_step(struct relay_shard *shard);
/* What the stream has. It has the number by which this shard knows it, whatever its description says. */
int relay_extent(struct relay_shard *shard, struct relay_extent *ret_extent);
/* Compares the place with the stream. Afterwards knows_stream says whether that was possible, and
 * the place is one of the stream. */
int relay_agree(struct relay_shard *shard);
/* Whether the stream's message at a place is the one that was read there: 1, 0, or a negative
 * errno. */
int relay_agrees(struct relay_shard *shard, const struct relay_extent *extent,
                 const struct relay_place *place);

/* Whether all that the stream had some time within the last lease is in the store. */
bool relay_is_near(const struct relay_shard *shard);

/* ---- drop.c ---- */

int relay_drop_step(struct relay_shard *shard);
void relay_points_add(struct relay_shard *shard, const struct relay_place *place, uint64_t mark);

/* ---- ingest.c ---- */

int relay_ingest_step(struct relay_shard *shard);
/* Sets the place and the top, on the disk too. */
int relay_ingest_place(struct relay_shard *shard, const struct relay_place *place,
                       const struct relay_place *top);
/* The id by which a target knows doubles of a message that its producer has given none. */
void relay_own_id(const struct relay_shard *shard, const struct relay_record *record,
                  char id[RELAY_ENTRY_MAX]);
/* Whether it is short of something now, and may not be later. */
bool relay_is_for_now(int error);
/* The store is short of something, so this replica cannot own the shard for now. */
void relay_is_short(struct relay_shard *shard, int error);
bool relay_stores(const struct relay_shard *shard);

/* ---- flights.c ---- */

int relay_take_step(struct relay_shard *shard);
/* Ends those that are sent and answered, and those that an earlier owner's watermark covers. */
int relay_end_step(struct relay_shard *shard);
/* One of that due time and id that waits; NULL: none. */
struct relay_flight *relay_flights_waiting(struct relay_shard *shard, uint64_t due, const void *id,
                                           size_t id_size);
/* Hears what has become of those that were sent. */
void relay_answers_step(struct relay_shard *shard);
/* The earliest due time among those that have not ended, and do not end with the change of the
 * entry; HWT_NEVER: none. */
uint64_t relay_flights_lowest(const struct relay_shard *shard);

/* It is not where it was sent to, so it waits for what is next. */
void relay_flight_failed(struct relay_shard *shard, struct relay_flight *flight, int error,
                         bool elsewhere);
/* Those that are under way to their targets are not waited for any more. */
void relay_flights_give_up(struct relay_shard *shard);

/* ---- send.c ---- */

/* A message is sent to its target first. If that fails, it is sent to the delay stream again for a
 * later time, or to the dead letters, because its state is never changed but through the log. The cookie of what is sent is
 * the flight's number times RELAY_WAYS, and the way. */
enum { RELAY_TO_TARGET, RELAY_ELSEWHERE, RELAY_WAYS };

void relay_send_step(struct relay_shard *shard);

/* ---- gate.c ---- */

enum relay_turn { RELAY_GOES, RELAY_HAS_TO_WAIT, RELAY_GOES_BACK };
/* What becomes of a message to that target now. NULL: nothing is known of it. */
enum relay_turn relay_gate_ask(struct relay_shard *shard, const char *target,
                               struct relay_gate **ret_gate);
/* The message goes. */
void relay_gate_enter(struct relay_gate *gate, struct relay_flight *flight);
/* It is not under way any more, because the target was heard of, or not. */
void relay_gate_leave(struct relay_shard *shard, struct relay_flight *flight, bool heard);

/* ---- trim.c ---- */

int relay_trim_step(struct relay_shard *shard);
/* The last entry of a replica about itself. */
int relay_read_member(struct relay_shard *shard, const char *replica,
                      struct relay_member *ret_member, uint64_t *ret_revision);

static inline uint64_t relay_clock(const struct relay_shard *shard)
{
    return shard->engine->calls->clock(shard->engine);
}

/* How often an owner renews. The others look more often, because what is due waits until one of
 * them knows that it has been given back. */
static inline uint64_t relay_interval(const struct relay_shard *shard)
{
    return shard->config->lease / (shard->role == RELAY_FOLLOWS ? 32 : 4);
}

static inline uint64_t relay_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

#endif
