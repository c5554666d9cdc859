/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A C++17 program on the installed package: a timer and a timeout that own what they are, a
 * std::function as the task, and all three headers.
 */

#include <hwt/heartbeat.h>
#include <hwt/hwt.h>
#include <hwt/retry.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>

namespace
{

constexpr uint64_t tick = HWT_MS(1);
static_assert(HWT_SEC(2) == 2000 * tick, "the units are constant expressions");
static_assert(HWT_MIN(UINT64_MAX) == HWT_NEVER, "and saturate");

struct destroy {
    void operator()(hwt_timer *timer) const
    {
        hwt_timer_destroy(timer);
    }
};

class timer
{
  public:
    explicit timer(uint64_t tick_duration)
    {
        hwt_options options = HWT_OPTIONS_INIT;
        hwt_timer *made = nullptr;
        options.tick_duration = tick_duration;
        if (hwt_timer_create(&options, &made) != 0)
            throw std::runtime_error("no timer");
        owned.reset(made);
    }

    /* The function is freed in one place, for each timeout ends in one: its run, or its cancel. */
    hwt_timeout after(std::chrono::nanoseconds delay, std::function<void(bool)> ended)
    {
        static const hwt_task task = { run, cancelled };
        auto function = std::make_unique<std::function<void(bool)>>(std::move(ended));
        hwt_timeout timeout{};
        auto ticks = static_cast<uint64_t>(delay.count());
        if (hwt_timer_new_timeout(owned.get(), &task, function.get(), ticks, &timeout) != 0)
            throw std::runtime_error("no timeout");
        function.release();
        return timeout;
    }

    hwt_timer *get() const
    {
        return owned.get();
    }

  private:
    static void end(void *arg, bool in_time) noexcept
    {
        std::unique_ptr<std::function<void(bool)>> f(static_cast<std::function<void(bool)> *>(arg));
        (*f)(in_time);
    }

    static void run(hwt_timeout, void *arg)
    {
        end(arg, false);
    }

    static void cancelled(hwt_timeout, void *arg)
    {
        end(arg, true);
    }

    std::unique_ptr<hwt_timer, destroy> owned;
};

bool wait_for(const std::atomic<int> &count, int wanted)
{
    for (int i = 0; i < 10000 && count < wanted; i++)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return count == wanted;
}

std::atomic<int> beats{ 0 }, attempts{ 0 }, ends{ 0 };

void notify(hwt_heartbeat *heartbeat, hwt_heartbeat_event event, uint64_t, void *)
{
    if (event == HWT_HEARTBEAT_SEND)
        hwt_heartbeat_written_at(heartbeat, 0);
    beats++;
}

void attempt(hwt_retry *retry, uint64_t number, void *)
{
    attempts++;
    hwt_retry_failed(retry, number);
}

void ended(hwt_retry *, hwt_retry_end, void *)
{
    ends++;
}

} // namespace

int main()
{
    std::atomic<int> fired{ 0 }, answered{ 0 };
    {
        timer own(tick);
        own.after(std::chrono::milliseconds(5),
                  [&](bool in_time) { in_time ? answered++ : fired++; });
        auto late = own.after(std::chrono::minutes(1),
                              [&](bool in_time) { in_time ? answered++ : fired++; });
        if (!hwt_timeout_reschedule(late, HWT_MIN(2)) || !hwt_timeout_cancel(late))
            return 1;
        if (!wait_for(fired, 1) || !wait_for(answered, 1))
            return 2;

        hwt_heartbeat_rules rules{};
        rules.send = HWT_MS(2);
        rules.notify = notify;
        hwt_heartbeat heartbeat{};
        if (hwt_heartbeat_start(&heartbeat, own.get(), &rules, nullptr) != 0)
            return 3;
        hwt_retry_options options = HWT_RETRY_OPTIONS_INIT;
        options.first_delay = tick;
        options.max_attempts = 3;
        const hwt_retry_task task = { attempt, ended };
        hwt_retry retry{};
        if (hwt_retry_start(&retry, own.get(), &options, &task, nullptr) != 0)
            return 4;
        for (int i = 0; i < 10000 && (beats == 0 || ends == 0); i++)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (!hwt_heartbeat_stop_sync(&heartbeat) || beats == 0 || attempts != 3 || ends != 1)
            return 5;

        own.after(std::chrono::minutes(1), [&](bool in_time) { in_time ? answered++ : fired++; });
    }
    if (fired != 1 || answered != 2)
        return 6;
    std::printf("hwt %s from C++17\n", hwt_version());
    return 0;
}
