package org.sluice.conformance;

import java.util.Set;
import java.util.concurrent.atomic.LongAccumulator;
import java.util.concurrent.atomic.LongAdder;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A consumer with the flags and the report lines of RocketMQ's own benchmark consumer: -n name server, -t topic,
 * -w threads, -g group, -ri report interval ms. B2C is from the producer's clock to here, S2C from the broker's.
 * Beyond those: --seconds N or -q N ends it, --first reads from the queues' start.
 */
public final class BenchmarkConsumer {
    private final LongAdder received = new LongAdder();
    private final LongAdder bornMillis = new LongAdder();
    private final LongAdder storedMillis = new LongAdder();
    private final LongAdder failed = new LongAdder();
    // Of the running report interval, and of the whole run.
    private final LongAccumulator maxBorn = new LongAccumulator(Long::max, 0);
    private final LongAccumulator maxStored = new LongAccumulator(Long::max, 0);
    private final LongAccumulator maxBornEver = new LongAccumulator(Long::max, 0);
    private final LongAccumulator maxStoredEver = new LongAccumulator(Long::max, 0);
    private volatile long firstNanos;
    private volatile long lastNanos;

    private record Totals(long at, long received, long born, long stored) {
    }

    public static void main(String[] words) throws Exception {
        System.setProperty("rocketmq.serialize.type", "ROCKETMQ");
        new BenchmarkConsumer().run(new Flags(words, Set.of("n", "t", "w", "g", "ri", "q", "seconds", "first")));
        System.exit(0);
    }

    private void run(Flags flags) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(flags.get("g", "benchmark_consumer"));
        consumer.setNamesrvAddr(flags.get("n", "127.0.0.1:9876"));
        consumer.setInstanceName(String.valueOf(ProcessHandle.current().pid()));
        consumer.setConsumeThreadMin(flags.get("w", 20));
        consumer.setConsumeThreadMax(flags.get("w", 20));
        consumer.setConsumeFromWhere(flags.has("first") ? ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
            : ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        consumer.subscribe(flags.get("t", "BenchmarkTest"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(this::count);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        System.out.println("Consumer Started.");

        long quota = Long.parseLong(flags.get("q", "0"));
        long seconds = Long.parseLong(flags.get("seconds", "0"));
        int interval = flags.get("ri", 10_000);
        long start = System.nanoTime();
        Totals last = totals();
        while ((quota == 0 || received.sum() < quota) && (seconds == 0 || System.nanoTime() - start < seconds * 1_000_000_000L)) {
            Program.pause(20);
            if (System.nanoTime() - last.at >= interval * 1_000_000L) {
                Totals now = totals();
                System.out.println("Current Time: " + BenchmarkProducer.now() + " | "
                    + line(last, now, maxBorn.getThenReset(), maxStored.getThenReset()));
                last = now;
            }
        }
        Totals all = totals();
        // The rate counts from the first message to the last, not the waiting around them.
        Totals first = new Totals(firstNanos, 0, 0, 0);
        System.out.println("[Complete] Consume Total: " + all.received + " | "
            + line(first, new Totals(Math.max(lastNanos, firstNanos + 1), all.received, all.born, all.stored),
                maxBornEver.get(), maxStoredEver.get()));
        consumer.shutdown();
    }

    private void count(MessageExt message) {
        long now = System.currentTimeMillis();
        long born = now - message.getBornTimestamp();
        long stored = now - message.getStoreTimestamp();
        lastNanos = System.nanoTime();
        if (firstNanos == 0) {
            firstNanos = lastNanos;
        }
        received.increment();
        bornMillis.add(born);
        storedMillis.add(stored);
        maxBorn.accumulate(born);
        maxStored.accumulate(stored);
        maxBornEver.accumulate(born);
        maxStoredEver.accumulate(stored);
    }

    private Totals totals() {
        return new Totals(System.nanoTime(), received.sum(), bornMillis.sum(), storedMillis.sum());
    }

    private String line(Totals from, Totals to, long maxBorn, long maxStored) {
        long count = to.received - from.received;
        double messages = Math.max(1, count);
        return String.format("Consume TPS: %d | AVG(B2C) RT(ms): %7.3f | AVG(S2C) RT(ms): %7.3f | MAX(B2C) RT(ms): %d"
                + " | MAX(S2C) RT(ms): %d | Consume Fail: %d", count * 1_000_000_000L / Math.max(1, to.at - from.at),
            (to.born - from.born) / messages, (to.stored - from.stored) / messages, maxBorn, maxStored, failed.sum());
    }
}
