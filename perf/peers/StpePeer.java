// SPDX-License-Identifier: LGPL-2.1-or-later

import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.LongConsumer;

/** The JDK's ScheduledThreadPoolExecutor. It has no ticks and no wheel. */
final class StpePeer implements Workloads.Peer {
    private static final Runnable NOTHING = () -> { };

    private final ScheduledThreadPoolExecutor executor = new ScheduledThreadPoolExecutor(1);

    private StpePeer() {
        executor.setRemoveOnCancelPolicy(true);
        executor.prestartCoreThread();
    }

    @Override
    public Object add(long delay) {
        return executor.schedule(NOTHING, delay, TimeUnit.NANOSECONDS);
    }

    @Override
    public void cancel(Object timeout) {
        ((Future<?>) timeout).cancel(false);
    }

    @Override
    public void add(LongConsumer job, long argument, long delay) {
        executor.schedule(() -> job.accept(argument), delay, TimeUnit.NANOSECONDS);
    }

    @Override
    public void repeat(LongConsumer job, long argument, long delay, long period) {
        executor.scheduleAtFixedRate(
            () -> job.accept(argument), delay, period, TimeUnit.NANOSECONDS);
    }

    @Override
    public void close() {
        executor.shutdownNow();
    }

    public static void main(String[] args) throws Exception {
        Workloads.main("peer_stpe", args, options -> new StpePeer());
    }
}
