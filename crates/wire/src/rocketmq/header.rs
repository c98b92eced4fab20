//! Typed request and response headers, one per official header class, under the field names that class has.
//!
//! `!` marks a field the official peer insists on, `?` one that may be absent. Those of pop consumption: `pop::header`.

use super::field::headers;

/// A field of ours in the answers to 21, 43, 45 and 201: what the log says below this position is in the table.
pub const TABLE_POSITION: &str = "sluiceLogPosition";

/// A field of the answer to 771: of how many parts it is one.
pub const STATE_PARTS: &str = "parts";

headers! { $ every_rocketmq_header
    /// 10 SEND_MESSAGE: long field names.
    SendRequestV1 {
        producer_group ! text "producerGroup",
        topic ! text "topic",
        default_topic ! text "defaultTopic",
        default_topic_queue_nums ! i32 "defaultTopicQueueNums",
        queue_id ! i32 "queueId",
        system_flag ! i32 "sysFlag",
        born_timestamp ! i64 "bornTimestamp",
        flag ! i32 "flag",
        properties ? text "properties",
        reconsume_times ? i32 "reconsumeTimes",
        unit_mode ? bool "unitMode",
        batch ? bool "batch",
        max_reconsume_times ? i32 "maxReconsumeTimes",
        broker_name ? text "bname",
    }

    /// 310 SEND_MESSAGE_V2 and 320 SEND_BATCH_MESSAGE: the same in one letter each.
    SendRequest {
        producer_group ! text "a",
        topic ! text "b",
        default_topic ! text "c",
        default_topic_queue_nums ! i32 "d",
        queue_id ! i32 "e",
        system_flag ! i32 "f",
        born_timestamp ! i64 "g",
        flag ! i32 "h",
        properties ? text "i",
        reconsume_times ? i32 "j",
        unit_mode ? bool "k",
        max_reconsume_times ? i32 "l",
        batch ? bool "m",
        broker_name ? text "n",
    }

    /// Response to a send.
    SendResponse {
        message_id ! text "msgId",
        queue_id ! i32 "queueId",
        queue_offset ! i64 "queueOffset",
        transaction_id ? text "transactionId",
        region ? text "MSG_REGION",
        trace_on ? text "TRACE_ON",
    }

    /// 11 PULL_MESSAGE and 361 LITE_PULL_MESSAGE.
    PullRequest {
        consumer_group ! text "consumerGroup",
        topic ! text "topic",
        queue_id ! i32 "queueId",
        queue_offset ! i64 "queueOffset",
        max_message_count ! i32 "maxMsgNums",
        system_flag ! i32 "sysFlag",
        commit_offset ! i64 "commitOffset",
        suspend_timeout_ms ! i64 "suspendTimeoutMillis",
        subscription ? text "subscription",
        sub_version ! i64 "subVersion",
        expression_type ? text "expressionType",
        max_message_bytes ? i32 "maxMsgBytes",
        request_source ? i32 "requestSource",
        proxy_forward_client_id ? text "proxyFrowardClientId",
        broker_name ? text "bname",
    }

    /// Response to a pull; the four offsets are there whatever the code.
    PullResponse {
        suggest_which_broker_id ! i64 "suggestWhichBrokerId",
        next_begin_offset ! i64 "nextBeginOffset",
        min_offset ! i64 "minOffset",
        max_offset ! i64 "maxOffset",
    }

    /// 12 QUERY_MESSAGE.
    QueryMessageRequest {
        topic ! text "topic",
        key ! text "key",
        max_count ! i32 "maxNum",
        begin_timestamp ! i64 "beginTimestamp",
        end_timestamp ! i64 "endTimestamp",
        unique_key_query ? bool "_UNIQUE_KEY_QUERY",
        index_type ? text "indexType",
        last_key ? text "lastKey",
    }

    /// 14 QUERY_CONSUMER_OFFSET.
    QueryConsumerOffsetRequest {
        consumer_group ! text "consumerGroup",
        topic ! text "topic",
        queue_id ! i32 "queueId",
        set_zero_if_not_found ? bool "setZeroIfNotFound",
        broker_name ? text "bname",
    }

    /// The answer to 14.
    OffsetResponse {
        offset ! i64 "offset",
    }

    /// 15 UPDATE_CONSUMER_OFFSET.
    UpdateConsumerOffsetRequest {
        consumer_group ! text "consumerGroup",
        topic ! text "topic",
        queue_id ! i32 "queueId",
        commit_offset ! i64 "commitOffset",
        broker_name ? text "bname",
        /// A field of ours, which others pass over: the offset counts only if the group is not as far.
        only_forward ? bool "sluiceOnlyForward",
    }

    /// Response to 21, 43, 45 and 201: a field of ours, which others pass over.
    TableResponse {
        /// What the log says below this position is in the table.
        log_position ? i64 "sluiceLogPosition",
    }

    /// 771 GET_ALL_UNDOCUMENTED_STATE, and its response.
    StatePart {
        /// Which part, from 0.
        part ? i32 "part",
        /// Of how many: the first answer says it.
        parts ? i32 "parts",
    }

    /// 17 UPDATE_AND_CREATE_TOPIC.
    CreateTopicRequest {
        topic ! text "topic",
        default_topic ! text "defaultTopic",
        read_queue_nums ! i32 "readQueueNums",
        write_queue_nums ! i32 "writeQueueNums",
        permission ! i32 "perm",
        topic_filter_type ! text "topicFilterType",
        topic_system_flag ? i32 "topicSysFlag",
        order ! bool "order",
        attributes ? text "attributes",
        force ? bool "force",
    }

    /// 29 SEARCH_OFFSET_BY_TIMESTAMP.
    SearchOffsetRequest {
        topic ! text "topic",
        queue_id ! i32 "queueId",
        timestamp ! i64 "timestamp",
        boundary_type ? text "boundaryType",
        broker_name ? text "bname",
    }

    /// 30 GET_MAX_OFFSET, 31 GET_MIN_OFFSET, 32 GET_EARLIEST_MESSAGE_STORE_TIME.
    QueueRequest {
        topic ! text "topic",
        queue_id ! i32 "queueId",
        committed ? bool "committed",
        broker_name ? text "bname",
    }

    /// 33 VIEW_MESSAGE_BY_ID.
    ViewMessageRequest {
        topic ? text "topic",
        offset ! i64 "offset",
    }

    /// 35 UNREGISTER_CLIENT.
    UnregisterClientRequest {
        client_id ! text "clientID",
        producer_group ? text "producerGroup",
        consumer_group ? text "consumerGroup",
    }

    /// 36 CONSUMER_SEND_MESSAGE_BACK.
    SendBackRequest {
        offset ! i64 "offset",
        group ! text "group",
        delay_level ! i32 "delayLevel",
        origin_message_id ? text "originMsgId",
        origin_topic ? text "originTopic",
        unit_mode ? bool "unitMode",
        max_reconsume_times ? i32 "maxReconsumeTimes",
        broker_name ? text "bname",
    }

    /// 38 GET_CONSUMER_LIST_BY_GROUP, 40 NOTIFY_CONSUMER_IDS_CHANGED, 203 GET_CONSUMER_CONNECTION_LIST.
    ConsumerGroupRequest {
        consumer_group ! text "consumerGroup",
    }

    /// 307 GET_CONSUMER_RUNNING_INFO, 309 CONSUME_MESSAGE_DIRECTLY: what the broker reads of them.
    CallRequest {
        consumer_group ! text "consumerGroup",
        client_id ! text "clientId",
        message_id ? text "msgId",
    }

    /// 100 PUT_KV_CONFIG.
    PutKvRequest {
        namespace ! text "namespace",
        key ! text "key",
        value ! text "value",
    }

    /// 101 GET_KV_CONFIG and 102 DELETE_KV_CONFIG.
    KvKeyRequest {
        namespace ! text "namespace",
        key ! text "key",
    }

    /// Response to 101.
    KvValueResponse {
        value ? text "value",
    }

    /// 103 REGISTER_BROKER.
    RegisterBrokerRequest {
        broker_name ! text "brokerName",
        broker_address ! text "brokerAddr",
        cluster_name ! text "clusterName",
        ha_server_address ! text "haServerAddr",
        broker_id ! i64 "brokerId",
        heartbeat_timeout_ms ? i64 "heartbeatTimeoutMillis",
        enable_acting_master ? bool "enableActingMaster",
        compressed ? bool "compressed",
        body_crc32 ? i32 "bodyCrc32",
    }

    /// Response to 103.
    RegisterBrokerResponse {
        ha_server_address ? text "haServerAddr",
        master_address ? text "masterAddr",
    }

    /// 104 UNREGISTER_BROKER and 322 QUERY_DATA_VERSION.
    BrokerIdentityRequest {
        broker_name ! text "brokerName",
        broker_address ! text "brokerAddr",
        cluster_name ! text "clusterName",
        broker_id ! i64 "brokerId",
    }

    /// Response to 322.
    QueryDataVersionResponse {
        changed ! bool "changed",
    }

    /// 105 GET_ROUTE_BY_TOPIC.
    RouteRequest {
        topic ! text "topic",
        accept_standard_json_only ? bool "acceptStandardJsonOnly",
    }

    /// 202, 215, 217, 300, 351 and others that name one topic.
    TopicRequest {
        topic ! text "topic",
        cluster_name ? text "clusterName",
    }

    /// 224 GET_TOPICS_BY_CLUSTER.
    ClusterRequest {
        cluster ! text "cluster",
    }

    /// 219 GET_KV_LIST_BY_NAMESPACE.
    NamespaceRequest {
        namespace ! text "namespace",
    }

    /// 205 and 327: write permission of a broker.
    BrokerNameRequest {
        broker_name ! text "brokerName",
    }

    /// Response to 205.
    WipeWritePermissionResponse {
        wiped_topic_count ! i32 "wipeTopicCount",
    }

    /// Response to 327.
    AddWritePermissionResponse {
        added_topic_count ! i32 "addTopicCount",
    }

    /// 901 GET_BROKER_MEMBER_GROUP.
    MemberGroupRequest {
        cluster_name ! text "clusterName",
        broker_name ! text "brokerName",
    }

    /// 904 BROKER_HEARTBEAT.
    BrokerHeartbeatRequest {
        cluster_name ! text "clusterName",
        broker_address ! text "brokerAddr",
        broker_name ! text "brokerName",
        broker_id ? i64 "brokerId",
    }

    /// 204 GET_PRODUCER_CONNECTION_LIST.
    ProducerGroupRequest {
        producer_group ! text "producerGroup",
    }

    /// 207 DELETE_SUBSCRIPTION_GROUP.
    DeleteGroupRequest {
        group_name ! text "groupName",
        clean_offset ? bool "cleanOffset",
        /// Spelling of 4.9.
        remove_offset ? bool "removeOffset",
    }

    /// 208 GET_CONSUME_STATS.
    ConsumeStatsRequest {
        consumer_group ! text "consumerGroup",
        topic ? text "topic",
        topic_list ? text "topicList",
    }

    /// 220 RESET_CONSUMER_CLIENT_OFFSET and 222 INVOKE_BROKER_TO_RESET_OFFSET.
    ResetOffsetRequest {
        topic ! text "topic",
        group ! text "group",
        queue_id ? i32 "queueId",
        timestamp ! i64 "timestamp",
        is_force ! bool "isForce",
        offset ? i64 "offset",
    }

    /// 303 QUERY_CONSUME_TIME_SPAN, 345 QUERY_SUBSCRIPTION_BY_CONSUMER.
    TopicGroupRequest {
        topic ! text "topic",
        group ! text "group",
    }

    /// 343 QUERY_TOPICS_BY_CONSUMER, 352 GET_SUBSCRIPTION_GROUP_CONFIG.
    GroupRequest {
        group ! text "group",
    }

    /// 314 CLONE_GROUP_OFFSET.
    CloneGroupOffsetRequest {
        source_group ! text "srcGroup",
        target_group ! text "destGroup",
        topic ? text "topic",
        offline ? bool "offline",
    }

    /// 315 VIEW_BROKER_STATS_DATA.
    BrokerStatsRequest {
        stats_name ! text "statsName",
        stats_key ! text "statsKey",
    }

    /// 321 QUERY_CONSUME_QUEUE.
    QueryConsumeQueueRequest {
        topic ! text "topic",
        queue_id ! i32 "queueId",
        index ! i64 "index",
        count ! i32 "count",
        consumer_group ? text "consumerGroup",
    }
}

