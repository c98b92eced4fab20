package org.sluice.conformance;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** A stored message can be found again by the broker's id, by the client's id and by each of its keys. */
public final class Lookup {
    private static final int MESSAGES = 12;
    /** An index entry knows its time to the second only. */
    private static final long INDEX_MILLIS = 1000;

    public static void main(String[] words) {
        Program.run(words, Lookup::check);
    }

    private static void check(Args args, Report report) throws Exception {
        String topic = args.get("topic", Clients.fresh("lookup"));
        args.refuseUnread();
        DefaultMQProducer producer = Clients.producer(args);
        Clients.createTopic(producer, topic, 2);
        long start = System.currentTimeMillis();
        List<SendResult> sent = new ArrayList<>();
        for (int i = 0; i < MESSAGES; i++) {
            // Every message has a key of its own, and every third one they share.
            String keys = "own-" + i + (i % 3 == 0 ? " shared" : "");
            sent.add(Clients.send(producer, new Message(topic, "TagL", keys, new Body("lookup", 0, i).encode(150))));
        }
        Program.pause(2000); // the index may follow the log
        long end = System.currentTimeMillis();

        for (int i = 0; i < MESSAGES; i++) {
            SendResult result = sent.get(i);
            checkMessage(report, i, result, producer.viewMessage(topic, result.getOffsetMsgId()), "by offset id");
            checkMessage(report, i, result, producer.viewMessage(topic, result.getMsgId()), "by unique key");
            List<MessageExt> found = byKey(producer, topic, "own-" + i, start, end);
            report.checkEqual(1, found.size(), "messages with key own-" + i);
            checkMessage(report, i, result, found.get(0), "by key");
        }
        Set<Long> shared = new TreeSet<>();
        byKey(producer, topic, "shared", start, end).forEach(m -> shared.add(Body.decode(m.getBody()).sequence()));
        report.checkEqual("[0, 3, 6, 9]", shared, "messages with the shared key");
        report.checkEqual(0, byKey(producer, topic, "nobody", start, end).size(), "messages with an unknown key");
        report.checkEqual(0, byKey(producer, topic, "own-1", 5000, 6000).size(), "messages of the year 1970");
    }

    private static List<MessageExt> byKey(DefaultMQProducer producer, String topic, String key, long from, long to)
        throws Exception {
        try {
            return producer.queryMessage(topic, key, 32, from - INDEX_MILLIS, to + INDEX_MILLIS).getMessageList();
        } catch (MQClientException nothing) {
            // The client turns "not found" into this.
            return List.of();
        }
    }

    private static void checkMessage(Report report, int sequence, SendResult sent, MessageExt found, String how) {
        report.check(found != null, "message " + sequence + " not found " + how);
        if (found != null) {
            report.checkEqual(new Body("lookup", 0, sequence), Body.decode(found.getBody()), "body " + how);
            report.checkEqual(sent.getMsgId(), found.getProperty("UNIQ_KEY"), "unique key " + how);
            report.checkEqual(sent.getQueueOffset(), found.getQueueOffset(), "queue offset " + how);
            report.checkEqual(sent.getMessageQueue().getQueueId(), found.getQueueId(), "queue id " + how);
        }
    }
}
