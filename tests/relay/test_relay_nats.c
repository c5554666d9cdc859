/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The engine on NATS, without a server: it is given what one could send. Deliveries of a consumer carry the consumer's own
 * count in their reply subject. It tells a delivery that was lost on its way, as when its server dies, from a
 * message that is deleted in the stream.
 */

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "hwt/relay/nats_pull.c"
#include "hwt/relay/nats_send.c"

static struct relay_nats *nats;
static unsigned lines; /* of the log */

void relay_log(unsigned shard, const char *format, ...)
{
    (void)shard;
    (void)format;
    lines++;
}

static void set_up(void)
{
    ck_assert_int_eq(nats_Open(-1), NATS_OK);
    nats = calloc(1, sizeof(*nats));
    pthread_mutex_init(&nats->lock, NULL);
    nats->event = -1;
    nats->engine.calls = NULL;
    snprintf(nats->consumer, sizeof(nats->consumer), "C");
}

static void tear_down(void)
{
    free_pulled(nats);
    drop_arrived(nats);
    free(nats->arrived);
    pthread_mutex_destroy(&nats->lock);
    free(nats);
    nats_CloseAndWait(0); /* its threads have nothing any more when leaks are looked for */
}

/* The consumer's n-th delivery is the message at that position. */
static void deliver(const char *consumer, unsigned n, unsigned position)
{
    char reply[128];
    natsMsg *msg;

    snprintf(reply, sizeof(reply), "$JS.ACK.S.%s.1.%u.%u.1795447491066254401.0", consumer, position,
             n);
    ck_assert_int_eq(natsMsg_Create(&msg, "hwt.shop.0", reply, "x", 1), NATS_OK);
    on_message(NULL, NULL, msg, nats);
}

/* How many the shard is given, the last of which is at this position. */
static void expect(size_t count, uint64_t last, bool goes_on)
{
    take_arrived(nats, RELAY_PULL_MAX);
    ck_assert_uint_eq(nats->pulled_count, count);
    ck_assert_uint_eq(nats->given, last);
    ck_assert_int_eq(*nats->consumer != 0, goes_on);
}

START_TEST(deliveries_that_follow_each_other_are_taken)
{
    deliver("C", 1, 1);
    deliver("C", 2, 2);
    deliver("C", 3, 3);
    expect(3, 3, true);
}
END_TEST

START_TEST(what_is_deleted_in_the_stream_is_passed_over)
{
    deliver("C", 1, 5);
    deliver("C", 2, 9);
    expect(2, 9, true);
}
END_TEST

START_TEST(behind_a_delivery_that_was_lost_nothing_is_taken)
{
    deliver("C", 1, 1);
    deliver("C", 2, 2);
    deliver("C", 4, 4);
    deliver("C", 5, 5);
    expect(2, 2, false); /* a new consumer begins at 3 */
}
END_TEST

START_TEST(the_first_delivery_may_be_the_lost_one)
{
    deliver("C", 2, 2);
    expect(0, 0, false);
}
END_TEST

START_TEST(what_another_consumer_delivers_is_nothing)
{
    deliver("B", 1, 1);
    deliver("C", 1, 1);
    deliver("B", 2, 2);
    deliver("C", 2, 2);
    expect(2, 2, true);
}
END_TEST

/* A message without a reply subject of a delivery tells of the consumer. Of a request as many are left, if that is not
 * negative. */
static void tell(const char *status, const char *description, const char *reply, int left)
{
    char number[16];
    natsMsg *msg;
    ck_assert_int_eq(natsMsg_Create(&msg, "_INBOX.x", reply, "", 0), NATS_OK);
    if (status)
        ck_assert_int_eq(natsMsgHeader_Set(msg, "Status", status), NATS_OK);
    if (description)
        ck_assert_int_eq(natsMsgHeader_Set(msg, "Description", description), NATS_OK);
    snprintf(number, sizeof(number), "%d", left);
    if (left >= 0)
        ck_assert_int_eq(natsMsgHeader_Set(msg, "Nats-Pending-Messages", number), NATS_OK);
    on_message(NULL, NULL, msg, nats);
}

