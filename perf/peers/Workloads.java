// SPDX-License-Identifier: LGPL-2.1-or-later

import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;
import java.util.function.LongConsumer;

/**
 * The workloads of perf/README.md for the timers on the JVM. System.nanoTime() is
 * CLOCK_MONOTONIC. The CPU time is that of the whole JVM, its compiler and collector included;
 * the JVM gives it in steps of 10 ms. Wake-ups are not reported: most are the JVM's own.
 */
final class Workloads {
    static final long US = 1_000, MS = 1_000_000, SECOND = 1_000_000_000;
    private static final int WINDOW = 1000; // timeouts that a producer of churn has pending
    private static final int BATCH = 50;    // operations between two looks at whether to go on
    private static final int APART = 16;    // elements between what two producers write
    private static final int BURST_SAMPLES = 1 << 22;

    /** A timer under test; add() and cancel() may be called by any thread. */
    interface Peer {
        Object add(long delay); // of a task that does nothing
        void cancel(Object timeout);
        void add(LongConsumer job, long argument, long delay);
        void repeat(LongConsumer job, long argument, long delay, long period);
        void close();
    }

    static final class Options {
        String workload;
        int producers = 1;
        int window = WINDOW;
        long pending, wheel = 512, tickNs, rate = 1000;
        double seconds;

        long ns() {
            return (long) (seconds * 1e9);
        }
    }

    private final Options options;
    private final Function<Options, Peer> factory;

    private Workloads(Options options, Function<Options, Peer> factory) {
        this.options = options;
        this.factory = factory;
    }

    // ---- The kit ----

    static void metric(String name, double value) {
        System.out.printf(Locale.ROOT, "%s %.4f%n", name, value);
    }

