// SPDX-License-Identifier: LGPL-2.1-or-later

//! The workloads of perf/README.md for tokio's timers. What runs when it is due (fire,
//! standing, heartbeat, burst) is a task that sleeps. What is given up before (churn, reset,
//! burst's adds) is a Sleep alone, polled once so that the runtime's driver has it: dropped to
//! cancel, reset() to push it back.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};
use tokio::runtime::Runtime;
use tokio::time::{sleep, sleep_until, Sleep};

const WINDOW: usize = 1000; // timeouts that a producer of churn has pending
const BATCH: u64 = 50; // operations between two looks at whether to go on

#[derive(Clone)]
struct Options {
    producers: u64,
    pending: u64,
    seconds: f64,
    window: usize,
}

impl Options {
    fn length(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}

// ---- The kit ----

fn metric(name: &str, value: f64) {
    println!("{} {:.4}", name, value);
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap()
}

fn cpu_ns() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 * 1e9 + t.tv_nsec as f64
}

/// Of the process but this thread.
fn switches() -> f64 {
    let of = |who| unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(who, &mut usage);
        usage.ru_nvcsw as f64
    };
    of(libc::RUSAGE_SELF) - of(libc::RUSAGE_THREAD)
}

fn resident_bytes() -> f64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: f64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as f64
}

/// Xorshift, as the contenders in C have it.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 32) * limit) >> 32
    }

    fn delay(&mut self, least_ms: u64, span_ms: u64) -> Duration {
        Duration::from_micros(least_ms * 1000 + self.below(span_ms * 1000))
    }
}

struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

fn wait_until(instant: Instant) {
    thread::sleep(instant.saturating_duration_since(Instant::now()));
}

/// In ns; negative if it is early.
fn lateness_now(deadline: Instant) -> i64 {
    let now = Instant::now();
    match now.checked_duration_since(deadline) {
        Some(late) => late.as_nanos() as i64,
        None => -((deadline - now).as_nanos() as i64),
    }
}

fn us(ordered: &[i64], part: f64) -> f64 {
    match ordered.len() {
        0 => 0.0,
        n => ordered[((n - 1) as f64 * part) as usize] as f64 / 1e3,
    }
}

fn print_lateness(mut lateness: Vec<i64>) {
    lateness.sort_unstable();
    metric("lateness_p50_us", us(&lateness, 0.5));
    metric("lateness_p99_us", us(&lateness, 0.99));
    metric("lateness_p999_us", us(&lateness, 0.999));
    metric("lateness_max_us", us(&lateness, 1.0));
    metric("earliest_us", us(&lateness, 0.0));
}

/// Needs the context of a runtime.
fn armed(delay: Duration, waker: &Waker) -> Pin<Box<Sleep>> {
    let mut timeout = Box::pin(sleep(delay));
    let polled = timeout.as_mut().poll(&mut Context::from_waker(waker));
    assert!(polled == Poll::Pending);
    timeout
}

// ---- churn, reset ----

const WARMING: u32 = 0;
const MEASURING: u32 = 1;
const OVER: u32 = 2;

#[derive(Default)]
#[repr(align(128))]
struct Published(AtomicU64);

#[derive(Default)]
struct Crew {
    ns: f64,
    mops: f64,
    cpu_ns: f64,
    peak: f64,
}

/// Calls batch() until the phase is over; the time and the operations.
fn work(batch: &mut dyn FnMut(), phase: &AtomicU32, during: u32, published: &AtomicU64) -> (f64, f64) {
    let (begin, before) = (Instant::now(), published.load(Relaxed));
    let mut total = before;
    while phase.load(Relaxed) == during {
        batch();
        total += BATCH;
        published.store(total, Relaxed);
    }
    (begin.elapsed().as_nanos() as f64, (total - before) as f64)
}

impl Crew {
    /// Sleeps through the measured part, looking up ten times a second.
    fn watch(&mut self, options: &Options) {
        let begin = Instant::now();
        let until = |end: Duration| thread::sleep(end.saturating_sub(begin.elapsed()));
        for i in 1..=(options.seconds * 10.0) as u32 {
            until(Duration::from_millis(100) * i);
            self.peak = self.peak.max(resident_bytes());
        }
        until(options.length());
    }

