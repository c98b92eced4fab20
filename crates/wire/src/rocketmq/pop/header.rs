//! Typed headers of pop consumption, as `rocketmq::header` has those of everything else.
//!
//! Their codes are above 16 bits: whole in JSON, cut off in the binary form and widened again there, see `frame`.

use crate::rocketmq::field::headers;

headers! { $ every_rocketmq_pop_header
    /// 200050 POP_MESSAGE.
    PopRequest {
        consumer_group ! text "consumerGroup",
        topic ! text "topic",
        /// Any queue, if negative.
        queue_id ! i32 "queueId",
        max_message_count ! i32 "maxMsgNums",
        invisible_ms ! i64 "invisibleTime",
        poll_timeout_ms ! i64 "pollTime",
        /// When the client sent it; 0 is now.
        born_timestamp ! i64 "bornTime",
        /// Where a group without an offset begins: 0 at the first message, 1 behind the last.
        init_mode ! i32 "initMode",
        expression_type ? text "expType",
        expression ? text "exp",
        order ? bool "order",
        attempt_id ? text "attemptId",
        broker_name ? text "bname",
    }

    /// Response to 200050 and 200052. Clients read it with 19, 209 and 210 as well: then it has the four numbers, or no field at all.
    PopResponse {
        pop_timestamp ! i64 "popTime",
        invisible_ms ! i64 "invisibleTime",
        revive_queue_id ! i32 "reviveQid",
        rest_count ! i64 "restNum",
        start_offset_info ? text "startOffsetInfo",
        message_offset_info ? text "msgOffsetInfo",
        order_count_info ? text "orderCountInfo",
    }

    /// 200051 ACK_MESSAGE. The topic is the one the message is stored in.
    AckRequest {
        consumer_group ! text "consumerGroup",
        topic ! text "topic",
        queue_id ! i32 "queueId",
        /// The receipt.
        extra_info ! text "extraInfo",
        offset ! i64 "offset",
        broker_name ? text "bname",
    }

    /// 200052 PEEK_MESSAGE.
    PeekRequest {
        topic ! text "topic",
        queue_id ! i32 "queueId",
        max_message_count ! i32 "maxMsgNums",
        consumer_group ! text "consumerGroup",
        broker_name ? text "bname",
    }

    /// 200053 CHANGE_MESSAGE_INVISIBLETIME. The topic is the one the message is stored in.
    ChangeInvisibleTimeRequest {
        consumer_group ! text "consumerGroup",
        topic ! text "topic",
        queue_id ! i32 "queueId",
        /// The receipt.
        extra_info ! text "extraInfo",
        offset ! i64 "offset",
        invisible_ms ! i64 "invisibleTime",
        broker_name ? text "bname",
    }

    /// Response to 200053, of which the client makes a new receipt. It reads it whatever the code: all fields, or none at all.
    ChangeInvisibleTimeResponse {
        pop_timestamp ! i64 "popTime",
        invisible_ms ! i64 "invisibleTime",
        revive_queue_id ! i32 "reviveQid",
    }

    /// 200054 NOTIFICATION.
    NotificationRequest {
        consumer_group ! text "consumerGroup",
        topic ! text "topic",
        queue_id ! i32 "queueId",
        poll_timeout_ms ! i64 "pollTime",
        born_timestamp ! i64 "bornTime",
        order ? bool "order",
        attempt_id ? text "attemptId",
        broker_name ? text "bname",
    }

    /// Response to 200054.
    NotificationResponse {
        has_message ! bool "hasMsg",
        polling_full ? bool "pollingFull",
    }

    /// 200055 POLLING_INFO.
    PollingInfoRequest {
        consumer_group ! text "consumerGroup",
        topic ! text "topic",
        queue_id ! i32 "queueId",
        broker_name ? text "bname",
    }

    /// Response to 200055.
    PollingInfoResponse {
        polling_count ! i32 "pollingNum",
    }
}
