package org.sluice.conformance;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * Asks for what a broker may refuse, past the client's own checks, and prints name -> {code, remark} (and the header
 * fields of the answer, if any). It does not judge; whoever called it does. Needs --broker HOST:PORT too.
 */
public final class Refusals {
    /** As a client on 127.0.0.1 would make it; the same for all, nobody looks for it. */
    private static final String UNIQUE_KEY = "7F000001000100000001000000000000";

    private final Raw raw = new Raw();
    private final String broker;
    private final String namesrv;
    private final String topic = Clients.fresh("refusals");
    private final Report report;

    public static void main(String[] words) {
        Program.run(words, (args, report) -> new Refusals(args, report).ask(args));
    }

    private Refusals(Args args, Report report) {
        broker = args.get("broker");
        namesrv = args.get("namesrv");
        this.report = report;
    }

    private void ask(Args args) throws Exception {
        args.refuseUnread();
        DefaultMQProducer producer = Clients.producer(args);
        Clients.createTopic(producer, topic, 2);
        producer.shutdown();
        sending();
        consuming();
        administering();
        newer();
        raw.close();
    }

    private void sending() {
        send("send_ok", Map.of(), 10);
        send("send_unique_key_missing", Map.of("i", ""), 10);
        send("send_body_empty", Map.of(), 0);
        send("send_body_4MiB", Map.of(), 4 * 1024 * 1024);
        send("send_body_over_4MiB", Map.of(), 4 * 1024 * 1024 + 1);
        send("send_properties_too_long", Map.of("i", "a\1" + "b".repeat(33_000) + "\2"), 10);
        send("send_queue_id_too_big", Map.of("e", "99"), 10);
        send("send_queue_id_negative", Map.of("e", "-1"), 10);
        send("send_no_such_topic_no_template", Map.of("b", Clients.fresh("none"), "c", "no_template"), 10);
        send("send_topic_empty", Map.of("b", ""), 10);
        send("send_topic_illegal_letter", Map.of("b", "a b!"), 10);
        send("send_topic_too_long", Map.of("b", "t".repeat(128)), 10);
        for (String forbidden : new String[] {"TBW102", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT", "SCHEDULE_TOPIC_XXXX",
            "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC",
            "RMQ_SYS_TRACE_TOPIC", "rmq_sys_wheel_timer", "BenchmarkTest", "broker-a", "DefaultCluster"}) {
            send("send_to_" + forbidden, Map.of("b", forbidden), 10);
        }
        send("send_delay_level_99", Map.of("i", "DELAY\00199\2"), 10);
        send("send_transaction", Map.of("f", "4", "i", "TRAN_MSG\1true\2PGROUP\1refusals\2"), 10);
        send("send_timer_too_far", Map.of("i", "TIMER_DELAY_SEC\0019999999\2"), 10);
        send("send_timer", Map.of("i", "TIMER_DELAY_SEC\0012\2"), 10);
        send("send_reply_nobody_waits", 325, Map.of("b", "DefaultCluster_REPLY_TOPIC",
            "i", "CORRELATION_ID\1x\2REPLY_TO_CLIENT\1nobody\2MSG_TYPE\1reply\2CLUSTER\1DefaultCluster\2"), 10);
        ask("send_header_missing", broker, 310, Map.of(), new byte[10]);
        ask("send_header_field_missing", broker, 310, Map.of("a", "group", "b", topic), new byte[10]);
        Map<String, String> batch = header(Map.of("m", "true"));
        ask("batch_body_not_a_batch", broker, 320, batch, new byte[10]);
        batch.put("b", "%RETRY%refusals");
        ask("batch_to_retry_topic", broker, 320, batch, new byte[10]);
        ask("end_transaction_unknown", broker, 37, Map.of("topic", topic, "producerGroup", "refusals",
            "tranStateTableOffset", "0", "commitLogOffset", "999999999", "commitOrRollback", "8",
            "fromTransactionCheck", "false", "msgId", "x", "transactionId", "x"), null);
    }

