package org.sluice.conformance;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** A delayed message comes not before it is due, at most --late-ms after, and unchanged. --levels 1,2,3 */
public final class Delay {
    private static final long[] SECONDS = {
        1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200};

    private record Arrival(MessageExt message, long at) {
    }

    private record Sent(int level, long before, long after, SendResult result) {
    }

    public static void main(String[] words) {
        Program.run(words, Delay::check);
    }

    private static void check(Args args, Report report) throws Exception {
        String topic = args.get("topic", Clients.fresh("delay"));
        String[] levels = args.get("levels", "1,2,3").split(",");
        long late = args.get("late-ms", 1000);
        args.refuseUnread();
        DefaultMQProducer producer = Clients.producer(args);
        Clients.createTopic(producer, topic, 2);
        BlockingQueue<Arrival> arrivals = new LinkedBlockingQueue<>();
        DefaultMQPushConsumer consumer = Clients.push(args, Clients.fresh("delay_group"));
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            long now = System.currentTimeMillis();
            messages.forEach(message -> arrivals.add(new Arrival(message, now)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        // A consumer that is still finding its queues would make us measure that.
        Clients.send(producer, new Message(topic, Clients.bytes("warm-up")));
        arrivals.take();

        Map<String, Sent> waiting = new HashMap<>();
        for (String level : levels) {
            int number = Integer.parseInt(level.trim());
            Message message = new Message(topic, "TagD", "key-" + number, new Body("delay", number, number).encode(100));
            message.putUserProperty("level", level);
            message.setDelayTimeLevel(number);
            long before = System.currentTimeMillis();
            SendResult result = Clients.send(producer, message);
            waiting.put(result.getMsgId(), new Sent(number, before, System.currentTimeMillis(), result));
        }
        Map<String, Object> lateness = new HashMap<>();
        while (!waiting.isEmpty()) {
            Arrival arrival = arrivals.take();
            Sent sent = waiting.remove(arrival.message.getMsgId());
            report.check(sent != null, "unexpected message " + arrival.message);
            if (sent != null) {
                verify(report, topic, sent, arrival, late);
                lateness.put("level_" + sent.level, arrival.at - sent.after - SECONDS[sent.level - 1] * 1000);
            }
        }
        Program.pause(1000);
        report.checkEqual(0, arrivals.size(), "messages delivered twice");
        report.put("late_ms", lateness);
        consumer.shutdown();
        producer.shutdown();
    }

    private static void verify(Report report, String topic, Sent sent, Arrival arrival, long late) {
        String what = "level " + sent.level;
        long delay = SECONDS[sent.level - 1] * 1000;
        report.check(arrival.at >= sent.before + delay, what + ": early by " + (sent.before + delay - arrival.at) + " ms");
        report.check(arrival.at <= sent.after + delay + late, what + ": late by " + (arrival.at - sent.after - delay) + " ms");
        MessageExt message = arrival.message;
        report.checkEqual(new Body("delay", sent.level, sent.level), Body.decode(message.getBody()), what + " body");
        report.checkEqual(topic, message.getTopic(), what + " topic");
        report.checkEqual("TagD", message.getTags(), what + " tag");
        report.checkEqual("key-" + sent.level, message.getKeys(), what + " keys");
        report.checkEqual(sent.level, message.getUserProperty("level"), what + " user property");
        report.checkEqual(sent.result.getMessageQueue().getQueueId(), message.getQueueId(), what + " queue");
    }
}
