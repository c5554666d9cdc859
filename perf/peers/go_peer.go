// SPDX-License-Identifier: LGPL-2.1-or-later

// The workloads of perf/README.md for Go's timers: time.AfterFunc, Stop and Reset. Each run
// is a goroutine of its own, as AfterFunc has it.
package main

import (
    "fmt"
    "math"
    "os"
    "runtime"
    "runtime/debug"
    "sort"
    "strconv"
    "strings"
    "sync"
    "sync/atomic"
    "syscall"
    "time"
)

const (
    window = 1000 // timeouts that who churns has pending, unless the options say otherwise
    batch  = 50   // operations between two looks at whether to go on

    lead = time.Second / 5 // burst's adder begins so long before the deadline
)

type options struct {
    producers, pending int
    window, rate       int
    seconds            float64
}

func (o *options) length() time.Duration {
    return time.Duration(o.seconds * 1e9)
}

// ---- The kit ----

func metric(name string, value float64) {
    fmt.Printf("%s %.4f\n", name, value)
}

var start = time.Now()

// CLOCK_MONOTONIC, and nothing else.
func now() time.Duration {
    return time.Since(start)
}

func usage(who int) syscall.Rusage {
    var r syscall.Rusage
    if err := syscall.Getrusage(who, &r); err != nil {
        fail(err)
    }
    return r
}

