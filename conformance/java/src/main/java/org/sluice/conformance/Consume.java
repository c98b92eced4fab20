package org.sluice.conformance;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/**
 * Consumes with the push consumer until --expect different messages came and nothing more for --idle-seconds; with
 * --expect-file their number is what that file says once it is there. Every
 * body must be whole. With --orderly each queue, and each ordering key of an ordered producer, must arrive in order;
 * without, each batch.
 */
public final class Consume {
    public static void main(String[] words) {
        Program.run(words, Consume::consume);
    }

    private static void consume(Args args, Report report) throws Exception {
        long expected = args.get("expect", 1000);
        String expectFile = args.get("expect-file", null);
        int idle = args.get("idle-seconds", 3);
        boolean orderly = args.has("orderly");
        try (Tally tally = Tally.from(args)) {
            DefaultMQPushConsumer consumer = Clients.push(args, args.get("group"));
            consumer.subscribe(args.get("topic"), args.get("tag-expression", "*"));
            consumer.setConsumeFromWhere(switch (args.get("from", "first")) {
                case "first" -> ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET;
                case "last" -> ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET;
                case "timestamp" -> ConsumeFromWhere.CONSUME_FROM_TIMESTAMP;
                default -> throw new IllegalArgumentException("unknown --from");
            });
            String timestamp = args.get("timestamp", null); // yyyyMMddHHmmss; the client's default is half an hour ago
            if (timestamp != null) {
                consumer.setConsumeTimestamp(timestamp);
            }
            Versions.setMessageModel(consumer, args.get("model", "clustering").toUpperCase());
            consumer.setConsumeThreadMin(args.get("threads", 4));
            consumer.setConsumeThreadMax(args.get("threads", 4));
            consumer.setConsumeMessageBatchMaxSize(args.get("batch-size", 16));
            args.refuseUnread();
            if (orderly) {
                consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                    tally.ordered(messages);
                    return ConsumeOrderlyStatus.SUCCESS;
                });
            } else {
                consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                    tally.batch(messages);
                    return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                });
            }
            consumer.start();
            System.err.println("started"); // a caller that tests --from last sends only now
            try {
                if (expectFile != null) {
                    expected = Program.awaitNumber(expectFile);
                }
                tally.await(expected, idle);
            } finally {
                tally.report(report, expected);
                consumer.shutdown();
            }
        }
    }
}