    /// make_batch() makes, in the producer's thread, what does BATCH operations.
    fn run<B: FnMut()>(
        options: &Options,
        runtime: &Runtime,
        make_batch: impl Fn(Chance) -> B + Sync,
    ) -> Crew {
        let phase = AtomicU32::new(WARMING);
        let published: Vec<_> = (0..options.producers).map(|_| Published::default()).collect();
        let sum = || published.iter().map(|p| p.0.load(Relaxed)).sum::<u64>() as f64;
        let ready = Barrier::new(options.producers as usize + 1);
        let (make_batch, phase, ready) = (&make_batch, &phase, &ready);
        let mut crew = Crew::default();

        thread::scope(|scope| {
            let mut threads = Vec::new();
            for (i, p) in published.iter().enumerate() {
                threads.push(scope.spawn(move || {
                    let _context = runtime.enter();
                    let seed = (i as u64 + 1).wrapping_mul(0x9e3779b97f4a7c15);
                    let mut batch = make_batch(Chance(seed));
                    ready.wait();
                    work(&mut batch, phase, WARMING, &p.0);
                    work(&mut batch, phase, MEASURING, &p.0)
                }));
            }
            ready.wait();
            thread::sleep(options.length() / 5);
            let (ops, cpu) = (sum(), cpu_ns());
            phase.store(MEASURING, Relaxed);
            crew.watch(options);
            phase.store(OVER, Relaxed);
            for t in threads {
                let (time, ops) = t.join().unwrap();
                crew.ns += time / ops / options.producers as f64;
                crew.mops += 1e3 * ops / time;
            }
            crew.cpu_ns = (cpu_ns() - cpu) / (sum() - ops);
            crew.peak = crew.peak.max(resident_bytes());
        });
        crew
    }
}

fn churn(options: &Options) {
    let before = resident_bytes();
    let runtime = runtime();
    let crew = Crew::run(options, &runtime, |mut chance| {
        let waker = Waker::from(Arc::new(Nobody));
        let mut add = move || armed(chance.delay(30_000, 16_000), &waker);
        let mut window: Vec<_> = (0..options.window).map(|_| add()).collect();
        let mut oldest = 0;
        move || {
            for _ in 0..BATCH {
                window[oldest] = add(); // drops, and so cancels, the one that was there
                oldest = if oldest + 1 == window.len() { 0 } else { oldest + 1 };
            }
        }
    });
    metric("producer_ns", crew.ns);
    metric("mops", crew.mops);
    metric("cpu_ns", crew.cpu_ns);
    metric("peak_rss_mb", (crew.peak - before) / 1048576.0);
}

/// A Sleep is one thread's to push back; so each producer has its part of the connections.
fn reset(options: &Options) {
    let runtime = runtime();
    let crew = Crew::run(options, &runtime, |mut chance| {
        let waker = Waker::from(Arc::new(Nobody));
        let idle = Duration::from_secs(30);
        let part = (options.pending / options.producers).max(1);
        let mut connections: Vec<_> = (0..part).map(|_| armed(idle, &waker)).collect();
        move || {
            for _ in 0..BATCH {
                let which = chance.below(part) as usize;
                connections[which].as_mut().reset(tokio::time::Instant::now() + idle);
            }
        }
    });
    metric("reset_ns", crew.ns);
    metric("mops", crew.mops);
    metric("cpu_ns", crew.cpu_ns);
}

// ---- fire ----

struct Fired {
    lateness: Vec<AtomicI64>, // ns
    count: AtomicU64,
    cpu_ns: Mutex<f64>, // at the last run
    over: AtomicBool,
}

impl Fired {
    fn record(&self, deadline: Instant) {
        let late = lateness_now(deadline);
        let at = self.count.fetch_add(1, AcqRel) as usize;
        self.lateness[at].store(late, Release);
        if at + 1 == self.lateness.len() {
            *self.cpu_ns.lock().unwrap() = cpu_ns();
            self.over.store(true, Release);
        }
    }
}

