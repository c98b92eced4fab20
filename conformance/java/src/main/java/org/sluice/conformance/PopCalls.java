package org.sluice.conformance;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.AckResult;
import org.apache.rocketmq.client.consumer.NotifyResult;
import org.apache.rocketmq.client.consumer.PopResult;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.impl.ClientRemotingProcessor;
import org.apache.rocketmq.client.impl.mqclient.MQClientAPIExt;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.header.AckMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ChangeInvisibleTimeRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil;
import org.apache.rocketmq.remoting.protocol.header.NotificationRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader;

/**
 * Makes the calls of a pop consumer one at a time, as its caller says, by the classes the official push consumer and
 * the official proxy use. Judges nothing.
 *
 * <p>A line of input is NUMBER, call, and name=value as often as needed, with tabs between; each is answered, when its
 * answer is there, by a line of JSON with the same number. Calls do not wait for each other. Ends with its input.
 */
public final class PopCalls {
    /** A long poll's answer comes this much after its end at the latest. */
    private static final long PATIENCE_MILLIS = 10_000;
    private static final String BROKER = "broker-a";

    private final String broker;
    private final MQClientAPIExt client;
    private final PrintStream answers;

    private PopCalls(String broker, PrintStream answers) {
        this.broker = broker;
        this.answers = answers;
        ClientConfig config = new ClientConfig();
        client = new MQClientAPIExt(config, new NettyClientConfig(), new ClientRemotingProcessor(null), null);
        client.start();
    }

