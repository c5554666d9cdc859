// SPDX-License-Identifier: LGPL-2.1-or-later

#include "asio_timer.h"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <new>

// One thread: it takes no locks. Never destroyed: timers that are still pending would be looked at.
static asio::io_context &context = *new asio::io_context(ASIO_CONCURRENCY_HINT_UNSAFE);

static asio::steady_timer &timer_in(asio_place *place)
{
    return *reinterpret_cast<asio::steady_timer *>(place);
}

void asio_init(asio_place *place)
{
    static_assert(sizeof(asio::steady_timer) <= sizeof(asio_place), "there is no room for it");
    new (place) asio::steady_timer(context);
}

// expires_after() cancels what was pending; each handler is called once, be it with an error.
void asio_arm(asio_place *place, uint64_t delay, void (*run)(void *arg), void *arg)
{
    timer_in(place).expires_after(std::chrono::nanoseconds(delay));
    timer_in(place).async_wait([run, arg](const asio::error_code &error) {
        if (!error)
            run(arg);
    });
}

void asio_cancel(asio_place *place)
{
    timer_in(place).cancel();
}

void asio_turn(bool wait)
{
    context.restart();
    if (wait)
        context.run_one();
    context.poll();
}