fn fire(options: &Options) {
    let n = options.pending;
    let runtime = runtime();
    let mut chance = Chance(1);
    let fired = Arc::new(Fired {
        lateness: (0..n).map(|_| AtomicI64::new(1)).collect(),
        count: AtomicU64::new(0),
        cpu_ns: Mutex::new(0.0),
        over: AtomicBool::new(false),
    });

    let (begin, begin_cpu) = (Instant::now(), cpu_ns());
    for _ in 0..n {
        let deadline = Instant::now() + chance.delay(100, 2900);
        let fired = fired.clone();
        runtime.spawn(async move {
            sleep_until(deadline.into()).await;
            fired.record(deadline);
        });
    }
    let add = begin.elapsed();
    while !fired.over.load(Acquire) {
        thread::sleep(Duration::from_millis(10));
    }
    thread::sleep(Duration::from_millis(10)); // another worker may still be writing its own

    metric("add_ns", add.as_nanos() as f64 / n as f64);
    metric("cpu_ns", (*fired.cpu_ns.lock().unwrap() - begin_cpu) / n as f64);
    print_lateness(fired.lateness.iter().map(|l| l.load(Acquire)).collect());
}

// ---- heartbeat ----

const PERIOD: Duration = Duration::from_secs(1);

/// Its lateness at each of the deadlines that `lateness` has room for.
async fn beat(mut deadline: Instant, mut lateness: Vec<i64>) -> Vec<i64> {
    for late in &mut lateness {
        sleep_until(deadline.into()).await;
        *late = lateness_now(deadline);
        deadline += PERIOD;
    }
    lateness
}

fn heartbeat(options: &Options) {
    let periods = 1 + options.seconds.max(1.0) as usize;
    let runtime = runtime();
    let mut chance = Chance(1);
    let begin = Instant::now() + PERIOD; // the first deadline, when all have been added
    let beats: Vec<_> = (0..options.pending)
        .map(|_| runtime.spawn(beat(begin + chance.delay(0, 1000), vec![1; periods])))
        .collect();

    wait_until(begin + PERIOD);
    let (from, from_cpu) = (Instant::now(), cpu_ns());
    wait_until(begin + PERIOD * periods as u32);
    let cpu = cpu_ns() - from_cpu;
    metric("cpu_percent", 100.0 * cpu / from.elapsed().as_nanos() as f64);

    let beats: Vec<_> = beats.into_iter().map(|b| runtime.block_on(b).unwrap()).collect();
    let mean = |k: usize| beats.iter().map(|b| b[k] as f64).sum::<f64>() / beats.len() as f64;
    let drift = mean(periods - 1) - mean(0);
    print_lateness(beats.concat());
    metric("drift_us", drift / 1e3 / (periods - 1) as f64);
}

// ---- burst ----

const LEAD: Duration = Duration::from_millis(200); // the adder's before the deadline

/// With its pages there; what finds no room is left out.
struct Samples(Vec<i64>);

impl Samples {
    fn new() -> Samples {
        let mut samples = vec![1; 1 << 22];
        samples.clear();
        Samples(samples)
    }

    fn add(&mut self, took: Duration) {
        if self.0.len() < self.0.capacity() {
            self.0.push(took.as_nanos() as i64);
        }
    }
}

/// Until LEAD after the last run, which `last_run` says in ns after the deadline, or 0. Needs
/// the context of a runtime.
fn add_meanwhile(
    deadline: Instant,
    last_run: &AtomicU64,
    quiet: &mut Samples,
    meanwhile: &mut Samples,
) {
    let waker = Waker::from(Arc::new(Nobody));
    let mut chance = Chance(2);
    let mut window: Vec<_> = (0..WINDOW).map(|_| None).collect();

    wait_until(deadline - LEAD);
    for oldest in (0..WINDOW).cycle() {
        window[oldest] = None; // cancels what was there
        let delay = chance.delay(30_000, 16_000);
        let before = Instant::now();
        window[oldest] = Some(armed(delay, &waker));
        let after = Instant::now();
        let last = last_run.load(Acquire);
        if before < deadline {
            quiet.add(after - before);
        } else if last == 0 {
            meanwhile.add(after - before);
        }
        if last != 0 && after > deadline + Duration::from_nanos(last) + LEAD {
            return;
        }
    }
}