impl<'a> From<SendRequestV1<'a>> for SendRequest<'a> {
    fn from(v1: SendRequestV1<'a>) -> Self {
        Self {
            producer_group: v1.producer_group,
            topic: v1.topic,
            default_topic: v1.default_topic,
            default_topic_queue_nums: v1.default_topic_queue_nums,
            queue_id: v1.queue_id,
            system_flag: v1.system_flag,
            born_timestamp: v1.born_timestamp,
            flag: v1.flag,
            properties: v1.properties,
            reconsume_times: v1.reconsume_times,
            unit_mode: v1.unit_mode,
            max_reconsume_times: v1.max_reconsume_times,
            batch: v1.batch,
            broker_name: v1.broker_name,
            lifetime: std::marker::PhantomData,
        }
    }
}

/// Bits of a pull's system flag (source: RocketMQ `PullSysFlag`).
pub mod pull_flag {
    /// The commit offset in the header is to be taken.
    pub const COMMIT_OFFSET: i32 = 0x1;
    /// The request may wait for messages.
    pub const SUSPEND: i32 = 0x2;
    /// The subscription in the header holds, not the one of the heartbeat.
    pub const SUBSCRIPTION: i32 = 0x4;
    /// Filter by uploaded class (never supported).
    pub const CLASS_FILTER: i32 = 0x8;
}
