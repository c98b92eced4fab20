package org.sluice.conformance;

import java.io.File;
import java.io.FileWriter;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends --count messages, or as many as it can until there is a file, and writes down which of them the broker promised to keep.
 *
 * <p>Thread t of T sends the ordering keys t, t+T, t+2T ... of --order-keys (one per thread unless told), each with
 * its own sequence 0, 1, 2 ... A line of --acked-file: key,sequence,queue,queueOffset,msgId,offsetMsgId.
 */
public final class Produce {
    /** The user property of messages whose ordering key always goes to the same queue. */
    static final String ORDERED = "ordered";
    private static final int IN_FLIGHT = 512;

    private final DefaultMQProducer producer;
    private final String topic;
    private final String mode;
    private final String run;
    private final int size;
    private final boolean withKeys;
    private final String tag;
    private final boolean retryForever;
    private final File until;
    private final int batchSize;
    private final long pauseMicros;
    private final PrintWriter acked;
    private final Semaphore inFlight = new Semaphore(IN_FLIGHT);
    private final AtomicLong sent = new AtomicLong();
    private final AtomicLong ok = new AtomicLong();
    private final AtomicLong failed = new AtomicLong();

    public static void main(String[] words) {
        Program.run(words, (args, report) -> new Produce(args).run(args, report));
    }

    private Produce(Args args) throws Exception {
        topic = args.get("topic");
        mode = args.get("mode", "sync");
        run = args.get("run", Clients.fresh("run"));
        size = args.get("size", 256);
        withKeys = args.has("keys");
        tag = args.get("tag", null);
        retryForever = args.has("retry-forever");
        String end = args.get("until-file", null);
        until = end == null ? null : new File(end);
        batchSize = args.get("batch-size", 16);
        pauseMicros = args.get("pause-micros", 0);
        String file = args.get("acked-file", null);
        acked = file == null ? null : new PrintWriter(new FileWriter(file));
        producer = Clients.at(args, new DefaultMQProducer(args.get("group", "conformance_producer")));
    }

    private void run(Args args, Report report) throws Exception {
        int count = args.get("count", until == null ? 1000 : Integer.MAX_VALUE);
        int threads = args.get("threads", 1);
        int orderKeys = Math.max(threads, args.get("order-keys", threads));
        args.refuseUnread();
        producer.start();
        long start = System.nanoTime();
        List<Thread> senders = new ArrayList<>();
        for (int t = 0; t < threads; t++) {
            int thread = t;
            int share = count / threads + (t < count % threads ? 1 : 0);
            senders.add(new Thread(() -> sendShare(thread, threads, orderKeys, share)));
        }
        try {
            senders.forEach(Thread::start);
            for (Thread sender : senders) {
                sender.join();
            }
            inFlight.acquire(IN_FLIGHT);
        } finally {
            double seconds = (System.nanoTime() - start) / 1e9;
            report.put("run", run).put("sent", sent.get()).put("ok", ok.get()).put("failed", failed.get())
                .put("seconds", Math.round(seconds * 1000) / 1000.0);
            if (until == null) {
                report.checkEqual(count, mode.equals("oneway") ? sent.get() : ok.get(), "acknowledged messages");
            }
            producer.shutdown();
        }
    }

    private void sendShare(int thread, int threads, int orderKeys, int share) {
        int ownKeys = (orderKeys - thread + threads - 1) / threads;
        long[] sequences = new long[ownKeys];
        int step = mode.equals("batch") ? batchSize : 1;
        for (int i = 0, turn = 0; i < share && !isOver(); i += step, turn++) {
            int own = turn % ownKeys;
            List<Body> bodies = new ArrayList<>();
            for (int j = i; j < Math.min(i + step, share); j++) {
                bodies.add(new Body(run, thread + own * threads, sequences[own]++));
            }
            sendUntilDone(bodies);
            if (pauseMicros > 0) {
                java.util.concurrent.locks.LockSupport.parkNanos(pauseMicros * 1000);
            }
        }
    }

    private boolean isOver() {
        return until != null && until.exists();
    }

    private void sendUntilDone(List<Body> bodies) {
        if (mode.equals("async")) {
            inFlight.acquireUninterruptibly();
            sendAsync(bodies.get(0));
            return;
        }
        while (!sendOnce(bodies) && retryForever) {
            Program.pause(50);
        }
    }

    private boolean sendOnce(List<Body> bodies) {
        Message first = message(bodies.get(0));
        try {
            SendResult result = null;
            switch (mode) {
                case "sync" -> result = producer.send(first);
                case "ordered" -> result = producer.send(first,
                    (queues, message, key) -> queues.get((Integer) key % queues.size()), bodies.get(0).key());
                case "batch" -> result = producer.send(bodies.stream().map(this::message).toList());
                case "oneway" -> producer.sendOneway(first);
                default -> throw new IllegalArgumentException("unknown --mode " + mode);
            }
            sent.addAndGet(bodies.size());
            return result == null || acknowledged(bodies, result);
        } catch (IllegalArgumentException misuse) {
            throw misuse;
        } catch (Exception failure) {
            failed(failure.toString());
            return false;
        }
    }

    /** Keeps its place in {@link #inFlight} until the message is acknowledged or given up. */
    private void sendAsync(Body body) {
        try {
            producer.send(message(body), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    sent.incrementAndGet();
                    settle(body, acknowledged(List.of(body), result));
                }

                @Override
                public void onException(Throwable failure) {
                    failed(failure.toString());
                    settle(body, false);
                }
            });
        } catch (Exception failure) {
            failed(failure.toString());
            settle(body, false);
        }
    }

    private void settle(Body body, boolean done) {
        if (done || !retryForever) {
            inFlight.release();
        } else {
            // Not on this thread: it belongs to the client.
            new Thread(() -> {
                Program.pause(50);
                sendAsync(body);
            }).start();
        }
    }

    private Message message(Body body) {
        Message message = new Message(topic, tag, withKeys ? body.id().replace(' ', '-') : null, body.encode(size));
        if (mode.equals("ordered")) {
            message.putUserProperty(ORDERED, "true");
        }
        return message;
    }

    private boolean acknowledged(List<Body> bodies, SendResult result) {
        if (result.getSendStatus() != SendStatus.SEND_OK) {
            failed("status " + result.getSendStatus());
            return false;
        }
        ok.addAndGet(bodies.size());
        if (acked != null) {
            // A batch answers with one id per message and the offset of the first.
            String[] ids = result.getMsgId().split(",");
            String[] offsetIds = result.getOffsetMsgId().split(",");
            synchronized (acked) {
                for (int i = 0; i < bodies.size(); i++) {
                    Body body = bodies.get(i);
                    acked.println(body.key() + "," + body.sequence() + "," + result.getMessageQueue().getQueueId() + ","
                        + (result.getQueueOffset() + i) + "," + ids[Math.min(i, ids.length - 1)] + ","
                        + offsetIds[Math.min(i, offsetIds.length - 1)]);
                }
                acked.flush();
            }
        }
        return true;
    }

    private void failed(String why) {
        if (failed.getAndIncrement() < 10) {
            System.err.println("send failed: " + why);
        }
    }
}
