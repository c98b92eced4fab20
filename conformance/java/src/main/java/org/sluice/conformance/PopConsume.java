package org.sluice.conformance;

import java.io.FileWriter;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil;

/**
 * A push consumer that lets the broker say which queues it has and whether it pops or pulls them, until there is the
 * file --until-file. Judges nothing: a line of --seen-file is a delivery, when it was refused or accepted:
 * body,queue,queueOffset,reconsumeTimes,poppedMilliseconds,milliseconds,pop|pull,ok|later. Bodies have no commas.
 *
 * <p>--later N refuses the first N deliveries of each message, as its count of deliveries says; --hold-millis is how
 * long each batch takes.
 */
public final class PopConsume {
    public static void main(String[] words) {
        Program.run(words, PopConsume::consume);
    }

    private static void consume(Args args, Report report) throws Exception {
        Path until = Path.of(args.get("until-file"));
        int later = args.get("later", 0);
        int hold = args.get("hold-millis", 0);
        AtomicLong deliveries = new AtomicLong();
        try (PrintWriter seen = new PrintWriter(new FileWriter(args.get("seen-file")), true)) {
            DefaultMQPushConsumer consumer = Clients.push(args, args.get("group"));
            consumer.setClientRebalance(false);
            consumer.subscribe(args.get("topic"), args.get("tag-expression", "*"));
            consumer.setConsumeThreadMin(4);
            consumer.setConsumeThreadMax(4);
            consumer.setConsumeMessageBatchMaxSize(args.get("batch-size", 1));
            consumer.setPopInvisibleTime(args.get("invisible-millis", 60_000));
            consumer.setPopBatchNums(args.get("pop-batch-size", 32));
            consumer.setPollNameServerInterval(args.get("poll-name-server-millis", 30_000));
            consumer.setMaxReconsumeTimes(args.get("max-reconsume-times", -1));
            boolean orderly = args.has("orderly");
            args.refuseUnread();
            if (orderly) {
                consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                    boolean accepted = take(messages, later, hold, seen);
                    deliveries.addAndGet(messages.size());
                    return accepted ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                });
            } else {
                consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                    boolean accepted = take(messages, later, hold, seen);
                    deliveries.addAndGet(messages.size());
                    return accepted ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER;
                });
            }
            consumer.start();
            System.err.println("started");
            while (!Files.exists(until)) {
                Program.pause(50);
            }
            consumer.shutdown();
            report.put("deliveries", deliveries.get());
        }
    }

    private static boolean take(List<MessageExt> messages, int later, int hold, PrintWriter seen) {
        if (hold > 0) {
            Program.pause(hold);
        }
        boolean accepted = messages.stream().noneMatch(message -> message.getReconsumeTimes() < later);
        for (MessageExt message : messages) {
            String handle = message.getProperty(MessageConst.PROPERTY_POP_CK);
            long popped = handle == null ? 0 : ExtraInfoUtil.getPopTime(ExtraInfoUtil.split(handle));
            seen.println(String.join(",", new String(message.getBody(), StandardCharsets.UTF_8),
                String.valueOf(message.getQueueId()), String.valueOf(message.getQueueOffset()),
                String.valueOf(message.getReconsumeTimes()), String.valueOf(popped), String.valueOf(System.currentTimeMillis()),
                handle == null ? "pull" : "pop", accepted ? "ok" : "later"));
        }
        return accepted;
    }
}