    private void consuming() {
        pull("pull_ok", Map.of());
        pull("pull_offset_too_big", Map.of("queueOffset", "999999"));
        pull("pull_queue_id_too_big", Map.of("queueId", "99"));
        pull("pull_queue_id_negative", Map.of("queueId", "-1"));
        pull("pull_unknown_topic", Map.of("topic", "no_such_topic"));
        pull("pull_no_subscription", Map.of("sysFlag", "0", "consumerGroup", Clients.fresh("nobody")));
        pull("pull_sql", Map.of("expressionType", "SQL92", "subscription", "a > 1"));
        pull("pull_max_zero", Map.of("maxMsgNums", "0"));
        pull("pull_header_missing", null);
        ask("check_sql", broker, 46, Map.of(), Clients.bytes("{\"clientId\":\"c\",\"group\":\"refusals\","
            + "\"subscriptionData\":{\"topic\":\"" + topic + "\",\"subString\":\"a > 1\",\"expressionType\":\"SQL92\"}}"));
        ask("check_sql_wrong", broker, 46, Map.of(), Clients.bytes("{\"clientId\":\"c\",\"group\":\"refusals\","
            + "\"subscriptionData\":{\"topic\":\"" + topic + "\",\"subString\":\"a >> 1\",\"expressionType\":\"SQL92\"}}"));
        ask("check_tag", broker, 46, Map.of(), Clients.bytes("{\"clientId\":\"c\",\"group\":\"refusals\","
            + "\"subscriptionData\":{\"topic\":\"" + topic + "\",\"subString\":\"*\",\"expressionType\":\"TAG\"}}"));
        Map<String, String> queue = Map.of("topic", topic, "queueId", "0", "consumerGroup", "refusals", "timestamp", "0");
        Map<String, String> nowhere = Map.of("topic", "no_such_topic", "queueId", "0", "consumerGroup", "refusals",
            "timestamp", "0");
        Map<String, String> noQueue = Map.of("topic", topic, "queueId", "99", "consumerGroup", "refusals", "timestamp", "0");
        int[] codes = {14, 30, 31, 29, 32};
        String[] names = {"query_offset", "max_offset", "min_offset", "search_offset", "earliest_time"};
        for (int i = 0; i < codes.length; i++) {
            ask(names[i], broker, codes[i], queue, null);
            ask(names[i] + "_unknown_topic", broker, codes[i], nowhere, null);
            ask(names[i] + "_unknown_queue", broker, codes[i], noQueue, null);
        }
        ask("commit_unknown_topic", broker, 15, Map.of("topic", "no_such_topic", "queueId", "0", "consumerGroup",
            "refusals", "commitOffset", "1"), null);
        ask("commit_unknown_group", broker, 15, Map.of("topic", topic, "queueId", "0", "consumerGroup",
            Clients.fresh("nobody"), "commitOffset", "1"), null);
        ask("commit_negative", broker, 15, Map.of("topic", topic, "queueId", "0", "consumerGroup", "refusals",
            "commitOffset", "-1"), null);
        ask("send_back_unknown_offset", broker, 36, Map.of("group", "refusals", "offset", "99999999", "delayLevel", "0",
            "originMsgId", "x", "originTopic", topic, "unitMode", "false", "maxReconsumeTimes", "16"), null);
        ask("consumer_list_unknown_group", broker, 38, Map.of("consumerGroup", Clients.fresh("nobody")), null);
        ask("lock_empty_body", broker, 41, Map.of(), null);
        ask("lock_unknown_group", broker, 41, Map.of(), Clients.bytes("{\"consumerGroup\":\"nobody\",\"clientId\":\"c\","
            + "\"mqSet\":[{\"topic\":\"" + topic + "\",\"brokerName\":\"broker-a\",\"queueId\":0}]}"));
        ask("heartbeat_empty_body", broker, 34, Map.of(), null);
        ask("view_unknown_offset", broker, 33, Map.of("topic", topic, "offset", "99999999"), null);
        ask("query_no_message", broker, 12, Map.of("topic", topic, "key", "none", "maxNum", "1", "beginTimestamp", "0",
            "endTimestamp", "9999999999999"), null);
    }

