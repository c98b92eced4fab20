//! About how much memory a request takes while it is answered away from the network threads.
//!
//! It is counted before the work begins, so that many large ones at once find no room.

use wire::rocketmq::code::request;

use super::answer::BODY_SIZE_MAX;

/// How many times its size a body takes when it is read: lists of texts grow most.
const READ_BODY_GROWTH: usize = 10;

/// Most answers stay below this.
const ANSWER_SIZE: usize = 64 * 1024;

/// Statistics of a group or topic with thousands of queues.
const LONG_ANSWER_SIZE: usize = 1024 * 1024;

/// Whole tables and single messages, which are seldom larger.
const LARGE_ANSWER_SIZE: usize = 4 * 1024 * 1024;

pub(super) const fn job_size(code: i32, frame_size: usize) -> usize {
    frame_size * READ_BODY_GROWTH + answer_size(code)
}

const fn answer_size(code: i32) -> usize {
    match code {
        // Its messages are there three times: as they were read, side by side, and in their frame.
        request::QUERY_MESSAGE => 3 * BODY_SIZE_MAX,
        request::VIEW_MESSAGE_BY_ID
        | request::GET_ALL_TOPIC_CONFIG
        | request::GET_ALL_SUBSCRIPTION_GROUP_CONFIG
        | request::GET_ALL_CONSUMER_OFFSET
        | request::GET_BROKER_CONSUME_STATS
        | request::GET_ALL_PRODUCER_INFO => LARGE_ANSWER_SIZE,
        request::GET_CONSUME_STATS
        | request::GET_TOPIC_STATS_INFO
        | request::GET_CONSUMER_CONNECTION_LIST
        | request::GET_PRODUCER_CONNECTION_LIST => LONG_ANSWER_SIZE,
        _ => ANSWER_SIZE,
    }
}