/* 700 are still to come of two requests. */
static void begin_asked(void)
{
    snprintf(nats->consumer, sizeof(nats->consumer), "C");
    nats->requested = 700;
    nats->batch = BATCH;
    nats->ask_at = nats->say_at = 0;
    lines = 0;
}

/* Each text that servers of 2.9, 2.10, 2.12 and 2.15 send. */
START_TEST(a_status_ends_what_it_says)
{
    static const struct {
        const char *status, *description;
        int left;           /* that it says; -1: none */
        int64_t asked;      /* still to come then */
        bool ends, refuses; /* the consumer; it asks no more for a while, and says so */
    } cases[] = {
        { "100", "Idle Heartbeat", -1, 700, false, false },
        { "100", "FlowControl Request", -1, 700, false, false },
        { "409", "Batch Completed", 0, 700, false, false },
        { "409", "Message Size Exceeds MaxBytes", 40, 660, false, false },
        { "409", "Message Size Exceeds MaxBytes", 701, 0, false, false },
        { "409", "Message Size Exceeds MaxBytes", -1, 700 - BATCH, false, false },
        { "404", "No Messages", -1, 0, false, false },
        { "408", "Request Timeout", 40, 0, false, false },
        { "408", "Interest Expired", 40, 0, false, false },
        { "408", "Requests Pending", -1, 0, false, false },
        { "400", "Bad Request - invalid batch size", -1, 0, false, true },
        { "400", "Bad Request - Priority Group missing", -1, 0, false, true },
        { "409", "Exceeded MaxRequestBatch of 100", -1, 0, false, true },
        { "409", "Exceeded MaxRequestExpires of 1s", -1, 0, false, true },
        { "409", "Exceeded MaxRequestMaxBytes of 100", -1, 0, false, true },
        { "409", "Exceeded MaxWaiting", -1, 0, false, true },
        { "412", "Required Api Level", -1, 0, false, true },
        { "423", "Nats-Wrong-Pin-Id", 40, 0, false, true },
        { "423", "Nats-Pin-Id mismatch", -1, 0, false, true },
        { "409", "Consumer Deleted", -1, 700, true, false },
        { "409", "Consumer is push based", -1, 700, true, false },
        { "409", "Leadership Change", -1, 700, true, false },
        { "409", "Server Shutdown", 40, 700, true, false },
        { "503", NULL, -1, 700, true, false },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin_asked();
        tell(cases[i].status, cases[i].description, i == 1 ? "$JS.FC.S.C.1" : NULL, cases[i].left);
        take_arrived(nats, RELAY_PULL_MAX);
        ck_assert_msg((*nats->consumer == 0) == cases[i].ends, "%s", cases[i].description);
        ck_assert_msg(nats->requested == cases[i].asked, "%s", cases[i].description);
        ck_assert_msg((nats->ask_at != 0) == cases[i].refuses, "%s", cases[i].description);
        ck_assert_uint_eq(lines, cases[i].refuses);
    }
}
END_TEST

/* It is said, but not each time. */
START_TEST(a_status_that_is_not_known_ends_nothing)
{
    static const struct {
        const char *status, *description;
    } cases[] = { { "409", "Stream Is Tired" }, { "409", NULL },    { "599", "Idle Heartbeat" },
                  { "408", "Bad Request" },     { "100", "Hello" }, { NULL, NULL } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin_asked();
        tell(cases[i].status, cases[i].description, NULL, 40);
        tell(cases[i].status, cases[i].description, NULL, 40);
        expect(0, 0, true);
        ck_assert_int_eq(nats->requested, 700);
        ck_assert_uint_eq(lines, 1);
    }
}
END_TEST