    private void pull(String name, Map<String, String> changed) {
        Map<String, String> header = new HashMap<>();
        if (changed != null) {
            header.putAll(Map.of("consumerGroup", "refusals", "topic", topic, "queueId", "0", "queueOffset", "0",
                "maxMsgNums", "8", "sysFlag", "4", "commitOffset", "0", "suspendTimeoutMillis", "0", "subVersion", "0"));
            header.putAll(Map.of("subscription", "*", "expressionType", "TAG"));
            header.putAll(changed);
        }
        ask(name, broker, 11, header, null);
    }

    private void administering() {
        ask("unknown_code_broker", broker, 29999, Map.of(), null);
        ask("unknown_code_namesrv", namesrv, 29999, Map.of(), null);
        ask("route_unknown_topic", namesrv, 105, Map.of("topic", "no_such_topic"), null);
        ask("route_header_missing", namesrv, 105, Map.of(), null);
        ask("kv_unknown", namesrv, 101, Map.of("namespace", "none", "key", "none"), null);
        ask("kv_list_unknown", namesrv, 219, Map.of("namespace", "none"), null);
        ask("wipe_unknown_broker", namesrv, 205, Map.of("brokerName", "none"), null);
        ask("topics_of_unknown_cluster", namesrv, 224, Map.of("cluster", "none"), null);
        ask("member_group_unknown", namesrv, 901, Map.of("clusterName", "none", "brokerName", "none"), null);
        createTopic("create_topic_illegal_letter", "a b!");
        createTopic("create_topic_too_long", "t".repeat(128));
        createTopic("create_topic_empty", "");
        createTopic("create_topic_system", "SCHEDULE_TOPIC_XXXX");
        createTopic("create_topic_rmq_sys", "rmq_sys_mine");
        ask("delete_topic_unknown", broker, 215, Map.of("topic", "no_such_topic"), null);
        ask("delete_topic_system", broker, 215, Map.of("topic", "SCHEDULE_TOPIC_XXXX"), null);
        ask("create_group_illegal_letter", broker, 200, Map.of(), Clients.bytes("{\"groupName\":\"a b!\"}"));
        ask("create_group_too_long", broker, 200, Map.of(), Clients.bytes("{\"groupName\":\"" + "g".repeat(256) + "\"}"));
        ask("delete_group_unknown", broker, 207, Map.of("groupName", "nobody"), null);
        ask("topic_stats_unknown", broker, 202, Map.of("topic", "no_such_topic"), null);
        ask("consumer_connection_offline", broker, 203, Map.of("consumerGroup", "nobody"), null);
        ask("producer_connection_offline", broker, 204, Map.of("producerGroup", "nobody"), null);
        ask("consume_stats_unknown_group", broker, 208, Map.of("consumerGroup", "nobody"), null);
        ask("reset_offset_offline", broker, 222, Map.of("topic", topic, "group", "nobody", "timestamp", "0",
            "isForce", "true"), null);
        ask("reset_offset_unknown_topic", broker, 222, Map.of("topic", "no_such_topic", "group", "nobody",
            "timestamp", "0", "isForce", "true"), null);
        ask("running_info_offline", broker, 307, Map.of("consumerGroup", "nobody", "clientId", "c",
            "jstackEnable", "false"), null);
        ask("consume_directly_offline", broker, 309, Map.of("consumerGroup", "nobody", "clientId", "c",
            "msgId", "7F00000100002A9F0000000000000000"), null);
        ask("stats_unknown", broker, 315, Map.of("statsName", "none", "statsKey", "none"), null);
        ask("topic_config_unknown", broker, 351, Map.of("topic", "no_such_topic"), null);
        ask("group_config_unknown", broker, 352, Map.of("group", "nobody"), null);
        ask("config_forbidden_key", broker, 25, Map.of(), Clients.bytes("brokerConfigPath=/tmp/x\n"));
        ask("config_unknown_key", broker, 25, Map.of(), Clients.bytes("noSuchKey=1\n"));
        ask("config_empty_body", broker, 25, Map.of(), null);
        ask("resume_half_unknown", broker, 323, Map.of("msgId", "x"), null);
    }

