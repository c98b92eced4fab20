package org.sluice.conformance;

import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/** Two broadcasting consumers of one group: each gets every message, once. */
public final class Broadcast {
    public static void main(String[] words) {
        Program.run(words, Broadcast::check);
    }

    private static void check(Args args, Report report) throws Exception {
        String topic = args.get("topic", Clients.fresh("broadcast"));
        String group = args.get("group", Clients.fresh("broadcast_group"));
        int count = args.get("count", 200);
        args.refuseUnread();
        DefaultMQProducer producer = Clients.producer(args);
        Clients.createTopic(producer, topic, 4);
        String run = Clients.fresh("run");
        List<Tally> tallies = new ArrayList<>();
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            Tally tally = new Tally(run, null);
            DefaultMQPushConsumer consumer = Clients.push(args, group);
            Versions.setMessageModel(consumer, "BROADCASTING");
            consumer.subscribe(topic, "*");
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                tally.batch(messages);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            tallies.add(tally);
            consumers.add(consumer);
        }
        for (int i = 0; i < count; i++) {
            Clients.send(producer, new Message(topic, new Body(run, 0, i).encode(100)));
        }
        for (int i = 0; i < 2; i++) {
            tallies.get(i).await(count, 2);
            Report one = new Report();
            tallies.get(i).report(one, count);
            int consumer = i;
            one.broken().forEach(reason -> report.check(false, "consumer " + consumer + ": " + reason));
            report.put("received_" + i, tallies.get(i).received());
            report.checkEqual(count, tallies.get(i).received(), "messages at consumer " + i);
        }
        consumers.forEach(DefaultMQPushConsumer::shutdown);
        producer.shutdown();
    }
}
