/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A C++17 program on the installed package: a store of delayed messages that owns what it is, and
 * messages that free themselves. In the directory that it is given.
 */

#include <hwt/delay.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace
{

static_assert(std::is_standard_layout<hwt_delay_message>::value, "arrays of it go to C");
static_assert(std::is_trivially_copyable<hwt_delay_message>::value, "and come from there");
static_assert(std::is_standard_layout<hwt_delay_change>::value, "arrays of it, too");
static_assert(std::is_standard_layout<hwt_delay_batch>::value, "C knows it");

struct close_store {
    void operator()(hwt_delay *store) const
    {
        if (hwt_delay_close(store) != 0)
            std::fputs("the last flush failed\n", stderr);
    }
};

struct free_messages {
    void operator()(const hwt_delay_message *messages) const
    {
        hwt_delay_free(messages);
    }
};

using messages = std::unique_ptr<const hwt_delay_message[], free_messages>;

int check(int64_t result)
{
    if (result < 0)
        throw std::runtime_error(std::strerror(static_cast<int>(-result)));
    return static_cast<int>(result);
}

class store
{
  public:
    explicit store(const char *directory)
    {
        hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
        hwt_delay *made = nullptr;
        options.flags = HWT_DELAY_CREATE;
        options.segment_size = UINT64_C(8) << 20;
        check(hwt_delay_open(directory, &options, &made));
        owned.reset(made);
    }

    void put(uint64_t due, const std::string &id, const std::string &payload)
    {
        hwt_delay_message message{};
        message.due = due;
        message.id = id.data();
        message.id_size = id.size();
        message.payload = payload.data();
        message.payload_size = payload.size();
        check(hwt_delay_put(owned.get(), &message, 1));
    }

    int take(size_t max, messages &ret_messages)
    {
        const hwt_delay_message *taken = nullptr;
        int n = check(hwt_delay_take(owned.get(), max, HWT_SEC(30), &taken));
        ret_messages.reset(taken);
        return n;
    }

    hwt_delay *get() const
    {
        return owned.get();
    }

  private:
    std::unique_ptr<hwt_delay, close_store> owned;
};

int run(const char *directory)
{
    store delays(directory);
    messages taken;
    uint64_t now = hwt_delay_now(delays.get());
    delays.put(now, "order-17", "remind");
    delays.put(now + HWT_SEC(3600), "order-18", "remind");
    if (check(hwt_delay_cancel(delays.get(), now + HWT_SEC(3600), "order-18", 8)) != 0 ||
        delays.take(10, taken) != 1)
        return 1;
    std::string id(static_cast<const char *>(taken[0].id), taken[0].id_size);
    if (id != "order-17" || taken[0].deliveries != 1)
        return 1;
    /* It is done, and its next stage is put, in one step; and that is cancelled. */
    hwt_delay_message next = taken[0];
    next.due = now + HWT_SEC(7200);
    hwt_delay_change changes[2]{};
    changes[0].op = HWT_DELAY_OP_DONE;
    changes[0].lease = taken[0].lease;
    changes[1].op = HWT_DELAY_OP_PUT;
    changes[1].message = &next;
    hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
    check(hwt_delay_apply(delays.get(), changes, 2, &batch));
    if (changes[0].result != 0 || changes[1].result != 0 || batch.mark == 0)
        return 1;
    check(hwt_delay_cancel(delays.get(), next.due, next.id, next.id_size));
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    check(hwt_delay_get_stats(delays.get(), &stats));
    return stats.pending == 0 && stats.done == 1 && stats.lateness[63] == 0 ? 0 : 1;
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 2) {
        std::fputs("usage: delay17 DIRECTORY\n", stderr);
        return 2;
    }
    try {
        return run(argv[1]);
    } catch (const std::exception &exception) {
        std::fprintf(stderr, "%s\n", exception.what());
        return 1;
    }
}
