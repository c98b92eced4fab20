package org.sluice.conformance;

import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Fills a fresh broker with what the README of testdata/rocketmq says its data directories hold; the script
 * {@code old-data} keeps the directory afterwards. With --verify it reads all of it back instead.
 */
public final class OldData {
    private static final String GROUP = "old_group";
    /** Topic, queue, messages, body size. One queue is longer than one file of its index. */
    private record Fill(String topic, int queue, int count, int size) {
    }

    private static final List<Fill> FILLS = List.of(new Fill("OldA", 0, 1100, 60), new Fill("OldA", 1, 150, 60),
        new Fill("OldB", 0, 150, 3000), new Fill("OldB", 1, 150, 3000));
    private static final Map<Fill, Long> COMMITTED = Map.of(FILLS.get(0), 1000L, FILLS.get(1), 20L, FILLS.get(2), 5L);

    public static void main(String[] words) {
        Program.run(words, (args, report) -> {
            boolean verify = args.has("verify");
            args.refuseUnread();
            if (!verify) {
                Clients.pretendLoopbackIds();
                send(args, report);
            }
            DefaultMQPullConsumer consumer = Clients.at(args, new DefaultMQPullConsumer(GROUP));
            consumer.setClientIP("127.0.0.1");
            consumer.start();
            if (verify) {
                verify(consumer, report);
            } else {
                commit(consumer);
            }
            consumer.shutdown();
        });
    }

    private static void send(Args args, Report report) throws Exception {
        DefaultMQProducer producer = Clients.at(args, new DefaultMQProducer("old_producer"));
        producer.setClientIP("127.0.0.1");
        producer.start();
        Clients.createTopic(producer, "OldA", 2);
        Clients.createTopic(producer, "OldB", 2);
        String broker = producer.fetchPublishMessageQueues("OldA").get(0).getBrokerName();
        for (Fill fill : FILLS) {
            MessageQueue queue = new MessageQueue(fill.topic, broker, fill.queue);
            for (int offset = 0; offset < fill.count; offset++) {
                Message message = new Message(fill.topic, offset % 2 == 0 ? "TagA" : "TagB", keys(fill, offset),
                    body(fill, offset));
                message.putUserProperty("number", String.valueOf(offset));
                SendResult result = producer.send(message, queue);
                report.checkEqual(offset, result.getQueueOffset(), "offset in " + queue);
            }
        }
        // Longer than 4096 bytes, so the client compresses it: the last one in OldB, queue 1.
        producer.send(new Message("OldB", "TagZ", "zipped", Clients.bytes("z".repeat(5000))),
            new MessageQueue("OldB", broker, 1));
        // Not due before the broker is stopped.
        Message delayed = new Message("OldA", "TagD", "delayed", Clients.bytes("OldA delayed"));
        delayed.setDelayTimeLevel(5);
        producer.send(delayed, new MessageQueue("OldA", broker, 1));
        producer.shutdown();
    }

    private static void commit(DefaultMQPullConsumer consumer) throws Exception {
        String broker = brokerName(consumer);
        consumer.fetchConsumeOffset(new MessageQueue("OldA", broker, 0), true); // finds the broker's address
        Program.pause(2500); // the group exists from the first heartbeat on, a second after the start
        for (Map.Entry<Fill, Long> entry : COMMITTED.entrySet()) {
            MessageQueue queue = new MessageQueue(entry.getKey().topic, broker, entry.getKey().queue);
            consumer.getDefaultMQPullConsumerImpl().getOffsetStore()
                .updateConsumeOffsetToBroker(queue, entry.getValue(), false);
        }
        Program.pause(7000); // brokers write offsets to disk every five seconds
    }

    private static void verify(DefaultMQPullConsumer consumer, Report report) throws Exception {
        String broker = brokerName(consumer);
        for (Fill fill : FILLS) {
            MessageQueue queue = new MessageQueue(fill.topic, broker, fill.queue);
            report.checkEqual(0, consumer.minOffset(queue), "minOffset of " + queue);
            long[] next = {0};
            while (next[0] < fill.count) {
                var found = consumer.pull(queue, "*", next[0], 32).getMsgFoundList();
                report.check(found != null, "nothing at " + next[0] + " of " + queue);
                found.stream().filter(message -> message.getQueueOffset() < fill.count).forEach(message -> {
                    report.checkEqual(new String(body(fill, message.getQueueOffset())), new String(message.getBody()),
                        "body at " + message.getQueueOffset() + " of " + queue);
                    report.checkEqual(keys(fill, message.getQueueOffset()), message.getKeys(), "keys");
                });
                next[0] = found.get(found.size() - 1).getQueueOffset() + 1;
            }
            report.checkEqual(COMMITTED.getOrDefault(fill, 0L), Math.max(0, consumer.fetchConsumeOffset(queue, true)),
                "committed offset of " + queue);
        }
    }

    /** Waits for the route: a broker that just started registers a little later. */
    private static String brokerName(DefaultMQPullConsumer consumer) {
        while (true) {
            try {
                return consumer.fetchSubscribeMessageQueues("OldA").iterator().next().getBrokerName();
            } catch (MQClientException notYet) {
                Program.pause(200);
            }
        }
    }

    private static String keys(Fill fill, long offset) {
        return "key-" + fill.queue + "-" + offset + (offset % 2 == 0 ? " even" : " odd");
    }

    /** The formula of the README. */
    private static byte[] body(Fill fill, long offset) {
        StringBuilder text = new StringBuilder(fill.topic + " queue " + fill.queue + " offset " + offset + " ");
        while (text.length() < fill.size) {
            text.append('.');
        }
        return Clients.bytes(text.toString());
    }
}