    private void createTopic(String name, String topic) {
        ask(name, broker, 17, Map.of("topic", topic, "defaultTopic", "TBW102", "readQueueNums", "1", "writeQueueNums",
            "1", "perm", "6", "topicFilterType", "SINGLE_TAG", "topicSysFlag", "0", "order", "false"), null);
    }

    /** What only 5.x brokers know. The binary header cannot carry codes above 32767 as they are. */
    private void newer() {
        Map<String, String> pop = Map.of("consumerGroup", "refusals", "topic", topic, "queueId", "-1", "maxMsgNums", "8",
            "invisibleTime", "10000", "pollTime", "0", "bornTime", String.valueOf(System.currentTimeMillis()),
            "initMode", "0", "expType", "TAG", "exp", "*");
        ask("pop", broker, 200050, pop, null);
        Map<String, String> tooMany = new HashMap<>(pop);
        tooMany.put("maxMsgNums", "33");
        ask("pop_too_many", broker, 200050, tooMany, null);
        ask("ack_wrong_handle", broker, 200051, Map.of("consumerGroup", "refusals", "topic", topic, "queueId", "0",
            "extraInfo", "x", "offset", "0"), null);
        ask("batch_ack_empty", broker, 200151, Map.of(), null);
        ask("change_invisible_wrong_handle", broker, 200053, Map.of("consumerGroup", "refusals", "topic", topic,
            "queueId", "0", "extraInfo", "x", "offset", "0", "invisibleTime", "1000"), null);
        ask("notification", broker, 200054, Map.of("consumerGroup", "refusals", "topic", topic, "queueId", "0",
            "pollTime", "0", "bornTime", "0"), null);
        ask("polling_info", broker, 200055, Map.of("consumerGroup", "refusals", "topic", topic, "queueId", "0"), null);
        ask("query_assignment", broker, 400, Map.of(), Clients.bytes("{\"topic\":\"" + topic
            + "\",\"consumerGroup\":\"nobody\",\"clientId\":\"c\",\"strategyName\":\"AVG\",\"messageModel\":\"CLUSTERING\"}"));
        ask("recall", broker, 370, Map.of("topic", topic, "recallHandle", "x", "producerGroup", "refusals"), null);
        ask("list_user", broker, 3005, Map.of(), null);
        ask("ha_status", broker, 907, Map.of(), null);
        ask("add_broker", broker, 902, Map.of("configPath", "/none"), null);
        ask("switch_timer_engine", broker, 5001, Map.of(), null);
    }

    private void send(String name, Map<String, String> changed, int size) {
        send(name, 310, changed, size);
    }

    private void send(String name, int code, Map<String, String> changed, int size) {
        ask(name, broker, code, header(changed), new byte[size]);
    }

    private Map<String, String> header(Map<String, String> changed) {
        Map<String, String> header = new HashMap<>(Map.of("a", "refusals", "b", topic, "c", "TBW102", "d", "4", "e", "0",
            "f", "0", "g", String.valueOf(System.currentTimeMillis()), "h", "0", "j", "0", "k", "false"));
        header.put("i", "UNIQ_KEY\1" + UNIQUE_KEY + "\2");
        header.put("m", "false");
        header.putAll(changed);
        return header;
    }

    private void ask(String name, String address, int code, Map<String, String> header, byte[] body) {
        Map<String, Object> answer = new LinkedHashMap<>();
        try {
            RemotingCommand response = raw.call(address, code, header, body);
            answer.put("code", response.getCode());
            answer.put("remark", response.getRemark());
            if (response.getExtFields() != null && !response.getExtFields().isEmpty()) {
                // A broker that had to make the unique key itself puts its machine's address into it.
                response.getExtFields().computeIfPresent("transactionId", (field, key) ->
                    key.equals(UNIQUE_KEY) ? key : "made by the broker");
                answer.put("ext", response.getExtFields());
            }
            if (response.getBody() != null) {
                answer.put("body_bytes", response.getBody().length);
            }
        } catch (Exception noAnswer) {
            answer.put("code", null);
            answer.put("remark", noAnswer.toString());
        }
        report.put(name, answer);
    }
}