    public static void main(String[] words) {
        PrintStream answers = System.out;
        System.setOut(System.err);
        Args args = new Args(words);
        PopCalls calls = new PopCalls(args.get("broker"), answers);
        args.refuseUnread();
        int status = 0;
        try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            ExecutorService callers = Executors.newCachedThreadPool();
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                String[] fields = line.split("\t");
                callers.execute(() -> calls.answer(fields));
            }
        } catch (Exception e) {
            e.printStackTrace();
            status = 1;
        }
        Runtime.getRuntime().halt(status);
    }

    private void answer(String[] fields) {
        Report report = new Report().put("number", Long.parseLong(fields[0]));
        Map<String, String> given = new HashMap<>();
        for (int i = 2; i < fields.length; i++) {
            String[] parts = fields[i].split("=", 2);
            given.put(parts[0], parts[1]);
        }
        try {
            switch (fields[1]) {
                case "pop" -> pop(given, report);
                case "ack" -> ack(given, report);
                case "ack-batch" -> ackBatch(given, report);
                case "change" -> change(given, report);
                case "ack-code" -> code(RequestCode.ACK_MESSAGE, ackHeader(given), report);
                case "change-code" -> code(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, changeHeader(given), report);
                case "notify" -> notification(given, report);
                case "mode" -> mode(given);
                default -> throw new IllegalArgumentException("no call " + fields[1]);
            }
        } catch (Throwable failure) {
            Throwable cause = failure instanceof CompletionException ? failure.getCause() : failure;
            if (cause instanceof MQBrokerException refused) {
                report.put("code", refused.getResponseCode()).put("remark", refused.getErrorMessage());
            } else {
                failure.printStackTrace();
                report.put("failure", String.valueOf(cause));
            }
        }
        synchronized (answers) {
            answers.println(report.json());
            answers.flush();
        }
    }

    private void pop(Map<String, String> given, Report report) {
        PopMessageRequestHeader header = new PopMessageRequestHeader();
        header.setTopic(given.get("topic"));
        header.setConsumerGroup(given.get("group"));
        header.setQueueId(Integer.parseInt(given.getOrDefault("queue", "-1")));
        header.setMaxMsgNums(Integer.parseInt(given.getOrDefault("max", "32")));
        header.setInvisibleTime(Long.parseLong(given.getOrDefault("invisible", "60000")));
        long poll = Long.parseLong(given.getOrDefault("poll", "0"));
        header.setPollTime(poll);
        header.setBornTime(System.currentTimeMillis());
        header.setInitMode(given.getOrDefault("init", "min").equals("min") ? 0 : 1);
        header.setOrder(Boolean.parseBoolean(given.getOrDefault("order", "false")));
        header.setAttemptId(given.get("attempt"));
        if (given.containsKey("tags")) {
            header.setExpType("TAG");
            header.setExp(given.get("tags"));
        }
        PopResult result = client.popMessageAsync(broker, BROKER, header, poll + PATIENCE_MILLIS).join();
        report.put("status", result.getPopStatus()).put("rest", result.getRestNum());
        List<Map<String, Object>> messages = new ArrayList<>();
        if (result.getMsgFoundList() != null) {
            result.getMsgFoundList().forEach(message -> messages.add(told(message)));
        }
        report.put("messages", messages);
    }

    private static Map<String, Object> told(MessageExt message) {
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("body", new String(message.getBody(), StandardCharsets.UTF_8));
        told.put("topic", message.getTopic());
        told.put("queue", message.getQueueId());
        told.put("offset", message.getQueueOffset());
        told.put("reconsumed", message.getReconsumeTimes());
        told.put("tags", message.getTags());
        told.put("keys", message.getKeys());
        told.put("id", message.getMsgId());
        told.put("handle", message.getProperty(MessageConst.PROPERTY_POP_CK));
        return told;
    }

    private void ack(Map<String, String> given, Report report) {
        AckResult result = client.ackMessageAsync(broker, ackHeader(given), PATIENCE_MILLIS).join();
        report.put("status", result.getStatus());
    }

    private void ackBatch(Map<String, String> given, Report report) {
        List<String> handles = List.of(given.get("handles").split(";"));
        AckResult result = client.batchAckMessageAsync(broker, given.get("topic"), given.get("group"), handles, PATIENCE_MILLIS).join();
        report.put("status", result.getStatus());
    }

    private void change(Map<String, String> given, Report report) {
        AckResult result = client.changeInvisibleTimeAsync(broker, BROKER, changeHeader(given), PATIENCE_MILLIS).join();
        report.put("status", result.getStatus()).put("handle", result.getExtraInfo());
    }

    /** What the client's own classes hide: the code of a refusal. */
    private void code(int request, org.apache.rocketmq.remoting.CommandCustomHeader header, Report report) {
        RemotingCommand command = RemotingCommand.createRequestCommand(request, header);
        RemotingCommand response = client.getRemotingClient().invoke(broker, command, PATIENCE_MILLIS).join();
        report.put("code", response.getCode()).put("remark", response.getRemark());
    }

    private void notification(Map<String, String> given, Report report) {
        NotificationRequestHeader header = new NotificationRequestHeader();
        header.setTopic(given.get("topic"));
        header.setConsumerGroup(given.get("group"));
        header.setQueueId(Integer.parseInt(given.getOrDefault("queue", "-1")));
        long poll = Long.parseLong(given.getOrDefault("poll", "0"));
        header.setPollTime(poll);
        header.setBornTime(System.currentTimeMillis());
        header.setOrder(Boolean.parseBoolean(given.getOrDefault("order", "false")));
        header.setAttemptId(given.get("attempt"));
        NotifyResult result = client.notificationWithPollingStats(broker, header, poll + PATIENCE_MILLIS).join();
        report.put("has", result.isHasMsg()).put("full", result.isPollingFull());
    }

    private void mode(Map<String, String> given) throws Exception {
        client.setMessageRequestMode(broker, given.get("topic"), given.get("group"),
            MessageRequestMode.valueOf(given.get("mode")), Integer.parseInt(given.getOrDefault("share", "0")), PATIENCE_MILLIS);
    }

    /** As the push consumer makes it: everything follows from the handle, unless the caller says otherwise. */
    private static AckMessageRequestHeader ackHeader(Map<String, String> given) {
        String[] parts = ExtraInfoUtil.split(given.get("handle"));
        AckMessageRequestHeader header = new AckMessageRequestHeader();
        String topic = given.get("real-topic");
        header.setTopic(topic != null ? topic : ExtraInfoUtil.getRealTopic(parts, given.get("topic"), given.get("group")));
        header.setConsumerGroup(given.get("group"));
        header.setQueueId(given.containsKey("queue") ? Integer.parseInt(given.get("queue")) : ExtraInfoUtil.getQueueId(parts));
        header.setOffset(given.containsKey("offset") ? Long.parseLong(given.get("offset")) : ExtraInfoUtil.getQueueOffset(parts));
        header.setExtraInfo(given.get("handle"));
        return header;
    }

    private static ChangeInvisibleTimeRequestHeader changeHeader(Map<String, String> given) {
        AckMessageRequestHeader same = ackHeader(given);
        ChangeInvisibleTimeRequestHeader header = new ChangeInvisibleTimeRequestHeader();
        header.setTopic(same.getTopic());
        header.setConsumerGroup(same.getConsumerGroup());
        header.setQueueId(same.getQueueId());
        header.setOffset(same.getOffset());
        header.setExtraInfo(same.getExtraInfo());
        header.setInvisibleTime(Long.parseLong(given.get("invisible")));
        return header;
    }
}
