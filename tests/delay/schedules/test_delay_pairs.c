/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Every call of a store against every step of every other, and then the power goes. A thread makes
 * a call and stands before or behind one of its uses of the disk: in a checkpoint, in the commit
 * of a put, a cancel, a done or a retry, or while slots are read. Meanwhile another makes a call to
 * its end, or until it waits for the first; in some schedules a third does, too. In the middle of it
 * and at the end:
 *   - what a crash would leave then has every change whose call has returned, and of those that
 *     are under way each as a whole or not at all; and every message that a take has given;
 *   - no take has given what is not pending, not durable, leased, or not due;
 *   - each message that is left comes once, and then there is nothing.
 *
 *     HWT_TEST_SCALE=n    an nth of the schedules, which the seed chooses (default 8; 64 under a
 *                         sanitizer)
 */

#include "kit.h"
#include "stress.h"
#include "tests/delay/support/story_inside.h"

#include "hwt/delay/whole.h"

/* Of the schedules of three calls there are so many more. */
enum { THIRDS = 8 };

static const enum operation firsts[] = { CHECKPOINT,  PUT,  CANCEL_SLOT, REPLACE, DONE, RETRY, LOAD,
                                         LOAD_AND_DO, LIST, CHECK,       APPLY,   DROP, TAKE };

static struct disk *base;
static uint64_t schedules;

static uint64_t scale(void)
{
    const char *text = getenv("HWT_TEST_SCALE");
    uint64_t n = text && *text ? strtoull(text, NULL, 0) : TEST_SANITIZED ? 64 : 8;
    return n > 0 ? n : 1;
}

static bool is_chosen(uint64_t of)
{
    return test_random(&story.random) % of == 0;
}

static void begin_player(unsigned i, enum operation operation, uint64_t steps)
{
    story.count = i + 1;
    player_begin(&story.players[i], story_call, (int)operation, steps);
}

/* The first call to its n-th point, the others, the first to its end. False: it has no such point. */
static bool schedule(enum operation first, uint64_t n, const enum operation *others, unsigned count,
                     bool bulk)
{
    story_begin(base, bulk, false);
    begin_player(0, first, n);
    bool stands = player_await(&story.players[0], false) == STANDS;
    for (unsigned i = 0; stands && i < count; i++) {
        begin_player(i + 1, others[i], 0);
        player_await(&story.players[i + 1], true);
    }
    story_crash(stands ? 2 : 0);
    for (unsigned i = 0; i < story.count; i++)
        player_end(&story.players[i]);
    story_crash(stands ? 1 : 0);
    story_end();
    schedules += stands;
    return stands;
}

/* How many points it has. */
static uint64_t points_of(enum operation first, bool bulk)
{
    uint64_t n = 1;
    while (schedule(first, n, NULL, 0, bulk))
        n++;
    return n - 1;
}

static void play_all(enum operation first, bool bulk)
{
    story.random = test_seed() + (uint64_t)first;
    base = story_prepare(bulk);
    uint64_t points = points_of(first, bulk), of = scale();
    for (uint64_t n = 1; n <= points; n++) {
        for (unsigned second = 0; second < OPERATIONS; second++) {
            const enum operation others[] = {
                (enum operation)second, (enum operation)(test_random(&story.random) % OPERATIONS)
            };
            if (is_chosen(of))
                schedule(first, n, others, 1, bulk);
            if (is_chosen(of * THIRDS))
                schedule(first, n, others, 2, bulk);
        }
    }
    printf("%s%s: %" PRIu64 " points, %" PRIu64 " schedules, %" PRIu64 " images\n",
           operation_names[first], bulk ? ", with bulk" : "", points, schedules, story.images);
    disk_free(base);
}

START_TEST(test_calls_against_steps)
{
    play_all(firsts[_i], false);
}
END_TEST

/* The checkpoint evicts what it has filed. */
START_TEST(test_calls_against_a_checkpoint_that_evicts)
{
    play_all(CHECKPOINT, true);
}
END_TEST

/*
 *   PUT stands at a point
 *                             PUT is gathered, and waits
 *                                                          CHECKPOINT waits for that, or
 *   goes to its end
 *                             stands before its write
 *                                                          takes all that may be taken
 */
START_TEST(test_a_frame_behind_another)
{
    const bool checkpoint = _i % 2 == 1;
    story.random = test_seed();
    base = story_prepare(false);
    story_begin(base, false, false);
    begin_player(0, PUT, 1 + (uint64_t)_i / 2);
    must(player_await(&story.players[0], false) == STANDS);
    begin_player(1, PUT, checkpoint ? 0 : 1);
    must(player_await(&story.players[1], true) == WAITS);
    if (checkpoint) {
        begin_player(2, CHECKPOINT, 0);
        must(player_await(&story.players[2], true) == WAITS);
    }
    player_end(&story.players[0]);
    if (!checkpoint) {
        must(player_await(&story.players[1], false) == STANDS);
        story_do(LOAD, 2);
        story_crash(2);
    }
    for (unsigned i = 1; i < story.count; i++)
        player_end(&story.players[i]);
    story_do(PUT_AND_CANCEL, 0);
    story_do(PUT_AGAIN, 0);
    story_crash(2);
    story_end();
    disk_free(base);
}
END_TEST

