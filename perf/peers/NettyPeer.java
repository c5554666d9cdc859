// SPDX-License-Identifier: LGPL-2.1-or-later

import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.TimerTask;
import java.util.concurrent.TimeUnit;
import java.util.function.LongConsumer;

/** Netty's HashedWheelTimer. */
final class NettyPeer implements Workloads.Peer {
    private static final TimerTask NOTHING = timeout -> { };

    private final HashedWheelTimer timer;

    private NettyPeer(Workloads.Options options) {
        timer = new HashedWheelTimer(options.tickNs, TimeUnit.NANOSECONDS, (int) options.wheel);
        timer.start();
    }

    @Override
    public Object add(long delay) {
        return timer.newTimeout(NOTHING, delay, TimeUnit.NANOSECONDS);
    }

    @Override
    public void cancel(Object timeout) {
        ((Timeout) timeout).cancel();
    }

    @Override
    public void add(LongConsumer job, long argument, long delay) {
        timer.newTimeout(timeout -> job.accept(argument), delay, TimeUnit.NANOSECONDS);
    }

    @Override
    public void repeat(LongConsumer job, long argument, long delay, long period) {
        TimerTask beat = new TimerTask() {
            private long deadline = System.nanoTime() + delay;

            @Override
            public void run(Timeout timeout) {
                job.accept(argument);
                deadline += period;
                timer.newTimeout(this, deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
            }
        };
        timer.newTimeout(beat, delay, TimeUnit.NANOSECONDS);
    }

    @Override
    public void close() {
        timer.stop();
    }

    public static void main(String[] args) throws Exception {
        Workloads.main("peer_netty", args, NettyPeer::new);
    }
}
