# SPDX-License-Identifier: LGPL-2.1-or-later
"""hwt by ctypes: options and stats are set up by functions, as no macro can be read from here.

usage: binding.py LIBRARY
"""
import ctypes
import os
import sys
import threading
from ctypes import (CFUNCTYPE, POINTER, Structure, byref, c_bool, c_char_p, c_int, c_int64, c_size_t,
                    c_uint32, c_uint64, c_void_p, sizeof)

MS = 1_000_000
SECOND = 1_000_000_000
EINVAL, ESHUTDOWN = 22, 108
NO_WORKER = 1
PENDING, EXPIRED, CANCELLED, GONE = range(4)


class Timeout(Structure):
    _fields_ = [("entry", c_void_p), ("generation", c_uint64)]


RUN = CFUNCTYPE(None, Timeout, c_void_p)
CLOCK = CFUNCTYPE(c_uint64, c_void_p)
VISIT = CFUNCTYPE(None, c_void_p, c_void_p, c_uint64, c_void_p)


class Task(Structure):
    _fields_ = [("run", RUN), ("cancelled", RUN)]


class Options(Structure):
    _fields_ = [("size", c_size_t), ("tick_duration", c_uint64), ("ticks_per_wheel", c_uint32),
                ("flags", c_uint32), ("max_pending", c_uint64), ("executor", c_void_p),
                ("executor_data", c_void_p), ("clock", CLOCK), ("clock_data", c_void_p),
                ("clock_id", c_int), ("worker_cpu", c_int), ("worker_name", c_char_p),
                ("initialised", c_uint64)]


class Stats(Structure):
    _fields_ = [("size", c_size_t), ("pending", c_uint64), ("added", c_uint64),
                ("expired", c_uint64), ("cancelled", c_uint64), ("unprocessed", c_uint64),
                ("rescheduled", c_uint64), ("rejected", c_uint64), ("wakeups", c_uint64),
                ("memory", c_uint64), ("lateness_max", c_uint64), ("lateness", c_uint64 * 64),
                ("lateness_sum", c_uint64), ("fast_clock", c_uint64)]


def load(path):
    lib = ctypes.CDLL(path)
    for name, result, *arguments in [
            ("hwt_version", c_char_p),
            ("hwt_options_init", c_int, POINTER(Options), c_size_t),
            ("hwt_stats_init", c_int, POINTER(Stats), c_size_t),
            ("hwt_timer_create", c_int, POINTER(Options), POINTER(c_void_p)),
            ("hwt_timer_start", c_int, c_void_p),
            ("hwt_timer_stop", c_int64, c_void_p, VISIT, c_void_p),
            ("hwt_timer_destroy", None, c_void_p),
            ("hwt_timer_new_timeout", c_int, c_void_p, POINTER(Task), c_void_p, c_uint64,
             POINTER(Timeout)),
            ("hwt_timer_stats", c_int, c_void_p, POINTER(Stats)),
            ("hwt_timer_advance", c_uint64, c_void_p, c_uint64),
            ("hwt_timer_next_tick", c_uint64, c_void_p),
            ("hwt_timeout_cancel", c_bool, Timeout),
            ("hwt_timeout_cancel_sync", c_bool, Timeout),
            ("hwt_timeout_reschedule", c_bool, Timeout, c_uint64),
            ("hwt_timeout_repeat", c_bool, Timeout, c_uint64),
            ("hwt_timeout_state", c_int, Timeout)]:
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"binding.py: {what}: {got}, not {wanted}")


def new_options(lib, **fields):
    options = Options()
    expect("hwt_options_init", lib.hwt_options_init(byref(options), sizeof(options)), 0)
    for name, value in fields.items():
        setattr(options, name, value)
    return options


def new_timer(lib, options):
    timer = c_void_p()
    expect("hwt_timer_create", lib.hwt_timer_create(byref(options), byref(timer)), 0)
    return timer


def new_stats(lib, timer):
    stats = Stats()
    expect("hwt_stats_init", lib.hwt_stats_init(byref(stats), sizeof(stats)), 0)
    expect("hwt_timer_stats", lib.hwt_timer_stats(timer, byref(stats)), 0)
    return stats


