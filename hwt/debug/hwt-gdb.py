# SPDX-License-Identifier: LGPL-2.1-or-later
"""For gdb: prints a timer of hwt, in a running program or in a core dump.

    (gdb) source /usr/local/share/hwt/hwt-gdb.py
    (gdb) hwt-timer EXPRESSION [COUNT]

EXPRESSION is an hwt_timer *, COUNT how many of the next timeouts to show: 10. The library must have
been built with debug information, and not been stripped.
"""
import time

import gdb

# As in hwt/pool/entry.h, hwt/worker/shared.h, hwt/pool/slab.h, hwt/wheel/directory.h and
# hwt/wheel/wheel.c.
PHASES = ["new", "pending", "running", "expired", "untold", "cancelled", "visited",
          "renewed"]
PENDING, RUNNING = 1, 2
PHASE_MASK, REARMED, BARRED = 7, 1 << 4, 1 << 5
GENERATION_SHIFT = 9
SLAB_SIZE, SLAB_COLOURS, SLAB_STEP_ENTRIES = 65536, 64, 4
NEAR, LOW_BITS = 1 << 30, (1 << 30) - 1  # what a place says

HALTED = ["worker not started", "stopped", "ending", "the parent's, in a child of fork()"]
NEVER = 2**64 - 1


def number(value):
    """Of an integer, a pointer or an atomic one."""
    return int(value.cast(gdb.lookup_type("unsigned long")))


def clock_now(shared):
    """Of this machine's clock, or what the last pass took for now."""
    last_pass = number(shared["time"]["last_pass"])
    core = gdb.execute("info inferiors", to_string=True).count("process ") == 0
    if core or number(shared["time"]["clock"]) != 0:
        return last_pass
    return max(last_pass, time.clock_gettime_ns(int(shared["time"]["clock_id"])))


def at(address, type_name):
    """What is at an address."""
    return gdb.Value(address).cast(gdb.lookup_type(type_name).pointer()).dereference()


def sites_of(pool):
    return at(number(pool["directory"]["sites"]), "struct hwt_sites")


def slabs(pool):
    """The address of each slab that is mapped, and the floor of its generations."""
    sites = sites_of(pool)
    for n in range(min(number(pool["slabs"]), number(sites["count"]))):
        address = number(sites["at"][n])
        if address == 0:
            continue
        site = at(address, "struct hwt_site")
        if number(site["base"]) != 0:
            yield number(site["base"]), number(site["floor"])


def entries(pool):
    """Each entry that was ever used, with its place in the wheel and the floor of its slab."""
    entry_type = gdb.lookup_type("struct hwt_entry")
    place_type = gdb.lookup_type("struct hwt_place")
    head_seats = gdb.lookup_type("struct hwt_slab").sizeof // entry_type.sizeof
    seats = SLAB_SIZE // (entry_type.sizeof + place_type.sizeof)
    for base, floor in slabs(pool):
        head = base // SLAB_SIZE % SLAB_COLOURS * SLAB_STEP_ENTRIES
        places = base + number(sites_of(pool)["places"])
        for seat in range(seats):
            if head <= seat < head + head_seats:
                continue
            address = base + seat * entry_type.sizeof
            entry = gdb.Value(address).cast(entry_type.pointer()).dereference()
            if number(entry["word"]["first"]) & PHASE_MASK:
                place = gdb.Value(places + seat * place_type.sizeof).cast(place_type.pointer())
                yield entry, place.dereference(), floor


def is_pending(state):
    return (state & PHASE_MASK == PENDING or
            (state & PHASE_MASK == RUNNING and state & REARMED and not state & BARRED))


def is_filed(state, place, floor):
    """Whether what the place says is of this timeout, and it is wanted still."""
    generation = ((state >> GENERATION_SHIFT) - floor) & 0xffffffff
    return (number(place["where"]) != 0 and state & PHASE_MASK == PENDING and
            number(place["generation"]) == generation)


def bucket_of(wheel, place):
    """Something that those of one bucket have in common."""
    where = number(place["where"])
    kind = where & ~LOW_BITS
    return where & number(wheel["inside"]["mask"]) if kind == NEAR else kind


def task_name(entry):
    task = number(entry["task"])
    run = gdb.Value(task).cast(gdb.lookup_type("hwt_task").pointer())["run"]
    return run.format_string(address=False, symbols=True).strip("<>")


class HwtTimer(gdb.Command):
    """hwt-timer EXPRESSION [COUNT]: prints an hwt_timer and its next timeouts."""

    def __init__(self):
        super().__init__("hwt-timer", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        expression, count = argument.strip(), 10
        words = expression.rsplit(None, 1)
        if len(words) == 2 and words[1].isdigit():
            expression, count = words[0], int(words[1])
        if not expression:
            raise gdb.GdbError("hwt-timer: which timer? See: help hwt-timer")
        try:
            timer_type = gdb.lookup_type("struct hwt_timer")
            timer_type.fields()[0]
        except (gdb.error, IndexError):
            raise gdb.GdbError("hwt-timer: libhwt has no debug information") from None
        address = number(gdb.parse_and_eval(expression))
        if address == 0:
            raise gdb.GdbError("hwt-timer: the timer is NULL")
        self.show(gdb.Value(address).cast(timer_type.pointer()).dereference(), count)

    def show(self, timer, count):
        shared = timer["shared"]
        ticks, wheel = shared["ticks"], timer["worker"]["wheel"]
        now = clock_now(shared)
        slow_path_bits = number(shared["slow_path_bits"])
        said = [HALTED[i] for i in range(len(HALTED)) if slow_path_bits & 1 << i] or ["runs"]
        duration = number(ticks["duration"])
        print(f"{', '.join(said)}; ticks of {duration / 1e9:g} s, "
              f"{number(wheel['tick'])} handled, {(now - number(ticks['start'])) / 1e9:.3f} s old")
        self.show_entries(shared, wheel, now, count)
        wake = number(shared["gate"]["wake_before"])
        if wake == NEVER:
            print("the worker sleeps until it is woken")
        elif wake:
            print(f"the worker sleeps for another {max(0, wake - now) / 1e9:.3f} s")

    def show_entries(self, shared, wheel, now, count):
        phases, pending, buckets = {}, [], {}
        for entry, place, floor in entries(shared["pool"]):
            state = number(entry["word"]["first"])
            name = PHASES[state & PHASE_MASK]
            phases[name] = phases.get(name, 0) + 1
            if is_pending(state):
                pending.append((number(entry["word"]["second"]), number(entry.address), entry))
            if is_filed(state, place, floor):
                bucket = bucket_of(wheel, place)
                buckets[bucket] = buckets.get(bucket, 0) + 1
        print(", ".join(f"{n} {name}" for name, n in sorted(phases.items())) or "no timeout yet")
        print(f"{sum(buckets.values())} filed in {len(buckets)} buckets, "
              f"{max(buckets.values(), default=0)} at most in one; "
              f"{number(wheel['hints'])} hints")
        for deadline, _, entry in sorted(pending, key=lambda item: item[:2])[:count]:
            when = "never" if deadline == NEVER else f"in {(deadline - now) / 1e9:.3f} s"
            print(f"  {when}: {task_name(entry)}, arg {number(entry['arg']):#x}")
        if len(pending) > count:
            print(f"  and {len(pending) - count} more")


HwtTimer()