/* Once more what is due, and on the disk. */
static void put_again(struct player *player)
{
    (void)player;
    story_lock();
    story_will(0, NEW, true, ++story.messages[NEW].versions, NEW);
    story_unlock();
    held_pass("before its put");
    must(story_put(NEW, story.messages[NEW].versions) == 0);
    story_lock();
    story_did(0, NEW, true);
    story_unlock();
}

/*
 *   a put is about to be made
 *                             a take that has begun behind that stands at a point, the last one with
 *                             what it has taken
 *   is made, or waits for the take
 *                             goes to its end
 */
START_TEST(test_a_put_around_a_take)
{
    bool stands = true;
    story.random = test_seed();
    base = story_prepare(false);
    for (uint64_t n = 1; stands; n++) {
        story_begin(base, false, false);
        story_do(PUT_SAME, 0);
        player_begin(&story.players[0], put_again, PUT_SAME, 1);
        must(player_await(&story.players[0], false) == STANDS);
        begin_player(1, LOAD_AND_DO, n);
        stands = player_await(&story.players[1], false) == STANDS;
        player_let_go(&story.players[0]);
        player_await(&story.players[0], true);
        story_crash(1);
        player_end(&story.players[1]);
        player_end(&story.players[0]);
        story_end();
    }
    disk_free(base);
}
END_TEST

/*
 *   LIST reads a slot
 *                             LOAD waits for that
 *                                                          LIST waits, too
 *   goes to its end
 *                             goes to its end
 *                                                          reads when LOAD has loaded
 *
 * A visit locks the slots again and again, and would be the first to do so each time.
 */
START_TEST(test_a_load_goes_before_a_visit)
{
    story.random = test_seed();
    base = story_prepare(false);
    for (int i = 0; i < 20; i++) {
        story_begin(base, false, false);
        begin_player(0, LIST, 1);
        must(player_await(&story.players[0], false) == STANDS);
        begin_player(1, LOAD, 0);
        must(player_await(&story.players[1], true) == WAITS);
        begin_player(2, LIST, 1);
        must(player_await(&story.players[2], true) == WAITS);
        player_let_go(&story.players[0]);
        must(player_await(&story.players[2], false) == STANDS);
        pthread_mutex_lock(&story.store->lock);
        ck_assert_uint_gt(hwt_delay_loaded(story.store).due, story_due(SOON));
        pthread_mutex_unlock(&story.store->lock);
        player_let_go(&story.players[2]); /* LOAD may wait for it once more */
        for (unsigned n = 0; n < story.count; n++)
            player_end(&story.players[n]);
        story_end();
    }
    disk_free(base);
}
END_TEST

/* So much the record of a message with an id of 4 bytes takes at most, without its payload. */
#define PUT_MOST (HWT_DELAY_RECORD_HEAD_MAX + 4 + HWT_DELAY_COUNTS_SIZE + sizeof(uint32_t))

/* Room for records in the frame that is gathered. */
static size_t room_in_frame(void)
{
    const struct hwt_delay_log *log = &story.store->log;
    pthread_mutex_lock(&story.store->lock);
    size_t room = log->frame_max - HWT_DELAY_FRAME_SIZE - log->length;
    pthread_mutex_unlock(&story.store->lock);
    return room;
}

static void ignore(int result, void *arg)
{
    (void)arg;
    must(result == 0);
}

/* Another thread writes a frame, so this one's is gathered: a record that takes so much at most. */
static void gather(uint32_t number, size_t most)
{
    story.messages[number].size = (uint32_t)(most - PUT_MOST);
    story_lock();
    story_will(2, number, true, 1, number);
    story_unlock();
    must(story_put_async(number, 1, ignore, NULL) == 0);
}

/* What ends a lease and what puts the message back are in one frame: the next, if need be. */
START_TEST(test_a_retry_that_has_no_room_in_the_frame)
{
    const size_t both = HWT_DELAY_RECORD_HEAD_MAX + sizeof(uint32_t) + PUT_MOST + 40;
    uint32_t number = BULK;
    story.random = test_seed();
    base = story_prepare(false);
    story_begin(base, false, false);
    begin_player(0, PUT, 1);
    must(player_await(&story.players[0], false) == STANDS);
    while (room_in_frame() > 8000)
        gather(number++, 4000);
    gather(number++, (room_in_frame() - both) / 8 * 8 + 48); /* it may take 24 less */
    must(room_in_frame() < both);
    begin_player(1, RETRY, 0);
    must(player_await(&story.players[1], true) == WAITS);
    story_crash(2);
    for (unsigned i = 0; i < story.count; i++)
        player_end(&story.players[i]);
    story_do(PUT, 2); /* behind it all is durable */
    while (number-- > BULK) {
        story_lock();
        story_did(2, number, true);
        story_unlock();
    }
    story_crash(2);
    story_end();
    disk_free(base);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_pairs");
    TCase *tcase = tcase_create("pairs");
    tcase_set_timeout(tcase, 600);
    tcase_add_loop_test(tcase, test_calls_against_steps, 0,
                        (int)(sizeof(firsts) / sizeof(firsts[0])));
    tcase_add_test(tcase, test_calls_against_a_checkpoint_that_evicts);
    tcase_add_loop_test(tcase, test_a_frame_behind_another, 0, 8);
    tcase_add_test(tcase, test_a_put_around_a_take);
    tcase_add_test(tcase, test_a_load_goes_before_a_visit);
    tcase_add_test(tcase, test_a_retry_that_has_no_room_in_the_frame);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