func cpu() time.Duration {
    r := usage(syscall.RUSAGE_SELF)
    return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// Of the process but this thread, which the main goroutine is locked to.
func switches() int64 {
    return usage(syscall.RUSAGE_SELF).Nvcsw - usage(1 /* RUSAGE_THREAD */).Nvcsw
}

func fail(err error) {
    fmt.Fprintln(os.Stderr, err)
    os.Exit(1)
}

func resident() int64 {
    statm, err := os.ReadFile("/proc/self/statm")
    if err != nil {
        fail(err)
    }
    pages, err := strconv.ParseInt(strings.Fields(string(statm))[1], 10, 64)
    if err != nil {
        fail(err)
    }
    return pages * int64(os.Getpagesize())
}

// Xorshift, as the contenders in C have it.
type chance uint64

func (c *chance) next() uint64 {
    *c ^= *c << 13
    *c ^= *c >> 7
    *c ^= *c << 17
    return uint64(*c) >> 32
}

func (c *chance) below(limit int) int {
    return int(c.next() * uint64(limit) >> 32)
}

func (c *chance) delay(least, span time.Duration) time.Duration {
    part := c.next() * uint64(span/time.Microsecond) >> 32
    return least + time.Duration(part)*time.Microsecond
}

func nothing() {}

// n of them, whose pages are there.
func samples(n int) []time.Duration {
    s := make([]time.Duration, n)
    for i := range s {
        s[i] = 1
    }
    return s
}

func order(s []time.Duration) {
    sort.Slice(s, func(i, j int) bool { return s[i] < s[j] })
}

func us(ordered []time.Duration, part float64) float64 {
    if len(ordered) == 0 {
        return 0
    }
    return float64(ordered[int(float64(len(ordered)-1)*part)]) / 1e3
}

func printLateness(lateness []time.Duration) {
    order(lateness)
    metric("lateness_p50_us", us(lateness, 0.5))
    metric("lateness_p99_us", us(lateness, 0.99))
    metric("lateness_p999_us", us(lateness, 0.999))
    metric("lateness_max_us", us(lateness, 1))
    metric("earliest_us", us(lateness, 0))
}

// ---- churn, reset ----

const (
    warming = iota
    measuring
    over
)

var phase int32

type producer struct {
    batch      func()
    total, ops int64
    time       time.Duration
    _          [128]byte
    published  int64
    _          [128]byte
}

func (p *producer) work(during int32) {
    begin, before := now(), p.total
    for atomic.LoadInt32(&phase) == during {
        p.batch()
        p.total += batch
        atomic.StoreInt64(&p.published, p.total)
    }
    p.time, p.ops = now()-begin, p.total-before
}

type result struct {
    ns, mops, cpuNs float64
    peak            int64
}

func sum(producers []*producer) (ops int64) {
    for _, p := range producers {
        ops += atomic.LoadInt64(&p.published)
    }
    return
}

func (r *result) watchMemory() {
    if rss := resident(); rss > r.peak {
        r.peak = rss
    }
}

// Sleeps through the measured part, looking up ten times a second.
func (r *result) watch(o *options) {
    const step = time.Second / 10
    begin := now()
    for i := 1; i <= int(o.seconds*10); i++ {
        time.Sleep(begin + time.Duration(i)*step - now())
        r.watchMemory()
    }
    time.Sleep(begin + o.length() - now())
}

// makeBatch() makes what does `batch` operations, for one producer.
func crew(o *options, makeBatch func(c *chance) func()) (r result) {
    var all sync.WaitGroup
    producers := make([]*producer, o.producers)
    for i := range producers {
        c := chance(uint64(i+1) * 0x9e3779b97f4a7c15)
        producers[i] = &producer{batch: makeBatch(&c)}
    }
    for _, p := range producers {
        all.Add(1)
        go func(p *producer) {
            defer all.Done()
            p.work(warming)
            p.work(measuring)
        }(p)
    }
    time.Sleep(o.length() / 5)
    ops, begin := sum(producers), cpu()
    atomic.StoreInt32(&phase, measuring)
    r.watch(o)
    atomic.StoreInt32(&phase, over)
    all.Wait()
    r.cpuNs = float64(cpu()-begin) / float64(sum(producers)-ops)
    r.watchMemory()
    for _, p := range producers {
        ns := float64(p.time) / float64(p.ops)
        r.ns += ns / float64(len(producers))
        r.mops += 1e3 / ns
    }
    return
}

func churn(o *options) {
    before := resident()
    r := crew(o, func(c *chance) func() {
        add := func() *time.Timer {
            return time.AfterFunc(c.delay(30*time.Second, 16*time.Second), nothing)
        }
        timers := make([]*time.Timer, o.window)
        for i := range timers {
            timers[i] = add()
        }
        oldest := 0
        return func() {
            for i := 0; i < batch; i++ {
                timers[oldest].Stop()
                timers[oldest] = add()
                if oldest++; oldest == len(timers) {
                    oldest = 0
                }
            }
        }
    })
    metric("producer_ns", r.ns)
    metric("mops", r.mops)
    metric("cpu_ns", r.cpuNs)
    metric("peak_rss_mb", float64(r.peak-before)/(1<<20))
}

func reset(o *options) {
    connections := make([]*time.Timer, o.pending)
    for i := range connections {
        connections[i] = time.AfterFunc(30*time.Second, nothing)
    }
    time.Sleep(time.Second / 10)
    r := crew(o, func(c *chance) func() {
        return func() {
            for i := 0; i < batch; i++ {
                connections[c.below(len(connections))].Reset(30 * time.Second)
            }
        }
    })
    metric("reset_ns", r.ns)
    metric("mops", r.mops)
    metric("cpu_ns", r.cpuNs)
}

// ---- fire ----

func fire(o *options) {
    n := o.pending
    lateness := samples(n)
    var count int64
    var lastCPU time.Duration
    done := make(chan struct{})
    c := chance(1)

    begin, beginCPU := now(), cpu()
    for i := 0; i < n; i++ {
        delay := c.delay(time.Second/10, 2900*time.Millisecond)
        deadline := now() + delay
        time.AfterFunc(delay, func() {
            late := now() - deadline
            at := atomic.AddInt64(&count, 1)
            lateness[at-1] = late
            if at == int64(n) {
                lastCPU = cpu()
                close(done)
            }
        })
    }
    added := now()
    <-done
    time.Sleep(10 * time.Millisecond) // another goroutine may still be writing its own

    metric("add_ns", float64(added-begin)/float64(n))
    metric("cpu_ns", float64(lastCPU-beginCPU)/float64(n))
    printLateness(lateness)
}

// ---- heartbeat ----

type beat struct {
    armed    sync.WaitGroup // what is done once timer is set
    timer    *time.Timer
    deadline time.Duration
    lateness []time.Duration // full after the last run
}

func (b *beat) run(over *sync.WaitGroup) {
    b.lateness = append(b.lateness, now()-b.deadline)
    if len(b.lateness) == cap(b.lateness) {
        over.Done()
        return
    }
    b.deadline += time.Second
    b.armed.Wait()
    b.timer.Reset(b.deadline - now())
}

func (b *beat) arm(over *sync.WaitGroup) {
    b.armed.Add(1)
    b.timer = time.AfterFunc(b.deadline-now(), func() { b.run(over) })
    b.armed.Done()
}

func meanOf(beats []beat, period int) float64 {
    total := 0.0
    for i := range beats {
        total += float64(beats[i].lateness[period])
    }
    return total / float64(len(beats))
}

func heartbeat(o *options) {
    n, periods := o.pending, 1+int(math.Max(o.seconds, 1))
    beats, lateness := make([]beat, n), samples(n*periods)
    var over sync.WaitGroup
    c := chance(1)

    over.Add(n)
    begin := now() + time.Second // the first deadline, when all have been added
    for i := range beats {
        b, at := &beats[i], i*periods
        b.lateness = lateness[at : at : at+periods]
        b.deadline = begin + c.delay(0, time.Second)
        b.arm(&over)
    }

    time.Sleep(begin + time.Second - now())
    from, fromCPU := now(), cpu()
    time.Sleep(begin + time.Duration(periods)*time.Second - now())
    metric("cpu_percent", 100*float64(cpu()-fromCPU)/float64(now()-from))
    over.Wait()
    drift := meanOf(beats, periods-1) - meanOf(beats, 0)
    printLateness(lateness)
    metric("drift_us", drift/1e3/float64(periods-1))
}

// ---- burst ----

type adder struct {
    chance           chance
    timers           [window]*time.Timer
    oldest           int
    quiet, meanwhile []time.Duration // what finds no room is left out
}

func record(s *[]time.Duration, took time.Duration) {
    if len(*s) < cap(*s) {
        *s = append(*s, took)
    }
}

// Until `lead` after the last run.
func (a *adder) work(deadline time.Duration, lastRun *int64) {
    time.Sleep(deadline - lead - now())
    for {
        if oldest := a.timers[a.oldest]; oldest != nil {
            oldest.Stop()
        }
        delay := a.chance.delay(30*time.Second, 16*time.Second)
        before := now()
        a.timers[a.oldest] = time.AfterFunc(delay, nothing)
        after, last := now(), time.Duration(atomic.LoadInt64(lastRun))
        a.oldest = (a.oldest + 1) % window
        if before < deadline {
            record(&a.quiet, after-before)
        } else if last == 0 {
            record(&a.meanwhile, after-before)
        }
        if last != 0 && after > last+lead {
            return
        }
    }
}

func burst(o *options) {
    a := adder{chance: 2, quiet: samples(1 << 22)[:0], meanwhile: samples(1 << 22)[:0]}
    left, lastRun := int64(o.pending), int64(0) // 0: not yet
    deadline := now() + 2*time.Second
    run := func() {
        if atomic.AddInt64(&left, -1) == 0 {
            atomic.StoreInt64(&lastRun, int64(now()))
        }
    }

    for i := 0; i < o.pending; i++ {
        time.AfterFunc(deadline-now(), run)
    }
    done := make(chan struct{})
    go func() {
        a.work(deadline, &lastRun)
        close(done)
    }()
    <-done

    order(a.quiet)
    order(a.meanwhile)
    metric("last_run_ms", float64(time.Duration(lastRun)-deadline)/1e6)
    metric("quiet_add_p999_us", us(a.quiet, 0.999))
    metric("add_p999_us", us(a.meanwhile, 0.999))
    metric("add_max_us", us(a.meanwhile, 1))
}

// ---- requests ----

// Of the process's other threads: times they slept, and CPU; CPU of all; time in the calls.
type used struct {
    requests, switches, others, cpu, calls float64
}

func (a used) less(b used) used {
    return used{a.requests - b.requests, a.switches - b.switches, a.others - b.others,
        a.cpu - b.cpu, a.calls - b.calls}
}

type requestLoop struct {
    armed             bool
    gap, next, calls  time.Duration
    head, tail        int
    answers           [1 << 16]time.Duration
    timers            [1 << 16]*time.Timer
}

func (l *requestLoop) used() used {
    r := usage(1 /* RUSAGE_THREAD */)
    all, own := cpu(), time.Duration(r.Utime.Nano()+r.Stime.Nano())
    return used{float64(l.head), float64(switches()), float64(all - own), float64(all),
        float64(l.calls)}
}

func (l *requestLoop) answer(until time.Duration) {
    for ; l.tail != l.head && l.answers[l.tail%len(l.answers)] <= until; l.tail++ {
        if l.armed {
            begin := now()
            l.timers[l.tail%len(l.timers)].Stop()
            l.calls += now() - begin
        }
    }
}

func (l *requestLoop) request(at time.Duration) {
    for ; l.next <= at && l.head-l.tail < len(l.answers); l.next += l.gap {
        slot := l.head % len(l.answers)
        l.answers[slot] = at + time.Millisecond
        if l.armed {
            begin := now()
            l.timers[slot] = time.AfterFunc(30*time.Second, nothing)
            l.calls += now() - begin
        }
        l.head++
    }
}

// Not by a timer of Go's.
func sleepInKernel(d time.Duration) {
    t := syscall.NsecToTimespec(int64(d))
    syscall.Nanosleep(&t, nil)
}

func (l *requestLoop) run(length time.Duration, armed bool) used {
    before, at := l.used(), now()
    l.armed, l.next = armed, at
    for end := at + length; at < end; at = now() {
        l.answer(at)
        l.request(at)
        wake := l.next
        if l.tail != l.head && l.answers[l.tail%len(l.answers)] < wake {
            wake = l.answers[l.tail%len(l.answers)]
        }
        if wake < at+100*time.Microsecond {
            wake = at + 100*time.Microsecond
        }
        sleepInKernel(wake - now())
    }
    l.answer(math.MaxInt64)
    return l.used().less(before)
}

func least(a, b time.Duration) time.Duration {
    if a < b {
        return a
    }
    return b
}

func requests(o *options) {
    l := &requestLoop{gap: time.Second / time.Duration(o.rate)}
    bareLength := least(o.length()/2, time.Second)
    before := l.run(bareLength, false)
    l.run(least(o.length()/5, time.Second), true)
    with := l.run(o.length(), true)
    after := l.run(bareLength, false)

    bare := before.requests + after.requests
    others := with.others/with.requests - (before.others+after.others)/bare
    process := with.cpu/with.requests - (before.cpu+after.cpu)/bare
    metric("wakeups_per_request",
        with.switches/with.requests-(before.switches+after.switches)/bare)
    metric("cpu_us_per_request", (with.calls/with.requests+others)/1e3)
    metric("process_us_per_request", process/1e3)
    metric("bare_us_per_request", (before.cpu+after.cpu)/bare/1e3)
}

// ---- standing, idle ----

func load(o *options) {
    begin, beginCPU, beginSwitches := now(), cpu(), switches()
    time.Sleep(o.length())
    wall := float64(now() - begin)
    metric("cpu_percent", 100*float64(cpu()-beginCPU)/wall)
    metric("wakeups_per_s", float64(switches()-beginSwitches)*1e9/wall)
}

func standing(o *options) {
    debug.FreeOSMemory()
    before := resident()
    c := chance(1)
    for i := 0; i < o.pending; i++ {
        time.AfterFunc(c.delay(60*time.Second, 540*time.Second), nothing)
    }
    debug.FreeOSMemory() // now, not in the measured part
    time.Sleep(time.Second)
    load(o)
    metric("bytes_per_timeout", float64(resident()-before)/float64(o.pending))
}

func idle(o *options) {
    time.Sleep(time.Second / 5)
    load(o)
}

// ---- The command line ----

// Options come in pairs, and are right: who runs this is perf/run.sh. Those that mean nothing here are left out.
func parse() (string, *options) {
    o := options{producers: 1, window: window, rate: 1000}
    numbers := map[string]*int{"--producers": &o.producers, "--pending": &o.pending, "--window": &o.window,
        "--rate": &o.rate}
    if len(os.Args)%2 != 0 {
        fmt.Fprintf(os.Stderr, "Usage: %s WORKLOAD [--option N]...; see perf/README.md\n", os.Args[0])
        os.Exit(2)
    }
    for i := 2; i < len(os.Args); i += 2 {
        value, err := strconv.ParseFloat(os.Args[i+1], 64)
        if err != nil {
            fail(err)
        }
        if number := numbers[os.Args[i]]; number != nil {
            *number = int(value)
        } else if os.Args[i] == "--seconds" {
            o.seconds = value
        }
    }
    return os.Args[1], &o
}

func main() {
    workloads := map[string]struct {
        run     func(o *options)
        pending int
        seconds float64
    }{
        "churn":     {churn, 0, 1},
        "fire":      {fire, 1000000, 0},
        "standing":  {standing, 1000000, 2},
        "idle":      {idle, 0, 2},
        "reset":     {reset, 100000, 1},
        "heartbeat": {heartbeat, 100000, 3},
        "burst":     {burst, 1000000, 0},
        "requests":  {requests, 0, 2},
    }
    runtime.LockOSThread()
    name, o := parse()
    workload, does := workloads[name]
    if !does {
        fmt.Fprintf(os.Stderr, "%s does not do %s\n", os.Args[0], name)
        os.Exit(3)
    }
    if o.pending == 0 {
        o.pending = workload.pending
    }
    if o.seconds == 0 {
        o.seconds = workload.seconds
    }
    workload.run(o)
}