START_TEST(deliveries_that_cannot_be_read_are_nothing)
{
    char text[600];
    tell(NULL, NULL, "$JS.ACK.S.C.1", -1);
    tell(NULL, NULL, "$JS.ACK.S.C.1.x.1.5.0", -1);
    tell(NULL, NULL, "$JS.ACK.S.C.1.1.x.5.0", -1);
    tell(NULL, NULL, "$JS.ACK.S.C.1.1.1.x.0", -1);
    snprintf(text, sizeof(text), "$JS.ACK.%0550d", 0);
    tell(NULL, NULL, text, -1);
    tell(NULL, NULL, "$JS.ACK.domain.account.S.C.1.7.1.5.0.more", -1); /* this one can */
    expect(1, 7, true);
}
END_TEST

/* The library's own, which makes what has arrived. */
natsStatus natsMsg_create(natsMsg **msg, const char *subject, int subject_size, const char *reply,
                          int reply_size, const char *bytes, int size, int header_size);

static const struct relay_message *arrive(const char *header, size_t header_size,
                                          const char *payload)
{
    static const char reply[] = "$JS.ACK.S.C.1.1.1.5.0";
    static char bytes[1 << 17];
    const size_t size = header_size + strlen(payload);
    natsMsg *msg;

    memcpy(bytes, header, header_size);
    memcpy(bytes + header_size, payload, strlen(payload));
    ck_assert_int_eq(natsMsg_create(&msg, "hwt.shop.0", 10, reply, sizeof(reply) - 1, bytes,
                                    (int)size, (int)header_size),
                     NATS_OK);
    on_message(NULL, NULL, msg, nats);
    expect(1, 1, true);
    ck_assert_uint_eq(nats->messages[0].timestamp, 5);
    ck_assert_uint_eq(nats->messages[0].payload_size, strlen(payload));
    return &nats->messages[0];
}

/* The library would eat what is behind an empty one, and refuse all for the line without a name. */
START_TEST(headers_are_read_as_their_bytes_stand)
{
    static const char header[] =
        "NATS/1.0\r\nB: 2\r\nA:  1 \r\nEmpty: \r\nHwt-Key: k\r\nB: 3\r\n: x\r\n\r\n";
    static const struct relay_field fields[] = {
        { "", ": x" }, { "A", "1" }, { "B", "2" }, { "B", "3" }, { "Empty", "" }, { "Hwt-Key", "k" }
    };
    const struct relay_message *message = arrive(header, sizeof(header) - 1, "pay");

    ck_assert_uint_eq(message->fields_count, 6);
    for (size_t i = 0; i < 6; i++) {
        ck_assert_str_eq(message->fields[i].name, fields[i].name);
        ck_assert_str_eq(message->fields[i].value, fields[i].value);
    }
    ck_assert_mem_eq(message->payload, "pay", 3);
}
END_TEST

START_TEST(a_message_may_have_no_header)
{
    ck_assert_uint_eq(arrive("", 0, "pay")->fields_count, 0);
}
END_TEST

/* It would be read without the headers that the library knows of. */
START_TEST(a_library_that_has_headers_elsewhere_is_refused)
{
    natsMsg *msg;
    lines = 0;
    nats->say_at = 0;
    ck_assert_int_eq(natsMsg_Create(&msg, "hwt.shop.0", "$JS.ACK.S.C.1.1.1.5.0", "x", 1), NATS_OK);
    ck_assert_int_eq(natsMsgHeader_Add(msg, "A", "1"), NATS_OK);
    on_message(NULL, NULL, msg, nats);
    expect(0, 0, false);
    ck_assert_uint_eq(lines, 1);
}
END_TEST

START_TEST(no_more_are_given_than_are_wanted)
{
    for (unsigned i = 1; i <= 100; i++)
        deliver("C", i, i);
    take_arrived(nats, 60);
    ck_assert_uint_eq(nats->pulled_count, 60);
    free_pulled(nats);
    expect(40, 100, true);
}
END_TEST

