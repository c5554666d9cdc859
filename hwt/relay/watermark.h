/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_RELAY_WATERMARK_H
#define HWT_RELAY_WATERMARK_H

/*
 * The watermark (P, T) of a shard says: of the messages at position P or before in the delay
 * stream, each that is due at T or before has ended. It has ended if its target has acknowledged
 * it, if the dead letters have, if the delay stream has acknowledged that it is there again for a
 * later time, or if it was cancelled or replaced.
 *
 * THE OWNER says it, of its own store S, in this order:
 *
 *   1. P is the position up to which it has put everything into S. Those puts have returned. Before the
 *      watermark is written, the stream's leader has agreed at P or at a later place; see agree.c. A
 *      copy of the stream that lacks a message gives other positions to all behind it, or leaves a gap, of which the leader
 *      has said that it has nothing there either. So S lacks nothing of the stream up to P.
 *   2. It takes from S, and the take says its frontier F.
 *   3. lowest is the earliest due time among the messages that were taken and have not ended.
 *   4. T is the least of F - 1 and lowest - 1.
 *
 * It is true when it is said. Let M be a message at P or before, due at T or before. Either M was
 * covered by an earlier watermark, so it has ended; or its put has returned before step 2. By the
 * promise of hwt_delay_take_frontier(), M was leased then, or had ended, since it is due before F.
 * If it was leased, this owner has taken it. It is not due at lowest or later, so it has ended. A
 * message ends only after an acknowledgement. The number of messages that a take has returned is in
 * no step: a take may return fewer than there are. If P were read after step 2, a message could be
 * put between them.
 *
 * It stays true, because a message that has ended does not begin again: a key that is put once more
 * is another message, at a later position. The owner may therefore be paused between these steps and the
 * moment at which the watermark is written, for any length of time. It is written with the
 * ownership, in one compare-and-set, so the entry's watermarks come from one owner at a time.
 *
 * A FOLLOWER drops what a watermark covers. Nothing is lost by that, since what is covered has
 * ended. It does not drop by its clock, nor by anything else, so that what has not ended is in each
 * store of a replica that has read so far, and in the stream for those that have not. A follower does
 * not put a message that it reads later, if that is covered. It drops by the order of its own puts: all
 * that it had put when it had read up to a place that P covers, and is due at T or before.
 *
 * A position means something only within one incarnation of the stream, so a watermark covers
 * nothing of another one. Copies of a stream that has lost messages can give one position to two
 * messages. So a watermark has P's timestamp, too, and covers no message with a later one: a
 * message that the owner cannot have read is then not dropped, as long as the stream's timestamps
 * ascend.
 *
 * All this is about messages that the stream has. If it was made anew, or the broker has lost a part,
 * an owner forwards those that its store has, and a follower drops them with the rest. So nobody
 * forwards a lost message that no owner has read.
 */

#include "hwt/relay/engine.h"
#include "hwt/relay/record.h"

struct relay_watermark {
    struct relay_place place; /* P */
    uint64_t due;             /* T */
};

enum { RELAY_NAME_MAX = 64 }; /* of a replica, its final 0 included */

/* The shard's entry at the broker says who owns it, and has the watermark. */
struct relay_entry {
    char owner[RELAY_NAME_MAX]; /* "-": nobody, so that it may be taken at once */
    uint64_t life;              /* of the owner's process: drawn at random when it began */
    struct relay_watermark watermark;
};

bool relay_watermark_covers(const struct relay_watermark *watermark,
                            const struct relay_place *place, uint64_t due);

void relay_entry_write(const struct relay_entry *entry, char text[RELAY_ENTRY_MAX]);
/* "" is an entry without an owner. Words that it does not know are passed over. -EBADMSG: it is no
 * entry. */
int relay_entry_read(const char *text, struct relay_entry *ret_entry);

/* A replica, in an entry of its own for each shard. One that is forgotten is waited for no more,
 * until it runs again and says so itself. */
struct relay_member {
    struct relay_place place;    /* up to which its store has read durably */
    uint64_t life;               /* as in relay_entry */
    bool ready;                  /* it could own the shard */
    uint64_t policy;             /* relay_policy_hash(); 0: its version does not say it */
    uint64_t lease;              /* of what it owns, ns; 0: likewise */
    char why[RELAY_NAME_MAX];    /* it is not ready, a word of relay_whys; "": that is not known */
    char server[RELAY_NAME_MAX]; /* that it talks to; "": that is not known */
};

#define RELAY_FORGOTTEN ((struct relay_place){ .incarnation = UINT64_MAX })
bool relay_place_is_forgotten(const struct relay_place *place);
void relay_member_write(const struct relay_member *member, char text[RELAY_ENTRY_MAX]);
/* "" is one that has never been. -EBADMSG: it is none. */
int relay_member_read(const char *text, struct relay_member *ret_member);

/* The secret of a shard, see proof.h. -EBADMSG: it is none. */
void relay_secret_write(const uint64_t secret[2], char text[RELAY_ENTRY_MAX]);
int relay_secret_read(const char *text, uint64_t ret_secret[2]);

/* A store's note: the place up to which it has read, and that of the highest position that it has
 * ever read in this incarnation. "" is the place before all. */
void relay_note_write(const struct relay_place *place, const struct relay_place *top,
                      char text[RELAY_ENTRY_MAX]);
int relay_note_read(const char *text, struct relay_place *ret_place, struct relay_place *ret_top);

#endif
