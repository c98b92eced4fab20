package org.sluice.conformance;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * A message nobody manages to consume is delivered once and then retried as often as the consumer said, and at last
 * lies in the group's dead letter topic as it was sent.
 */
public final class RetryAndDeadLetter {
    private static final int RETRIES = 2;

    public static void main(String[] words) {
        Program.run(words, RetryAndDeadLetter::check);
    }

    private static void check(Args args, Report report) throws Exception {
        String topic = args.get("topic", Clients.fresh("retry"));
        String group = args.get("group", Clients.fresh("retry_group"));
        args.refuseUnread();
        DefaultMQProducer producer = Clients.producer(args);
        Clients.createTopic(producer, topic, 2);
        Body body = new Body("retry", 1, 1);
        Message message = new Message(topic, "TagR", "key-r", body.encode(200));
        message.putUserProperty("colour", "blue");
        SendResult sent = Clients.send(producer, message);

        List<MessageExt> deliveries = Collections.synchronizedList(new ArrayList<>());
        List<Long> times = Collections.synchronizedList(new ArrayList<>());
        DefaultMQPushConsumer consumer = Clients.push(args, group);
        consumer.setMaxReconsumeTimes(RETRIES);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            times.add(System.currentTimeMillis());
            deliveries.addAll(messages);
            context.setDelayLevelWhenNextConsume(1);
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        consumer.start();
        MessageExt dead = findDead(args, group);
        Program.pause(2000); // a delivery too many would come one delay later
        consumer.shutdown();
        producer.shutdown();

        report.put("deliveries", deliveries.size());
        report.checkEqual(RETRIES + 1, deliveries.size(), "deliveries");
        for (int i = 0; i < deliveries.size(); i++) {
            MessageExt delivery = deliveries.get(i);
            report.checkEqual(i, delivery.getReconsumeTimes(), "reconsumeTimes of delivery " + i);
            report.checkEqual(topic, delivery.getTopic(), "topic of delivery " + i);
            checkAsSent(report, body, sent, delivery, "delivery " + i);
            if (i > 0) {
                long waited = times.get(i) - times.get(i - 1);
                // The client learns of its group's new retry topic by its timer, every 20 s.
                long patience = i == 1 ? 25_000 : 4000;
                report.check(waited >= 950 && waited < patience, "delivery " + i + " after " + waited + " ms, asked for 1 s");
            }
        }
        report.checkEqual("%DLQ%" + group, dead.getTopic(), "topic of the dead letter");
        checkAsSent(report, body, sent, dead, "dead letter");
        report.checkEqual(topic, dead.getProperty("RETRY_TOPIC"), "RETRY_TOPIC of the dead letter");
        report.checkEqual(sent.getOffsetMsgId(), dead.getProperty("ORIGIN_MESSAGE_ID"), "ORIGIN_MESSAGE_ID of the dead letter");
        // Official brokers write this pair on some ways into the dead letter topic and not on others.
        String origin = dead.getProperty("DLQ_ORIGIN_TOPIC");
        report.check(origin == null || origin.equals(topic), "DLQ_ORIGIN_TOPIC is " + origin);
        report.put("dead_reconsume_times", dead.getReconsumeTimes()).put("dead_properties", dead.getProperties());
    }

    private static void checkAsSent(Report report, Body body, SendResult sent, MessageExt found, String where) {
        report.checkEqual(body, Body.decode(found.getBody()), "body of " + where);
        report.checkEqual(sent.getMsgId(), found.getMsgId(), "msgId of " + where);
        report.checkEqual("TagR", found.getTags(), "tag of " + where);
        report.checkEqual("key-r", found.getKeys(), "keys of " + where);
        report.checkEqual("blue", found.getUserProperty("colour"), "user property of " + where);
    }

    private static MessageExt findDead(Args args, String group) throws Exception {
        DefaultMQPullConsumer reader = Clients.at(args, new DefaultMQPullConsumer(Clients.fresh("dead_reader")));
        reader.start();
        try {
            while (true) {
                try {
                    for (MessageQueue queue : reader.fetchSubscribeMessageQueues("%DLQ%" + group)) {
                        PullResult result = reader.pull(queue, "*", 0, 1);
                        if (result.getPullStatus() == PullStatus.FOUND) {
                            return result.getMsgFoundList().get(0);
                        }
                    }
                } catch (MQClientException notYet) {
                    // The topic is made with the first dead letter.
                }
                Program.pause(200);
            }
        } finally {
            reader.shutdown();
        }
    }
}