/* ---- answers ---- */

/* The server answers what was sent from a place, and what is told of that. */
static struct relay_answer answer_to(size_t place, uint64_t number, const char *status,
                                     const char *text)
{
    static char inbox[] = "_INBOX.a";
    char subject[64];
    natsMsg *msg;
    struct relay_answer answer = { .result = 1 };
    snprintf(subject, sizeof(subject), "_INBOX.a.%zu.%llu", place, (unsigned long long)number);
    ck_assert_int_eq(natsMsg_Create(&msg, subject, NULL, text, (int)strlen(text)), NATS_OK);
    if (status)
        ck_assert_int_eq(natsMsgHeader_Set(msg, "Status", status), NATS_OK);
    nats->answer_inbox = inbox;
    on_answer(NULL, NULL, msg, nats);
    nats->answer_inbox = NULL;
    if (relay_nats_answers(&nats->engine, 1, &answer) == 1)
        ck_assert_uint_eq(answer.cookie, 77);
    return answer;
}

START_TEST(an_answer_says_what_became_of_a_message)
{
    static const struct {
        const char *status, *text;
        int result;
        bool repeated;
    } cases[] = {
        { NULL, "{\"stream\":\"ORDERS\",\"seq\":1}", 0, false },
        { NULL, "{\"stream\":\"ORDERS\",\"seq\":1,\"duplicate\":true}", 0, true },
        { NULL, "{\"stream\":\"error\",\"seq\":1}", 0, false },
        { NULL, "{\"stream\":\"duplicate\",\"seq\":1}", 0, false },
        { NULL, "{\"stream\":\"ORDERS\",\"seq\":0,\"duplicate\":true}", -ETIMEDOUT, true },
        { "503", "", -EHOSTUNREACH, false },
        { NULL, "hello", -EIO, false },
        { NULL, "{\"error\":{\"code\":400,\"err_code\":10054}}", -EMSGSIZE, false },
        { NULL, "{\"error\":{\"code\":400,\"err_code\":10077}}", -EIO, false },
        { NULL, "{\"error\":{\"code\":400}}", -EIO, false },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t place = take_place(nats, 77);
        struct relay_answer answer =
            answer_to(place, nats->send_number, cases[i].status, cases[i].text);
        ck_assert_int_eq(answer.result, cases[i].result);
        ck_assert_int_eq(answer.repeated, cases[i].repeated);
    }
}
END_TEST

START_TEST(an_answer_to_what_is_over_is_nothing)
{
    size_t place = take_place(nats, 77);
    ck_assert_int_eq(answer_to(place, nats->send_number + 1, NULL, "{\"stream\":\"S\"}").result, 1);
    ck_assert_int_eq(
        answer_to(NATS_SENDS_MAX, nats->send_number, NULL, "{\"stream\":\"S\"}").result, 1);
    end_send(nats, place, nats->send_number + 1, -EIO);
    end_send(nats, place, nats->send_number, -EMSGSIZE);
    struct relay_answer answer;
    ck_assert_uint_eq(relay_nats_answers(&nats->engine, 1, &answer), 1);
    ck_assert_int_eq(answer.result, -EMSGSIZE);
}
END_TEST

START_TEST(what_is_not_answered_ends_in_its_time)
{
    struct relay_answer answer;
    size_t place = take_place(nats, 77);
    ck_assert_uint_eq(relay_nats_answers(&nats->engine, 1, &answer), 0);
    nats->sends[place].until = 1;
    nats->look_for_late_at = 0;
    ck_assert_uint_eq(relay_nats_answers(&nats->engine, 1, &answer), 1);
    ck_assert_int_eq(answer.result, -ETIMEDOUT);
}
END_TEST

