package org.sluice.conformance;

import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Fetches --expect messages of --topic with a pull consumer and verifies each. --mode says which:
 * subscribe (lite pull, queues by rebalance), assign (lite pull, all queues by hand, then seek) or block (the
 * deprecated pull consumer's pullBlockIfNotFound, which must also wake up for a message sent while it waits).
 */
public final class PullConsume {
    public static void main(String[] words) {
        Program.run(words, PullConsume::consume);
    }

    private static void consume(Args args, Report report) throws Exception {
        String mode = args.get("mode", "subscribe");
        String topic = args.get("topic");
        String group = args.get("group");
        long expected = args.get("expect", 1000);
        try (Tally tally = Tally.from(args)) {
            switch (mode) {
                case "subscribe" -> subscribe(args, report, tally, topic, group, expected);
                case "assign" -> assign(args, report, tally, topic, group, expected);
                case "block" -> block(args, report, tally, topic, group, expected);
                default -> throw new IllegalArgumentException("unknown --mode " + mode);
            }
        }
    }

    private static DefaultLitePullConsumer lite(Args args, String group) {
        DefaultLitePullConsumer consumer = Clients.at(args, new DefaultLitePullConsumer(group));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        return consumer;
    }

    private static void subscribe(Args args, Report report, Tally tally, String topic, String group, long expected)
        throws Exception {
        DefaultLitePullConsumer consumer = lite(args, group);
        consumer.subscribe(topic, args.get("tag-expression", "*"));
        consumer.start();
        try {
            Map<MessageQueue, Long> next = pollAll(consumer, tally, expected, args.get("idle-seconds", 3));
            consumer.commitSync();
            consumer.shutdown(); // hands the committed offsets to the broker
            checkStored(args, report, group, next);
        } finally {
            tally.report(report, expected);
        }
    }

    private static void assign(Args args, Report report, Tally tally, String topic, String group, long expected)
        throws Exception {
        DefaultLitePullConsumer consumer = lite(args, group);
        consumer.setAutoCommit(false);
        consumer.start();
        try {
            Collection<MessageQueue> queues = consumer.fetchMessageQueues(topic);
            consumer.assign(queues);
            for (MessageQueue queue : queues) {
                consumer.seekToBegin(queue);
            }
            Map<MessageQueue, Long> next = pollAll(consumer, tally, expected, args.get("idle-seconds", 3));
            for (Map.Entry<MessageQueue, Long> reached : next.entrySet()) {
                checkSeek(consumer, report, reached.getKey(), reached.getValue() / 2);
            }
            for (MessageQueue queue : next.keySet()) {
                consumer.seek(queue, next.get(queue));
            }
            next.replaceAll((queue, offset) -> offset - 1); // anything but where a default would put it
            consumer.commitSync(next, true);
            for (Map.Entry<MessageQueue, Long> entry : next.entrySet()) {
                report.checkEqual(entry.getValue(), consumer.committed(entry.getKey()), "committed of " + entry.getKey());
            }
            consumer.shutdown();
            checkStored(args, report, group, next);
        } finally {
            tally.report(report, expected);
        }
    }

    private static Map<MessageQueue, Long> pollAll(DefaultLitePullConsumer consumer, Tally tally, long expected, int idle) {
        Map<MessageQueue, Long> next = new HashMap<>();
        while (tally.distinct() < expected || tally.idleSeconds() < idle) {
            Program.checkTime();
            List<MessageExt> messages = consumer.poll(200);
            tally.ordered(messages);
            for (MessageExt message : messages) {
                next.put(new MessageQueue(message.getTopic(), message.getBrokerName(), message.getQueueId()),
                    message.getQueueOffset() + 1);
            }
        }
        return next;
    }

    /** After a seek, the queue's next message is the one at that offset. */
    private static void checkSeek(DefaultLitePullConsumer consumer, Report report, MessageQueue queue, long offset)
        throws Exception {
        consumer.seek(queue, offset);
        for (int i = 0; i < 50; i++) {
            for (MessageExt message : consumer.poll(200)) {
                if (message.getQueueId() == queue.getQueueId() && message.getBrokerName().equals(queue.getBrokerName())) {
                    report.checkEqual(offset, message.getQueueOffset(), "first message after seek in " + queue);
                    return;
                }
            }
        }
        report.check(false, "nothing came after seek in " + queue);
    }

    /** What the broker itself says, asked by a client that has no memory of its own. */
    private static void checkStored(Args args, Report report, String group, Map<MessageQueue, Long> offsets)
        throws Exception {
        DefaultMQPullConsumer reader = Clients.at(args, new DefaultMQPullConsumer(group));
        reader.start();
        for (Map.Entry<MessageQueue, Long> entry : offsets.entrySet()) {
            report.checkEqual(entry.getValue(), reader.fetchConsumeOffset(entry.getKey(), true),
                "stored offset of " + entry.getKey());
        }
        reader.shutdown();
    }

    private static void block(Args args, Report report, Tally tally, String topic, String group, long expected)
        throws Exception {
        DefaultMQPullConsumer consumer = Clients.at(args, new DefaultMQPullConsumer(group));
        consumer.start();
        Set<MessageQueue> queues = consumer.fetchSubscribeMessageQueues(topic);
        for (MessageQueue queue : queues) {
            long offset = consumer.minOffset(queue);
            long end = consumer.maxOffset(queue);
            while (offset < end) {
                PullResult result = consumer.pullBlockIfNotFound(queue, "*", offset, 32);
                if (result.getPullStatus() == PullStatus.FOUND) {
                    tally.ordered(result.getMsgFoundList());
                }
                report.check(result.getNextBeginOffset() > offset, "no way forward from " + offset + ": " + result);
                offset = result.getNextBeginOffset();
            }
        }
        tally.report(report, expected);
        checkWakeUp(args, report, consumer, queues.iterator().next());
        consumer.shutdown();
    }

    private static void checkWakeUp(Args args, Report report, DefaultMQPullConsumer consumer, MessageQueue queue)
        throws Exception {
        long end = consumer.maxOffset(queue);
        DefaultMQProducer producer = Clients.producer(args);
        long[] sentAt = new long[1];
        Thread later = new Thread(() -> {
            Program.pause(1500);
            sentAt[0] = System.nanoTime();
            try {
                producer.send(new Message(queue.getTopic(), new Body("wake", 0, 0).encode(64)), queue);
            } catch (Exception e) {
                report.check(false, "send: " + e);
            }
        });
        later.start();
        PullResult result = consumer.pullBlockIfNotFound(queue, "*", end, 32);
        long now = System.nanoTime();
        later.join();
        report.checkEqual(PullStatus.FOUND, result.getPullStatus(), "status of the pull that waited");
        long wakeMillis = (now - sentAt[0]) / 1_000_000;
        report.put("wake_ms", wakeMillis);
        report.check(sentAt[0] != 0 && wakeMillis < 1000, "woken " + wakeMillis + " ms after the send");
        producer.shutdown();
    }
}
