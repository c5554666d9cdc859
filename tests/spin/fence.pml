/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How a replica of hwt-relay takes a shard on Kafka: two of them claim it at any time, whatever their leases say, and
 * each sends the messages that the entry which it has read does not say to have ended. Somebody else has a transaction on
 * the partition of the entry, too.
 *
 *     here      there, in hwt/relay/
 *     look      relay_kafka_entry_compare() before the fence, in relay_kafka_writer_hold()
 *     fence     fence(): waits for what is committing, and takes back what is open of the shard's id
 *     compare   compare_behind_fence(): first the partition's end, then what can be read
 *     begin     relay_kafka_send(); the messages are in the entry's transaction
 *     commit    relay_kafka_writer_commit()
 *     marks     the broker: a commit is decided first, and can be read later
 *     stranger  a transaction of another id
 *
 * The partition can be read up to the first place whose transaction is open or not marked.
 *
 * Verified: each message comes once at most.
 */

#define REPLICAS 2
#define MESSAGES 2
#ifndef PLACES
#define PLACES 5
#endif
#define STRANGER REPLICAS
#define NONE 255

#define bit(m) (1 << (m))
#define is_in(set, m) ((set >> (m)) & 1)

mtype = { open, decided, done, aborted };

/* The partition. */
byte count;
byte by[PLACES];
mtype state[PLACES];
byte says[PLACES]; /* the messages that have ended, by this entry, */
byte with[PLACES]; /* and the one that is in its transaction */

byte current = NONE; /* the replica whose epoch the id has */
byte arrived[MESSAGES];

#define is_at(i, what) (i < count && by[i] != STRANGER && state[i] == what)
#define is_committing                                                                            \
    (is_at(0, decided) || is_at(1, decided) || is_at(2, decided) || is_at(3, decided) ||           \
     is_at(4, decided))

inline append(who, text)
{
    by[count] = who;
    state[count] = open;
    says[count] = text;
    count++
}

/* The end of what can be read, and the entry that is the last one there. */
inline read(ret_end, ret_entry)
{
    i = 0;
    ret_entry = NONE;
    do
    :: i < count && (state[i] == done || state[i] == aborted) ->
        if
        :: by[i] != STRANGER && state[i] == done -> ret_entry = i
        :: else
        fi;
        i++
    :: else -> break
    od;
    ret_end = i;
    i = 0
}

#define may_send(r) (current == r && count < PLACES && known != bit(MESSAGES) - 1)

/* A message that has not ended, as far as this replica knows. */
inline begin(r)
{
    if
    :: !is_in(known, 0) -> sent = 0
    :: !is_in(known, 1) -> sent = 1
    fi;
    own = count;
    with[count] = sent;
    append(r, known | bit(sent))
}

inline commit(r)
{
    atomic {
        if
        :: current == r && state[own] == open ->
            state[own] = decided;
            known = says[own]
        :: current == r && state[own] == open -> /* it takes the transaction back */
            state[own] = aborted
        :: else ->
            holds = false
        fi;
        own = 0;
        sent = 0
    };
    atomic {
        !is_committing -> skip
    }
}

inline take_back()
{
    i = 0;
    do
    :: i < count ->
        if
        :: by[i] != STRANGER && state[i] == open -> state[i] = aborted
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0
}

inline hold(r)
{
    atomic { read(upto, entry) };
    atomic {
        !is_committing ->
        take_back();
        current = r
    };
#ifndef MISTAKE_READ_BEFORE_FENCE
    atomic { high = count };
    atomic {
        read(upto, own);
        if
#ifdef MISTAKE_HIDDEN_BELIEVED
        :: own == entry -> holds = true
#else
        :: own == entry && upto >= high -> holds = true
#endif
        :: else
        fi;
        own = 0
    };
#else
    holds = true;
#endif
    atomic {
        if
        :: entry != NONE -> known = says[entry]
        :: else -> known = 0
        fi;
        entry = 0;
        upto = 0;
        high = 0
    }
}

proctype replica(byte r)
{
    byte i, upto, entry, high, own, known, sent;
    bool holds;
end:
    do
    :: !holds -> hold(r)
    :: atomic { holds && may_send(r) -> begin(r) }; commit(r)
    :: atomic { holds && current != r -> holds = false }
    od
}

/* The marks arrive some time. */
proctype marks()
{
    byte i;
end:
    do
    :: atomic {
        is_committing ->
        i = 0;
        do
        :: is_at(i, decided) -> break
        :: else -> i++
        od;
        state[i] = done;
        arrived[with[i]]++;
        assert(arrived[with[i]] == 1);
        i = 0
    }
    od
}

proctype stranger()
{
    byte own;
end:
    atomic {
        count < PLACES ->
        own = count;
        append(STRANGER, 0)
    };
end_open:
    state[own] = done
}

init
{
    atomic {
        run replica(0);
        run replica(1);
        run marks();
        run stranger()
    }
}
