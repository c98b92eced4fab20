package org.sluice.conformance;

import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientIDSetter;

/** Clients set up alike in all programs. */
final class Clients {
    private static final AtomicInteger COUNTER = new AtomicInteger();

    /** Ms. The promises are about what comes of a request, not about how soon, and a slow machine may start several clients at once. */
    private static final int PATIENCE = 10_000;

    private Clients() {
    }

    /** Several clients in one process must have names of their own, or they share one connection and one identity. */
    static <C extends ClientConfig> C at(Args args, C client) {
        client.setNamesrvAddr(args.get("namesrv"));
        client.setInstanceName(ProcessHandle.current().pid() + "-" + COUNTER.incrementAndGet());
        client.setMqClientApiTimeout(PATIENCE);
        if (client instanceof DefaultMQProducer) {
            ((DefaultMQProducer) client).setSendMsgTimeout(PATIENCE);
        }
        return client;
    }

    static DefaultMQProducer producer(Args args) throws Exception {
        DefaultMQProducer producer = at(args, new DefaultMQProducer(args.get("producer-group", "conformance_producer")));
        producer.start();
        return producer;
    }

    static DefaultMQPushConsumer push(Args args, String group) throws Exception {
        DefaultMQPushConsumer consumer = at(args, new DefaultMQPushConsumer(group));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        return consumer;
    }

    /** A name nobody used before: most checks want an empty topic or a group without offsets. */
    static String fresh(String name) {
        return name + "_" + Long.toString(System.currentTimeMillis(), 36) + COUNTER.incrementAndGet();
    }

    /**
     * Makes the topic and waits until the name server tells producers of it. Patient: routes follow a broker's next
     * registration, and a broker that just started has not had its first.
     */
    static void createTopic(DefaultMQProducer producer, String topic, int queues) throws Exception {
        Exception last = null;
        for (int i = 0; i < 100; i++) {
            try {
                Versions.createTopic(producer, "TBW102", topic, queues);
                if (producer.fetchPublishMessageQueues(topic).size() == queues) {
                    return;
                }
            } catch (Exception notYet) {
                last = notYet;
            }
            Program.pause(100);
        }
        throw new IllegalStateException("no route for the new topic " + topic, last);
    }

    static SendResult send(DefaultMQProducer producer, Message message) throws Exception {
        SendResult result = producer.send(message);
        if (result.getSendStatus() != SendStatus.SEND_OK) {
            throw new IllegalStateException("sent with " + result.getSendStatus());
        }
        return result;
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /**
     * Client message ids begin with this machine's address, process and loader; test data shall not. The caller sees
     * to it that the address is an IPv4 one, as long as the one it is replaced with.
     */
    static void pretendLoopbackIds() throws Exception {
        Field field = MessageClientIDSetter.class.getDeclaredField("FIX_STRING");
        field.setAccessible(true);
        char[] prefix = (char[]) field.get(null);
        String pretended = "7F000001" + "0001" + "00000001";
        if (prefix.length != pretended.length()) {
            throw new IllegalStateException("client ids with an address of another length");
        }
        System.arraycopy(pretended.toCharArray(), 0, prefix, 0, prefix.length);
    }
}