def test_layout(lib):
    """What the init functions write is where this file says that the fields are."""
    options = new_options(lib)
    expect("options.size", options.size, sizeof(Options))
    expect("options.tick_duration", options.tick_duration, 100 * MS)
    expect("options.ticks_per_wheel", options.ticks_per_wheel, 512)
    expect("options.clock_id", options.clock_id, 1)
    expect("options.worker_cpu", options.worker_cpu, -1)
    expect("options.worker_name", options.worker_name, b"hwt-worker")
    expect("options.initialised", options.initialised, 1)
    expect("a wrong size", lib.hwt_options_init(byref(options), 7), -EINVAL)


def test_zeroed(lib):
    """Options of zeros are the defaults: they pin nothing to the first processor."""
    options = Options(size=sizeof(Options), tick_duration=MS)
    timer = new_timer(lib, options)
    seen, ran = [], threading.Event()

    @RUN
    def run(_timeout, _arg):
        seen.append(os.sched_getaffinity(0))
        ran.set()

    task = Task(run=run)
    expect("add", lib.hwt_timer_new_timeout(timer, byref(task), None, 0, None), 0)
    expect("the worker runs", ran.wait(60), True)
    expect("the worker's processors", seen, [os.sched_getaffinity(0)])
    lib.hwt_timer_destroy(timer)


def test_worker(lib):
    """A timeout is cancelled, another one fires three times; nothing is lost."""
    timer = new_timer(lib, new_options(lib, tick_duration=MS))
    runs, cancels, done = [], [], threading.Event()

    @RUN
    def run(timeout, arg):
        runs.append(arg)
        if len(runs) < 3:
            lib.hwt_timeout_repeat(timeout, 2 * MS)
        else:
            done.set()

    cancelled = RUN(lambda _timeout, arg: cancels.append(arg))
    task = Task(run=run, cancelled=cancelled)
    late, soon = Timeout(), Timeout()
    expect("add", lib.hwt_timer_new_timeout(timer, byref(task), 1, 60 * SECOND, byref(late)), 0)
    expect("add", lib.hwt_timer_new_timeout(timer, byref(task), 2, MS, byref(soon)), 0)
    expect("state", lib.hwt_timeout_state(late), PENDING)
    expect("move", lib.hwt_timeout_reschedule(late, 120 * SECOND), True)
    expect("cancel", lib.hwt_timeout_cancel(late), True)
    expect("cancel again", lib.hwt_timeout_cancel_sync(late), False)
    expect("the task runs", done.wait(60), True)
    expect("stop", lib.hwt_timer_stop(timer, VISIT(), None), 0)
    stats = new_stats(lib, timer)
    expect("stats", (stats.added, stats.expired, stats.cancelled, stats.pending), (2, 3, 1, 0))
    expect("runs", runs, [2, 2, 2])
    expect("cancels", cancels, [1])
    expect("start after stop", lib.hwt_timer_start(timer), -ESHUTDOWN)
    lib.hwt_timer_destroy(timer)


def test_set_clock(lib):
    """Without a worker, by a clock that is set; what is left is visited by stop."""
    now = [SECOND]
    clock = CLOCK(lambda _data: now[0])
    timer = new_timer(lib, new_options(lib, flags=NO_WORKER, clock=clock, tick_duration=MS))
    runs, left = [], []
    task = Task(run=RUN(lambda _timeout, arg: runs.append((now[0], arg))))
    for arg in 1, 2, 3:
        expect("add", lib.hwt_timer_new_timeout(timer, byref(task), arg, arg * SECOND, None), 0)
    while (tick := lib.hwt_timer_next_tick(timer)) <= 4 * SECOND - MS:
        now[0] = tick
        lib.hwt_timer_advance(timer, tick)
    expect("runs", [arg for _, arg in runs], [1, 2])
    expect("never early", all((arg + 1) * SECOND <= at for at, arg in runs), True)
    visit = VISIT(lambda _task, arg, remaining, _data: left.append((arg, remaining > 0)))
    expect("stop", lib.hwt_timer_stop(timer, visit, None), 1)
    expect("left", left, [(3, True)])
    lib.hwt_timer_destroy(timer)


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    lib = load(sys.argv[1])
    for test in test_layout, test_zeroed, test_worker, test_set_clock:
        test(lib)
    print(f"hwt {lib.hwt_version().decode()} from Python")


main()
