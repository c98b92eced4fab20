package org.sluice.conformance;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.UnaryOperator;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.exception.RemotingTimeoutException;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Records golden bytes: does once everything an official client, admin tool and broker do, with a tap on every
 * connection, and keeps the first frames of each kind. The script {@code capture} starts the official processes
 * around it.
 *
 * <p>--namesrv PORT and --broker PORT are the real ones; --taps PORT is the first of three ports: name server for
 * clients, name server for the broker, broker. The broker must be started with the second tap as its name server,
 * and stopped once "done" is printed, so that its last words are recorded too.
 */
public final class Capture {
    private static final String TOPIC = "GoldenTopic";
    private static final String GROUP = "golden_group";

    private final Recorder recorder;
    private final String namesrv;
    private final int brokerTap;
    private final String broker;
    private final List<String> missed = new ArrayList<>();

    public static void main(String[] words) {
        Program.run(words, Capture::record);
    }

    private static void record(Args args, Report report) throws Exception {
        Recorder recorder = new Recorder(Path.of(args.get("out")));
        int broker = args.get("broker", 0);
        int taps = args.get("taps", 0);
        byte[] real = ("127.0.0.1:" + broker).getBytes(StandardCharsets.US_ASCII);
        byte[] tapped = ("127.0.0.1:" + (taps + 2)).getBytes(StandardCharsets.US_ASCII);
        if (real.length != tapped.length) {
            throw new IllegalArgumentException("broker and tap port need the same number of digits");
        }
        int namesrv = args.get("namesrv", 0);
        new Tap(taps, namesrv, recorder, frame -> replace(frame, real, tapped));
        new Tap(taps + 1, namesrv, recorder, UnaryOperator.identity());
        new Tap(taps + 2, broker, recorder, UnaryOperator.identity());
        Clients.pretendLoopbackIds();

        Capture capture = new Capture(recorder, "127.0.0.1:" + taps, taps + 2);
        capture.waitFor(103, 60);
        Program.pause(4000); // the broker's own topics register one after the other
        capture.everything();
        System.err.println("done");
        capture.waitFor(104, 60);
        report.put("exchanges", recorder.count()).put("missed", capture.missed);
    }

    private Capture(Recorder recorder, String namesrv, int brokerTap) {
        this.recorder = recorder;
        this.namesrv = namesrv;
        this.brokerTap = brokerTap;
        this.broker = "127.0.0.1:" + brokerTap;
    }

    private void everything() {
        step("create topic", () -> admin("updateTopic -n NAMESRV -b BROKER -t GoldenTopic -r 2 -w 2"));
        step("produce", this::produce);
        step("consume", this::consume);
        step("orderly", this::orderly);
        step("lite pull", this::litePull);
        step("sql", this::sql);
        step("transaction", this::transaction);
        step("request and reply", this::requestReply);
        step("pop", this::pop);
        step("refused", this::refused);
        step("replica", this::replica);
        step("administer", this::administer);
    }

    private void produce() throws Exception {
        DefaultMQProducer producer = producer(new DefaultMQProducer("golden_producer"), "producer");
        try {
            SendResult first = producer.send(message("hello", "TagA", "key-1"));
            Program.pause(2000); // the first heartbeat of a started client comes after one second
            producer.send(message("hello plain", null, null));
            producer.sendOneway(message("hello oneway", "TagA", "key-2"));
            producer.send(List.of(message("one", "TagA", "key-3"), message("two", "TagB", "key-4")));
            recorder.announce(310, "delay");
            Message delayed = message("later", null, "key-5");
            delayed.setDelayTimeLevel(1);
            producer.send(delayed);
            recorder.announce(310, "compressed-body");
            producer.send(message("z".repeat(5000), null, "key-6"));
            recorder.announce(310, "given-queue");
            producer.send(message("to queue 1", null, "key-7"), (queues, m, arg) -> queues.get(1), null);
            recorder.announce(310, "properties");
            Message rich = message("with properties", "TagB", "key-8 key-9");
            rich.putUserProperty("colour", "bl\u00e5");
            rich.putUserProperty("size", "12");
            rich.setFlag(7);
            rich.setWaitStoreMsgOK(false);
            producer.send(rich);
            admin("producerConnection -n NAMESRV -g golden_producer -t GoldenTopic");

            MessageQueue queue = first.getMessageQueue();
            producer.maxOffset(queue);
            producer.minOffset(queue);
            producer.searchOffset(queue, System.currentTimeMillis() - 1000);
            producer.earliestMsgStoreTime(queue);
            Program.pause(1500); // the index follows the log
            producer.viewMessage(TOPIC, tapped(first.getOffsetMsgId()));
            recorder.announce(12, "unique-key");
            producer.viewMessage(TOPIC, first.getMsgId());
            long now = System.currentTimeMillis();
            producer.queryMessage(TOPIC, "key-1", 8, now - 60_000, now);
            recorder.announce(17, "from-producer");
            Versions.createTopic(producer, "TBW102", "GoldenTopic2", 4);
            recorder.announce(310, "auto-create");
            Message fresh = message("new topic", null, null);
            fresh.setTopic("GoldenFresh");
            producer.send(fresh);
            sendV1(first);
        } finally {
            recorder.announce(35, "producer");
            producer.shutdown();
        }
    }