fn burst(options: &Options) {
    let (mut quiet, mut meanwhile) = (Samples::new(), Samples::new());
    let runtime = runtime();
    let left = Arc::new(AtomicU64::new(options.pending));
    let last_run = Arc::new(AtomicU64::new(0));
    let deadline = Instant::now() + Duration::from_secs(2);

    for _ in 0..options.pending {
        let (left, last_run) = (left.clone(), last_run.clone());
        runtime.spawn(async move {
            sleep_until(deadline.into()).await;
            if left.fetch_sub(1, AcqRel) == 1 {
                last_run.store(deadline.elapsed().as_nanos() as u64, Release);
            }
        });
    }
    thread::scope(|scope| {
        scope.spawn(|| {
            let _context = runtime.enter();
            add_meanwhile(deadline, &last_run, &mut quiet, &mut meanwhile);
        });
    });

    quiet.0.sort_unstable();
    meanwhile.0.sort_unstable();
    metric("last_run_ms", last_run.load(Acquire) as f64 / 1e6);
    metric("quiet_add_p999_us", us(&quiet.0, 0.999));
    metric("add_p999_us", us(&meanwhile.0, 0.999));
    metric("add_max_us", us(&meanwhile.0, 1.0));
}

// ---- standing, idle ----

fn load(options: &Options) {
    let (begin, begin_cpu, begin_switches) = (Instant::now(), cpu_ns(), switches());
    thread::sleep(options.length());
    let wall = begin.elapsed().as_nanos() as f64;
    metric("cpu_percent", 100.0 * (cpu_ns() - begin_cpu) / wall);
    metric("wakeups_per_s", (switches() - begin_switches) * 1e9 / wall);
}

fn standing(options: &Options) {
    let before = resident_bytes();
    let runtime = runtime();
    let _context = runtime.enter();
    let mut chance = Chance(1);
    for _ in 0..options.pending {
        runtime.spawn(sleep(chance.delay(60_000, 540_000)));
    }
    thread::sleep(Duration::from_secs(1));
    load(options);
    metric("bytes_per_timeout", (resident_bytes() - before) / options.pending as f64);
    process::exit(0); // the tasks need not be freed
}

fn idle(options: &Options) {
    let _runtime = runtime();
    thread::sleep(Duration::from_millis(200));
    load(options);
}

// ---- The command line ----

/// Options come in pairs, and are right: who runs this is perf/run.sh. Those that mean nothing here are left out.
fn main() {
    let arguments: Vec<String> = env::args().collect();
    let mut options = Options { producers: 1, pending: 0, seconds: 0.0, window: WINDOW };

    if arguments.len() % 2 != 0 {
        eprintln!("Usage: {} WORKLOAD [--option N]...; see perf/README.md", arguments[0]);
        process::exit(2)
    }
    for pair in arguments[2..].chunks(2) {
        let value: f64 = pair[1].parse().expect("a number");
        match pair[0].as_str() {
            "--producers" => options.producers = value as u64,
            "--pending" => options.pending = value as u64,
            "--seconds" => options.seconds = value,
            "--window" => options.window = value as usize,
            _ => (),
        }
    }
    let (run, pending, seconds): (fn(&Options), u64, f64) = match arguments[1].as_str() {
        "churn" => (churn, 0, 1.0),
        "fire" => (fire, 1_000_000, 0.0),
        "standing" => (standing, 1_000_000, 2.0),
        "idle" => (idle, 0, 2.0),
        "reset" => (reset, 100_000, 1.0),
        "heartbeat" => (heartbeat, 100_000, 3.0),
        "burst" => (burst, 1_000_000, 0.0),
        workload => {
            eprintln!("{} does not do {}", arguments[0], workload);
            process::exit(3)
        }
    };
    if options.pending == 0 {
        options.pending = pending;
    }
    if options.seconds == 0.0 {
        options.seconds = seconds;
    }
    run(&options);
}
