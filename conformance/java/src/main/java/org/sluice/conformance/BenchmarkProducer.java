package org.sluice.conformance;

import java.time.LocalDateTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAccumulator;
import java.util.concurrent.atomic.LongAdder;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.exception.RemotingException;

/**
 * A load generator with the flags and the report lines of RocketMQ's own benchmark producer:
 * -n name server, -t topic, -w threads, -s body size, -k keys, -l tags, -q total, -y async, -ri report interval ms.
 * Beyond those: --seconds N ends after a time, --in-flight N bounds what async keeps open (unbounded, it measures the
 * client's own refusals).
 */
public final class BenchmarkProducer {
    private final Flags flags;
    private final String topic;
    private final byte[] body;
    private final int tags;
    private final boolean keys;
    private final long quota;
    private final DefaultMQProducer producer = new DefaultMQProducer("benchmark_producer");
    private final AtomicLong taken = new AtomicLong();
    private final LongAdder succeeded = new LongAdder();
    private final LongAdder sendFailed = new LongAdder();
    private final LongAdder responseFailed = new LongAdder();
    private final LongAdder totalNanos = new LongAdder();
    private final LongAccumulator maxMillis = new LongAccumulator(Long::max, 0);
    private volatile boolean ended;

    public static void main(String[] words) throws Exception {
        // Before the first class of the client is loaded.
        System.setProperty("rocketmq.serialize.type", "ROCKETMQ");
        new BenchmarkProducer(new Flags(words,
            Set.of("n", "t", "w", "s", "k", "l", "q", "y", "ri", "seconds", "in-flight"))).run();
        System.exit(0);
    }

    private BenchmarkProducer(Flags flags) {
        this.flags = flags;
        topic = flags.get("t", "BenchmarkTest");
        body = new byte[flags.get("s", 128)];
        Arrays.fill(body, (byte) 'a');
        tags = flags.get("l", 0);
        keys = flags.has("k");
        quota = Long.parseLong(flags.get("q", "0"));
    }

    private void run() throws Exception {
        boolean async = flags.has("y");
        int threads = async ? 1 : flags.get("w", 64);
        long seconds = Long.parseLong(flags.get("seconds", "0"));
        producer.setNamesrvAddr(flags.get("n", "127.0.0.1:9876"));
        producer.setInstanceName(String.valueOf(ProcessHandle.current().pid()));
        producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        producer.start();

        Thread reporter = new Thread(this::reportForEver);
        reporter.setDaemon(true);
        reporter.start();
        long start = System.nanoTime();
        Semaphore open = new Semaphore(flags.get("in-flight", 1000));
        List<Thread> senders = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            Thread sender = new Thread(() -> {
                while (!ended && (quota == 0 || taken.getAndIncrement() < quota)) {
                    if (async) {
                        sendAsync(open);
                    } else {
                        sendSync();
                    }
                }
            });
            senders.add(sender);
            sender.start();
        }
        if (seconds > 0) {
            Thread timer = new Thread(() -> {
                Program.pause(seconds * 1000);
                ended = true;
            });
            timer.setDaemon(true);
            timer.start();
        }
        for (Thread sender : senders) {
            sender.join();
        }
        if (async) {
            open.tryAcquire(flags.get("in-flight", 1000), 10, TimeUnit.SECONDS);
        }
        ended = true;
        double elapsed = (System.nanoTime() - start) / 1e9;
        long sent = succeeded.sum();
        System.out.printf("[Complete] Send Total: %d | Send TPS: %d | Max RT(ms): %d | Average RT(ms): %7.3f"
                + " | Send Failed: %d | Response Failed: %d%n", sent + sendFailed.sum() + responseFailed.sum(),
            (long) (sent / elapsed), maxMillis.get(), totalNanos.sum() / 1e6 / Math.max(1, sent), sendFailed.sum(),
            responseFailed.sum());
        producer.shutdown();
    }

    private Message message(long number) {
        Message message = new Message(topic, body);
        if (keys) {
            message.setKeys(String.valueOf(number));
        }
        if (tags > 0) {
            message.setTags("tag" + number % tags);
        }
        return message;
    }

    private void sendSync() {
        long start = System.nanoTime();
        try {
            producer.send(message(start));
            count(start);
        } catch (RemotingException | MQClientException noAnswer) {
            sendFailed.increment();
            Program.pause(1); // a broker that is away must not make this a busy loop
        } catch (MQBrokerException | InterruptedException refused) {
            responseFailed.increment();
        }
    }

    private void sendAsync(Semaphore open) {
        open.acquireUninterruptibly();
        long start = System.nanoTime();
        try {
            producer.send(message(start), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    open.release();
                    count(start);
                }

                @Override
                public void onException(Throwable failure) {
                    open.release();
                    responseFailed.increment();
                }
            });
        } catch (Exception failure) {
            open.release();
            sendFailed.increment();
        }
    }

    private void count(long start) {
        long nanos = System.nanoTime() - start;
        succeeded.increment();
        totalNanos.add(nanos);
        maxMillis.accumulate(nanos / 1_000_000);
    }

    private record Sample(long at, long succeeded, long nanos) {
    }

    /** A sample every second; a report spans the last ten of them. */
    private void reportForEver() {
        int interval = flags.get("ri", 10_000);
        LinkedList<Sample> window = new LinkedList<>();
        window.add(new Sample(System.nanoTime(), 0, 0));
        long next = System.nanoTime() + interval * 1_000_000L;
        while (!ended) {
            Program.pause(Math.min(1000, interval));
            window.add(new Sample(System.nanoTime(), succeeded.sum(), totalNanos.sum()));
            if (window.size() > 11) {
                window.removeFirst();
            }
            if (System.nanoTime() >= next && !ended) {
                next += interval * 1_000_000L;
                Sample from = window.getFirst();
                Sample to = window.getLast();
                long sent = to.succeeded - from.succeeded;
                System.out.printf("Current Time: %s | Send TPS: %d | Max RT(ms): %d | Average RT(ms): %7.3f"
                        + " | Send Failed: %d | Response Failed: %d%n", now(), sent * 1_000_000_000L / (to.at - from.at),
                    maxMillis.get(), (to.nanos - from.nanos) / 1e6 / Math.max(1, sent), sendFailed.sum(),
                    responseFailed.sum());
            }
        }
    }

    static String now() {
        return LocalDateTime.now().format(DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss,SSS"));
    }
}