    /** Code 10, as a client with {@code sendSmartMsg=false} would write it. */
    private void sendV1(SendResult like) throws Exception {
        try (Raw raw = new Raw()) {
            ask(raw, broker, 10, Map.ofEntries(
                Map.entry("producerGroup", "golden_producer"), Map.entry("topic", TOPIC),
                Map.entry("defaultTopic", "TBW102"), Map.entry("defaultTopicQueueNums", "4"),
                Map.entry("queueId", String.valueOf(like.getMessageQueue().getQueueId())), Map.entry("sysFlag", "0"),
                Map.entry("bornTimestamp", String.valueOf(System.currentTimeMillis())), Map.entry("flag", "0"),
                Map.entry("properties", "TAGS\1TagA\2UNIQ_KEY\1" + MessageClientIDSetter.createUniqID() + "\2"), Map.entry("reconsumeTimes", "0"),
                Map.entry("unitMode", "false"), Map.entry("batch", "false")), bytes("hello v1"));
        }
    }

    /** A push consumer that fails one message once; while it lives, the admin commands that need a live consumer. */
    private void consume() throws Exception {
        AtomicInteger failures = new AtomicInteger();
        MessageListenerConcurrently listener = (messages, context) -> {
            if (failures.getAndIncrement() == 0) {
                context.setDelayLevelWhenNextConsume(1);
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        };
        DefaultMQPushConsumer first = push(GROUP, "first", "TagA || TagB");
        first.registerMessageListener(listener);
        first.start();
        Program.pause(3000);
        DefaultMQPushConsumer second = push(GROUP, "second", "TagA || TagB");
        second.registerMessageListener(listener);
        second.start(); // makes the broker notify the first
        Program.pause(8000); // retry after one second, offsets are committed every five
        SendResult sent = sendOne("for the admin", "key-10");
        // 4.9 finds the topic by itself and takes a wrong flag as a reason to exit.
        String byId = "queryMsgById -n NAMESRV " + (MQVersion.CURRENT_VERSION < MQVersion.Version.V5_0_0_SNAPSHOT.ordinal()
            ? "" : "-t GoldenTopic ") + "-i " + tapped(sent.getOffsetMsgId());
        for (String command : List.of(
            "consumerConnection -n NAMESRV -g golden_group",
            "consumerProgress -n NAMESRV -g golden_group",
            "consumerStatus -n NAMESRV -g golden_group",
            "consumerStatus -n NAMESRV -g golden_group -i 127.0.0.1@first",
            byId,
            "queryMsgByUniqueKey -n NAMESRV -t GoldenTopic -i " + sent.getMsgId(),
            "queryMsgByUniqueKey -n NAMESRV -t GoldenTopic -g golden_group -d 127.0.0.1@first -i " + sent.getMsgId(),
            byId + " -g golden_group -d 127.0.0.1@first",
            "resetOffsetByTime -n NAMESRV -g golden_group -t GoldenTopic -s -1",
            "brokerConsumeStats -n NAMESRV -b BROKER")) {
            step(command, () -> admin(command));
        }
        Program.pause(1000);
        recorder.announce(35, "consumer");
        second.shutdown();
        first.shutdown();
    }

    private void orderly() throws Exception {
        DefaultMQPushConsumer consumer = push("golden_orderly", "orderly", "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> ConsumeOrderlyStatus.SUCCESS);
        consumer.start();
        Program.pause(3000);
        consumer.shutdown();
    }

    private void litePull() throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer("golden_pull");
        consumer.setNamesrvAddr(namesrv);
        consumer.setClientIP("127.0.0.1");
        consumer.setInstanceName("pull");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.start();
        consumer.assign(consumer.fetchMessageQueues(TOPIC));
        for (int i = 0; i < 5; i++) {
            consumer.poll(500);
        }
        consumer.commitSync();
        consumer.shutdown();
    }

    /** SQL92 is off in a default broker: what the refusal of the check and of the subscription look like. */
    private void sql() throws Exception {
        DefaultMQPushConsumer consumer = push("golden_sql", "sql", null);
        consumer.subscribe(TOPIC, MessageSelector.bySql("size > 10"));
        consumer.registerMessageListener((MessageListenerConcurrently) (m, c) -> ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        try {
            consumer.start();
        } catch (Exception expected) {
            System.err.println("sql: " + expected.getMessage());
        } finally {
            consumer.shutdown();
        }
    }

    private void transaction() throws Exception {
        TransactionMQProducer producer = producer(new TransactionMQProducer("golden_transaction") {
            @Override
            public void start() throws org.apache.rocketmq.client.exception.MQClientException {
                setTransactionListener(new TransactionListener() {
                    @Override
                    public LocalTransactionState executeLocalTransaction(Message message, Object answer) {
                        return (LocalTransactionState) answer;
                    }

                    @Override
                    public LocalTransactionState checkLocalTransaction(MessageExt message) {
                        return LocalTransactionState.COMMIT_MESSAGE;
                    }
                });
                super.start();
            }
        }, "transaction");
        recorder.announce(310, "transaction");
        producer.sendMessageInTransaction(message("committed", null, null), LocalTransactionState.COMMIT_MESSAGE);
        producer.sendMessageInTransaction(message("rolled back", null, null), LocalTransactionState.ROLLBACK_MESSAGE);
        producer.sendMessageInTransaction(message("asked later", null, null), LocalTransactionState.UNKNOW);
        waitFor(39, 30); // the broker asks back
        Program.pause(1000);
        producer.shutdown();
    }

    private void requestReply() throws Exception {
        String topic = "GoldenRequest";
        admin("updateTopic -n NAMESRV -b BROKER -t GoldenRequest -r 1 -w 1");
        DefaultMQProducer replier = producer(new DefaultMQProducer("golden_replier"), "replier");
        DefaultMQProducer asker = producer(new DefaultMQProducer("golden_asker"), "asker");
        DefaultMQPushConsumer server = push("golden_server", "server", null);
        server.subscribe(topic, "*");
        server.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            try {
                replier.send(MessageUtil.createReplyMessage(messages.get(0), bytes("pong")));
            } catch (Exception e) {
                e.printStackTrace();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        server.start();
        Program.pause(2500);
        recorder.announce(310, "rpc");
        Message ping = message("ping", null, null);
        ping.setTopic(topic);
        asker.request(ping, 10_000);
        server.shutdown();
        replier.shutdown();
        asker.shutdown();
    }

    /** Consuming with the queues shared by the server; since 5.0, and upstream only with the JSON header. */
    private void pop() throws Exception {
        DefaultMQPushConsumer consumer = push("golden_pop", "pop", "*");
        if (!Versions.setIfKnown(consumer, "setClientRebalance", false)) {
            return;
        }
        admin("updateSubGroup -n NAMESRV -b BROKER -g golden_pop");
        admin("setConsumeMode -n NAMESRV -b BROKER -t GoldenTopic -g golden_pop -m POP -q 2");
        AtomicInteger seen = new AtomicInteger();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
            seen.getAndIncrement() == 0 ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                : ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        consumer.start();
        Program.pause(2000);
        sendOne("popped 1", "key-11");
        sendOne("popped 2", "key-12");
        Program.pause(4000);
        consumer.shutdown();
    }

    private void refused() throws Exception {
        try (Raw raw = new Raw()) {
            ask(raw, namesrv, 105, Map.of("topic", "NoSuchTopic"), null);
            ask(raw, namesrv, 29999, Map.of(), null);
            recorder.announce(29999, "broker");
            ask(raw, broker, 29999, Map.of(), null);
            ask(raw, broker, 14, Map.of("consumerGroup", "nobody", "topic", TOPIC, "queueId", "9"), null);
            ask(raw, broker, 11, Map.ofEntries(Map.entry("consumerGroup", GROUP), Map.entry("topic", TOPIC),
                Map.entry("queueId", "0"), Map.entry("queueOffset", "99999"), Map.entry("maxMsgNums", "32"),
                Map.entry("sysFlag", "4"), Map.entry("commitOffset", "0"), Map.entry("suspendTimeoutMillis", "0"),
                Map.entry("subscription", "*"), Map.entry("subVersion", "0")), null);
            ask(raw, broker, 33, Map.of("offset", "123456789", "topic", TOPIC), null);
        }
    }

    /** What a replica asks of its master, beside the log itself. */
    private void replica() throws Exception {
        try (Raw raw = new Raw()) {
            for (int code : new int[] {21, 43, 45, 201, 402, 60, 61}) {
                ask(raw, broker, code, Map.of(), null);
            }
        }
    }

    private void administer() {
        for (String command : List.of(
            "producer -n NAMESRV -b BROKER",
            "updateTopic -n NAMESRV -c DefaultCluster -t GoldenTopic3 -r 4 -w 4 -p 6",
            "updateSubGroup -n NAMESRV -b BROKER -g golden_made",
            "topicRoute -n NAMESRV -t GoldenTopic",
            "topicStatus -n NAMESRV -t GoldenTopic",
            "topicClusterList -n NAMESRV -t GoldenTopic",
            "topicList -n NAMESRV",
            "clusterList -n NAMESRV",
            "clusterList -n NAMESRV -m",
            "brokerStatus -n NAMESRV -b BROKER",
            "haStatus -n NAMESRV -b BROKER",
            "getBrokerConfig -n NAMESRV -b BROKER",
            "updateBrokerConfig -n NAMESRV -b BROKER -k compressedRegister -v true",
            "producerConnection -n NAMESRV -g nobody -t GoldenTopic",
            "updateBrokerConfig -n NAMESRV -b BROKER -k compressedRegister -v false",
            "consumerProgress -n NAMESRV",
            "statsAll -n NAMESRV",
            "queryMsgByKey -n NAMESRV -t GoldenTopic -k key-1",
            "queryMsgByOffset -n NAMESRV -t GoldenTopic -b broker-a -i 0 -o 0",
            "queryCq -n NAMESRV -t GoldenTopic -q 0 -i 0 -c 2 -b BROKER",
            "printMsg -n NAMESRV -t GoldenTopic",
            "resetOffsetByTime -n NAMESRV -g golden_made -t GoldenTopic -s now",
            "skipAccumulatedMessage -n NAMESRV -g golden_group -t GoldenTopic",
            "cloneGroupOffset -n NAMESRV -s golden_group -d golden_made -t GoldenTopic",
            "updateKvConfig -n NAMESRV -s golden -k one -v 1",
            "deleteKvConfig -n NAMESRV -s golden -k one",
            "updateOrderConf -n NAMESRV -t GoldenTopic -m put -v broker-a:2",
            "updateOrderConf -n NAMESRV -t GoldenTopic -m get",
            "topicRoute -n NAMESRV -t GoldenTopic # order",
            "updateOrderConf -n NAMESRV -t GoldenTopic -m delete",
            "getNamesrvConfig -n NAMESRV",
            "updateNamesrvConfig -n NAMESRV -k orderMessageEnable -v true",
            "wipeWritePerm -n NAMESRV -b broker-a",
            "addWritePerm -n NAMESRV -b broker-a",
            "cleanExpiredCQ -n NAMESRV -b BROKER",
            "cleanUnusedTopic -n NAMESRV -b BROKER",
            "deleteExpiredCommitLog -n NAMESRV -b BROKER",
            "getConsumerConfig -n NAMESRV -g golden_made",
            "exportMetadata -n NAMESRV -c DefaultCluster -f " + System.getProperty("user.home") + "/export",
            "exportMetrics -n NAMESRV -c DefaultCluster -f " + System.getProperty("user.home") + "/export",
            "sendMessage -n NAMESRV -t GoldenTopic -p hello",
            "deleteSubGroup -n NAMESRV -c DefaultCluster -g golden_made",
            "deleteTopic -n NAMESRV -c DefaultCluster -t GoldenTopic3")) {
            if (command.endsWith("# order")) {
                recorder.announce(105, "order");
            }
            step(command, () -> admin(command.replace(" # order", "")));
        }
        step("the rest", () -> {
            try (Raw raw = new Raw()) {
                // Used by the dashboard, by no command of the admin tool with these flags.
                ask(raw, broker, 300, Map.of("topic", TOPIC), null);
                ask(raw, broker, 303, Map.of("topic", TOPIC, "group", GROUP), null);
                ask(raw, broker, 305, Map.of(), null);
                ask(raw, broker, 343, Map.of("group", GROUP), null);
                ask(raw, broker, 345, Map.of("group", GROUP, "topic", TOPIC), null);
                ask(raw, broker, 351, Map.of("topic", TOPIC), null);
                ask(raw, broker, 352, Map.of("group", GROUP), null);
                ask(raw, namesrv, 219, Map.of("namespace", "ORDER_TOPIC_CONFIG"), null);
                ask(raw, namesrv, 224, Map.of("cluster", "DefaultCluster"), null);
                ask(raw, namesrv, 304, Map.of(), null);
                ask(raw, namesrv, 901, Map.of("clusterName", "DefaultCluster", "brokerName", "broker-a"), null);
                recorder.announce(105, "strict-json");
                ask(raw, namesrv, 105, Map.of("topic", TOPIC, "acceptStandardJsonOnly", "true"), null);
            }
        });
    }

    private static void ask(Raw raw, String address, int code, Map<String, String> header, byte[] body)
        throws Exception {
        try {
            raw.call(address, code, header, body);
        } catch (RemotingTimeoutException silence) {
            // That is how the name server of 4.9.7 takes a code it does not know.
            System.err.println("no answer to " + code);
        }
    }

    private interface Step {
        void run() throws Exception;
    }

    private void step(String name, Step step) {
        try {
            step.run();
        } catch (Throwable failure) {
            failure.printStackTrace();
            missed.add(name + ": " + failure);
        }
    }

    private void admin(String command) {
        String line = command.replace("NAMESRV", namesrv).replace("BROKER", broker);
        System.err.println("mqadmin " + line);
        MQAdminStartup.main0(line.split(" "), null);
    }

    private void waitFor(int code, int seconds) throws Exception {
        for (int i = 0; i < seconds * 10 && !recorder.has(code); i++) {
            Thread.sleep(100);
        }
        if (!recorder.has(code)) {
            missed.add("no frame with code " + code);
        }
    }

    private SendResult sendOne(String body, String key) throws Exception {
        DefaultMQProducer producer = producer(new DefaultMQProducer("golden_producer"), "one");
        try {
            return producer.send(message(body, "TagA", key));
        } finally {
            producer.shutdown();
        }
    }

    private <P extends DefaultMQProducer> P producer(P producer, String instance) throws Exception {
        producer.setNamesrvAddr(namesrv);
        producer.setClientIP("127.0.0.1");
        producer.setInstanceName(instance);
        producer.start();
        return producer;
    }

    private DefaultMQPushConsumer push(String group, String instance, String tags) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setClientIP("127.0.0.1");
        consumer.setInstanceName(instance);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        if (tags != null) {
            consumer.subscribe(TOPIC, tags);
        }
        return consumer;
    }

    private static Message message(String body, String tag, String keys) {
        return new Message(TOPIC, tag, keys, bytes(body));
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** A broker's message id carries its address (4 bytes) and port (4 bytes): let it lead through the tap. */
    private String tapped(String offsetMsgId) {
        return offsetMsgId.substring(0, 8) + String.format("%08X", brokerTap) + offsetMsgId.substring(16);
    }

    private static byte[] replace(byte[] frame, byte[] old, byte[] with) {
        byte[] changed = frame.clone();
        for (int at = 0; at + old.length <= changed.length; at++) {
            if (java.util.Arrays.equals(changed, at, at + old.length, old, 0, old.length)) {
                System.arraycopy(with, 0, changed, at, with.length);
            }
        }
        return changed;
    }
}