    private static long cpuNs() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
            .getProcessCpuTime();
    }

    private static long residentBytes() throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmRSS:"))
                return Long.parseLong(line.replaceAll("[^0-9]", "")) * 1024;
        }
        throw new IOException("no VmRSS in /proc/self/status");
    }

    private static long heapBytes() {
        for (int i = 0; i < 2; i++)
            System.gc();
        return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
    }

    static void sleepUntil(long instant) {
        for (long left; (left = instant - System.nanoTime()) > 0;)
            LockSupport.parkNanos(left);
    }

    private static void sleep(long ns) {
        sleepUntil(System.nanoTime() + ns);
    }

    /** Xorshift, as the contenders in C have it. */
    private static final class Chance {
        private long state;

        Chance(long seed) {
            state = seed;
        }

        long delay(long least, long span) {
            state ^= state << 13;
            state ^= state >>> 7;
            state ^= state << 17;
            return least + ((state >>> 32) * (span / US) >>> 32) * US;
        }

        long churnDelay() {
            return delay(30 * SECOND, 16 * SECOND);
        }
    }

    /** Those of one thread; what comes when there is no room is left out. */
    private static final class Samples {
        private final long[] at;
        private int count;

        Samples(int room) {
            at = new long[room];
            Arrays.fill(at, 1); // so that its pages are there
        }

        void add(long value) {
            if (count < at.length)
                at[count++] = value;
        }

        void sort() {
            Arrays.sort(at, 0, count);
        }

        double us(double percent) {
            return count == 0 ? 0 : at[(int) ((count - 1) * percent / 100)] / 1e3;
        }

        void printLateness() {
            sort();
            metric("lateness_p50_us", us(50));
            metric("lateness_p99_us", us(99));
            metric("lateness_p999_us", us(99.9));
            metric("lateness_max_us", us(100));
            metric("earliest_us", us(0));
        }
    }

    /** Over a second on a timer of its own, to have compiled what will be measured. */
    void warmUp() throws InterruptedException {
        Peer peer = factory.apply(options);
        Chance chance = new Chance(3);
        Object[] window = new Object[WINDOW];
        long end = System.nanoTime() + SECOND;

        fire(peer, 100_000, SECOND / 10);
        for (int i = 0; System.nanoTime() < end; i = (i + 1) % WINDOW) {
            if (window[i] != null)
                peer.cancel(window[i]);
            window[i] = peer.add(chance.churnDelay());
        }
        peer.close();
    }

    // ---- churn ----

    private static final int WARMING = 0, MEASURING = 1, OVER = 2;

    private volatile int phase = WARMING;
    private AtomicLongArray published; // operations of each producer
    private double ns, mops, mopsStart, mopsEnd;
    private long peakRss;

    private final class Producer extends Thread {
        private final Peer peer;
        private final int index;
        private final CountDownLatch ready;
        private final Chance chance;
        private final Object[] window = new Object[options.window];
        private int oldest;
        private long total, ops, time;

        Producer(Peer peer, int index, CountDownLatch ready) {
            this.peer = peer;
            this.index = index;
            this.ready = ready;
            chance = new Chance((index + 1) * 0x9e3779b97f4a7c15L);
        }

        private void batch() {
            for (int i = 0; i < BATCH; i++) {
                peer.cancel(window[oldest]);
                window[oldest] = peer.add(chance.churnDelay());
                oldest = oldest + 1 == window.length ? 0 : oldest + 1;
            }
        }

        private void work(int during) {
            long begin = System.nanoTime(), before = total;

            while (phase == during) {
                batch();
                total += BATCH;
                published.setOpaque(index * APART, total);
            }
            time = System.nanoTime() - begin;
            ops = total - before;
        }

        @Override
        public void run() {
            for (int i = 0; i < window.length; i++)
                window[i] = peer.add(chance.churnDelay());
            ready.countDown();
            work(WARMING);
            work(MEASURING);
        }
    }

    private long publishedSum() {
        long sum = 0;

        for (int i = 0; i < options.producers; i++)
            sum += published.getOpaque(i * APART);
        return sum;
    }

    /** Sleeps through the measured part, looking up ten times a second. */
    private void watch() throws IOException {
        int count = (int) (options.seconds * 10), tenth = count / 10 + 1;
        long begin = System.nanoTime();
        long[] ops = new long[count + 1];

        ops[0] = publishedSum();
        for (int i = 1; i <= count; i++) {
            sleepUntil(begin + i * SECOND / 10);
            ops[i] = publishedSum();
            peakRss = Math.max(peakRss, residentBytes());
        }
        sleepUntil(begin + options.ns());
        if (tenth <= count) {
            mopsStart = (ops[tenth] - ops[0]) / (tenth * 1e5);
            mopsEnd = (ops[count] - ops[count - tenth]) / (tenth * 1e5);
        }
    }

    private void churn() throws IOException, InterruptedException {
        long before = residentBytes();
        Peer peer = factory.apply(options);
        Producer[] producers = new Producer[options.producers];
        CountDownLatch ready = new CountDownLatch(producers.length);

        published = new AtomicLongArray(APART * producers.length);
        for (int i = 0; i < producers.length; i++) {
            producers[i] = new Producer(peer, i, ready);
            producers[i].start();
        }
        ready.await();
        sleep(Math.max(SECOND, options.ns() / 5));

        long ops = publishedSum(), cpu = cpuNs();
        phase = MEASURING;
        watch();
        phase = OVER;
        for (Producer p : producers)
            p.join();
        cpu = cpuNs() - cpu;
        ops = publishedSum() - ops;
        peakRss = Math.max(peakRss, residentBytes());
        for (Producer p : producers) {
            double each = (double) p.time / p.ops;
            ns += each / producers.length;
            mops += 1e3 / each;
        }
        metric("producer_ns", ns);
        metric("mops", mops);
        metric("cpu_ns", (double) cpu / ops);
        metric("peak_rss_mb", (peakRss - before) / 1048576.0);
        peer.close();
    }

    private void churn100ms() throws IOException, InterruptedException {
        churn();
        metric("mops_start", mopsStart);
        metric("mops_end", mopsEnd);
    }

    // ---- fire ----

    private Samples lateness; // the timer's thread's until `left` is 0
    private long lastCpu;     // so is this: the process's at the last run
    private final AtomicLong left = new AtomicLong();

    private void record(long deadline) {
        lateness.add(System.nanoTime() - deadline);
        long remaining = left.getOpaque() - 1;
        if (remaining == 0)
            lastCpu = cpuNs();
        left.setRelease(remaining);
    }

    private void waitForAll() {
        while (left.getAcquire() > 0)
            sleep(10 * MS);
    }

    /** Returns what adding took. */
    private long fire(Peer peer, long n, long span) {
        Chance chance = new Chance(1);
        LongConsumer job = this::record;

        lateness = new Samples((int) n);
        left.set(n);
        long begin = System.nanoTime();
        for (long i = 0; i < n; i++) {
            long delay = chance.delay(SECOND / 10, span);
            peer.add(job, System.nanoTime() + delay, delay);
        }
        long took = System.nanoTime() - begin;
        waitForAll();
        return took;
    }

    private void fire() throws InterruptedException {
        warmUp();
        Peer peer = factory.apply(options);
        long n = options.pending, cpu = cpuNs(), took = fire(peer, n, 2900 * MS);

        metric("add_ns", (double) took / n);
        metric("cpu_ns", (double) (lastCpu - cpu) / n);
        lateness.printLateness();
        peer.close();
    }

    // ---- standing, idle ----

    private void measureLoad() {
        long begin = System.nanoTime(), cpu = cpuNs();

        sleep(options.ns());
        long cpuEnd = cpuNs();
        metric("cpu_percent", 100.0 * (cpuEnd - cpu) / (System.nanoTime() - begin));
    }

    private void standing() throws InterruptedException {
        warmUp();
        lateness = null;
        long before = heapBytes();
        Peer peer = factory.apply(options);
        Chance chance = new Chance(1);

        for (long i = 0; i < options.pending; i++)
            peer.add(chance.delay(60 * SECOND, 540 * SECOND));
        System.gc(); // not in the measured part
        sleep(SECOND);
        measureLoad();
        metric("bytes_per_timeout", (double) (heapBytes() - before) / options.pending);
        peer.close();
    }

    private void idle() throws InterruptedException {
        warmUp();
        System.gc();
        Peer peer = factory.apply(options);

        sleep(SECOND);
        measureLoad();
        peer.close();
    }

    // ---- heartbeat ----

    private long[] deadlines;
    private long firstEnd, lastBegin, end; // deadlines before, and from, the first two are in means
    private double firstSum, firstCount, lastSum, lastCount;

    private void beat(long which) {
        long deadline = deadlines[(int) which], late = System.nanoTime() - deadline;

        if (deadline >= end)
            return;
        lateness.add(late);
        if (deadline < firstEnd) {
            firstSum += late;
            firstCount++;
        }
        if (deadline >= lastBegin) {
            lastSum += late;
            lastCount++;
        }
        deadlines[(int) which] = deadline + SECOND;
        if (deadline + SECOND >= end)
            left.setRelease(left.getOpaque() - 1);
    }

    private void heartbeat() throws InterruptedException {
        warmUp();
        int n = (int) options.pending;
        long periods = 1 + (long) Math.max(options.seconds, 1);
        Peer peer = factory.apply(options);
        Chance chance = new Chance(1);

        deadlines = new long[n];
        lateness = new Samples((int) (n * periods));
        left.set(n);
        long begin = System.nanoTime() + SECOND; // the first deadline, when all have been added
        end = begin + periods * SECOND;
        firstEnd = begin + SECOND;
        lastBegin = end - SECOND;
        for (int i = 0; i < n; i++) {
            deadlines[i] = begin + chance.delay(0, SECOND);
            peer.repeat(this::beat, i, deadlines[i] - System.nanoTime(), SECOND);
        }

        sleepUntil(firstEnd);
        long from = System.nanoTime(), cpu = cpuNs();
        sleepUntil(end);
        metric("cpu_percent", 100.0 * (cpuNs() - cpu) / (System.nanoTime() - from));
        waitForAll();
        lateness.printLateness();
        double drift = lastSum / lastCount - firstSum / firstCount;
        metric("drift_us", drift / 1e3 / (periods - 1));
        peer.close();
    }

    // ---- burst ----

    private volatile long lastRun; // 0: not yet

    private void burstRun(long unused) {
        long remaining = left.getOpaque() - 1;

        left.setOpaque(remaining);
        if (remaining == 0)
            lastRun = System.nanoTime();
    }

    /** From 0.2 s before the deadline to 0.2 s after the last run. */
    private void addMeanwhile(Peer peer, long deadline, Samples quiet, Samples meanwhile) {
        Chance chance = new Chance(2);
        Object[] window = new Object[WINDOW];
        int oldest = 0;

        sleepUntil(deadline - SECOND / 5);
        for (;;) {
            if (window[oldest] != null)
                peer.cancel(window[oldest]);
            long delay = chance.churnDelay(), before = System.nanoTime();
            window[oldest] = peer.add(delay);
            long after = System.nanoTime(), last = lastRun;
            oldest = (oldest + 1) % WINDOW;
            if (before < deadline)
                quiet.add(after - before);
            else if (last == 0)
                meanwhile.add(after - before);
            if (last != 0 && after > last + SECOND / 5)
                return;
        }
    }

    private void burst() throws InterruptedException {
        warmUp();
        Samples quiet = new Samples(BURST_SAMPLES), meanwhile = new Samples(BURST_SAMPLES);
        Peer peer = factory.apply(options);
        LongConsumer job = this::burstRun;
        long n = options.pending, deadline = System.nanoTime() + 2 * SECOND;

        left.set(n);
        for (long i = 0; i < n; i++)
            peer.add(job, i, deadline - System.nanoTime());
        Thread adder = new Thread(() -> addMeanwhile(peer, deadline, quiet, meanwhile));
        adder.start();
        adder.join();

        quiet.sort();
        meanwhile.sort();
        metric("last_run_ms", (lastRun - deadline) / 1e6);
        metric("quiet_add_p999_us", quiet.us(99.9));
        metric("add_p999_us", meanwhile.us(99.9));
        metric("add_max_us", meanwhile.us(100));
        peer.close();
    }

    // ---- The command line ----

    /** In pairs, and right: who runs this is perf/run.sh. Those that mean nothing here are left out. */
    private static Options parseOptions(String program, String[] args) {
        Options o = new Options();

        if (args.length % 2 == 0) {
            System.err.printf("Usage: %s WORKLOAD [--option N]...; see perf/README.md%n", program);
            System.exit(2);
        }
        o.workload = args[0];
        for (int i = 1; i < args.length; i += 2) {
            double value = Double.parseDouble(args[i + 1]);
            switch (args[i]) {
            case "--producers": o.producers = (int) value; break;
            case "--pending": o.pending = (long) value; break;
            case "--wheel": o.wheel = (long) value; break;
            case "--seconds": o.seconds = value; break;
            case "--tick-ns": o.tickNs = (long) value; break;
            case "--window": o.window = (int) value; break;
            case "--rate": o.rate = (long) value; break;
            default: break;
            }
        }
        return o;
    }

    private static void defaults(Options o, long pending, double seconds) {
        if (o.pending == 0)
            o.pending = pending;
        if (o.seconds == 0)
            o.seconds = seconds;
        if (o.tickNs == 0)
            o.tickNs = o.workload.equals("churn-100ms") ? 100 * MS : MS;
    }

    static void main(String program, String[] args, Function<Options, Peer> factory)
            throws IOException, InterruptedException {
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> {
            System.err.printf("%s: %s%n", program, error); // out of memory, as like as not
            Runtime.getRuntime().halt(1);
        });
        Options o = parseOptions(program, args);
        Workloads w = new Workloads(o, factory);

        switch (o.workload) {
        case "churn": defaults(o, 0, 1); w.churn(); break;
        case "churn-100ms": defaults(o, 0, 60); w.churn100ms(); break;
        case "fire": defaults(o, 1_000_000, 0); w.fire(); break;
        case "standing": defaults(o, 1_000_000, 2); w.standing(); break;
        case "idle": defaults(o, 0, 2); w.idle(); break;
        case "heartbeat": defaults(o, 100_000, 3); w.heartbeat(); break;
        case "burst": defaults(o, 1_000_000, 0); w.burst(); break;
        case "requests": defaults(o, 0, 2); new Requests(o, factory).measure(); break;
        default:
            System.err.printf("%s does not do %s%n", program, o.workload);
            System.exit(3);
        }
        System.exit(0); // whatever threads are left
    }
}
