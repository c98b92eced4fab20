package org.sluice.conformance;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * What the broker says about a queue: its ends, the offset at a time, the time of its start, a group's position.
 * The offset at a time is that of the first message not older, as 5.x brokers see it; 4.9 gives the one before.
 */
public final class Offsets {
    private static final int MESSAGES = 5;

    public static void main(String[] words) {
        Program.run(words, Offsets::check);
    }

    private static void check(Args args, Report report) throws Exception {
        String topic = args.get("topic", Clients.fresh("offsets"));
        String group = args.get("group", Clients.fresh("offsets_group"));
        args.refuseUnread();
        DefaultMQProducer producer = Clients.producer(args);
        Clients.createTopic(producer, topic, 2);
        MessageQueue full = null;
        MessageQueue empty = null;
        Set<MessageQueue> queues = new TreeSet<>(producer.fetchPublishMessageQueues(topic));
        for (MessageQueue queue : queues) {
            full = queue.getQueueId() == 0 ? queue : full;
            empty = queue.getQueueId() == 1 ? queue : empty;
        }
        // Each message is sent strictly between its own entry of `between` and the next one.
        List<Long> between = new ArrayList<>();
        for (int i = 0; i < MESSAGES; i++) {
            between.add(gap());
            producer.send(new Message(topic, new Body("offsets", 0, i).encode(80)), full);
        }
        between.add(gap());
        Program.pause(500); // queues may follow the log

        report.checkEqual(MESSAGES, producer.maxOffset(full), "maxOffset");
        report.checkEqual(0, producer.minOffset(full), "minOffset");
        report.checkEqual(0, producer.maxOffset(empty), "maxOffset of the empty queue");
        report.checkEqual(0, producer.minOffset(empty), "minOffset of the empty queue");
        for (int i = 0; i < MESSAGES; i++) {
            report.checkEqual(i, producer.searchOffset(full, between.get(i)), "searchOffset just before message " + i);
        }
        report.checkEqual(0, producer.searchOffset(full, between.get(0) - 3_600_000), "searchOffset an hour earlier");
        report.checkEqual(MESSAGES, producer.searchOffset(full, between.get(MESSAGES)), "searchOffset after the last");
        report.checkEqual(0, producer.searchOffset(empty, between.get(0)), "searchOffset in the empty queue");
        long earliest = producer.earliestMsgStoreTime(full);
        report.check(earliest >= between.get(0) && earliest <= between.get(1), "earliestMsgStoreTime " + earliest);
        report.checkEqual(-1, producer.earliestMsgStoreTime(empty), "earliestMsgStoreTime of the empty queue");

        DefaultMQPullConsumer consumer = pull(args, group);
        report.put("fetch_unknown_group", consumer.fetchConsumeOffset(full, true));
        Program.pause(2500); // brokers may know the group only from the client's first heartbeat
        consumer.updateConsumeOffset(full, 3);
        report.checkEqual(3, consumer.fetchConsumeOffset(full, false), "own memory of the offset");
        consumer.getDefaultMQPullConsumerImpl().getOffsetStore().updateConsumeOffsetToBroker(full, 3, false);
        report.checkEqual(3, consumer.fetchConsumeOffset(full, true), "stored offset");
        consumer.shutdown();
        DefaultMQPullConsumer other = pull(args, group);
        report.checkEqual(3, other.fetchConsumeOffset(full, true), "stored offset as the next client sees it");
        other.getDefaultMQPullConsumerImpl().getOffsetStore().updateConsumeOffsetToBroker(full, 1, false);
        report.checkEqual(1, other.fetchConsumeOffset(full, true), "stored offset moved back");
        other.shutdown();
        DefaultMQPullConsumer stranger = pull(args, group + "_other");
        report.check(stranger.fetchConsumeOffset(full, true) <= 0, "another group's offset");
        stranger.shutdown();
        producer.shutdown();
    }

    private static DefaultMQPullConsumer pull(Args args, String group) throws Exception {
        DefaultMQPullConsumer consumer = Clients.at(args, new DefaultMQPullConsumer(group));
        consumer.start();
        return consumer;
    }

    private static long gap() {
        Program.pause(20);
        long time = System.currentTimeMillis();
        Program.pause(20);
        return time;
    }
}
