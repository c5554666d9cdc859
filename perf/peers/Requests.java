// SPDX-License-Identifier: LGPL-2.1-or-later

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Function;

/**
 * The workload `requests`, as the contenders in C have it. Other threads are all of the JVM's but
 * this one; what they do without a timer is taken off.
 */
final class Requests {
    private static final int SLOTS = 1 << 16;
    private static final long ANSWERED_IN = Workloads.MS, STEP = 100 * Workloads.US;
    private static final long BARE_MOST = Workloads.SECOND; // before, and again after

    private final Workloads.Options options;
    private final Function<Workloads.Options, Workloads.Peer> factory;
    private final long gap;
    private final long[] answers = new long[SLOTS];
    private final Object[] timeouts = new Object[SLOTS];
    private final String self;
    private final Map<String, double[]> threads = new HashMap<>(); // the last known of each

    private Workloads.Peer peer; // null: none
    private long head, tail, next, callsNs;

    Requests(Workloads.Options options, Function<Workloads.Options, Workloads.Peer> factory)
            throws IOException {
        this.options = options;
        this.factory = factory;
        gap = Workloads.SECOND / options.rate;
        self = Path.of("/proc/thread-self").toRealPath().getFileName().toString();
    }

    private void answer(long until) {
        for (; tail != head && answers[(int) (tail % SLOTS)] <= until; tail++) {
            if (peer == null)
                continue;
            long begin = System.nanoTime();
            peer.cancel(timeouts[(int) (tail % SLOTS)]);
            callsNs += System.nanoTime() - begin;
        }
    }

    private void request(long now) {
        for (; next <= now && head - tail < SLOTS; next += gap, head++) {
            answers[(int) (head % SLOTS)] = now + ANSWERED_IN;
            if (peer == null)
                continue;
            long begin = System.nanoTime();
            timeouts[(int) (head % SLOTS)] = peer.add(30 * Workloads.SECOND);
            callsNs += System.nanoTime() - begin;
        }
    }

    /** Requests, sleeps, CPU of other threads, CPU of all, time in the calls. */
    private double[] used() throws IOException {
        try (DirectoryStream<Path> tasks = Files.newDirectoryStream(Path.of("/proc/self/task"))) {
            for (Path task : tasks)
                look(task);
        }
        double[] sum = { head, 0, 0, 0, callsNs };
        for (Map.Entry<String, double[]> thread : threads.entrySet()) {
            sum[3] += thread.getValue()[1];
            if (thread.getKey().equals(self))
                continue;
            sum[1] += thread.getValue()[0];
            sum[2] += thread.getValue()[1];
        }
        return sum;
    }

    private void look(Path task) throws IOException {
        try {
            double[] values = new double[2];
            for (String line : Files.readAllLines(task.resolve("status"))) {
                if (line.startsWith("voluntary_ctxt_switches:"))
                    values[0] = Double.parseDouble(line.replaceAll("[^0-9]", ""));
            }
            String schedule = Files.readString(task.resolve("schedstat"));
            values[1] = Double.parseDouble(schedule.split(" ")[0]);
            threads.put(task.getFileName().toString(), values);
        } catch (NoSuchFileException ended) {
            // What it had when it was last seen counts.
        }
    }

    private double[] runFor(long length) throws IOException {
        double[] used = used();
        long now = System.nanoTime(), end = now + length;

        next = now;
        while (now < end) {
            answer(now);
            request(now);
            long at = next;
            if (tail != head)
                at = Math.min(at, answers[(int) (tail % SLOTS)]);
            Workloads.sleepUntil(Math.max(at, now + STEP));
            now = System.nanoTime();
        }
        answer(Long.MAX_VALUE);
        double[] after = used();
        for (int i = 0; i < after.length; i++)
            after[i] -= used[i];
        return after;
    }

    void measure() throws IOException, InterruptedException {
        long length = options.ns(), bareLength = Math.min(length / 2, BARE_MOST);

        runFor(bareLength); // what is here is compiled
        System.gc();
        double[] before = runFor(bareLength);
        peer = factory.apply(options);
        runFor(Math.max(length / 5, Workloads.SECOND));
        double[] with = runFor(length);
        peer.close();
        peer = null;
        double[] after = runFor(bareLength);

        double bare = before[0] + after[0], n = with[0];
        double others = with[2] / n - (before[2] + after[2]) / bare;
        Workloads.metric("wakeups_per_request", with[1] / n - (before[1] + after[1]) / bare);
        Workloads.metric("cpu_us_per_request", (with[4] / n + others) / 1e3);
        Workloads.metric("process_us_per_request",
                         (with[3] / n - (before[3] + after[3]) / bare) / 1e3);
        Workloads.metric("bare_us_per_request", (before[3] + after[3]) / bare / 1e3);
    }
}