START_TEST(places_come_to_an_end)
{
    for (size_t i = 0; i < NATS_SENDS_MAX; i++)
        ck_assert_uint_eq(take_place(nats, 77), i);
    ck_assert_uint_eq(take_place(nats, 77), NATS_SENDS_MAX);
    end_send(nats, 5, 6, 0);
    ck_assert_uint_eq(take_place(nats, 77), 5);
}
END_TEST

/* The library's own, which write what is sent. */
typedef struct __natsBuffer natsBuffer;
natsStatus natsBuf_CreateWithBackend(natsBuffer **buffer, char *bytes, int size, int room);
void natsBuf_Destroy(natsBuffer *buffer);
natsStatus natsMsgHeader_encode(natsBuffer *buffer, natsMsg *msg);

/* A server that looks for an id takes the first bytes that look like one. */
START_TEST(a_message_has_its_id_before_its_headers)
{
    static const char *const targets[] = { NULL, "", "orders.x" };
    static const char *const subjects[] = { "hwt.shop.0", "hwt.shop.dead", "orders.x" };
    static const char block[] =
        "NATS/1.0\r\nNats-Msg-Id: id\r\nZ: no Nats-Msg-Id: x\r\nA: 1\r\nA: 2\r\n\r\n";
    const struct relay_field fields[] = { { "Z", "no Nats-Msg-Id: x" },
                                          { "A", "1" },
                                          { "A", "2" } };
    snprintf(nats->subject, sizeof(nats->subject), "hwt.shop.0");
    snprintf(nats->dead, sizeof(nats->dead), "hwt.shop.dead");
    for (size_t i = 0; i < 3; i++) {
        const struct relay_outgoing message = { .target = targets[i],
                                                .id = i == 0 ? NULL : "id",
                                                .fields = fields,
                                                .fields_count = i == 0 ? 0 : 3,
                                                .payload = "x",
                                                .payload_size = 1 };
        char bytes[256] = "";
        natsBuffer *buffer;
        natsMsg *msg = NULL;
        ck_assert_int_eq(make(nats, &message, "r", &msg), NATS_OK);
        ck_assert_str_eq(natsMsg_GetSubject(msg), subjects[i]);
        ck_assert_int_eq(natsBuf_CreateWithBackend(&buffer, bytes, 0, sizeof(bytes)), NATS_OK);
        ck_assert_int_eq(natsMsgHeader_encode(buffer, msg) == NATS_OK, i > 0);
        ck_assert_str_eq(bytes, i == 0 ? "" : block);
        natsBuf_Destroy(buffer);
        natsMsg_Destroy(msg);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("relay_nats");
    TCase *tcase = tcase_create("nats");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, deliveries_that_follow_each_other_are_taken);
    tcase_add_test(tcase, what_is_deleted_in_the_stream_is_passed_over);
    tcase_add_test(tcase, behind_a_delivery_that_was_lost_nothing_is_taken);
    tcase_add_test(tcase, the_first_delivery_may_be_the_lost_one);
    tcase_add_test(tcase, what_another_consumer_delivers_is_nothing);
    tcase_add_test(tcase, a_status_ends_what_it_says);
    tcase_add_test(tcase, a_status_that_is_not_known_ends_nothing);
    tcase_add_test(tcase, deliveries_that_cannot_be_read_are_nothing);
    tcase_add_test(tcase, headers_are_read_as_their_bytes_stand);
    tcase_add_test(tcase, a_message_may_have_no_header);
    tcase_add_test(tcase, a_library_that_has_headers_elsewhere_is_refused);
    tcase_add_test(tcase, no_more_are_given_than_are_wanted);
    tcase_add_test(tcase, an_answer_says_what_became_of_a_message);
    tcase_add_test(tcase, an_answer_to_what_is_over_is_nothing);
    tcase_add_test(tcase, what_is_not_answered_ends_in_its_time);
    tcase_add_test(tcase, places_come_to_an_end);
    tcase_add_test(tcase, a_message_has_its_id_before_its_headers);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
