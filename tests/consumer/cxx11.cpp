/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A C++11 program on the installed package: a worker, an executor and a cancel. */

#include <hwt/hwt.h>

#include <atomic>
#include <chrono>
#include <iostream>
#include <thread>

namespace {

struct connection {
    std::atomic<int> ran{0};
    std::atomic<int> cancelled{0};
};

void run(hwt_timeout, void *arg)
{
    static_cast<connection *>(arg)->ran++;
}

void cancelled(hwt_timeout, void *arg)
{
    static_cast<connection *>(arg)->cancelled++;
}

int execute(void *, void (*work)(void *), void *work_arg)
{
    std::thread(work, work_arg).detach();
    return 0;
}

const hwt_task task = { run, cancelled };

} // namespace

int main()
{
    connection fires, goes;
    hwt_options options = HWT_OPTIONS_INIT;
    hwt_timer *timer = nullptr;
    hwt_timeout timeout{};

    options.tick_duration = HWT_MS(1);
    options.executor = execute;
    if (hwt_timer_create(&options, &timer) != 0)
        return 1;
    if (hwt_timer_new_timeout(timer, &task, &goes, HWT_MIN(1), &timeout) != 0 ||
        hwt_timer_new_timeout(timer, &task, &fires, HWT_MS(1), nullptr) != 0)
        return 2;
    if (!hwt_timeout_reschedule(timeout, HWT_MIN(2)) || !hwt_timeout_cancel(timeout) ||
        hwt_timeout_cancel(timeout))
        return 3;
    for (int i = 0; i < 5000 && (fires.ran == 0 || goes.cancelled == 0); i++)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (hwt_timer_stop(timer, nullptr, nullptr) != 0)
        return 4;
    hwt_timer_destroy(timer);
    if (fires.ran != 1 || fires.cancelled != 0 || goes.ran != 0 || goes.cancelled != 1)
        return 5;
    std::cout << "hwt " << hwt_version() << " from C++\n";
    return 0;
}
